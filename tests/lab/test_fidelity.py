"""Truth, distances from it, and frequencies: against signals whose answer is known."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_options, bending_bar
from helpers.tail_file import tail_file
from supple.dynamics.root_frame import to_world
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.engine import engine_named
from supple.engines.full.factory import FullSimulator
from supple.engines.pose_space.interpolation import reduced_frequencies
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.errors import SuppleError
from supple.lab.fidelity.fidelity import compare, compare_ringing
from supple.lab.fidelity.oscillation import dominant_frequency, frequency_error, ringdown
from supple.lab.fidelity.truth import played, rig_surface, truth
from supple.playback.final_take import rms_difference
from supple.rig.motion.motion import Motion

CELLS = (5, 2, 2)


@cache
def bar():
    material = Material("stvk", young=1e7, poisson=0.4)
    return supple.build(bending_bar(cells=CELLS), **bar_options(CELLS, modes=6, material=material))


@cache
def swing():
    times = np.linspace(0, 0.5, 26)
    return Motion(times, np.radians(20 + 25 * np.cos(14 * times))[:, None])


@cache
def true_swing():
    return truth(bar(), swing(), 60)


def full(model, dt, **options):
    return FullSimulator(model, dt, newton=10, **options)


def stiffened(model, dt, **options):
    """A wrong simulator: frequencies √1.44 = 1.2 times too high."""
    return full(replace(model, young=1.44 * model.young), dt, **options)


@pytest.mark.parametrize("hertz", [3.0, 4.37, 11.2])
@pytest.mark.parametrize("damping", [0.0, 1.5])
def test_the_dominant_frequency_of_a_decaying_sine_is_its_own(hertz, damping):
    time = np.arange(240) / 90
    wave = np.exp(-damping * time) * np.sin(2 * np.pi * hertz * time + 0.4)
    assert dominant_frequency(0.3 + wave, 90) == pytest.approx(hertz, rel=0.006)


def test_the_stronger_of_two_oscillations_wins_and_drift_does_not():
    time = np.arange(300) / 60
    slow, fast = np.sin(2 * np.pi * 2.1 * time), np.sin(2 * np.pi * 7.3 * time)
    assert dominant_frequency(slow + 0.5 * fast, 60) == pytest.approx(2.1, rel=0.01)
    assert dominant_frequency(0.5 * slow + fast, 60) == pytest.approx(7.3, rel=0.01)
    assert dominant_frequency(3 * time + fast, 60) == pytest.approx(7.3, rel=0.01)


def test_displacements_are_compared_in_the_same_movement():
    """The truth's first component, though another one is the strongest in what is judged."""
    time = np.arange(400) / 90
    down, across = np.zeros((2, 5, 3))
    down[:, 1], across[:, 0] = 1.0, 1.0

    def moved(one, other, first):
        waves = (np.sin(2 * np.pi * f * time)[:, None, None] for f in (first, 9.0))
        return sum(a * w * s for a, w, s in zip((one, other), waves, (down, across), strict=True))

    true = moved(1.0, 0.3, 4.0)
    assert frequency_error(true, true, 90) == 0
    assert frequency_error(moved(1.0, 2.0, 4.2), true, 90) == pytest.approx(0.05, abs=0.003)
    assert dominant_frequency(moved(1.0, 2.0, 4.2), 90) == pytest.approx(9.0, rel=0.01)


def test_the_rms_difference_is_relative_to_the_true_displacement():
    rng = np.random.default_rng(0)
    rig, displacement = rng.normal(size=(2, 10, 20, 3))
    true = rig + 0.1 * displacement
    assert rms_difference(true, true, rig) == 0
    assert rms_difference(rig, true, rig) == pytest.approx(1)
    assert rms_difference(rig + 0.08 * displacement, true, rig) == pytest.approx(0.2)
    for bad in ((true[1:], true, rig), (true, true, true), (true[0], true[0], rig[0])):
        with pytest.raises(SuppleError):
            rms_difference(*bad)


