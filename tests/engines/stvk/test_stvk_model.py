"""Polynomial forces: equal to the full body's, edited, truncated, stored, and refused."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.material import Material
from supple.engines.common.model_file import packed_model, unpacked_model
from supple.engines.stvk import coefficients as stvk_coefficients
from supple.engines.stvk import model as stvk_model
from supple.engines.stvk.build import checked_basis
from supple.engines.stvk.coefficients import stvk_parts
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.strain_points import StrainPoints
from supple.errors import FormatError, MeshError, SuppleError
from supple.mesh.hexes import CORNERS, HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.scenes.bodies.beam import beam

MESH = beam(cells=(6, 2, 2))
WALL = np.flatnonzero(MESH.vertices[:, 0] == 0)
SOFT = Material("stvk", young=1e5, poisson=0.4, density=900.0)


def random_basis(n, r, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 3, r))


def two_materials(n):
    """Values per element: two kinds, the second met later."""
    second = np.arange(n) % 3 == 2
    return Material(
        "stvk",
        young=np.where(second, 3e5, 1e5),
        poisson=np.where(second, 0.2, 0.45),
        density=np.where(second, 500.0, 1100.0),
    )


def hex_blocks(wrong=0.15):
    """Hexahedra beside each other, boxes or moved out of shape."""
    corners = CORNERS + np.array([[[0, 0, 0]], [[1, 0, 0]], [[1, 1, 0]]])
    vertices, hexes = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    moved = [0.1, 0.12, 0.07] * (
        vertices + wrong * np.random.default_rng(3).uniform(-1, 1, vertices.shape)
    )
    return HexMesh(moved, hexes.reshape(-1, 8))


def assert_projection(model, body, q):
    """The oracle: forces and stiffness of every vertex, projected."""
    r = model.modes
    U, x = model.basis.reshape(-1, r), model.positions(q)
    force, stiffness = U.T @ body.force(x).ravel(), U.T @ (body.stiffness(x) @ U)
    mass = U.T @ (np.repeat(body.vertex_masses(), 3)[:, None] * U)
    assert np.abs(model.force(q) - force).max() <= 1e-10 * np.abs(force).max()
    assert np.abs(model.stiffness(q) - stiffness).max() <= 1e-10 * np.abs(stiffness).max()
    assert model.energy(q) == pytest.approx(body.energy(x), rel=1e-10)
    np.testing.assert_allclose(model.mass, mass, rtol=1e-10, atol=1e-10 * np.abs(mass).max())


@pytest.mark.parametrize("r", [1, 2, 9, 23])
@pytest.mark.parametrize("size", [1e-3, 0.3])
def test_force_and_stiffness_are_the_projected_ones_of_tets(r, size):
    material = two_materials(len(MESH.tets))
    model = StvkModel.from_basis(MESH, material, random_basis(len(MESH.vertices), r))
    q = size * np.random.default_rng(1).standard_normal(r)
    assert len(model.groups) == 2
    assert_projection(model, ElasticBody(MESH, material), q)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("wrong", [0.0, 0.15])
def test_force_and_stiffness_are_the_projected_ones_of_hexahedra(order, wrong):
    mesh = hex_blocks(wrong)
    material = two_materials(len(mesh.hexes))
    basis = 0.1 * random_basis(len(mesh.vertices), 8)
    model = StvkModel.from_basis(mesh, material, basis, order=order)
    body = HexBody(mesh, material, order=order)
    assert_projection(model, body, 0.4 * np.random.default_rng(2).standard_normal(8))


@pytest.mark.parametrize("basis", ["modes", "derivatives"])
@pytest.mark.parametrize("fixed", [WALL, ()])
def test_built_models_are_mass_orthonormal_and_exact(basis, fixed):
    model = StvkModel.build(MESH, SOFT, modes=12, fixed=fixed, basis=basis)
    np.testing.assert_allclose(model.mass, np.eye(12), atol=1e-9)
    lowest = np.sqrt(model.stiffness(np.zeros(12)).diagonal().min())
    assert lowest > 1  # no rigid motion is among them
    q = np.random.default_rng(0).standard_normal(12) * 0.1
    assert_projection(model, ElasticBody(MESH, SOFT), q)
    if len(fixed):
        assert (model.basis[fixed] == 0).all()
    else:  # free bodies: gravity moves no shape that keeps the centre of mass
        assert np.abs(model.weight([1.0, 2.0, 3.0])).max() < 1e-9


def test_hexahedra_are_built_and_carry_a_surface():
    mesh = hex_blocks(0.0)
    fixed = np.flatnonzero(mesh.vertices[:, 0] == 0)
    inside = SurfaceMesh(0.5 * mesh.vertices[mesh.hexes[0, :3]] + 0.02, [[0, 1, 2]])
    model = StvkModel.build(mesh, SOFT, modes=6, fixed=fixed, surface=inside, order=3)
    np.testing.assert_allclose(model.mass, np.eye(6), atol=1e-9)
    assert model.surface_at(np.zeros(6)).shape == (3, 3)
    assert_projection(model, HexBody(mesh, SOFT, order=3), np.full(6, 0.05))


def test_modes_alone_have_the_stiffness_of_their_frequencies():
    model = StvkModel.build(MESH, SOFT, modes=5, fixed=WALL, basis="modes")
    stiffness = model.stiffness(np.zeros(5))
    squared = np.diag(stiffness)
    assert (np.diff(squared) >= 0).all()
    assert np.abs(stiffness - np.diag(squared)).max() < 1e-8 * squared.max()


def test_stiffness_is_the_derivative_of_force_and_force_of_energy():
    model = StvkModel.from_basis(MESH, SOFT, random_basis(len(MESH.vertices), 6))
    q, h = 0.1 * np.random.default_rng(5).standard_normal(6), 1e-4
    steps = h * np.eye(6)
    # Cubic and quartic polynomials: five points leave nothing but rounding.
    slope = [(-f(2) + 8 * f(1) - 8 * f(-1) + f(-2)) / (12 * h) for f in (
        lambda k, d=d: model.force(q + k * d) for d in steps)]  # fmt: skip
    pull = [(-e(2) + 8 * e(1) - 8 * e(-1) + e(-2)) / (12 * h) for e in (
        lambda k, d=d: model.energy(q + k * d) for d in steps)]  # fmt: skip
    stiffness, force = model.stiffness(q), model.force(q)
    np.testing.assert_allclose(np.array(slope).T, stiffness, atol=1e-9 * np.abs(stiffness).max())
    np.testing.assert_allclose(pull, force, atol=1e-9 * np.abs(force).max())


def test_translations_cost_nothing():
    mesh = beam(cells=(2, 1, 1))
    basis = np.zeros((len(mesh.vertices), 3, 3))
    basis[:] = np.eye(3)
    model = StvkModel.from_basis(mesh, SOFT, basis)
    assert np.abs(model.tangent).max() < 1e-9 * float(np.max(SOFT.young))
    total = 900.0 * mesh.volumes().sum()
    np.testing.assert_allclose(model.weight([0, -9.81, 0]), [0, -9.81 * total, 0], atol=1e-12)


@pytest.mark.parametrize(
    "change", [{"young": 7e5}, {"poisson": 0.1}, {"density": 50.0}, {"young": 1e3, "poisson": -0.2}]
)
@pytest.mark.parametrize("group", [0, 1])
def test_another_material_equals_a_rebuild(change, group):
    material, basis = two_materials(len(MESH.tets)), random_basis(len(MESH.vertices), 7)
    model = StvkModel.from_basis(MESH, material, basis)
    edited = model.with_material(group, **change)
    there = model.groups.of_element == group
    rebuilt = StvkModel.from_basis(
        MESH,
        replace(
            material,
            **{name: np.where(there, v, getattr(material, name)) for name, v in change.items()},
        ),
        basis,
    )
    for name in ("tangent", "mass"):
        mine, wanted = getattr(edited, name), getattr(rebuilt, name)
        assert np.abs(mine - wanted).max() <= 1e-10 * np.abs(wanted).max()
    q = 0.1 * np.random.default_rng(0).standard_normal(7)
    np.testing.assert_allclose(edited.force(q), rebuilt.force(q), rtol=1e-10)
    assert np.abs(edited.tangent - model.tangent).max() > 0 or "density" in change


def test_groups_of_one_material_are_distinguished_by_number():
    groups = np.repeat([1, 0], len(MESH.tets) // 2)
    basis = random_basis(len(MESH.vertices), 4)
    model = StvkModel.from_basis(MESH, SOFT, basis, groups=groups).with_material(1, young=4e5)
    young = np.where(groups == 1, 4e5, 1e5)
    rebuilt = StvkModel.from_basis(MESH, replace(SOFT, young=young), basis)
    np.testing.assert_allclose(model.tangent, rebuilt.tangent, atol=1e-10 * model.tangent.max())


def test_truncation_equals_a_rebuild_on_the_truncated_basis():
    material, basis = two_materials(len(MESH.tets)), random_basis(len(MESH.vertices), 11)
    model = StvkModel.from_basis(MESH, material, basis)
    for fewer in (1, 6, 11):
        cut = model.truncate(fewer)
        rebuilt = StvkModel.from_basis(MESH, material, basis[:, :, :fewer])
        for name in ("parts", "mass", "weight_parts", "surface_basis"):
            mine, wanted = getattr(cut, name), getattr(rebuilt, name)
            assert mine.shape == wanted.shape
            assert np.abs(mine - wanted).max() <= 1e-12 * np.abs(wanted).max()


def test_any_columns_can_be_left_out_as_in_a_rebuild():
    """barbic2005 §6.5: terms of omitted dimensions are dropped from the polynomials."""
    material, basis = two_materials(len(MESH.tets)), random_basis(len(MESH.vertices), 9)
    model, kept = StvkModel.from_basis(MESH, material, basis), [1, 4, 5, 8]
    rebuilt = StvkModel.from_basis(MESH, material, basis[:, :, kept])
    cut = model.with_columns([8, 1, 5, 4])
    for name in ("parts", "mass", "weight_parts", "surface_basis"):
        mine, wanted = getattr(cut, name), getattr(rebuilt, name)
        assert np.abs(mine - wanted).max() <= 1e-12 * np.abs(wanted).max()
    q, full = np.array([0.1, -0.2, 0.3, 0.05]), np.zeros(9)
    full[kept] = q
    np.testing.assert_allclose(cut.force(q), model.force(full)[kept], rtol=1e-9, atol=1e-9)
    for wrong in ([], [9], [0.5]):
        with pytest.raises(SuppleError):
            model.with_columns(wrong)


def test_coefficients_are_the_same_bits_for_any_number_of_threads(monkeypatch):
    points, group = StrainPoints.of(MESH), np.zeros(len(MESH.tets), np.int64)
    basis = random_basis(len(MESH.vertices), 8)
    monkeypatch.setattr(stvk_coefficients, "_MOST_ELEMENTS", 16)
    monkeypatch.setattr(stvk_coefficients, "_FEWEST", 1)
    found = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(stvk_coefficients, "_cores", lambda cores=cores: cores)
        found.append(stvk_parts(points, group, basis).tobytes())
    assert len(set(found)) == 1


def test_memory_does_not_grow_with_strains():
    """Strains of a point take six rows of r + r(r+1)/2 numbers; beyond a block none are kept."""
    r, peaks = 14, []
    for cells in ((40, 4, 4), (160, 4, 4)):
        mesh = beam(cells=cells)
        points, group = StrainPoints.of(mesh), np.zeros(len(mesh.tets), np.int64)
        basis = random_basis(len(mesh.vertices), r)
        tracemalloc.start()
        stvk_parts(points, group, basis)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    tets, strains = 120 * 4 * 4 * 6, 6 * 8 * (r + r * (r + 1) // 2)
    assert (peaks[1] - peaks[0]) / tets < 0.1 * strains


def test_progress_only_grows_and_ends_at_one(monkeypatch):
    monkeypatch.setattr(stvk_coefficients, "_MOST_ELEMENTS", 8)
    monkeypatch.setattr(stvk_coefficients, "_FEWEST", 1)
    seen: list[float] = []
    StvkModel.from_basis(
        MESH,
        two_materials(len(MESH.tets)),
        random_basis(len(MESH.vertices), 3),
        progress=seen.append,
    )
    assert len(seen) > 10
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize("basis", ["derivatives", "modes"])
@pytest.mark.parametrize("mesh", [MESH, hex_blocks()])
def test_progress_of_a_build_begins_before_the_basis_and_covers_it(mesh, basis, monkeypatch):
    seen: list[float] = []
    made_at: list[int] = []

    def noted(*arguments):
        made_at.append(len(seen))
        return checked_basis(*arguments)

    monkeypatch.setattr(stvk_model, "checked_basis", noted)
    fixed = np.flatnonzero(mesh.vertices[:, 0] <= mesh.vertices[:, 0].min() + 0.03)
    StvkModel.build(mesh, SOFT, 5, fixed=fixed, basis=basis, progress=seen.append)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)
    during = seen[: made_at[0]]
    assert len(during) >= (1 if basis == "modes" else 4)
    assert all(part <= 0.75 for part in during)
    assert all(part > 0.75 for part in seen[made_at[0] :])


def two_pieces():
    """Two beams that do not touch, and how many vertices each has."""
    one = beam(cells=(3, 1, 1))
    n = len(one.vertices)
    apart = np.vstack([one.vertices, one.vertices + np.array([0, 5.0, 0])])
    return TetMesh(apart, np.vstack([one.tets, one.tets + n])), n


@pytest.mark.parametrize("held", ["all of one piece", "some of one piece"])
@pytest.mark.parametrize("basis", ["derivatives", "modes"])
def test_a_free_piece_beside_a_held_one_is_reported(held, basis):
    mesh, n = two_pieces()
    fixed = np.arange(n if held == "all of one piece" else 4)
    with pytest.raises(SuppleError, match=f"nothing fixes a piece of {n} vertices .*{n}"):
        StvkModel.build(mesh, SOFT, modes=3, fixed=fixed, basis=basis)


def test_a_piece_may_be_fixed_as_a_whole_if_others_are_held_too():
    mesh, n = two_pieces()
    wall = np.flatnonzero(mesh.vertices[:, 0] == 0)
    model = StvkModel.build(mesh, SOFT, modes=3, fixed=np.union1d(np.arange(n), wall))
    assert (model.basis[:n] == 0).all()
    alone = beam(cells=(3, 1, 1))
    other = StvkModel.build(alone, SOFT, modes=3, fixed=np.flatnonzero(alone.vertices[:, 0] == 0))
    np.testing.assert_allclose(model.tangent[:, 0], other.tangent[:, 0], rtol=1e-6, atol=1e-3)


def test_surface_displacements_and_forces_use_the_same_map():
    low, high = MESH.bounds
    points = np.random.default_rng(0).uniform(low, high, (30, 3))
    seen = SurfaceMesh(points, np.arange(30).reshape(10, 3))
    model = StvkModel.from_basis(MESH, SOFT, random_basis(len(MESH.vertices), 5), surface=seen)
    q = np.random.default_rng(1).standard_normal(5)
    forces = np.random.default_rng(2).standard_normal((30, 3))
    work = np.vdot(forces, model.surface_basis @ q)
    assert model.reduced_force(forces) @ q == pytest.approx(work)
    assert model.reduced_force(dict(enumerate(forces))) @ q == pytest.approx(work)
    whole = StvkModel.from_basis(MESH, SOFT, model.basis)
    vertices = MESH.surface()[1]
    np.testing.assert_allclose(whole.surface_at(q), whole.positions(q)[vertices], rtol=1e-6)


def test_a_model_comes_back_from_its_file(tmp_path):
    material = two_materials(len(MESH.tets))
    model = StvkModel.from_basis(MESH, material, random_basis(len(MESH.vertices), 5))
    model.save(tmp_path / "beam.stvk")
    back = StvkModel.load(tmp_path / "beam.stvk")
    for name in ("rest", "basis", "parts", "mass", "tangent", "surface_basis"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    np.testing.assert_array_equal(back.surface.triangles, model.surface.triangles)
    back.save(tmp_path / "again.stvk")
    assert (tmp_path / "again.stvk").read_bytes() == (tmp_path / "beam.stvk").read_bytes()
    assert back.with_material(1, young=5e4).groups.young.tolist() == [1e5, 5e4]


@pytest.mark.parametrize("harm", ["cut", "bit", "empty", "text", "missing", "folder"])
def test_damaged_files_are_refused_in_one_line(tmp_path, harm):
    path = tmp_path / "beam.stvk"
    StvkModel.from_basis(MESH, SOFT, random_basis(len(MESH.vertices), 3)).save(path)
    data = bytearray(path.read_bytes())
    if harm == "cut":
        data = data[:-100]
    elif harm == "bit":
        data[len(data) // 2] ^= 1
    elif harm == "empty":
        data = bytearray()
    elif harm == "text":
        data = bytearray(b"no model " * 100)
    path.write_bytes(data)
    if harm in ("missing", "folder"):
        path = tmp_path / "none.stvk" if harm == "missing" else tmp_path
    with pytest.raises(FormatError) as refused:
        StvkModel.load(path)
    assert "\n" not in str(refused.value)


def inertia(model, **changed):
    return replace(model, inertia=replace(model.inertia, **changed))


NO_BODY = {
    "no mass": (lambda m: replace(m, mass_parts=0 * m.mass_parts), "mass"),
    "negative mass": (lambda m: replace(m, mass_parts=-m.mass_parts), "mass"),
    "lopsided mass": (lambda m: replace(m, mass_parts=np.triu(m.mass_parts)), "mass"),
    "mass of dependent modes": (
        lambda m: replace(m, mass_parts=np.ones_like(m.mass_parts)),
        "positive definite",
    ),
    "no basis": (lambda m: replace(m, basis=0 * m.basis), "column 0"),
    "a column of zeros": (lambda m: replace(m, basis=m.basis * [1, 1, 0]), "column 2"),
    "one point": (lambda m: replace(m, rest=0 * m.rest + 1), "one point"),
    "no volume": (lambda m: inertia(m, volumes=0 * m.inertia.volumes), "volume"),
    "negative moments": (lambda m: inertia(m, second=-m.inertia.second), "second moments"),
    "moments of a point": (lambda m: inertia(m, second=0 * m.inertia.second), "second moments"),
    "moments of no centre": (lambda m: inertia(m, first=m.inertia.first + 1e3), "second moments"),
    "lopsided moments": (lambda m: inertia(m, second=np.triu(m.inertia.second)), "second moments"),
    "no inertia": (
        lambda m: inertia(m, second=0 * m.inertia.second, first=0 * m.inertia.first),
        "inertia",
    ),
    "other shapes": (lambda m: inertia(m, shapes=2 * m.inertia.shapes), "contradict"),
    "fewer than none held": (lambda m: inertia(m, held=-1), "-1 of"),
}


@pytest.mark.parametrize("what", NO_BODY)
def test_files_of_what_is_no_body_are_refused_though_their_checksum_fits(what):
    change, words = NO_BODY[what]
    groups = np.arange(len(MESH.tets)) % 2
    model = StvkModel.from_basis(
        MESH, SOFT, random_basis(len(MESH.vertices), 3) * [1e-6, 1.0, 1e5], groups=groups
    )
    unpacked_model(StvkModel, packed_model(model))
    with pytest.raises(FormatError, match=words) as refused:
        unpacked_model(StvkModel, packed_model(change(model)))
    assert "\n" not in str(refused.value)
    assert "build the model again" in str(refused.value)


def inverted():
    return TetMesh(MESH.vertices, MESH.tets[:, [1, 0, 2, 3]])


GOOD = random_basis(len(MESH.vertices), 4)
REFUSED = {
    "repeated column": (lambda: GOOD[:, :, [0, 1, 2, 1]], "independent"),
    "combined column": (lambda: GOOD @ np.ones((4, 5)), "independent"),
    "zero column": (lambda: GOOD * [1, 0, 1, 1], "zero"),
    "nan": (lambda: GOOD + np.where(np.arange(4) == 2, np.nan, 0.0), "finite"),
    "huge": (lambda: random_basis(len(MESH.vertices), 121), "too large"),
    "beyond all numbers": (lambda: 1e120 * GOOD, "scale the basis down"),
    "none": (lambda: GOOD[:, :, :0], "shape"),
    "other mesh": (lambda: GOOD[1:], "shape"),
    "flat": (lambda: GOOD.ravel(), "shape"),
    "text": (lambda: "modes", "numbers"),
    "complex": (lambda: GOOD * 1j, "numbers"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_invalid_bases_are_refused(what):
    basis, words = REFUSED[what]
    with pytest.raises(SuppleError, match=words) as refused:
        StvkModel.from_basis(MESH, SOFT, basis())
    assert "\n" not in str(refused.value)


def test_columns_of_very_different_size_are_accepted():
    sizes = np.array([1e-9, 1.0, 1e7, 3.0])
    usual = StvkModel.from_basis(MESH, SOFT, GOOD)
    scaled = StvkModel.from_basis(MESH, SOFT, GOOD * sizes)
    np.testing.assert_allclose(scaled.mass / np.outer(sizes, sizes), usual.mass, rtol=1e-4)
    np.testing.assert_allclose(
        scaled.stiffness(np.zeros(4)) / np.outer(sizes, sizes),
        usual.stiffness(np.zeros(4)),
        rtol=1e-4,
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"mesh": inverted()}, MeshError),
        ({"mesh": "beam"}, SuppleError),
        ({"material": Material("neo-hookean")}, SuppleError),
        ({"material": "stvk"}, SuppleError),
        ({"material": Material("stvk", young=np.linspace(1e4, 1e5, len(MESH.tets)))}, SuppleError),
        ({"material": Material("stvk", young=[1e4, 2e4])}, SuppleError),
        ({"modes": 0}, SuppleError),
        ({"modes": 2.5}, SuppleError),
        ({"modes": 10**9}, SuppleError),
        ({"fixed": [10**6]}, SuppleError),
        ({"fixed": np.arange(len(MESH.vertices))}, SuppleError),
        ({"basis": "magic"}, SuppleError),
        ({"groups": [0, 1]}, SuppleError),
        ({"groups": np.full(len(MESH.tets), 5)}, SuppleError),
        ({"surface": "skin"}, SuppleError),
    ],
)
def test_invalid_models_are_refused_in_one_line(arguments, error):
    given = {"mesh": MESH, "material": SOFT, "modes": 3, "fixed": WALL} | arguments
    with pytest.raises(error) as refused:
        StvkModel.build(**given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model.force([1.0]),
        lambda model: model.stiffness([np.nan, 0, 0, 0]),
        lambda model: model.energy("q"),
        lambda model: model.truncate(5),
        lambda model: model.truncate(0),
        lambda model: model.with_material(1, young=1e5),
        lambda model: model.with_material(0, young=-1.0),
        lambda model: model.with_material(0, poisson=0.5),
        lambda model: model.with_material(0, density=np.nan),
        lambda model: model.reduced_force({10**9: [0, 0, 1]}),
        lambda model: model.reduced_force({0: [0, np.inf, 1]}),
        lambda model: model.weight([0, 1]),
        lambda model: model.save("/no/such/folder/model.stvk"),
    ],
)
def test_unsupported_calls_of_a_model_are_refused(use):
    model = StvkModel.from_basis(MESH, SOFT, GOOD)
    with pytest.raises(SuppleError) as refused:
        use(model)
    assert "\n" not in str(refused.value)
