"""One model serves all stiffnesses at run time; only other bone, tets or poses need a build."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import supple
from helpers.character_files import save_character
from helpers.sample_bodies import bending, figure
from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.flesh_presets import Flesh, checked_flesh
from supple.anatomy.region_entries import RegionEntry, read_feel
from supple.app.baking import run_bake
from supple.app.model_request import flesh_values, with_kept_feel
from supple.app.options import BakeOptions, BuildOptions, CurveOptions, ViewOptions
from supple.app.viewer.session import character_actor
from supple.app.viewer.session.anatomy_editing import AnatomyEditing
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.feel_dials import FeelDials
from supple.engines.engine import engine_named
from supple.engines.pose_space.build import sampled_poses
from supple.errors import FormatError, SuppleError, SuppleWarning
from supple.playback import secondary_motion
from supple.playback.bake_model import model_options, preset_factors
from supple.playback.baking import bake
from supple.playback.character_models import PreparedModel, kept_model, prepared_model
from supple.playback.character_sources import CharacterSource
from supple.playback.feel.feel import BEYOND, Feel, FeelRequest, with_file_feel
from supple.playback.request import BakeRequest
from supple.playback.secondary_motion import curves
from supple.rig.character import Character

pytestmark = pytest.mark.filterwarnings("ignore::supple.SuppleWarning")

SMALL: dict[str, Any] = {"tets": 600, "modes": 8, "poses": 1}


@pytest.fixture(scope="module")
def body() -> Character:
    return bending(figure().character(), "chest", 0.3)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def ready(body: Character, **options: Any) -> PreparedModel:
    return prepared_model(CharacterSource(body), **{"anatomy": "auto", **SMALL, **options})


def baked_by_a_build(body: Character, engine: str, **options: Any) -> np.ndarray:
    """Frames of a model that is built with this stiffness."""
    row, flesh = engine_named(engine), options.get("flesh", "normal")
    small = SMALL if engine == "pose-space" else {"tets": 600, "poses": 1}
    model = row.build_model(body, **model_options(body, engine=engine, **small, **options))
    preset = checked_flesh(flesh)
    damping = {"alpha": preset.alpha, "beta": preset.beta, "scaled_loads": True}
    simulation: dict[str, Any] = damping | {"stiffness": 1.0} if engine == "pose-space" else damping
    return bake(body, model=model, engine=engine, simulation=simulation, quality="live").frames


@pytest.mark.parametrize(
    "options",
    [
        {"flesh": "jelly"},
        {"flesh": Flesh(3.0, 0.1, 0.02)},
        {"stiffness": {"joints": {"hand*": 0.3}}},
        {"anatomy": {"chest": RegionEntry("trunk", 0.85, "firm")}},
    ],
)
def test_a_kept_model_is_found_for_another_stiffness(body: Character, options: dict[str, Any]):
    assert not ready(body).feel.changes
    found = ready(body, **options)
    assert found.kept
    assert found.feel.changes
    assert found.reason == ""
    there = kept_model(CharacterSource(body), **{"anatomy": "auto", **SMALL, **options})
    assert there is not None
    assert there.feel.words() == found.feel.words() != ""


def test_one_model_of_even_flesh_serves_all_moduli(body: Character):
    """Thin parts of normal flesh are up to a hundred times as stiff, and need other modes."""
    ready(body)
    first, second = ready(body, young=9000.0), ready(body, young=300.0)
    assert (first.kept, first.reason) == (False, "young changed")
    assert second.kept
    assert first.feel.factor / second.feel.factor == pytest.approx(30.0)
    assert np.allclose(first.model.young, first.model.young)
    assert first.feel.local is None


@pytest.mark.parametrize("flesh", ["firm", "jelly"])
def test_flesh_at_run_time_moves_as_if_it_was_built_so(
    body: Character, flesh: str, monkeypatch, tmp_path
):
    """Without the body's own motions, which shake softer flesh farther."""
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    monkeypatch.setattr(sampled_poses, "motion_loads", lambda rig, motions, at: [None] * at.n_poses)
    built = baked_by_a_build(body, "pose-space", flesh=flesh)
    simulation = {"stiffness": 1.0}  # no stiffening of violent motions
    felt = bake(body, flesh=flesh, quality="live", simulation=simulation, **SMALL)
    moved = np.abs(felt.frames - np.array([felt.rig_frame(k) for k in range(felt.n_frames)])).max()
    assert np.abs(felt.frames - built).max() < 2e-3 * moved


