"""How far flesh moves from the rig, where, which skin is hard, and why nothing moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.build_samples import STEPPED, bending_bar, jointed_arm, stepped_model
from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.hard_parts import BY_FILE, HardPart, HardSkin
from supple.anatomy.region_entries import EDITED, RegionEntry
from supple.errors import SuppleWarning
from supple.playback import flesh_motion
from supple.playback.baking import bake
from supple.playback.flesh_motion import FleshMotion, SkinNames, hard_skin, report_flesh
from supple.rig.baked_motion import BakedMotion
from supple.rig.motion.motion import Motion

RATE = 30.0


def swing(count: int = 30, strength: float = 0.5) -> BakedMotion:
    """An arm whose rig swings, without flesh of its own."""
    arm = jointed_arm()
    times = np.arange(count) / RATE
    poses = np.zeros((count, 6))
    poses[:, 5] = strength * np.sin(2 * np.pi * times)
    motion = Motion(times, poses, np.tile(np.eye(4), (count, 1, 1)), "swing")
    baked = BakedMotion(arm, motion, np.empty((count, len(arm.surface.vertices), 3), "f4"), RATE)
    for k in range(count):
        baked.frames[k] = baked.rig_frame(k)
    return baked


def test_the_peak_is_found_with_its_time_place_and_mean():
    baked = swing()
    vertex = int(np.argmax(baked.character.surface.vertices[:, 0]))  # the tip of the fore arm
    baked.frames[12, vertex] += [0.0, 0.03, 0.04]
    motion = FleshMotion.of(baked)
    figures = motion.figures(SkinNames.of(baked.character))
    assert figures["peak"] == pytest.approx(0.05, rel=1e-3)
    assert figures["peak_part"] == pytest.approx(0.05 / baked.character.surface.size, rel=1e-3)
    assert figures["peak_time"] == pytest.approx(12 / RATE, rel=1e-3)
    assert figures["rms"] == pytest.approx(0.05 / np.sqrt(baked.frames[..., 0].size), rel=1e-2)
    assert figures["moved"][0] == {"region": "fore", "peak": figures["peak"]}


def test_joints_of_a_chain_and_of_two_sides_are_listed_once():
    names = ["Tail1", "Tail2", "thigh.L", "thigh.R", "Belly", "Ear.L"]
    regions = SkinNames(names, np.arange(6))
    values = np.array([1.0, 5.0, 3.0, 3.5, 2.0, 0.5])
    assert regions.top(values) == [("Tail2", 5.0), ("thigh.R", 3.5), ("Belly", 2.0)]


def still(baked: BakedMotion, model: object, **anatomy: object) -> str:
    with pytest.warns(SuppleWarning) as caught:
        report_flesh([baked], model, anatomy.get("anatomy"))  # type: ignore[arg-type]
    (warning,) = caught
    message = str(warning.message)
    assert message.startswith('motion "swing": flesh moves by at most ')
    assert message.endswith(baked.report["advice"])
    return message


def test_still_flesh_is_a_warning_with_the_reason():
    assert "the motion does not move the rig" in still(swing(strength=0.0), None)
    assert "the motion hardly accelerates the body; use a liv" in still(swing(strength=0.01), None)
    assert "too stiff for this motion; use soft or jelly flesh" in still(swing(), None)
    violent = swing()
    violent.report["stiffness"] = 8.0
    assert "made 8 times as stiff, as the motion is violent" in still(violent, None)


def test_flesh_is_still_where_the_rig_jumps_before_it_is_too_stiff():
    jumping = swing()
    jumping.report.update(limits={"teleport": 20}, steps=24)
    said = still(jumping, None)
    assert "the rig jumps in 20 of 24 steps, without inertia; use keys without jumps" in said


def test_still_flesh_of_a_mostly_hard_body_names_the_hard_parts(monkeypatch):
    baked = swing()
    soft = baked.character.surface.vertices[:, 0] > 0.8
    parts = (HardPart("saddle", 0.8, "rigid pieces"),)
    monkeypatch.setattr(flesh_motion, "hard_skin", lambda *_: HardSkin(~soft, 0.8, parts))
    expected = "80 % of the skin is held hard: saddle (rigid pieces); make parts soft"
    assert expected in still(baked, None)


def test_still_flesh_that_is_all_hard_is_a_warning_with_a_remedy():
    baked = swing()
    entries = {joint: RegionEntry("limb", 0.0, "hard", (EDITED,)) for joint in ("upper", "fore")}
    message = still(baked, None, anatomy=anatomy_of(baked.character, entries=entries))
    assert "all of the skin is held hard" in message
    assert "make parts soft in an anatomy file, or use anatomy none" in message
    assert baked.report["hard"] == 1
    assert baked.report["hard_parts"][0]["why"] == BY_FILE


def test_hard_skin_is_that_of_fixed_tets_and_of_any_model():
    model, bar = stepped_model("firm"), bending_bar(cells=STEPPED)
    found = hard_skin(bar, model, None)
    assert found is not None
    assert 0 < found.share < 1
    free = hard_skin(bar, replace(model, fixed=model.fixed[:0]), None)
    assert free is not None
    assert free.share == 0


def test_a_motion_of_two_frames_has_figures_and_no_warning():
    baked = swing(count=2)
    report_flesh([baked], None, None)
    assert baked.report["peak"] < 1e-6
    assert "advice" not in baked.report


def test_flesh_that_moves_very_far_has_advice():
    baked = swing()
    baked.frames[5] += 0.5
    report_flesh([baked], None, None)
    assert "firm flesh or more damping" in baked.report["advice"]


def test_the_report_of_a_bake_has_the_figures_of_its_frames():
    bar = bending_bar(cells=STEPPED)
    times = np.arange(25) / RATE
    poses = 0.1 * np.sin(2 * np.pi * times / 0.8)[:, None]
    motion = Motion(times, poses, np.tile(np.eye(4), (25, 1, 1)), "beat")
    baked = bake(bar, motion, stepped_model("firm"))
    rig = np.array([baked.rig_frame(k) for k in range(baked.n_frames)])
    away = np.linalg.norm(baked.frames - rig, axis=2)
    assert baked.report["peak"] == pytest.approx(away.max(), rel=1e-3)
    assert baked.report["peak_time"] == pytest.approx(
        baked.times[away.max(axis=1).argmax()], rel=1e-3
    )
    assert 0 < baked.report["hard"] < 1
