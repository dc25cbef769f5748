"""VegaFEM's reduced models are stepped here as there, and ours are written for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from supple.elastic.material import Material
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.errors import FormatError, SuppleError, SuppleWarning
from supple.formats.meshes.read_mesh import read_surface
from supple.formats.meshes.veg import VegFile, VegMaterial, write_veg
from supple.formats.vega.reduced_files import (
    CubicForce,
    read_cub,
    read_modal_matrix,
    write_cub,
    write_modal_matrix,
)
from supple.formats.vega.vega_model import read_vega, write_vega
from supple.mesh.hexes import HexMesh
from supple.mesh.tets import TetMesh
from supple.scenes.bodies.beam import beam

DOWN = np.array([0.0, -9.81, 0.0])
MATERIAL = Material("stvk", young=1e5, poisson=0.3, density=800.0)


def boxes() -> HexMesh:
    """A bar of five cubes in a row."""
    x, y, z = (0.1 * np.arange(n) for n in (6, 2, 2))
    vertices = np.stack(np.meshgrid(x, y, z, indexing="ij"), axis=-1).reshape(-1, 3)
    number = np.arange(24).reshape(6, 2, 2)
    corners = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
    corners += [(i, j, 1) for i, j, _ in corners]
    return HexMesh(vertices, [[number[e + i, j, k] for i, j, k in corners] for e in range(5)])


@pytest.fixture(scope="module", params=["tets", "hexes"])
def model(request) -> StvkModel:
    mesh = beam(cells=(5, 2, 1)) if request.param == "tets" else boxes()
    wall = np.flatnonzero(mesh.vertices[:, 0] == 0)
    return StvkModel.build(mesh, MATERIAL, modes=6, fixed=wall)


def mesh_of(model: StvkModel) -> TetMesh | HexMesh:
    return beam(cells=(5, 2, 1)) if len(model.rest) != 24 else boxes()


def written_veg(folder, model: StvkModel):
    kept = {"stuff": VegMaterial("ENU", (800.0, 1e5, 0.3))}
    mesh: Any = mesh_of(model)
    write_veg(folder / "a.veg", VegFile(mesh, kept, [("allElements", "stuff")]))
    return folder / "a.veg"


def bent(model: StvkModel | CubicModel, **options) -> np.ndarray:
    """Where the body goes when it is pulled, then let go."""
    simulator = StvkSimulator(model, 1 / 500, iterations=3, alpha=0.2, beta=1e-3, **options)
    forces, pulled = np.zeros((400, model.modes)), np.full(model.modes, 1e-3)
    pulled[0] = 0.25
    forces[:150] = model.stiffness(0 * pulled) @ pulled
    return simulator.run(forces)


def test_a_model_written_for_vegafem_and_read_back_moves_the_same(model, tmp_path):
    files = write_vega(tmp_path / "a.cub", model)
    assert [file.name for file in files] == ["a.cub", "a.U", "a.URendering.float", "a.obj"]
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in files}
    expected = bent(model)
    reach = np.abs(model.surface_basis @ expected.T).max()
    assert reach > 0.08 * model.surface.size  # where forces are far from linear
    for again in (
        read_vega(files[0]),
        read_vega(files[0], files[2], files[3]),
        read_vega(files[0], files[1], written_veg(tmp_path, model)),
    ):
        np.testing.assert_allclose(bent(again), expected, atol=1e-10 * np.abs(expected).max())


def test_a_veg_gives_surface_and_weight_as_the_model_had(model, tmp_path):
    files = write_vega(tmp_path / "a.cub", model)
    again = read_vega(files[0], files[1], written_veg(tmp_path, model))
    np.testing.assert_array_equal(again.surface.triangles, model.surface.triangles)
    np.testing.assert_array_equal(again.surface_basis, model.surface_basis)
    q = np.linspace(-0.1, 0.2, model.modes)
    np.testing.assert_array_equal(again.surface_at(q), model.surface_at(q))
    weight = model.weight(DOWN)
    np.testing.assert_allclose(again.weight(DOWN), weight, atol=1e-12 * np.abs(weight).max())
    expected = bent(model, gravity=DOWN)
    np.testing.assert_allclose(
        bent(again, gravity=DOWN), expected, atol=1e-10 * np.abs(expected).max()
    )
    pull = {3: [1.0, 2.0, -1.0], 0: [0.5, 0.0, 0.0]}
    np.testing.assert_allclose(again.reduced_force(pull), model.reduced_force(pull), rtol=1e-12)
    everywhere = np.arange(3.0 * len(model.surface.vertices)).reshape(-1, 3)
    np.testing.assert_allclose(again.reduced_force(everywhere), model.reduced_force(everywhere))


def test_files_written_are_exact_and_the_same_each_time(model, tmp_path):
    first = [file.read_bytes() for file in write_vega(tmp_path / "a.cub", model)]
    assert [file.read_bytes() for file in write_vega(tmp_path / "a.cub", model)] == first
    np.testing.assert_array_equal(read_modal_matrix(tmp_path / "a.U"), model.basis)
    surface = read_surface(tmp_path / "a.obj")
    np.testing.assert_array_equal(surface.vertices, model.surface.vertices)
    np.testing.assert_array_equal(surface.triangles, model.surface.triangles)
    again = read_vega(tmp_path / "a.cub", tmp_path / "a.URendering.float", tmp_path / "a.obj")
    write_vega(tmp_path / "b.cub", again)
    assert not (tmp_path / "b.U").exists()  # of which nothing is known any more
    for name in ("linear", "quadratic", "cubic"):
        mine, theirs = (getattr(read_cub(tmp_path / f"{k}.cub"), name) for k in "ba")
        np.testing.assert_allclose(mine, theirs, atol=1e-15 * np.abs(theirs).max())
    assert (tmp_path / "b.URendering.float").read_bytes() == first[2]
    bare = write_vega(tmp_path / "c.cub", read_vega(tmp_path / "a.cub"))
    assert [file.name for file in bare] == ["c.cub"]


def test_polynomials_are_those_of_the_body(model, tmp_path):
    again = read_vega(write_vega(tmp_path / "a.cub", model)[0])
    q = 0.3 * np.random.default_rng(0).standard_normal(model.modes)
    for mine, theirs in (
        (again.force(q), model.force(q)),
        (again.stiffness(q), model.stiffness(q)),
        (again.energy(q), model.energy(q)),
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-12 * np.abs(theirs).max())
    fewer, rebuilt = again.truncate(4), model.truncate(4)
    np.testing.assert_allclose(fewer.force(q[:4]), rebuilt.force(q[:4]), rtol=1e-9, atol=1e-9)


# --- the shipped model -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped(assets) -> CubicForce:
    return read_cub(assets / "vegafem/reduced_A/A.cub")


def test_the_shipped_model_moves_by_its_forces(shipped):
    """Beside an integrator of other people's, of unit masses and the file's own forces."""
    model = read_vega(shipped, frequency_scaling=0.02)
    r, dt, steps = 20, 5e-4, 1200
    velocity = np.zeros(r)
    velocity[:3] = 2.0, -1.5, 1.0
    simulator = StvkSimulator(model, dt, iterations=10)
    simulator.reset(velocity=velocity)
    moved = simulator.run(steps)
    assert np.abs(moved).max() > 0.1 * model.scale

    def change(_, y):
        return np.concatenate([y[r:], -(0.02**2) * shipped.force(y[:r])])

    start = np.concatenate([np.zeros(r), velocity])
    times = dt * np.arange(steps + 1)
    exact = solve_ivp(change, (0, times[-1]), start, t_eval=times, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(moved, exact.y[:r, 1:].T, atol=2e-2 * np.abs(moved).max())
    energies = simulator.energies()
    assert energies["total"] == pytest.approx(0.5 * velocity @ velocity, rel=0.02)


def test_scaled_frequencies_are_the_same_motion_at_another_pace(shipped):
    slow, fast = (read_vega(shipped, frequency_scaling=scale) for scale in (0.01, 0.04))
    start, traces = np.linspace(0.02, -0.02, 20), []
    for model, dt in ((slow, 4e-3), (fast, 1e-3)):
        simulator = StvkSimulator(model, dt)
        simulator.reset(start)
        traces.append(simulator.run(300))
    np.testing.assert_allclose(traces[0], traces[1], atol=1e-9)


def test_the_shipped_surface_moves_with_the_shipped_modes(assets, shipped):
    folder = assets / "vegafem/reduced_A"
    with pytest.warns(SuppleWarning, match="unreferenced"):
        model = read_vega(
            folder / "A.cub",
            folder / "A.URendering.float",
            folder / "A.obj",
            frequency_scaling=0.02,
        )
    assert (model.modes, model.surface.vertices.shape) == (20, (575, 3))
    np.testing.assert_array_equal(model.mass, np.eye(20))
    simulator = StvkSimulator(model, 1 / 1000, beta=0.01)
    np.testing.assert_allclose(simulator.surface(), model.surface.vertices, rtol=1e-6)
    rows = model.surface_basis[100]
    simulator.step({100: [0.0, 5.0, 0.0]})
    simulator.run(200)
    assert simulator.q @ rows[1] > 0
    np.testing.assert_allclose(simulator.surface(), model.surface_at(simulator.q), atol=1e-5)


# --- what is not there -------------------------------------------------------------------------


def spring() -> CubicModel:
    return CubicModel([[2.0, 0.0, 3.0]])


def test_a_model_without_surface_is_stepped_by_reduced_forces_alone():
    simulator = StvkSimulator(spring(), 1e-2, iterations=20)
    simulator.step([1.0])
    moved = simulator.run(200)
    assert np.abs(moved).max() > 0.001
    assert simulator.unconverged_steps == 0
    for use in (simulator.surface, lambda: simulator.step({0: [1, 0, 0]})):
        with pytest.raises(SuppleError, match=r"no surface.*\.cub|no surface") as refused:
            use()
        assert "\n" not in str(refused.value)
    assert repr(spring()) == "CubicModel(1 modes, no surface)"


def test_calls_that_need_data_a_cub_file_lacks_are_one_line_errors():
    simulator = StvkSimulator(spring())
    for use, why in (
        (lambda: simulator.set_material(0, young=1e5), "do not separate λ and μ"),
        (lambda: spring().with_material(density=3.0), "do not separate λ and μ"),
        (lambda: StvkSimulator(spring(), gravity=DOWN), "do not define masses"),
        (lambda: spring().surface_basis, "no surface"),
        (lambda: spring().surface_at([0.0]), "no surface"),
        (lambda: spring().reduced_force(np.zeros((0, 3))), "no surface"),
        (lambda: spring().truncate(2), "2 modes requested"),
    ):
        with pytest.raises(SuppleError, match=why) as refused:
            use()
        assert "\n" not in str(refused.value)
    np.testing.assert_array_equal(spring().weight([0, 0, 0]), [0.0])


@pytest.mark.parametrize(
    ("tangent", "options"),
    [
        (np.zeros((2, 5)), {}),
        (np.zeros((0, 1)), {}),
        (np.zeros((3, 5)), {}),
        (5.0, {}),
        ("soft", {}),
        ([[1.0, np.nan, 0.0]], {}),
        (np.zeros((1, 3)), {"mass": [[0.0]]}),
        (np.zeros((1, 3)), {"mass": [[-1.0]]}),
        (np.zeros((1, 3)), {"mass": np.eye(2)}),
        (np.zeros((3, 6)), {"mass": [[1.0, 0.5], [0.0, 1.0]]}),
        (np.zeros((1, 3)), {"surface_basis": np.zeros((3, 3, 1))}),
        (np.zeros((1, 3)), {"surface": "skin", "surface_basis": np.zeros((3, 3, 1))}),
        (np.zeros((1, 3)), {"axis_weights": np.zeros((2, 1))}),
    ],
)
def test_invalid_parts_of_a_model_are_refused(tangent, options):
    with pytest.raises(SuppleError) as refused:
        CubicModel(tangent, **options)
    assert "\n" not in str(refused.value)


def test_a_given_mass_is_used():
    light, heavy = CubicModel([[2.0, 0.0, 3.0]]), CubicModel([[2.0, 0.0, 3.0]], [[4.0]])
    traces = []
    for model, dt in ((light, 1e-3), (heavy, 2e-3)):  # twice as slow
        simulator = StvkSimulator(model, dt)
        simulator.reset([0.5])
        traces.append(simulator.run(500))
    np.testing.assert_allclose(traces[0], traces[1], rtol=1e-9)


def test_files_of_different_models_are_errors(model, tmp_path):
    files = write_vega(tmp_path / "a.cub", model)
    write_modal_matrix(tmp_path / "fewer.U", model.basis[:, :, :3])
    write_modal_matrix(tmp_path / "smaller.U", model.basis[1:])
    veg = written_veg(tmp_path, model)
    for wrong in ("fewer.U", "smaller.U"):
        with pytest.raises(FormatError, match="use files of one model") as refused:
            read_vega(files[0], tmp_path / wrong, veg)
        assert str(refused.value).startswith(wrong)
    for given in ({"modes": files[1]}, {"mesh": veg}):
        with pytest.raises(FormatError, match="give modes and mesh together"):
            read_vega(files[0], **given)
    for cub, modes, mesh in (
        (tmp_path / "no.cub", files[1], veg),
        (files[0], tmp_path / "no.U", veg),
        (files[0], files[1], tmp_path / "no.veg"),
        (files[0], files[2], tmp_path / "no.obj"),
    ):
        with pytest.raises(FormatError, match="no such file") as refused:
            read_vega(cub, modes, mesh)
        assert "\n" not in str(refused.value)
    with pytest.raises(FormatError, match="cannot read"):
        read_vega(files[0], files[1], tmp_path / "a.txt")
    veg.write_text("*VERTICES\n")
    with pytest.raises(FormatError, match=r"a\.veg"):
        read_vega(files[0], files[1], veg)


def test_a_force_without_energy_is_reported_with_its_file_name(tmp_path):
    turning = CubicForce([[1.0, 1.0], [-1.0, 1.0]], np.zeros((2, 3)), np.zeros((2, 4)))
    write_cub(tmp_path / "turning.cub", turning)
    with pytest.raises(FormatError, match="gradient of an energy") as refused:
        read_vega(tmp_path / "turning.cub")
    assert str(refused.value).startswith("turning.cub: ")
    assert "\n" not in str(refused.value)


def test_too_many_coordinates_are_rejected_before_the_tangent_is_computed(monkeypatch):
    r = 121
    shape = (r, r * (r + 1) * (r + 2) // 6)
    force = CubicForce(np.eye(r), np.zeros((r, r * (r + 1) // 2)), np.zeros(shape))
    monkeypatch.setattr(CubicForce, "tangent_coefficients", lambda self: pytest.fail("made"))
    with pytest.raises(FormatError, match="121 coordinates, more than 120"):
        read_vega(force)


@pytest.mark.parametrize("scaling", [0, -1, np.nan, np.inf, "half"])
def test_an_invalid_frequency_scaling_is_an_error(scaling):
    with pytest.raises(SuppleError, match="frequency_scaling"):
        read_vega(CubicForce([[1.0]], [[0.0]], [[0.0]]), frequency_scaling=scaling)


def test_models_with_another_mass_than_the_identity_are_not_written(model, tmp_path):
    heavier = model.with_material(0, density=900.0)
    with pytest.raises(FormatError, match="reduced mass is not the identity"):
        write_vega(tmp_path / "a.cub", heavier)
    with pytest.raises(FormatError, match="use that suffix"):
        write_vega(tmp_path / "a.stvk", model)
    with pytest.raises(FormatError, match="StvkModel"):
        write_vega(tmp_path / "a.cub", "beam")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