def test_truth_halves_the_step_until_that_changes_little():
    true = true_swing()
    assert true.converged
    assert true.unconverged_steps == 0
    assert true.change <= 0.02
    assert true.frames.shape == true.rig.shape == (31, len(bar().surface.vertices), 3)
    np.testing.assert_array_equal(true.rig, rig_surface(bar(), swing(), 60))
    # What the next halving would change is a quarter of the last one: the second order.
    finer = truth(bar(), swing(), 60, accuracy=true.change / 2)
    assert finer.changes[: len(true.changes)] == true.changes
    assert finer.changes[-1] == pytest.approx(true.change / 4, rel=0.35)
    rough = truth(bar(), swing(), 60, accuracy=1e-9, most_substeps=2)
    assert not rough.converged


def test_truth_is_kept_in_a_folder_by_what_it_depends_on(tmp_path):
    motion = swing().slice(0, 0.1)
    first = truth(bar(), motion, 60, cache=tmp_path, most_substeps=2)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 2
    stamps = [each.stat().st_mtime_ns for each in kept]
    again = truth(bar(), motion, 60, cache=tmp_path, most_substeps=2)
    assert again.frames.tobytes() == first.frames.tobytes()
    assert again.changes == first.changes
    assert [each.stat().st_mtime_ns for each in kept] == stamps
    kept[0].write_bytes(kept[0].read_bytes()[:100])  # damaged: made again
    assert truth(bar(), motion, 60, cache=tmp_path, most_substeps=2).changes == first.changes
    damped = truth(bar(), motion, 60, cache=tmp_path, most_substeps=2, beta=0.1)
    assert damped.frames.tobytes() != first.frames.tobytes()
    assert len(list(tmp_path.iterdir())) == 4


def test_the_full_simulation_is_as_far_from_itself_as_its_step_makes_it():
    told = []
    found = compare(
        bar(),
        swing(),
        engine=full,
        rate=60,
        reference=true_swing(),
        full_step=True,
        ringing=False,
        progress=lambda part, what: told.append(part),
        integrator="bdf2",
    )
    assert found.rms_same_step is not None
    assert found.rms_same_step < 2e-3  # only tolerances of Newton's method differ
    assert 0.02 < found.rms < 0.6  # at 60 Hz, accelerations of a step ago
    assert found.rms == pytest.approx(found.rms_full_step, rel=1e-3)
    assert found.ringing is None
    assert found.frequency_error == found.motion_frequency_error
    assert found.truth_change == true_swing().change


def test_flesh_that_is_too_stiff_is_off_the_truth_at_any_step():
    wrong = compare(
        bar(), swing(), engine=stiffened, rate=60, reference=true_swing(), ringing=False
    )
    assert wrong.rms_same_step is not None
    assert wrong.rms_same_step > 0.15
    assert wrong.rms_full_step is None


def test_engines_are_compared_by_name():
    asked: dict[str, Any] = {"rate": 60, "reference": true_swing(), "same_step": False}
    named = compare(bar(), swing(), engine="full", ringing=False, **asked)
    made = compare(bar(), swing(), engine=FullSimulator, ringing=False, **asked)
    np.testing.assert_array_equal(named.frames, made.frames)
    assert named.rms == made.rms
    mistaken: list[dict[str, Any]] = [{"engine": "fool"}, {"true_engine": "stvk"}]
    for wrong in mistaken:
        with pytest.raises(SuppleError, match="engine"):
            compare(bar(), swing(), **asked, **wrong)


def test_any_engine_can_be_the_truth():
    """The reduced one converges as well, and is its own truth but for its step."""
    motion = swing().slice(0, 0.2)
    true = truth(bar(), motion, 60, engine="pose-space", accuracy=0.05)
    assert true.converged
    assert true.unconverged_steps == 0
    found = compare(bar(), motion, rate=60, true_engine="pose-space", accuracy=0.05, ringing=False)
    np.testing.assert_array_equal(found.truth.frames, true.frames)
    assert found.rms_same_step == 0
    assert 0 < found.rms < 0.6


def test_flesh_that_is_too_stiff_rings_too_fast():
    same = compare_ringing(bar(), np.radians([20.0]), engine=full, seconds=1.2)
    assert same.error < 1e-3
    assert same.rms < 0.01
    stiff = compare_ringing(bar(), np.radians([20.0]), engine=stiffened, seconds=1.2)
    assert stiff.frequency == same.frequency
    assert stiff.error == pytest.approx(0.2, abs=0.02)
    assert stiff.reduced_frequency / stiff.frequency == pytest.approx(1.2, abs=0.02)


