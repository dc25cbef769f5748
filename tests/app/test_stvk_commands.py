"""`supple stvk` makes bodies of any mesh, and `supple info` describes them and their parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple import StvkModel, SuppleError
from supple.app.bodies import make_body
from supple.app.bodies.body_options import BodyOptions, Filling
from supple.app.bodies.make_body import body_frequencies, made_body, prepared_body
from supple.app.info.info import describe
from supple.cli.main import main
from supple.elastic.material import Material
from supple.engines.stvk.bases import derivative_basis
from supple.errors import SuppleWarning
from supple.formats.meshes.veg import VegFile, VegMaterial, write_bou, write_veg
from supple.formats.vega.reduced_files import write_modal_matrix
from supple.mesh.filling.voxelise import voxelise
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.playback.character_sources import is_body
from supple.reduction.build_log import BuildLog
from supple.scenes.bodies.beam import beam
from supple.scenes.bodies.elastic_scene import stvk_scene

SMALL = ["--modes", "3", "--basis", "modes"]


def box(low: Any = (0, 0, 0), high: Any = (0.2, 1.0, 0.3)) -> SurfaceMesh:
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    triangles = np.array(quads)[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    return SurfaceMesh(np.array(low) + corners * (np.array(high) - low), triangles)


def write_obj(path: Path, *surfaces: SurfaceMesh) -> Path:
    lines, first = [], 1
    for surface in surfaces:
        lines += [f"v {x!r} {y!r} {z!r}" for x, y, z in surface.vertices.tolist()]
        lines += [f"f {a} {b} {c}" for a, b, c in (surface.triangles + first).tolist()]
        first += len(surface.vertices)
    path.write_text("\n".join(lines) + "\n")
    return path


def bar(cells: tuple[int, int, int] = (4, 2, 2)) -> TetMesh:
    return beam(cells=cells)


def options(**told: Any) -> BodyOptions:
    usual: dict[str, Any] = {"modes": 3, "basis": "modes"}
    return BodyOptions(**(usual | told))


def made(path: Path, **told: Any) -> StvkModel:
    return made_body(str(path), options(**told), BuildLog())[0]


def held(model: StvkModel) -> np.ndarray:
    return np.flatnonzero(~model.basis.any(axis=(1, 2)))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(words)
    except SystemExit as ended:
        code = int(ended.code or 0)
    told = capsys.readouterr()
    return code, told.out, told.err


# Making a body -----------------------------------------------------------------------------


def test_any_surface_becomes_a_body_without_options(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_obj(tmp_path / "post.obj", box())
    code, out, err = run(capsys, "stvk", "post.obj", "--count", "60", *SMALL)
    assert code == 0
    assert out == ""
    lines = err.strip().splitlines()
    assert "held: the lowest 5 %" in err
    assert "the lowest frequency is 2 Hz" in err
    assert "steps per second" in lines[-2]
    assert lines[-1] == "wrote post.stvk; supple view post.stvk shows it"
    model = StvkModel.load("post.stvk")
    assert body_frequencies(model)[0] == pytest.approx(2.0)
    assert np.array_equal(model.surface.vertices, box().vertices)  # what is seen is the file's
    low = model.rest[held(model), 1]
    assert len(low) > 3
    assert low.max() < model.rest[:, 1].min() + 0.051 * np.ptp(model.rest[:, 1])


def test_the_figures_are_json_and_true(tmp_path, capsys):
    source = write_obj(tmp_path / "post.obj", box())
    target = tmp_path / "out.stvk"
    words = [str(source), "-o", str(target), "--elements", "tets", "--count", "60", "--json"]
    code, out, err = run(capsys, "stvk", *words, *SMALL)
    assert (code, err) == (0, "")
    figures, model = json.loads(out), StvkModel.load(target)
    assert figures["kind"] == "tets"
    assert figures["elements"] == len(model.groups.of_element)
    assert figures["modes"] == model.modes == 3
    assert figures["frequencies_hz"] == pytest.approx(body_frequencies(model), rel=1e-4)
    assert figures["model_mb"] == round(target.stat().st_size / 1e6, 3)
    assert figures["steps_per_second"] > 0


def test_a_mesh_of_elements_gives_what_the_library_builds(tmp_path):
    material = VegMaterial("ENU", (900.0, 3e5, 0.3))
    veg = VegFile(bar(), {"GUM": material}, [("allElements", "GUM")])
    write_veg(tmp_path / "bar.veg", veg)
    model = made(tmp_path / "bar.veg", fixed=["left"])
    wall = np.flatnonzero(bar().vertices[:, 0] == bar().vertices[:, 0].min())
    built = StvkModel.build(bar(), Material("stvk", 3e5, 0.3, 900.0), 3, fixed=wall, basis="modes")
    assert np.array_equal(model.basis, built.basis)
    assert np.array_equal(model.tangent, built.tangent)
    assert np.array_equal(held(model), wall)


def test_stiffness_is_given_in_pascals_or_in_hertz(tmp_path):
    source = write_obj(tmp_path / "post.obj", box())
    filling = Filling(count=60)
    told = made(source, filling=filling, young=5e4, poisson=0.3, density=700.0)
    assert (told.groups.young, told.groups.poisson, told.groups.density) == (5e4, 0.3, 700.0)
    tuned = made(source, filling=filling, frequency=5.0)
    assert body_frequencies(tuned)[0] == pytest.approx(5.0)


def test_a_list_beside_a_vega_mesh_has_the_fixed_vertices(tmp_path):
    cubes = voxelise(box(), elements=60)
    write_veg(tmp_path / "post.veg", VegFile(cubes))
    top = np.flatnonzero(cubes.vertices[:, 1] > 0.9)
    write_bou(tmp_path / "post.bou", top)
    model, _, notes = made_body(str(tmp_path / "post.veg"), options(), BuildLog())
    assert np.array_equal(held(model), top)
    assert "those of post.bou" in notes[0]
    assert not np.isin(top, held(made(tmp_path / "post.veg", fixed=["bottom"]))).any()


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["left"], lambda p: p[:, 0] <= 0.05),
        (["left", "right"], lambda p: (p[:, 0] <= 0.05) | (p[:, 0] >= 0.95)),
        (["right:30%"], lambda p: p[:, 0] >= 0.7),
        (["x<0.3"], lambda p: p[:, 0] <= 0.3),
        (["x >= 0.7", "x<=0"], lambda p: (p[:, 0] >= 0.7) | (p[:, 0] <= 0)),
        (["none"], lambda p: p[:, 0] < -1),
    ],
)
def test_words_select_the_fixed_vertices(tmp_path, words, where):
    mesh = bar((8, 2, 2))
    points = (mesh.vertices - mesh.vertices.min(axis=0)) / np.ptp(mesh.vertices[:, 0])
    mesh = TetMesh(points, mesh.tets)
    write_veg(tmp_path / "bar.veg", VegFile(mesh))
    assert np.array_equal(held(made(tmp_path / "bar.veg", fixed=words)), np.where(where(points))[0])


def test_a_list_of_a_surfaces_vertices_holds_what_carries_them(tmp_path):
    source = write_obj(tmp_path / "post.obj", box())
    write_bou(tmp_path / "high.bou", np.flatnonzero(box().vertices[:, 1] == 1.0))
    model = made(source, filling=Filling(count=60), fixed=[str(tmp_path / "high.bou")])
    high = model.surface.vertices[:, 1] == 1.0
    assert high.any()
    assert np.abs(model.surface_basis[high]).max() == 0.0
    assert np.abs(model.surface_basis[~high]).max() > 0.0


@pytest.mark.parametrize("kind", ["voxels", "tets"])
def test_of_several_pieces_the_largest_is_the_body(tmp_path, kind):
    far = box((3.0, 0.0, 0.0), (3.1, 0.2, 0.1))
    source = write_obj(tmp_path / "two.obj", box(), far)
    with pytest.warns(SuppleWarning, match="several pieces"):
        model = made(source, filling=Filling(kind, resolution=12))
    assert model.rest[:, 0].max() < 1.0
    assert len(model.surface.vertices) == len(box().vertices)  # the other is not seen either


def test_units_are_scaled_and_required(tmp_path):
    millimetres = box((0, 0, 0), (200, 1000, 300))
    source = write_obj(tmp_path / "post.obj", millimetres)
    filling = Filling(count=60)
    notes = made_body(str(source), options(filling=filling), BuildLog())[2]
    assert "--scale" in notes[0]
    model, _, notes = made_body(str(source), options(filling=filling, scale=1e-3), BuildLog())
    assert model.surface.size == pytest.approx(box().size)
    assert "--scale" not in " ".join(notes)


def test_another_surface_can_be_seen(tmp_path):
    write_veg(tmp_path / "post.veg", VegFile(voxelise(box(), elements=60)))
    shown = write_obj(tmp_path / "shown.obj", box((0.05, 0.1, 0.1), (0.1, 0.9, 0.2)))
    model = made(tmp_path / "post.veg", surface=shown)
    assert model.surface.vertices[:, 0].max() == 0.1


def test_scenes_go_by_their_names(tmp_path, capsys):
    target = tmp_path / "spoon.stvk"
    code, out, _ = run(capsys, "stvk", "spoon", "-o", str(target), "--json", *SMALL)
    assert code == 0
    assert json.loads(out)["elements"] == 2112
    assert len(held(StvkModel.load(target))) == 213


def test_the_same_words_give_the_same_bytes(tmp_path, capsys):
    source = write_obj(tmp_path / "post.obj", box())
    files = [tmp_path / "one.stvk", tmp_path / "two.stvk"]
    for file in files:
        run(capsys, "stvk", str(source), "-o", str(file), "--count", "60", "-q", *SMALL)
    assert files[0].read_bytes() == files[1].read_bytes()


# What cannot be ----------------------------------------------------------------------------


def spoilt(folder: Path) -> None:
    write_obj(folder / "post.obj", box())
    write_veg(folder / "bar.veg", VegFile(bar()))
    (folder / "empty.obj").touch()
    (folder / "folder.obj").mkdir()
    (folder / "nan.obj").write_text("v 0 0 0\nv nan 0 0\nv 0 1 0\nf 1 2 3\n")
    (folder / "point.obj").write_text("v 0 0 0\nv 0 0 0\nv 0 0 0\nf 1 2 3\n")
    text = (folder / "bar.veg").read_text()
    (folder / "cut.veg").write_text(text[: len(text) // 2])
    (folder / "line.bou").write_text("1,2")
    (folder / "far.bou").write_text("1,99999")
    twice = np.concatenate([bar().tets, bar().tets + len(bar().vertices)])
    apart = np.concatenate([bar().vertices, bar().vertices + np.array([0, 9, 0])])
    write_veg(folder / "loose.veg", VegFile(TetMesh(apart, twice)))
    knot = np.array(voxelise(box(), elements=8).vertices)
    cubes = voxelise(box(), elements=8).hexes
    knot[cubes[0, 0]] = knot[cubes[0]].mean(axis=0) + 2 * np.ptp(knot, axis=0)
    write_veg(folder / "knot.veg", VegFile(HexMesh(knot, cubes)))


@pytest.mark.filterwarnings("ignore::supple.SuppleWarning")
@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("missing.obj", "no such file"),
        ("empty.obj", "is empty"),
        ("folder.obj", "not a file"),
        ("nan.obj", "not finite"),
        ("point.obj", "single point"),
        ("cut.veg", "cut.veg"),
        ("loose.veg", "has no fixed vertex"),
        ("knot.veg", "inverted"),
        ("post.xyz", '".xyz" files'),
        ("done.stvk", "a body already"),
        ("spon", 'did you mean "spoon"'),
        ("bar.veg --modes 0", "--modes 0; use 1 to"),
        ("bar.veg --modes 1000000000", "use 1 to"),
        ("bar.veg --young -1", "positive"),
        ("bar.veg --young nan", "finite"),
        ("bar.veg --poisson 0.5", "Poisson"),
        ("bar.veg --frequency 0", "--frequency"),
        ("bar.veg --young 1 --frequency 1", "give one of them"),
        ("bar.veg --scale nan", "--scale"),
        ("bar.veg --count 9", "already"),
        ("post.obj --count 1000000000", "--count"),
        ("post.obj --resolution 1000000000", "--resolution"),
        ("post.obj --count 9 --resolution 9", "give one of them"),
        ("spoon --resolution 9", "is a scene with elements"),
        ("bar.veg --fixed frob", "use a side"),
        ("bar.veg --fixed y<nan", "use a side"),
        ("bar.veg --fixed y<-9", "no vertex is there"),
        ("bar.veg --fixed y<99", "every vertex is fixed"),
        ("bar.veg --fixed line.bou", "would rotate"),
        ("bar.veg --fixed far.bou", "99999"),
        ("bar.veg --fixed gone.bou", "no such file"),
        ("bar.veg --fixed none left", "leave out"),
        ("bar.veg --surface missing.obj", "no such file"),
        ("bar.veg -o body.txt", "ends in .stvk"),
        ("bar.veg -o nowhere/body.stvk", "no folder"),
    ],
)
def test_invalid_bodies_are_one_line_errors(tmp_path, capsys, monkeypatch, words, what):
    monkeypatch.chdir(tmp_path)
    spoilt(tmp_path)
    before = sorted(tmp_path.iterdir())
    output = [] if "-o" in words else ["-o", "body.stvk"]
    code, out, err = run(capsys, "stvk", *words.split(), *output, "--quiet")
    assert code == 1
    assert out == ""
    assert err.startswith("supple: ")
    assert err.count("\n") == 1
    assert what in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_body_that_cannot_be_held_by_its_bottom_is_an_error_with_a_remedy():
    from supple.app.bodies.body_source import BodySource
    from supple.app.bodies.make_body import held_vertices

    points = np.array([[0, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1]], float)
    with pytest.raises(SuppleError, match="--fixed"):
        held_vertices(BodySource(TetMesh(points, [[0, 1, 2, 3]])), None)


# What is shown -----------------------------------------------------------------------------


def test_a_scenes_body_is_made_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    write_veg(tmp_path / "bar.veg", VegFile(bar()))
    small, calls = made(tmp_path / "bar.veg"), []

    def make(given: str, *others: Any) -> Any:
        calls.append(given)
        return small, None, []

    monkeypatch.setattr("supple.app.bodies.make_body.made_body", make)
    first, second = prepared_body("tower"), prepared_body("tower")
    assert calls == ["tower"]
    assert first is small
    assert np.array_equal(second.tangent, small.tangent)
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(kept.read_bytes()[:999])  # damaged: it is made again
    prepared_body("tower")
    assert calls == ["tower", "tower"]


def test_bodies_and_characters_are_distinguished(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert all(map(is_body, ("spoon", "a.stvk", "A.STVK", "b.obj", "c.veg")))
    assert not any(map(is_body, ("gorilla", "a.glb", "a.supple", "a.usd", "nothing")))
    (tmp_path / "spoon").touch()  # a file of that name goes first
    assert not is_body("spoon")


# What is in a file -------------------------------------------------------------------------


def test_info_describes_a_body(tmp_path, capsys):
    write_veg(tmp_path / "bar.veg", VegFile(bar()))
    model = made(tmp_path / "bar.veg", young=1e5)
    model.save(tmp_path / "bar.stvk")
    found = describe(tmp_path / "bar.stvk")
    assert found["body"]["elements"] == len(bar().tets)
    assert found["body"]["held"] == len(held(model))
    assert found["body"]["modes"] == 3
    assert found["frequencies_hz"] == pytest.approx(body_frequencies(model), rel=1e-4)
    (material,) = found["materials"]
    assert (material["young"], material["elements"]) == (1e5, len(bar().tets))
    code, out, _ = run(capsys, "info", str(tmp_path / "bar.stvk"))
    assert code == 0
    for words in ("elastic body", "3", "Young 1e+05 Pa", "no defects"):
        assert words in out


def test_info_describes_vegas_files(assets, tmp_path):
    vega = assets / "vegafem"
    cub = describe(vega / "reduced_A/A.cub")
    assert cub["polynomials"] == {"modes": 20, "linear": 400, "quadratic": 4200, "cubic": 30800}
    assert cub["defects"] == []
    assert np.all(np.diff(cub["frequencies_hz"]) >= 0)
    assert describe(vega / "reduced_A/A.URendering.float")["matrix"]["vertices"] == 575
    assert describe(vega / "beam3/beam3.bou")["fixed"]["vertices"] == 8
    hexes = describe(vega / "beam3/beam3.veg")
    assert hexes["hexes"]["hexes"] == 75
    assert hexes["materials"][0]["young"] == 1e7
    assert describe(vega / "beam3/beam3_tet.veg")["tets"]["tets"] == 450


def test_info_reports_a_mode_that_moves_nothing(tmp_path):
    basis = np.ones((4, 3, 2))
    basis[:, :, 1] = 0.0
    write_modal_matrix(tmp_path / "still.U", basis)
    found = describe(tmp_path / "still.U")
    assert found["matrix"]["modes"] == 2
    assert "mode 1" in found["defects"][0]["what"]


@pytest.mark.parametrize("name", ["a.stvk", "a.cub", "a.U", "a.bou", "a.veg"])
@pytest.mark.parametrize("content", [None, b"", b"\0" * 40, b"nan nan nan", b"\xff" * 5000])
def test_info_on_what_is_damaged_is_one_line(tmp_path, capsys, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code, out, err = run(capsys, "info", str(tmp_path / name))
    assert (code, out) == (1, "")
    assert err.startswith(f"supple: {name}: ")
    assert err.count("\n") == 1


# Linear modes, pieces and notes --------------------------------------------------------------


def test_linear_modes_are_the_options_or_the_scenes(tmp_path):
    write_obj(tmp_path / "post.obj", box())
    few, more = (
        made(tmp_path / "post.obj", modes=5, basis="derivatives", linear_modes=k, filling=TINY)
        for k in (2, 4)
    )
    assert not np.allclose(few.basis, more.basis)
    spoon, scene = prepared_body("spoon"), stvk_scene("spoon")
    wanted = derivative_basis(
        scene.body(), scene.modes, fixed=scene.fixed, linear=scene.linear_modes
    )
    assert np.abs(spoon.basis - wanted).max() < 1e-6 * np.abs(wanted).max()


TINY = Filling(count=60)


def test_all_pieces_of_a_surface_can_be_kept(tmp_path, capsys):
    apart = write_obj(tmp_path / "two.obj", box(), box((0.5, 0, 0), (0.7, 1.0, 0.3)))
    with pytest.warns(SuppleWarning, match="--pieces all"):
        largest = made(apart, filling=TINY)
    both = made(apart, filling=Filling(count=60, pieces="all"))
    assert np.ptp(largest.rest[:, 0]) < 0.35
    assert np.ptp(both.rest[:, 0]) > 0.6
    code, _, err = run(capsys, "stvk", str(apart), "--pieces", "none", *SMALL)
    assert code != 0
    assert "Traceback" not in err


def test_options_that_flatten_materials_and_large_models_are_noted(tmp_path, monkeypatch):
    soft, hard = (VegMaterial("ENU", (900.0, young, 0.3)) for young in (1e5, 4e5))
    mesh = bar()
    left = mesh.vertices[mesh.tets].mean(axis=1)[:, 0] < 0.5
    mesh = TetMesh(mesh.vertices, mesh.tets, {"L": np.flatnonzero(left)})
    veg = VegFile(mesh, {"A": soft, "B": hard}, [("allElements", "A"), ("L", "B")])
    write_veg(tmp_path / "bar.veg", veg)
    notes = made_body(str(tmp_path / "bar.veg"), options(young=2e5), BuildLog())[2]
    assert any("--young replaces 2 different values" in note for note in notes)
    assert not any("replaces" in note for note in made_body("spoon", options(), BuildLog())[2])
    monkeypatch.setattr(make_body, "LARGE", 1e-4)
    notes = made_body(str(tmp_path / "bar.veg"), options(), BuildLog())[2]
    assert any("MB; half as many modes" in note for note in notes)
