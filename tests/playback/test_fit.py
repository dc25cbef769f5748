"""Stiffness and damping by region are recovered from a motion of the skin, or it is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.character_files import save_character
from helpers.sample_bodies import bending, figure
from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.region_entries import RegionEntry, read_feel, write_entries
from supple.cli.main import main
from supple.errors import FormatError, SuppleError, SuppleWarning
from supple.playback.baking import bake
from supple.playback.fit.fit import Fit, _warn_of_limits, fit
from supple.playback.fit.regions import fitted_parts
from supple.playback.fit.target import fit_target
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

pytestmark = pytest.mark.filterwarnings("ignore::supple.SuppleWarning")

SMALL: dict[str, Any] = {"tets": 700, "modes": 10, "poses": 1}
#: Factors on stiffness and damping of all flesh, and of the hips in addition.
ALL, HIPS = (0.6, 1.5), (2.0, 0.5)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def body() -> Character:
    return bending(figure().character(), "chest", 0.5)


@pytest.fixture(scope="module")
def entries(body: Character) -> dict[str, RegionEntry]:
    """Regions of soft flesh, so that a coarse body moves."""
    return {joint: RegionEntry("soft", 1.0) for joint in anatomy_of(body).entries}


@pytest.fixture(scope="module")
def file(body: Character, entries: dict[str, RegionEntry], tmp_path_factory: Any) -> Path:
    """An anatomy file with a stiffness and a damping by region."""
    path: Path = tmp_path_factory.mktemp("anatomy") / "told.anatomy.json"
    names = "stiffness", "damping"
    regions = {"hips": dict(zip(names, HIPS, strict=True))}
    write_entries(path, "body", entries, dict(zip(names, ALL, strict=True)) | {"regions": regions})
    return path


@pytest.fixture(scope="module")
def target(body: Character, file: Path) -> BakedMotion:
    return bake(body, anatomy=file, quality="live", **SMALL)


@pytest.fixture(scope="module")
def result(body: Character, entries: dict[str, RegionEntry], target: BakedMotion) -> Fit:
    return fit(body, target, regions=["hips"], anatomy=entries, **SMALL)


def moved(baked: BakedMotion) -> np.ndarray:
    rig = np.array([baked.rig_frame(k) for k in range(baked.n_frames)])
    return np.asarray(baked.frames - rig)


def test_stiffness_and_damping_of_two_regions_are_recovered(result: Fit):
    found = {row.region: (row.stiffness, row.damping) for row in result.regions}
    assert found["all"] == pytest.approx(ALL, rel=0.1)
    assert found["hips"] == pytest.approx(np.multiply(ALL, HIPS), rel=0.1)
    for row in result.regions:
        assert row.distance < 0.05 < row.before


def test_a_bake_with_the_file_is_as_near_as_the_fit_reports(
    body: Character, target: BakedMotion, result: Fit, tmp_path: Path
):
    path = tmp_path / "a.anatomy.json"
    result.save(path)
    assert read_feel(path) == result.feel
    again = bake(body, anatomy=path, quality="live", **SMALL)
    away = (again.frames - target.frames)[1:]
    distance = np.sqrt((away**2).sum() / (moved(target)[1:] ** 2).sum())
    assert distance == pytest.approx(result.distance, abs=1e-3)
    assert again.report["stiffness"] == 1.0
    assert "times as damped at run time" in again.report["feel"]


def test_a_fit_continues_from_a_file(body: Character, target: BakedMotion, file: Path):
    """At the answer nothing changes."""
    again = fit(body, target, regions=["hips"], anatomy=file, **SMALL)
    assert again.report["before"] < 1e-3
    assert again.feel["stiffness"] == pytest.approx(ALL[0], rel=0.02)
    assert again.feel["regions"]["hips"]["damping"] == pytest.approx(HIPS[1], rel=0.02)


def test_curves_show_target_fit_and_initial_flesh(result: Fit, tmp_path: Path):
    from supple.app.pictures.fit_plot import plot_fit

    for curve in result.curves:
        size = np.abs(curve.target).max()
        assert np.abs(curve.fitted - curve.target).max() < 0.1 * size
        assert np.abs(curve.before - curve.target).max() > 0.1 * size
    plot_fit(tmp_path / "fit.png", result)
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")


def read_again(target: Any, body: Character, **options: Any) -> Any:
    (motion,) = body.motions.values()
    span = float(motion.times[0]), float(motion.times[-1])
    return fit_target(target, body, motion, span, options.get("rate"))


@pytest.mark.parametrize("unit", [1.0, 100.0, 1000.0])
@pytest.mark.parametrize("up", ["y", "z"])
def test_units_axes_and_clocks_of_a_target_are_found(
    body: Character, target: BakedMotion, unit: float, up: str
):
    points = target.frames.astype(np.float64) * unit
    if up == "z":
        points = np.stack([points[..., 0], -points[..., 2], points[..., 1]], axis=-1)
    found = read_again(points, body)
    assert (found.read_as == "") == (unit == 1 and up == "y")
    assert np.abs(found.offsets - moved(target)).max() < 1e-4
    assert found.times == pytest.approx(target.times)


def refusals(target: BakedMotion) -> dict[str, tuple[Any, str]]:
    frames, rig = target.frames, target.frames - moved(target)
    broken, shuffled = frames.copy(), frames[:, ::-1].copy()
    broken[4, 3] = np.nan
    return {
        "count": (frames[:, :-5].copy(), r"has [\d,]+ vertices; .* has [\d,]+"),
        "still": (rig.astype(np.float32), "follows the rig within"),
        "nan": (broken, "frame 4 has positions that are not finite"),
        "order": (shuffled, "of the size from the rig"),
        "long": (np.concatenate([frames, frames]), "lasts 2.* and "),
        "short": (frames[:5].copy(), "has 5 frames; a fit needs at least 8"),
        "shape": (frames[0], "use floats"),
        "kind": (7, "give a file, a bake or an array"),
        "suffix": ("a.obj", 'cannot fit to ".obj" files; use one of .pc2'),
    }


@pytest.mark.parametrize(
    "case", ["count", "still", "nan", "order", "long", "short", "shape", "kind", "suffix"]
)
def test_a_target_that_does_not_fit_the_skin_is_refused_in_one_line(
    body: Character, target: BakedMotion, case: str
):
    given, said = refusals(target)[case]
    with pytest.raises(SuppleError, match=said) as refused:
        read_again(given, body)
    assert "\n" not in str(refused.value)


def test_times_in_another_unit_are_refused(body: Character, target: BakedMotion, tmp_path: Path):
    np.savez(tmp_path / "a.npz", frames=target.frames, times=1e-3 * target.times)
    with pytest.raises(SuppleError, match=r"a\.npz: has 3e\+04 frames per second; use 1 to 1000"):
        read_again(tmp_path / "a.npz", body)


def test_a_target_that_covers_a_part_is_a_warning(body: Character, target: BakedMotion):
    with pytest.warns(SuppleWarning, match="covers 0.5 of 1 s"):
        read_again(target.frames[:16].copy(), body)


def test_what_no_flesh_could_do_is_refused(
    body: Character, entries: dict[str, RegionEntry], target: BakedMotion
):
    opposite = (target.frames - 2 * moved(target)).astype(np.float32)
    with pytest.raises(SuppleError, match="the best fit is"):
        fit(body, opposite, regions=["hips"], anatomy=entries, **SMALL)


def test_names_of_regions_are_a_text_or_texts_in_any_case(body: Character, target: BakedMotion):
    found = read_again(target, body)
    for given, names in (("hips", ["all", "hips"]), (["Hips", "hips", "ALL"], ["all", "Hips"])):
        assert [part.region for part in fitted_parts(body, found, given)] == names


def test_a_region_that_rests_is_said(result: Fit):
    resting = replace(result.regions[1], swing=1e-3 * result.regions[0].swing)
    still = replace(result, regions=(result.regions[0], resting))
    with pytest.warns(SuppleWarning, match="hips: moves by 0.1 % of the liveliest"):
        _warn_of_limits(still, np.full(4, 5.0), np.zeros(4))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "rig-space"}, "no stiffness and damping by region"),
        ({"anatomy": None}, "leave out anatomy none"),
        ({"regions": 7}, "regions is 7; give names such as"),
        ({"regions": ["hips", 7]}, "give names such as"),
        ({"regions": [f"r{k}" for k in range(17)]}, "at most 16 regions, not 17"),
        ({"regions": ["hisp"]}, 'regions: .* has no "hisp"; did you mean "hips"'),
    ],
)
def test_options_that_cannot_be_fitted_are_refused(
    body: Character, target: BakedMotion, options: dict[str, Any], said: str
):
    with pytest.raises(SuppleError, match=said):
        fit(body, target, **(SMALL | options))


@pytest.mark.parametrize(
    ("regions", "said"),
    [
        ([], '"regions" must be an object'),
        ({"hips": 2}, "must be an object with stiffness and damping"),
        ({"hips": {"young": 2}}, "use stiffness and damping"),
        ({"hips": {"stiffness": 0}}, "stiffness is 0; use 0.01 to 100"),
        ({"hips": {"damping": "2"}}, "use 0 to 100"),
        ({"hips": {"damping": float("nan")}}, "use 0 to 100"),
    ],
)
def test_hostile_factors_by_region_are_refused(tmp_path: Path, regions: Any, said: str):
    path = tmp_path / "a.anatomy.json"
    head = {"supple_anatomy": 1, "character": "a", "feel": {"regions": regions}, "regions": {}}
    path.write_text(json.dumps(head))
    with pytest.raises(FormatError, match=said):
        read_feel(path)


def test_the_command_fits_a_cache_and_refuses_another_skin(
    body: Character, entries: dict[str, RegionEntry], monkeypatch, capfd, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    save_character(body, Path("body.glb"), swings="chest")
    write_entries("soft.anatomy.json", "body", entries)
    small = ["--tets", "700", "--modes", "6", "--poses", "1", "--quiet"]
    told = ["--quality", "live", "--flesh", "soft"]
    main(["bake", "body.glb", "-o", "t.pc2", "--anatomy", "soft.anatomy.json", *told, *small])
    words = ["--anatomy", "soft.anatomy.json", "--regions", "hips", "--plot", "fit.png", *small]
    main(["fit", "body.glb", "t.pc2", *words, "--json"])
    said = json.loads(capfd.readouterr().out)
    assert said["distance"] < 0.1 < said["before"]
    assert [row["region"] for row in said["regions"]] == ["all", "hips"]
    assert read_feel("body_fit.anatomy.json") == said["written"]
    assert Path("fit.png").is_file()
    for output, said in (("t.json", "is the source file"), ("a.JSON", "writes an anatomy file")):
        Path("t.json").write_text("{}")
        with pytest.raises(SystemExit):
            main(["fit", "body.glb", "t.json", "-o", output, *words])
        assert said in capfd.readouterr().err
        assert Path("t.json").read_text() == "{}"
    np.savez("other.npz", frames=np.zeros((9, 4, 3)), times=np.arange(9) / 30)
    with pytest.raises(SystemExit) as ended:
        main(["fit", "body.glb", "other.npz", *words])
    assert ended.value.code == 1
    line = capfd.readouterr().err
    assert line.startswith("supple: other.npz: has 4 vertices; body has ")
    assert line.count("\n") == 1
