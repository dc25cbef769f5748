"""VegaFEM's files are read for what they say and written as it would write them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from supple.elastic.body import HexBody
from supple.elastic.material import Material
from supple.engines.stvk.model import StvkModel
from supple.errors import FormatError, SuppleError, SuppleWarning
from supple.formats.meshes.veg import (
    VegFile,
    VegMaterial,
    read_bou,
    read_veg,
    read_veg_hexes,
    write_bou,
    write_veg,
)
from supple.formats.vega.reduced_files import (
    CubicForce,
    read_cub,
    read_modal_matrix,
    write_cub,
    write_modal_matrix,
)
from supple.formats.vega.vega_model import veg_material, veg_material_groups
from supple.mesh.hexes import CORNERS, HexMesh


def one_line(error: pytest.ExceptionInfo, name: str) -> None:
    assert isinstance(error.value, SuppleError)
    assert str(error.value).startswith(f"{name}: ")
    assert "\n" not in str(error.value)


# --- .cub ------------------------------------------------------------------------------------


@pytest.fixture
def shipped(assets) -> CubicForce:
    return read_cub(assets / "vegafem/reduced_A/A.cub")


def of_an_energy(r: int, seed: int = 0) -> CubicForce:
    """The gradient of a random quartic, monomial by monomial."""
    rng = np.random.default_rng(seed)
    monomials = [list(itertools.combinations_with_replacement(range(r), n)) for n in (1, 2, 3)]
    parts = [np.zeros((r, len(listed))) for listed in monomials]
    for degree in (2, 3, 4):
        column = {m: i for i, m in enumerate(monomials[degree - 2])}
        for monomial in itertools.combinations_with_replacement(range(r), degree):
            value = rng.normal()
            for a in set(monomial):
                rest = list(monomial)
                rest.remove(a)
                parts[degree - 2][a, column[tuple(rest)]] += value * monomial.count(a)
    return CubicForce(*parts)


def test_the_shipped_model_loads_and_is_saved_as_the_same_bytes(assets, shipped, tmp_path):
    assert shipped.r == 20
    write_cub(tmp_path / "A.cub", shipped)
    original = (assets / "vegafem/reduced_A/A.cub").read_bytes()
    assert (tmp_path / "A.cub").read_bytes() == original
    assert [file.name for file in tmp_path.iterdir()] == ["A.cub"]


def test_the_shipped_models_tangent_is_the_symmetric_derivative_of_its_force(shipped):
    rng = np.random.default_rng(0)
    q, d, h = 0.1 * rng.normal(size=20), rng.normal(size=20), 1e-5
    change = (shipped.force(q + h * d) - shipped.force(q - h * d)) / (2 * h)
    tangent = shipped.stiffness(q)
    np.testing.assert_allclose(tangent @ d, change, atol=1e-8 * np.abs(change).max())
    np.testing.assert_allclose(tangent, tangent.T, atol=1e-12 * np.abs(tangent).max())
    slope = (shipped.energy(q + h * d) - shipped.energy(q - h * d)) / (2 * h)
    assert shipped.force(q) @ d == pytest.approx(slope, rel=1e-7)
    assert np.linalg.eigvalsh(shipped.stiffness(np.zeros(20))).min() > 0
    # Components as columns, which the file's size allows too, would be the force of no energy.
    turned = CubicForce(
        shipped.linear,
        shipped.quadratic.reshape(210, 20).T.copy(),
        shipped.cubic.reshape(1540, 20).T.copy(),
    ).stiffness(q)
    assert np.abs(turned - turned.T).max() > 0.1 * np.abs(turned).max()


def test_monomials_are_in_the_documented_order():
    r, rng = 4, np.random.default_rng(1)
    force = CubicForce(*(rng.normal(size=(r, n)) for n in (4, 10, 20)))
    q = rng.normal(size=r)
    for a in range(r):
        total, square, cube = 0.0, iter(force.quadratic[a]), iter(force.cubic[a])
        for i in range(r):
            total += force.linear[a, i] * q[i]
            for j in range(i, r):
                total += next(square) * q[i] * q[j]
                for k in range(j, r):
                    total += next(cube) * q[i] * q[j] * q[k]
        assert force.force(q)[a] == pytest.approx(total)


@pytest.mark.parametrize("r", [1, 2, 5])
def test_tangent_coefficients_give_the_tangent_and_the_force_back(r):
    force = of_an_energy(r)
    table = force.tangent_coefficients()
    pairs = r * (r + 1) // 2
    assert table.shape == (pairs, 1 + r + pairs)
    q = np.random.default_rng(2).normal(size=r)
    i, j = np.triu_indices(r)
    monomials = np.concatenate([[1.0], q, q[i] * q[j]])
    np.testing.assert_allclose(table @ monomials, force.stiffness(q)[i, j], atol=1e-12)
    again = CubicForce.of_tangent(table)
    np.testing.assert_allclose(again.linear, force.linear, atol=1e-14)
    np.testing.assert_allclose(again.quadratic, force.quadratic, atol=1e-14)
    np.testing.assert_allclose(again.cubic, force.cubic, atol=1e-14)


def test_the_shipped_model_survives_the_way_through_its_tangent(shipped):
    again = CubicForce.of_tangent(shipped.tangent_coefficients())
    for mine, theirs in (
        (again.linear, shipped.linear),
        (again.quadratic, shipped.quadratic),
        (again.cubic, shipped.cubic),
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-13 * np.abs(theirs).max())


def test_a_reduced_body_of_voxels_written_for_vegafem_has_the_full_bodys_projected_force(tmp_path):
    mesh = HexMesh(0.1 * CORNERS, [range(8)])
    material = Material("stvk", 1e5, 0.3)
    basis = np.random.default_rng(4).normal(size=(8, 3, 5))
    model = StvkModel.from_basis(mesh, material, basis)
    write_cub(tmp_path / "a.cub", CubicForce.of_tangent(model.tangent))
    written, body = read_cub(tmp_path / "a.cub"), HexBody(mesh, material)
    q = 0.02 * np.random.default_rng(5).normal(size=5)
    x = mesh.vertices + basis @ q
    columns = basis.reshape(24, 5)
    force, stiffness = columns.T @ body.force(x).ravel(), columns.T @ body.stiffness(x) @ columns
    np.testing.assert_allclose(written.force(q), force, atol=1e-10 * np.abs(force).max())
    np.testing.assert_allclose(
        written.stiffness(q), stiffness, atol=1e-10 * np.abs(stiffness).max()
    )


def test_a_force_without_energy_has_no_symmetric_tangent():
    force = of_an_energy(3)
    force.quadratic[0, 3] += 1.0
    with pytest.raises(SuppleError, match="gradient of an energy"):
        force.tangent_coefficients()


def test_terms_and_coordinates_of_the_wrong_shape_are_refused():
    with pytest.raises(SuppleError, match="quadratic terms: shape"):
        CubicForce(np.eye(3), np.zeros((3, 5)), np.zeros((3, 10)))
    with pytest.raises(SuppleError, match="at least 1"):
        CubicForce([], [], [])
    with pytest.raises(SuppleError, match="coordinates: shape"):
        of_an_energy(2).force([1.0])
    with pytest.raises(SuppleError, match="coordinates: not finite"):
        of_an_energy(2).stiffness([1.0, np.nan])
    with pytest.raises(SuppleError, match="tangent coefficients"):
        CubicForce.of_tangent(np.zeros((2, 5)))
    with pytest.raises(SuppleError, match="tangent coefficients"):
        CubicForce.of_tangent(np.zeros((0, 1)))


def cub_bytes(*sizes: int, terms: int = 14, value: float = 1.0) -> bytes:
    return np.array(sizes, "<i4").tobytes() + np.full(terms, value, "<f8").tobytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\2\0\0\0", "fewer than the head"),
        (cub_bytes(2, 2, 3, 4), "has 128 bytes where r = 2 needs 160"),
        (cub_bytes(2, 2, 3, 4, terms=19), "needs 160"),
        (cub_bytes(2, 2, 3, 4, terms=17), "damaged or cut off"),
        (cub_bytes(2, 2, 3, 5, terms=18), "declares the sizes 2, 2, 3, 5"),
        (cub_bytes(-2, -2, 1, 0, terms=18), "declares the sizes -2"),
        (cub_bytes(0, 0, 0, 0, terms=0), "r = 0"),
        (cub_bytes(*[2**31 - 1] * 4), "declares the sizes 2147483647"),
        (cub_bytes(1000, 1000, 500500, 167167000), "needs 1341"),
        (cub_bytes(2, 2, 3, 4, terms=18, value=np.nan), "coefficient 0 is not finite"),
        (cub_bytes(2, 2, 3, 4, terms=18, value=np.inf), "coefficient 0 is not finite"),
        (b"not a cub file at all, is it?", "declares the sizes"),
    ],
)
def test_a_damaged_cub_is_an_error_of_one_line(tmp_path, data, message):
    (tmp_path / "a.cub").write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        read_cub(tmp_path / "a.cub")
    one_line(caught, "a.cub")


def test_missing_files_and_files_of_another_kind_are_errors(tmp_path):
    for reader, name in (
        (read_cub, "a.txt"),
        (read_cub, "missing.cub"),
        (read_modal_matrix, "missing.U"),
        (read_bou, "missing.bou"),
    ):
        with pytest.raises(FormatError) as caught:
            reader(tmp_path / name)
        one_line(caught, name)
    with pytest.raises(FormatError, match="cannot be written"):
        write_cub(tmp_path / "nowhere" / "a.cub", of_an_energy(1))
    with pytest.raises(FormatError, match="cannot be read back") as caught:
        write_cub(tmp_path / "a.txt", of_an_energy(1))
    one_line(caught, "a.txt")
    assert list(tmp_path.iterdir()) == []


# --- .U --------------------------------------------------------------------------------------


def test_the_shipped_modes_load_in_single_precision_and_are_saved_as_the_same_bytes(
    assets, tmp_path
):
    source = assets / "vegafem/reduced_A/A.URendering.float"
    modes = read_modal_matrix(source)
    assert modes.shape == (575, 3, 20)
    assert modes.dtype == np.float32
    numbers = np.frombuffer(source.read_bytes()[8:], "<f4")
    assert modes[1, 2, 0] == numbers[5]  # a column is contiguous in the file
    assert modes[0, 1, 3] == numbers[3 * 1725 + 1]
    write_modal_matrix(tmp_path / "A.URendering.float", modes)
    assert (tmp_path / "A.URendering.float").read_bytes() == source.read_bytes()


def test_modes_written_are_read_back_to_the_last_bit(tmp_path):
    modes = np.random.default_rng(0).normal(size=(5, 3, 4))
    write_modal_matrix(tmp_path / "a.U", modes)
    again = read_modal_matrix(tmp_path / "a.U")
    assert again.dtype == np.float64
    np.testing.assert_array_equal(again, modes)
    write_modal_matrix(tmp_path / "b.U", modes.reshape(15, 4))
    assert (tmp_path / "a.U").read_bytes() == (tmp_path / "b.U").read_bytes()
    assert (tmp_path / "a.U").stat().st_size == 8 + 8 * 60


@pytest.mark.parametrize(
    ("head", "entries", "message"),
    [
        ((3, 2), 5, "do not match its 48 bytes"),
        ((-3, 2), 6, "declares -3 rows"),
        ((3, 0), 0, "0 columns"),
        ((2**31 - 1, 2**31 - 1), 6, "do not match"),
        ((4, 2), 8, "not three per vertex"),
        ((3,), 0, "fewer than the head"),
    ],
)
def test_a_damaged_matrix_is_an_error_of_one_line(tmp_path, head, entries, message):
    data = np.array(head, "<i4").tobytes() + np.ones(entries, "<f8").tobytes()
    (tmp_path / "a.U").write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        read_modal_matrix(tmp_path / "a.U")
    one_line(caught, "a.U")


def test_modes_that_are_not_finite_are_neither_read_nor_written(tmp_path):
    data = np.array([3, 2], "<i4").tobytes() + np.array([1, 1, 1, 1, np.nan, 1], "<f8").tobytes()
    (tmp_path / "a.U").write_bytes(data)
    with pytest.raises(FormatError, match="row 1 of mode 1 is not finite"):
        read_modal_matrix(tmp_path / "a.U")
    for name, value in (("b.U", np.inf), ("b.float", 1e300)):
        with pytest.raises(FormatError, match="not finite"):
            write_modal_matrix(tmp_path / name, np.full((3, 1), value))
    with pytest.raises(FormatError, match="shape"):
        write_modal_matrix(tmp_path / "b.U", np.ones((4, 2)))
    with pytest.raises(FormatError, match="cannot be read back"):
        write_modal_matrix(tmp_path / "b.txt", np.ones((3, 1)))
    assert [file.name for file in tmp_path.iterdir()] == ["a.U"]


# --- .bou ------------------------------------------------------------------------------------


def test_the_shipped_fixed_vertices_load_and_are_saved_as_the_same_bytes(assets, tmp_path):
    source = assets / "vegafem/beam3/beam3.bou"
    fixed = read_bou(source, 208)
    assert fixed.tolist() == [50, 51, 102, 103, 154, 155, 206, 207]
    write_bou(tmp_path / "a.bou", fixed)
    assert (tmp_path / "a.bou").read_bytes() == source.read_bytes()


def test_fixed_vertices_may_stand_on_several_lines_in_any_order(tmp_path):
    (tmp_path / "a.bou").write_text("# held\n12, 3,\n3 7\n\n1")
    assert read_bou(tmp_path / "a.bou").tolist() == [0, 2, 6, 11]
    write_bou(tmp_path / "b.bou", range(20))
    assert (tmp_path / "b.bou").read_text().splitlines()[1] == "9,10,11,12,13,14,15,16,"
    assert read_bou(tmp_path / "b.bou").tolist() == list(range(20))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1", "has vertex 0; vertices are 1 to 9"),
        ("-4", "has vertex -4"),
        ("10", "has vertex 10"),
        ("1,x", '"x" among the vertices'),
        ("1.5", "not a whole number"),
        ("nan", "not a whole number"),
        ("9" * 400, "not a whole number"),
        ("1\0", "is binary, but its format is text"),
        (" \n", "is empty"),
    ],
)
def test_a_damaged_bou_is_an_error_of_one_line(tmp_path, text, message):
    (tmp_path / "a.bou").write_text(text)
    with pytest.raises(FormatError, match=message) as caught:
        read_bou(tmp_path / "a.bou", 9)
    one_line(caught, "a.bou")


@pytest.mark.parametrize("vertices", [[], [-1], [0.5], [[1, 2]]])
def test_invalid_lists_of_vertices_are_not_written(tmp_path, vertices):
    with pytest.raises(FormatError, match="a list of at least one vertex"):
        write_bou(tmp_path / "a.bou", vertices)


# --- .veg ------------------------------------------------------------------------------------

VEG = """*VERTICES
12 3 0 0
1 0 0 0
2 1 0 0
3 1 1 0
4 0 1 0
5 0 0 1
6 1 0 1
7 1 1 1
8 0 1 1
9 0 0 2
10 1 0 2
11 1 1 2
12 0 1 2.5
*ELEMENTS
CUBIC
2 8 0
1 1 2 3 4 5 6 7 8
2 5 6 7 8 9 10 11 12
*MATERIAL soft
ENU, 1000, 2e4, 0.45
*MATERIAL bone
ENU, 2000, 1e6, 0.3
*SET upper
2
*REGION
allElements, soft
upper, bone
"""


def saved(folder: Path, text: str) -> Path:
    (folder / "a.veg").write_text(text)
    return folder / "a.veg"


def test_the_shipped_hexes_load_with_their_material_and_are_the_tets_body(assets, tmp_path):
    veg = read_veg_hexes(assets / "vegafem/beam3/beam3.veg")
    assert veg.mesh.vertices.shape == (208, 3)
    assert veg.mesh.hexes.shape == (75, 8)
    assert veg.mesh.defects() == []
    assert veg.materials == {"BODY": VegMaterial("ENU", (1000.0, 1e7, 0.45))}
    assert veg.regions == [("allElements", "BODY")]
    tets = read_veg(assets / "vegafem/beam3/beam3_tet.veg").mesh
    assert veg.mesh.volumes().sum() == pytest.approx(tets.volumes().sum())
    body = HexBody(veg.mesh, veg_material(veg))
    assert body.vertex_masses().sum() == pytest.approx(1000 * tets.volumes().sum())
    write_veg(tmp_path / "b.veg", veg)
    again = read_veg_hexes(tmp_path / "b.veg")
    assert again.mesh.vertices.tobytes() == veg.mesh.vertices.tobytes()
    assert again.mesh.hexes.tobytes() == veg.mesh.hexes.tobytes()
    assert (again.materials, again.regions) == (veg.materials, veg.regions)


def test_sets_and_regions_of_hexes_give_each_its_material(tmp_path):
    veg = read_veg_hexes(saved(tmp_path, VEG))
    assert veg.mesh.sets["upper"].tolist() == [1]
    assert veg_material_groups(veg).tolist() == [0, 1]
    material = veg_material(veg)
    assert isinstance(material, Material)
    assert np.asarray(material.young).tolist() == [2e4, 1e6]
    assert np.asarray(material.density).tolist() == [1000, 2000]
    write_veg(tmp_path / "a.veg", veg)
    again = read_veg_hexes(tmp_path / "a.veg")
    assert again.mesh.sets["upper"].tolist() == [1]
    assert again.regions == veg.regions


def test_missing_materials_and_those_of_another_kind_are_errors():
    mesh = HexMesh(CORNERS, [range(8)])
    with pytest.raises(FormatError, match="element 0 of the mesh is in no region"):
        veg_material(VegFile(mesh))
    rubber = {"rubber": VegMaterial("MOONEYRIVLIN", (900, 1.5, 2.5, 3.5))}
    with pytest.raises(FormatError, match='"rubber" is MOONEYRIVLIN'):
        veg_material(VegFile(mesh, rubber, [("allElements", "rubber")]))


def test_inverted_hexes_are_turned_and_flat_ones_removed_with_a_warning(tmp_path):
    text = VEG.replace("2 5 6 7 8 9 10 11 12", "2 9 10 11 12 5 6 7 8")
    with pytest.warns(
        SuppleWarning, match=r"^a\.veg: has 1 inverted hex \(first: hex 1\); reoriented"
    ):
        veg = read_veg_hexes(saved(tmp_path, text))
    assert veg.mesh.volumes().min() > 0
    text = VEG.replace("2 5 6 7 8 9 10 11 12", "2 5 6 7 8 5 6 7 8")
    with pytest.warns(SuppleWarning) as caught:
        veg = read_veg_hexes(saved(tmp_path, text))
    assert "1 degenerate hex without volume (first: hex 1); removed" in str(caught[0].message)
    assert veg.mesh.sets["upper"].tolist() == []


def test_tets_and_hexes_are_distinguished(assets):
    with pytest.raises(FormatError, match="read_veg_hexes"):
        read_veg(assets / "vegafem/beam3/beam3.veg")
    with pytest.raises(FormatError, match=r"use read_veg$"):
        read_veg_hexes(assets / "vegafem/beam3/beam3_tet.veg")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2 8 0\n", "2 4 0\n", "count 8 0"),
        ("2 8 0\n", "3 8 0\n", "declares 3 hexes but has 2"),
        ("2 8 0\n", "-2 8 0\n", "declares -2 hexes"),
        ("2 8 0\n", "99999999999999999999 8 0\n", "but has 2"),
        ("10 11 12\n*MAT", "10 11 13\n*MAT", "refers to vertex 12"),
        ("10 11 12\n*MAT", "10 11\n*MAT", "has 8 numbers"),
        ("10 11 12\n*MAT", "10 11 1.5\n*MAT", "not a whole number"),
        ("11 1 1 2\n", "11 1 nan 2\n", "not finite"),
        ("CUBIC", "WEDGE", '"WEDGE"'),
        ("*SET upper\n2", "*SET upper\n3", 'set "upper" has hex 3; hexes are 1 to 2'),
    ],
)
def test_a_damaged_veg_of_hexes_is_an_error_of_one_line(tmp_path, old, new, message):
    assert old in VEG
    with pytest.raises(SuppleError, match=message) as caught:
        read_veg_hexes(saved(tmp_path, VEG.replace(old, new, 1)))
    one_line(caught, "a.veg")
