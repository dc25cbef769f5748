"""A material is one file and one row: a program adds its own, and every loop knows it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import supple
from helpers.build_samples import stepped_model
from helpers.log_neo_hookean import LOG_NEO_HOOKEAN
from supple.elastic import ElasticBody, HexBody, Material, register_material, static_equilibrium
from supple.elastic.densities.density import Density
from supple.elastic.densities.dispatch import MATERIALS
from supple.elastic.densities.neo_hookean import NEO_HOOKEAN
from supple.errors import SuppleError
from supple.mesh import HexMesh
from supple.mesh.hexes import CORNERS
from supple.scenes.bodies.beam import beam

OWN, COPY = LOG_NEO_HOOKEAN, replace(NEO_HOOKEAN, name="neo-hookean again")


@pytest.fixture(scope="module", autouse=True)
def _registered():
    for density in (OWN, COPY):
        if density.name not in MATERIALS:
            register_material(density)


def bodies(kind):
    material = Material(kind, young=1e5, poisson=0.3)
    cube = HexMesh(0.1 * CORNERS, [range(8)])
    return [ElasticBody(beam(cells=(2, 2, 2)), material), HexBody(cube, material)]


def test_force_and_stiffness_are_the_derivatives_of_energy():
    rng = np.random.default_rng(0)
    for body in bodies(OWN.name):
        x = body.rest + 0.002 * rng.standard_normal(body.rest.shape)
        force, stiffness = body.force(x), body.stiffness(x)
        assert abs(stiffness - stiffness.T).max() <= 1e-12 * abs(stiffness).max()
        for _ in range(3):
            d, h = rng.standard_normal(x.shape), 1e-6
            slope = (body.energy(x + h * d) - body.energy(x - h * d)) / (2 * h)
            assert slope == pytest.approx(np.vdot(force, d), rel=1e-6)
            change = (body.force(x + h * d) - body.force(x - h * d)) / (2 * h)
            wanted = stiffness @ d.ravel()
            np.testing.assert_allclose(change.ravel(), wanted, atol=1e-6 * np.abs(wanted).max())


def test_small_strains_are_those_of_young_and_poisson():
    own, linear = bodies(OWN.name)[0], bodies("corotational")[0]
    K, wanted = own.stiffness(own.rest), linear.stiffness(linear.rest)
    assert abs(K - wanted).max() < 1e-9 * abs(wanted).max()


def test_a_material_with_other_moduli_at_rest_is_refused():
    """Linear forces of reduced models are those of Lamé's parameters."""
    stiffer = replace(OWN, name="stiffer", constants=lambda mu, lam: (2 * mu, lam))
    with pytest.raises(SuppleError, match="'stiffer' has moduli at rest that differ from Lamé's"):
        register_material(stiffer)
    assert "stiffer" not in MATERIALS


def test_a_body_of_it_comes_to_rest():
    body = bodies(OWN.name)[0]
    fixed = np.flatnonzero(body.rest[:, 0] < 1e-9)
    load = np.tile([0.0, 0.0, -0.5], (body.n_vertices, 1))
    found = static_equilibrium(body, fixed=fixed, forces=load)
    assert found.converged
    assert found.positions[:, 2].min() < body.rest[:, 2].min()


def test_a_built_in_material_that_is_registered_again_gives_the_same_forces():
    rng = np.random.default_rng(1)
    for once, again in zip(bodies("neo-hookean"), bodies(COPY.name), strict=True):
        x = once.rest + 0.01 * rng.standard_normal(once.rest.shape)
        for psd in (False, True):
            K = once.stiffness(x, psd=psd)
            assert abs(K - again.stiffness(x, psd=psd)).max() < 1e-13 * abs(K).max()
        np.testing.assert_allclose(again.force(x), once.force(x), rtol=1e-12, atol=1e-12)
        assert again.energy(x) == pytest.approx(once.energy(x), rel=1e-13)


def test_the_pose_space_engine_steps_it_and_blends_its_constants():
    model = stepped_model("painted")  # young's modulus changes with the pose
    found = []
    for kind in ("neo-hookean", COPY.name):
        simulator = supple.Simulator(replace(model, material_kind=kind), dt=1 / 90)
        simulator.reset(model.rig.rest_pose)
        for angle in np.linspace(0.0, 0.8, 10):
            simulator.step(np.array([angle]))
        found.append(simulator.surface().copy())
    np.testing.assert_allclose(found[1], found[0], atol=1e-9)


def test_a_process_that_does_not_register_it_runs_the_same_compiled_code():
    """No registered material is compiled into loops: processes do not disturb each other."""
    body = bodies("neo-hookean")[0]
    x = body.rest * [1.1, 1.0, 0.9]
    script = (
        "import numpy as np, supple.elastic.assembly as kernels\n"
        "from supple.elastic import ElasticBody, Material\n"
        "from supple.scenes.bodies.beam import beam\n"
        "body = ElasticBody(beam(cells=(2, 2, 2)), Material('neo-hookean', 1e5, 0.3))\n"
        "force = body.force(body.rest * [1.1, 1.0, 0.9])\n"
        "assert sum(kernels.add_forces.stats.cache_misses.values()) == 0\n"
        "print(force.tobytes().hex())\n"
    )
    expected = body.force(x)
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    assert ran.stdout.strip() == expected.tobytes().hex()


def test_names_are_taken_once_and_constants_are_needed():
    with pytest.raises(SuppleError, match="already"):
        register_material(OWN)
    with pytest.raises(SuppleError, match="constants"):
        Density("nothing", OWN.energy, OWN.stress, OWN.stress_derivative)
    with pytest.raises(SuppleError, match=OWN.name):
        Material("no such material")
