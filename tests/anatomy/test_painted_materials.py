"""Painted materials reach every tet: smooth, in range, exact where they can be."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.anatomy.painted_material import (
    interpolated_material,
    painted_material,
    pose_materials,
    tet_graph_laplacian,
)
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.errors import SuppleError, SuppleWarning
from supple.mesh.embedding import embed, locate
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.scenes.bodies.beam import beam

BAR = beam(cells=(12, 4, 4))
SKIN = BAR.surface()[0]
N_SKIN, N_TETS = len(SKIN.vertices), len(BAR.tets)
CENTRES = BAR.vertices[BAR.tets].mean(axis=1)


def _dense_fit(values: np.ndarray, zeta: float, painted: np.ndarray | None = None) -> np.ndarray:
    """Eq. 37 by the book: a dense matrix, a loop over vertices."""
    mask = np.ones(N_SKIN, bool) if painted is None else painted
    tet = locate(SKIN.vertices, BAR).tet
    inside: dict[int, list[float]] = {}
    for vertex in np.flatnonzero(mask):
        inside.setdefault(int(tet[vertex]), []).append(values[vertex])
    matrix, right = 0.5 * zeta * _dense_laplacian(BAR), np.zeros(N_TETS)
    for element, several in inside.items():
        matrix[element, element] += 1
        right[element] = np.mean(several)
    return np.linalg.solve(matrix, right)


def _dense_laplacian(mesh: TetMesh) -> np.ndarray:
    volumes = mesh.volumes() / mesh.volumes().mean()
    owners: dict[frozenset[int], list[int]] = {}
    for tet, corners in enumerate(mesh.tets.tolist()):
        for left_out in range(4):
            face = frozenset(corners[:left_out] + corners[left_out + 1 :])
            owners.setdefault(face, []).append(tet)
    matrix = np.zeros((len(volumes),) * 2)
    for a, b in (pair for pair in owners.values() if len(pair) == 2):
        tie = (volumes[a] + volumes[b]) / 2
        matrix[[a, b], [b, a]] -= tie
        matrix[[a, b], [a, b]] += tie
    return matrix


def _uneven() -> TetMesh:
    shear = BAR.vertices * [1, 1, 1]
    shear[:, 0] **= 2  # tets grow along the bar
    return TetMesh(shear, BAR.tets)


def test_the_laplacian_ties_tets_with_a_common_face_by_their_volumes() -> None:
    mesh = _uneven()
    np.testing.assert_allclose(
        tet_graph_laplacian(mesh).toarray(), _dense_laplacian(mesh), atol=1e-12
    )


@pytest.mark.parametrize("zeta", [1e-3, 0.1, 10.0])
def test_the_fit_is_that_of_equation_37(zeta: float) -> None:
    rng = np.random.default_rng(3)
    ratios, young = rng.uniform(0, 0.49, N_SKIN), np.exp(rng.uniform(7, 14, N_SKIN))
    some = rng.random(N_SKIN) < 0.3
    fitted = painted_material(BAR, SKIN, ratios, quantity="poisson", painted=some, smoothness=zeta)
    np.testing.assert_allclose(fitted, _dense_fit(ratios, zeta, some), atol=1e-9)
    # Young's moduli by their logarithms.
    fitted = painted_material(BAR, SKIN, young, smoothness=zeta)
    np.testing.assert_allclose(np.log(fitted), _dense_fit(np.log(young), zeta), atol=1e-9)


def test_surface_and_embedding_are_the_same_skin() -> None:
    values = 1e4 * np.exp(SKIN.vertices[:, 0])
    inner = SurfaceMesh(0.98 * SKIN.vertices + 0.02 * SKIN.vertices.mean(axis=0), SKIN.triangles)
    by_surface = painted_material(BAR, inner, values)
    by_matrix = painted_material(BAR, embed(inner.vertices, BAR), values)
    np.testing.assert_array_equal(by_surface, by_matrix)
    # Of a matrix that other hands made, only where it puts the vertices counts.
    middles = sp.csr_array(embed(CENTRES, BAR) / 2 + embed(CENTRES[:1], BAR)[[0] * N_TETS] / 2)
    half = SurfaceMesh((CENTRES + CENTRES[0]) / 2, [[0, 1, 2]])
    values = 1e4 * np.exp(half.vertices[:, 0])
    np.testing.assert_allclose(
        painted_material(BAR, middles, values, on="skin"),
        painted_material(BAR, half, values, on="skin"),
        rtol=0.05,  # on faces between tets, rounding decides
    )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    decades=st.floats(0.01, 9),
    zeta=st.floats(1e-6, 1e6),
    share=st.floats(0.02, 1.0),
)
def test_nothing_leaves_the_range_of_what_is_painted(
    seed: int, decades: float, zeta: float, share: float
) -> None:
    rng = np.random.default_rng(seed)
    painted = rng.random(N_SKIN) < share
    painted[rng.integers(N_SKIN)] = True
    values = 10 ** (3 + decades * rng.random(N_SKIN))
    field = painted_material(BAR, SKIN, values, painted=painted, smoothness=zeta)
    assert field.shape == (N_TETS,)
    assert 0 < values[painted].min() <= field.min()
    assert field.max() <= values[painted].max()
    ratio = -0.99 + 1.48 * rng.random(N_SKIN)
    field = painted_material(BAR, SKIN, ratio, quantity="poisson", painted=painted, smoothness=zeta)
    assert ratio[painted].min() <= field.min() <= field.max() <= ratio[painted].max()


def test_the_range_holds_without_clipping() -> None:
    """The matrix itself keeps the range: its inverse has no negative entry, rows that sum to 1."""
    matrix = np.eye(N_TETS) + 5 * _dense_laplacian(BAR)
    inverse = np.linalg.inv(matrix)
    assert inverse.min() > -1e-15
    np.testing.assert_allclose(inverse.sum(axis=1), 1, atol=1e-10)


@pytest.mark.parametrize("value", [1 / 3, 2e4, 1e-300, 1e300])
@pytest.mark.parametrize("zeta", [1e-6, 0.1, 1e6])
def test_one_colour_stays_exactly_that(value: float, zeta: float) -> None:
    few = np.zeros(N_SKIN, bool)
    few[::7] = True
    field = painted_material(BAR, SKIN, np.full(N_SKIN, value), painted=few, smoothness=zeta)
    assert (field == value).all()
    ratio = min(value, 0.45)
    field = painted_material(BAR, SKIN, np.full(N_SKIN, ratio), quantity="poisson")
    assert (field == ratio).all()


def test_a_bar_of_two_materials_has_two_halves() -> None:
    soft, hard = 1e3, 1e6
    field = painted_material(BAR, SKIN, np.where(SKIN.vertices[:, 0] < 0.5, soft, hard))
    left, right = CENTRES[:, 0] < 0.5 - 1 / 6, CENTRES[:, 0] > 0.5 + 1 / 6  # a bar's width apart
    assert (field[left] < 3 * soft).all()
    assert (field[right] > 0.5 * hard).all()
    # By least squares of the moduli themselves the hard half would reach into the soft one.
    scaled = painted_material(
        BAR, SKIN, np.where(SKIN.vertices[:, 0] < 0.5, soft, hard) / 1e7, quantity="poisson"
    )
    assert (1e7 * scaled)[left].max() > 100 * soft


def test_paint_on_the_skin_reaches_the_inside_smoothly() -> None:
    thick = beam(size=(1, 1, 1), cells=(8, 8, 8))
    skin = thick.surface()[0]
    centres = thick.vertices[thick.tets].mean(axis=1)
    field = painted_material(thick, skin, 1e4 * 10 ** skin.vertices[:, 0])
    deep = (np.abs(centres - 0.5) < 0.25).all(axis=1)
    assert deep.sum() > 100
    assert not np.isin(locate(skin.vertices, thick).tet, np.flatnonzero(deep)).any()
    # Harmonic in the logarithm: what is linear on the skin is linear inside.
    off = np.log10(field[deep] / 1e4) - centres[deep, 0]
    assert np.abs(off).max() < 0.05
    # Neighbours differ by no more than the colours across a cell.
    laplacian = tet_graph_laplacian(thick).tocoo()
    jumps = np.abs(np.log10(field[laplacian.row] / field[laplacian.col]))
    assert jumps.max() < 1 / 8 + 0.01


def test_more_smoothness_is_smoother_and_farther_from_the_paint() -> None:
    values = np.random.default_rng(0).uniform(0, 0.4, N_SKIN)
    laplacian, tet = tet_graph_laplacian(BAR), locate(SKIN.vertices, BAR).tet
    painted = np.unique(tet)
    means = np.array([values[tet == element].mean() for element in painted])
    rough, off = [], []
    for zeta in (1e-6, 1e-2, 1.0, 1e2, 1e6):
        field = painted_material(BAR, SKIN, values, quantity="poisson", smoothness=zeta)
        rough.append(field @ (laplacian @ field))
        off.append(np.linalg.norm(field[painted] - means))
    assert (np.diff(rough) < 0).all()
    assert (np.diff(off) > 0).all()
    assert off[0] < 1e-4
    assert rough[-1] < 1e-6  # the limits: the paint itself, and one value
    np.testing.assert_allclose(field, means.mean(), atol=1e-3)


def test_each_pose_is_fitted_like_one_alone() -> None:
    values = 1e4 * np.exp(np.outer([0, 1, -1], SKIN.vertices[:, 0]))
    painted = np.random.default_rng(1).random((3, N_SKIN)) < 0.5
    field = painted_material(BAR, SKIN, values, painted=painted)
    assert field.shape == (3, N_TETS)
    for pose in range(3):
        alone = painted_material(BAR, SKIN, values[pose], painted=painted[pose])
        np.testing.assert_array_equal(field[pose], alone)


def test_values_of_tets_come_back_as_they_are() -> None:
    values = np.linspace(1e3, 1e5, N_TETS)
    field = painted_material(BAR, SKIN, values)
    np.testing.assert_array_equal(field, values)
    assert not np.shares_memory(field, values)
    poses = np.stack([values, 2 * values])
    np.testing.assert_array_equal(painted_material(BAR, SKIN, poses), poses)
    with pytest.raises(SuppleError, match="tet 7 is -1; Young's modulus must be positive"):
        painted_material(BAR, SKIN, np.where(np.arange(N_TETS) == 7, -1, values))


def test_a_map_is_ambiguous_with_as_many_vertices_as_tets() -> None:
    points = np.vstack([SKIN.vertices] * 9)[:N_TETS]
    matrix = embed(points, BAR)
    values = np.linspace(1e3, 1e5, N_TETS)
    with pytest.raises(SuppleError, match=r'give on="skin" or on="tets"'):
        painted_material(BAR, matrix, values)
    np.testing.assert_array_equal(painted_material(BAR, matrix, values, on="tets"), values)
    assert (painted_material(BAR, matrix, values, on="skin") != values).any()


def test_a_loose_part_without_paint_gets_the_mean_with_a_warning() -> None:
    second = TetMesh(
        np.vstack([BAR.vertices, BAR.vertices + np.array([5, 0, 0])]),
        np.vstack([BAR.tets, BAR.tets + len(BAR.vertices)]),
    )
    values = np.where(SKIN.vertices[:, 0] < 0.5, 1e3, 1e5)
    with pytest.warns(SuppleWarning, match=r"nothing is painted on 1152 tets in 1 loose part"):
        field = painted_material(second, SKIN, values)
    np.testing.assert_allclose(field[:N_TETS], painted_material(BAR, SKIN, values), rtol=1e-9)
    assert np.ptp(np.log(field[N_TETS:])) < 1e-9
    assert 3e3 < field[-1] < 3e4


def test_materials_of_poses_are_ready_for_bodies() -> None:
    flesh = Material("stvk", young=2e4, poisson=0.4, density=900)
    assert pose_materials(flesh, BAR, SKIN, 3) == (flesh,) * 3
    once = pose_materials(flesh, BAR, SKIN, 3, young=np.full(N_SKIN, 5e4))
    assert len(once) == 3
    assert once[0] is once[1] is once[2]
    young = 1e4 * np.exp(np.outer([0, 1, 2], SKIN.vertices[:, 0]))
    ratio = np.full(N_SKIN, 0.3)
    several = pose_materials(flesh, BAR, SKIN, 3, young=young, poisson=ratio)
    for pose, material in enumerate(several):
        assert (material.kind, material.density) == ("stvk", 900)
        np.testing.assert_array_equal(material.young, painted_material(BAR, SKIN, young[pose]))
        np.testing.assert_array_equal(material.poisson, np.full(N_TETS, 0.3))
    moved = BAR.vertices * [1.01, 1, 1]
    energies = [ElasticBody(BAR, material).energy(moved) for material in several]
    assert energies[0] < energies[1] < energies[2]


def test_between_poses_a_material_is_blended_and_stays_one() -> None:
    values = 1e4 * np.exp(np.outer([0.0, 3.0], SKIN.vertices[:, 0]))
    ends = pose_materials(Material("stvk"), BAR, SKIN, 2, young=values)
    first, last = (np.asarray(end.young) for end in ends)
    half = interpolated_material(ends, [0.5, 0.5])
    np.testing.assert_allclose(np.asarray(half.young), 0.5 * (first + last))
    np.testing.assert_array_equal(interpolated_material(ends, [0, 1]).young, last)
    # Pose weights may leave [0, 1]; moduli may not leave what is above zero.
    beyond = interpolated_material(ends, [1.4, -0.4])
    np.testing.assert_array_equal(beyond.young, first)
    with pytest.raises(SuppleError, match="weights of poses: give 2 finite numbers"):
        interpolated_material(ends, [1.0])


def _with(index: int, value: float) -> np.ndarray:
    values = np.full(N_SKIN, 1e4)
    values[index] = value
    return values


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (_with(12, np.nan), {}, "painted young: vertex 12 is nan; Young's modulus must be"),
        (_with(3, -5.0), {}, "painted young: vertex 3 is -5; Young's modulus must be positive"),
        (_with(0, 0.0), {}, "vertex 0 is 0"),
        (_with(1, np.inf), {}, "vertex 1 is inf"),
        (np.stack([_with(0, 1), _with(5, np.nan)]), {}, "painted young at pose 1: vertex 5 is nan"),
        (np.full(N_SKIN, 0.5), {"quantity": "poisson"}, r"vertex 0 is 0.5 \(226 such values\)"),
        (np.full(N_SKIN, np.nan), {"quantity": "poisson"}, "must lie between -1 and 0.5"),
        (np.ones(N_SKIN - 1), {}, "225 values; the surface has 226 vertices and the body 1152"),
        (np.ones((2, 2, N_SKIN)), {}, "has shape"),
        (3.0, {}, r"one number; for a uniform body use material=Material\(…, young=3\)"),
        ([], {}, "has shape"),
        ("red", {}, "painted young must be numbers"),
        ([[1.0], [1.0, 2.0]], {}, "painted young must be numbers"),
        (_with(0, 1), {"quantity": "colour"}, 'cannot paint "colour"'),
        (_with(0, 1), {"on": "bones"}, 'on is "bones"'),
        (_with(0, 1), {"on": "tets"}, "the surface has 226 vertices and the body 1152 tets"),
        (_with(0, 1), {"smoothness": 0.0}, "smoothness is 0; use 1e-06 to 1e"),
        (_with(0, 1), {"smoothness": np.nan}, "smoothness: not finite"),
        (_with(0, 1), {"painted": np.zeros(N_SKIN, bool)}, "no vertex is painted"),
        (_with(0, 1), {"painted": np.ones(3, bool)}, "True or False for each of 226 vertices"),
        (_with(0, 1), {"painted": np.ones(N_SKIN)}, "True or False for each of 226 vertices"),
        (_with(0, 1), {"painted": [[True], [True, False]]}, "True or False for each vertex"),
        (np.ones(N_TETS), {"painted": np.ones(N_SKIN, bool)}, "leave out `painted`"),
    ],
)
def test_bad_paint_is_named(values: object, options: dict, message: str) -> None:
    with pytest.raises(SuppleError, match=message) as caught:
        painted_material(BAR, SKIN, values, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_values_of_unpainted_vertices_are_ignored() -> None:
    values, painted = _with(12, np.nan), np.arange(N_SKIN) != 12
    assert (painted_material(BAR, SKIN, values, painted=painted) == 1e4).all()


def test_bad_requests_are_named() -> None:
    colours = np.full(N_SKIN, 1e4)
    with pytest.raises(SuppleError, match="needs the surface, or the matrix"):
        painted_material(BAR, SKIN.vertices, colours)
    with pytest.raises(SuppleError, match="embedding is for 7 tet vertices"):
        painted_material(BAR, sp.csr_array((N_SKIN, 7)), colours)
    with pytest.raises(SuppleError, match="painted for 2 poses, and there are 3"):
        pose_materials(Material(), BAR, SKIN, 3, young=np.stack([colours, colours]))
    with pytest.raises(SuppleError, match="orthotropic material cannot be painted"):
        pose_materials(Material("orthotropic"), BAR, SKIN, 3, young=colours)
    with pytest.raises(SuppleError, match="needs a Material, not 'stvk'"):
        pose_materials("stvk", BAR, SKIN, 3, young=colours)  # type: ignore[arg-type]