def test_flesh_rings_at_its_lowest_frequency():
    model = bar()
    body, pose = ElasticBody(model.mesh, model.material()), np.radians([10.0])
    rest = model.tet_rig(pose)
    free = np.setdiff1d(np.arange(body.n_vertices), model.fixed)
    unit = np.eye(3 * body.n_vertices)[:, (3 * free[:, None] + np.arange(3)).ravel()]
    mass = unit.T @ (body.mass() @ unit)
    exact = reduced_frequencies(unit, body.stiffness(rest, rest), mass)
    quiet = {"integrator": "newmark", "alpha": 0.1, "beta": 1e-4, "gravity_mode": "none"}
    simulator = full(model, 1 / 180, **quiet)
    tip = int(model.surface.vertices[:, 0].argmax())
    for push in ({"velocity": [0, 0.05, 0]}, {"forces": {tip: [0, 50.0, 0]}}):
        swings = ringdown(simulator, pose, seconds=1.5, **push)
        found = dominant_frequency(swings, 180)
        assert np.abs(found / exact[:2] - 1).min() < 0.02  # two bending modes lie close together


def test_the_reduced_simulation_is_near_the_full_one():
    found = compare(bar(), swing(), rate=60, reference=true_swing(), ringing=False)
    assert found.rms_same_step is not None
    assert found.rms_same_step < 0.1
    ringing = compare_ringing(bar(), np.radians([20.0]), seconds=0.8)
    assert ringing.frequency > 1
    assert ringing.error < 0.02


def test_a_cut_restarts_every_simulator():
    poses = np.radians([[0.0], [10.0], [50.0], [50.0]])
    motion = Motion([0.0, 0.1, 0.2, 0.3], poses, cuts=[2])
    for simulator in (full(bar(), 1 / 30), PoseSpaceSimulator(bar(), 1 / 30)):
        frames = played(simulator, motion)
        np.testing.assert_allclose(frames[6:], [bar().rig(poses[2])] * 4, atol=1e-6)
        assert len(played(simulator, motion, every=3)) == 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dominant_frequency(np.zeros(50), 90), "is constant"),
        (lambda: dominant_frequency([1.0, 2.0], 90), "8 samples"),
        (lambda: dominant_frequency(np.full(50, np.nan), 90), "not finite"),
        (lambda: dominant_frequency(np.arange(50.0), 0), "must be positive"),
        (lambda: frequency_error(np.ones((9, 2)), np.ones((9, 3)), 9), "2 numbers"),
        (lambda: ringdown(full(bar(), 0.01), seconds=1e9), "steps"),
        (lambda: ringdown(full(bar(), 0.01), velocity=[1, 2]), "velocity"),
        (lambda: truth(bar(), swing(), 60, accuracy=0.0), "positive accuracy"),
        (lambda: truth(bar(), swing(), 60, most_substeps=1), "two sub-steps"),
        (
            lambda: compare(bar(), swing(), engine=full, rate=50, reference=true_swing()),
            "give one of this",
        ),
    ],
)
def test_invalid_measurements_are_errors(call, words):
    with pytest.raises(SuppleError, match=words):
        call()


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
def test_clips_with_corners_are_compared_at_the_poses_of_the_file(tmp_path):
    """Smoothing moves keyed corners: the rig's own motion is no error of a simulation."""
    character = supple.load(tail_file(tmp_path / "tail.glb"))
    motion = next(iter(character.motions.values()))
    model = engine_named("full").build_model(character, tets=300, material=Material(young=1e9))
    smooth = motion.smooth.resample(60)
    skins = [to_world(r, model.rig(p)) for p, r in zip(smooth.poses, smooth.roots, strict=True)]
    rig = rig_surface(model, motion, 60)
    assert np.abs(rig - np.stack(skins)).max() > 1e-3 * character.surface.size
    stiff = played(full(model, 1 / 60), motion)
    assert np.abs(stiff - rig).max() < 1e-3 * character.surface.size