@pytest.mark.parametrize(
    "options",
    [{"young": 9000.0}, {"stiffness": {"joints": {"hand*": 0.3}}}],
)
def test_the_full_simulation_has_the_local_stiffness_of_a_build(
    body: Character, options: dict[str, Any]
):
    built = baked_by_a_build(body, "full", **options)
    felt = bake(body, engine="full", quality="live", tets=600, poses=1, **options)
    moved = np.abs(felt.frames - np.array([felt.rig_frame(k) for k in range(felt.n_frames)])).max()
    assert np.abs(felt.frames - built).max() < 2e-3 * moved


def test_a_stiffness_beyond_the_range_is_built_and_reported(body: Character):
    ready(body)
    for young in (1e12, np.full(len(body.surface.vertices), 1e12)):
        far = ready(body, young=young)
        assert not far.kept
        assert not far.feel.changes
        assert far.reason == BEYOND


def test_a_build_reports_which_option_made_it_necessary(body: Character):
    ready(body)
    other = ready(body, modes=7)
    assert (other.kept, other.reason) == (False, "modes changed")
    assert ready(body, modes=7).reason == ""


def test_the_command_reports_that_nothing_was_built(body: Character, monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    save_character(figure().character(), Path("body.glb"), swings="chest")
    small: dict[str, Any] = {"tets": 600, "modes": 6, "poses": ["1"], "quality": "live"}
    run_bake("body.glb", Path("a.npz"), BakeOptions(**small), quiet=True)
    soft = run_bake("body.glb", Path("b.npz"), BakeOptions(flesh="jelly", **small))
    assert soft["model_kept"]
    assert soft["feel"] == "0.15 times as stiff at run time"
    said = " ".join(capfd.readouterr().err.split())
    assert "kept from before" in said
    assert "0.15 times as stiff at run time, without a build" in said


def test_an_anatomy_file_keeps_the_feel_and_all_doors_take_it(body: Character, tmp_path):
    ready(body)
    file = tmp_path / "body.anatomy.json"
    feel = {"flesh": "soft", "stiffness": 0.5, "damping": 2.0, "swing": ["0.2%"]}
    anatomy_of(body).save(file, feel)
    assert read_feel(file) == feel
    request = BakeRequest.of(
        "bake", CharacterSource(body), None, None, None, None, {"anatomy": str(file)}
    )
    assert (request.flesh, request.damping, request.swing) == ("soft", 2.0, ["0.2%"])
    found = ready(body, flesh=request.flesh, **request.building)
    assert found.kept
    assert found.feel.factor == pytest.approx(0.4 * 0.5)
    told = {"anatomy": str(file), "flesh": "firm", "swing": "1%"}
    request = BakeRequest.of("bake", CharacterSource(body), None, None, None, None, told)
    assert (request.flesh, request.swing) == ("firm", "1%")
    options = with_kept_feel(BakeOptions(anatomy=str(file)))
    assert (options.flesh, options.damping, options.swing) == ("soft", 2.0, ["0.2%"])
    view = with_kept_feel(ViewOptions(anatomy=str(file)))
    assert (view.flesh, view.damping) == ("soft", 2.0)
    assert with_kept_feel(ViewOptions(anatomy=str(file), damping=3)).damping == 3
    values = flesh_values(CharacterSource(body), options)
    assert ready(body, flesh=options.flesh, **values).feel.factor == pytest.approx(0.2)


def test_build_and_curves_take_the_feel_of_an_anatomy_file_as_well(body: Character, tmp_path):
    file = tmp_path / "body.anatomy.json"
    anatomy_of(body).save(file, {"flesh": "soft", "damping": 2.0, "swing": ["0.2%"]})
    assert with_kept_feel(BuildOptions(anatomy=str(file))).flesh == "soft"
    options = with_kept_feel(CurveOptions(anatomy=str(file)))
    assert (options.flesh, options.flesh_damping()) == ("soft", 2.0)
    given = with_kept_feel(CurveOptions(anatomy=str(file), flesh="firm", damping=["3"]))
    assert (given.flesh, given.flesh_damping()) == ("firm", 3.0)


def test_curves_pass_on_the_regions_and_the_damping_of_an_anatomy_file(
    body: Character, monkeypatch, tmp_path
):
    file = tmp_path / "body.anatomy.json"
    anatomy_of(body).save(file, {"flesh": "soft", "damping": 2.0, "swing": ["0.2%"]})
    taken: list[Any] = []

    def fitting_model(source: Any, model: Any, flesh: Any, engine: str, *others: Any) -> Any:
        taken.append((flesh, others[0]["anatomy"]))
        return ready(body)

    def made(model: Any, dt: float, stepping: dict[str, Any]) -> Any:
        taken.append(stepping["damping"])
        return None

    monkeypatch.setattr(secondary_motion, "fitting_model", fitting_model)
    monkeypatch.setattr(secondary_motion, "_made_simulator", made)
    with pytest.raises(SuppleError, match="moves no parameters"):
        curves(body, anatomy=str(file))
    (flesh, regions), damping = taken
    assert flesh == checked_flesh("soft")
    assert {*regions} == {*anatomy_of(body).entries}
    assert damping == 2.0


def test_an_unknown_joint_of_an_anatomy_file_is_one_warning(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    save_character(figure().character(), Path("body.glb"), swings="chest")
    file = Path("body.anatomy.json")
    anatomy_of(supple.load("body.glb")).save(file)
    said = json.loads(file.read_text())
    said["regions"]["wing"] = said["regions"]["chest"]
    file.write_text(json.dumps(said))
    small: dict[str, Any] = {"tets": 600, "modes": 6, "poses": ["1"], "anatomy": str(file)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_bake("body.glb", Path("a.npz"), BakeOptions(end=0.1, **small), quiet=True)
    assert sum('no joint "wing"' in str(each.message) for each in caught) == 1


def test_local_factors_are_reset_by_a_feel_without_them():
    simulator = SimpleNamespace(stiffness=1.0, local_stiffness=np.full(3, 2.0))
    Feel(0.5).apply(simulator)
    assert simulator.local_stiffness is None
    assert simulator.stiffness == 0.5


@pytest.mark.parametrize(
    ("feel", "said"),
    [
        (Feel(5e3), "flesh 5e.03 times as stiff as its model is beyond .*; it is made 1000 times"),
        (Feel(1.0, np.array([1e-5, 1.0])), "flesh 1e-05 times .*; it is made 0.001 times"),
    ],
)
def test_a_stiffness_that_simulators_cut_is_a_warning(feel: Feel, said: str):
    with pytest.warns(SuppleWarning, match=said):
        feel.apply(SimpleNamespace(stiffness=1.0, local_stiffness=None))


def dials_of(body: Character, **feel: Any) -> FeelDials:
    """Dials of a viewer whose anatomy file has a feel."""
    start = ready(body)
    anatomy = AnatomyEditing(body, anatomy_of(body), feel=feel)
    return FeelDials(CharacterActor(start.model, character=body, anatomy=anatomy))


def test_the_swing_of_a_file_remains_until_the_stiffness_is_dialled(body: Character):
    dials = dials_of(body, swing=["3%", "chest=1%"])
    assert dials.file_feel() == {"swing": ["3%", "chest=1%"]}
    dials._actor.stiffen(2.0)
    assert dials.file_feel() == {"stiffness": 2.0}


def test_a_stiffness_that_no_anatomy_file_may_have_is_refused(body: Character):
    dials = dials_of(body, stiffness=0.02)
    dials._actor.stiffen(0.1)
    with pytest.raises(SuppleError, match=r"0.002 times as stiff as its preset.* 0.01 to 100"):
        dials.file_feel()


def test_the_stiffness_that_is_saved_is_that_which_acts(body: Character):
    dials = dials_of(body)
    dials._actor.stiffen(1e-4)
    assert dials._actor.simulator.stiffness == pytest.approx(0.01)
    assert dials.file_feel() == {"stiffness": 0.01}


def test_a_swing_is_found_for_a_motion_that_was_not_yet_played(body: Character, monkeypatch):
    """The motion changes during a rebuild while the character is posed."""
    actor = dials_of(body)._actor
    found = SimpleNamespace(factors=np.array([0.5]))
    monkeypatch.setattr(character_actor, "found_swing", lambda *args: found)
    actor.hold()
    actor._stable_factors.clear()
    actor.swing(())
    assert actor.factor == pytest.approx(0.5 / actor._bake_factor(actor._plan(True)))


@pytest.mark.parametrize(
    ("feel", "said"),
    [
        ({"stiffness": 0}, "stiffness is 0; use 0.01 to 100"),
        ({"damping": "much"}, "damping is"),
        ({"swing": 3}, "swing must be a list"),
        ({"swing": []}, "swing must be a list"),
        ({"swing": ["3%"] * 100_000}, "swing must be a list"),
        ([2], "must be an object with flesh, stiffness, damping or swing"),
        ({"flesh": "wet"}, "flesh"),
        ({"colour": 1}, "use flesh, swing, regions, stiffness, damping"),
    ],
)
def test_a_feel_that_cannot_be_is_refused(tmp_path, feel: Any, said: str):
    file = tmp_path / "a.anatomy.json"
    file.write_text(json.dumps({"supple_anatomy": 1, "regions": {}, "feel": feel}))
    with pytest.raises(FormatError, match=said):
        read_feel(file)


def test_what_is_dialled_in_the_viewer_is_what_bake_takes(body: Character, tmp_path):
    anatomy = anatomy_of(body)
    start = ready(body, flesh="soft")
    actor = CharacterActor(
        start.model,
        character=body,
        flesh="soft",
        anatomy=AnatomyEditing(body, anatomy),
        feel=start.feel,
    )
    dials = FeelDials(actor)
    assert dials.file_feel() == {"flesh": "soft"}
    actor.stiffen(2.0)
    actor.damp(0.5)
    assert dials.file_feel() == {"flesh": "soft", "stiffness": 2.0, "damping": 0.5}
    assert actor.simulator.stiffness == pytest.approx(0.8)
    actor.end_with("stop")
    dials.percent = 0.2
    dials.swing()
    kept = dials.file_feel()
    assert kept["swing"] == ["0.2%"]
    file = actor.anatomy.save(tmp_path, "x.anatomy.json", kept) if actor.anatomy else None
    baked = bake(body, anatomy=str(file), quality="live", **SMALL)
    assert baked.report["peak_part"] == pytest.approx(0.002, rel=0.1)
    assert baked.report["swing"][0]["stiffness"] == pytest.approx(1.0, abs=0.15)
    actor.stiffen(3.0)
    assert "swing" not in dials.file_feel()


# Presets by kind of body.


KINDS = ("human", "animal", "cartoon")


@pytest.mark.parametrize("flesh", KINDS)
def test_a_preset_by_kind_of_body_changes_the_feel_without_a_build(body: Character, flesh: str):
    ready(body)
    found = ready(body, flesh=flesh)
    assert found.kept
    assert found.reason == ""
    assert found.feel.changes
    assert (found.feel.local is not None) == bool(checked_flesh(flesh).roles)


def test_a_preset_makes_each_role_as_stiff_as_it_says_whichever_way_it_acts(body: Character):
    flesh = Flesh(2.0, 0.5, 0.01, {"trunk": 0.5})
    roles = np.array(anatomy_of(body).role)
    assert {"trunk", "limb"} <= {*roles}
    follows = anatomy_of(body).follows
    assert follows is not None
    surely = follows.toarray().max(axis=1) > 0.999
    given = FeelRequest.of(body, engine_named("pose-space"), flesh, "auto", {})
    assert given.skin is not None
    factors = given.factor * given.skin
    usual = model_options(body, "normal", tets=600)["young"]
    built = np.asarray(model_options(body, flesh, tets=600)["young"] / usual)
    for role, factor in (("trunk", 1.0), ("limb", 2.0)):
        assert factors[surely & (roles == role)] == pytest.approx(factor)
    np.testing.assert_allclose(built, factors)


def test_a_role_that_an_anatomy_file_changes_takes_the_factor_of_that_role(body: Character):
    entries = {"chest": RegionEntry("limb", 0.85)}
    flesh = Flesh(1.0, 0.5, 0.01, {"trunk": 0.5})
    found = preset_factors(body, flesh, entries)
    detected = preset_factors(body, flesh)
    assert found is not None
    assert detected is not None
    assert found.sum() > detected.sum()


def test_a_given_modulus_replaces_a_preset_with_its_roles(body: Character):
    animal = ready(body, flesh="animal", young=9000.0)
    normal = ready(body, young=9000.0)
    assert (animal.feel.factor, animal.feel.local) == (normal.feel.factor, None)


@pytest.mark.parametrize("flesh", KINDS)
def test_an_anatomy_file_of_each_kind_is_taken_by_a_bake(body: Character, tmp_path, flesh: str):
    file = tmp_path / "body.anatomy.json"
    anatomy_of(body).save(file, {"flesh": flesh})
    taken = with_file_feel(body, {"anatomy": file, "flesh": "normal"}, ("flesh",))
    assert taken["flesh"] == flesh


def test_an_unknown_preset_lists_those_there_are_or_suggests_the_nearest(body: Character):
    with pytest.raises(SuppleError, match=f"normal.*{'.*'.join(KINDS)}"):
        bake(body, flesh="wobbly", **SMALL)
    with pytest.raises(SuppleError, match='did you mean "cartoon"'):
        bake(body, flesh="cartoonish", **SMALL)


def test_a_preset_chosen_in_the_viewer_is_the_one_that_bakes_take(body: Character):
    dials = dials_of(body)
    actor = dials._actor
    for flesh in ("animal", "cartoon"):
        dials.preset = flesh
        wanted = ready(body, flesh=flesh).feel
        preset = checked_flesh(flesh)
        assert actor.simulator.damping == (preset.alpha, preset.beta)
        there, baked = (
            each.factor * (np.ones(1) if each.local is None else each.local)
            for each in (actor.feel, wanted)
        )
        assert np.ptp(baked / there) < 1e-9
        assert there.mean() == pytest.approx(baked.mean())
    assert dials.file_feel() == {"flesh": "cartoon"}
    actor.hold()
    dials.preset = "normal"
    assert actor.state == "posing"
    assert actor.simulator.stiffness == pytest.approx(actor._bake_factor(actor._plan(True)))
