"""Free StVK bodies in flight, and momenta summed over all vertices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.material import Material
from supple.engines.stvk.free.simulator import FreeStvkSimulator
from supple.engines.stvk.model import StvkModel
from supple.mesh.hexes import HexMesh
from supple.scenes.bodies.beam import beam

SOFT = Material("stvk", young=3e4, poisson=0.3)
SMALL = beam(cells=(2, 1, 1))
#: Two bricks, the same from all sides: it turns steadily about its axes, unlike bodies of tets.
BRICKS = HexMesh(
    [[x, 0.3 * y, 0.15 * z] for z in (0, 1) for y in (0, 1) for x in (0, 0.5, 1)],
    [[0, 1, 4, 3, 6, 7, 10, 9], [1, 2, 5, 4, 7, 8, 11, 10]],
)
PLACE = np.eye(4)
PLACE[:3, :3] = Rotation.from_rotvec([0.3, -1.0, 0.5]).as_matrix()
PLACE[:3, 3] = [2.0, -1.0, 0.5]


def body_of(mesh, material=SOFT):
    return (HexBody if isinstance(mesh, HexMesh) else ElasticBody)(mesh, material)


def vertex_masses(mesh, material=SOFT):
    return body_of(mesh, material).vertex_masses()


def rigid_motions(mesh):
    """(n, 3, 6) translations, and turns about the mass centre."""
    masses = vertex_masses(mesh)
    arms = mesh.vertices - masses @ mesh.vertices / masses.sum()
    shapes = np.empty((len(arms), 3, 6))
    shapes[:, :, :3] = np.eye(3)
    shapes[:, :, 3:] = np.stack([np.cross(axis, arms) for axis in np.eye(3)], axis=2)
    return shapes


def complete_model(mesh, mixed=0.0):
    """Return a basis of all deformations, `mixed` with rigid motions or orthogonal to them."""
    root = np.sqrt(np.repeat(vertex_masses(mesh), 3))[:, None]
    rigid = rigid_motions(mesh)
    vectors, _ = np.linalg.qr(root * rigid.reshape(-1, 6), mode="complete")
    shapes = (vectors[:, 6:] / root).reshape(len(mesh.vertices), 3, -1)
    rng = np.random.default_rng(1)
    shapes = shapes + mixed * rigid @ rng.standard_normal((6, shapes.shape[2]))
    return StvkModel.from_basis(mesh, SOFT, shapes)


def positions(simulator):
    root = simulator.root
    return simulator.model.positions(simulator.q) @ root[:3, :3].T + root[:3, 3]


def velocities(simulator):
    """Return positions and velocities of all vertices from the simulator's state."""
    model, masses = simulator.model, vertex_masses_of(simulator.model)
    deforming = model.basis @ simulator.velocity
    deforming -= masses @ deforming / masses.sum()
    turning = np.cross(simulator.angular_velocity, positions(simulator) - simulator.centre)
    return simulator.linear_velocity + turning + deforming @ simulator.root[:3, :3].T


MESHES = {len(mesh.vertices): mesh for mesh in (SMALL, beam(cells=(6, 2, 2)))}


def vertex_masses_of(model):
    mesh = MESHES[len(model.rest)]
    return vertex_masses(mesh, replace(SOFT, density=model.groups.density[0]))


def summed_momenta(simulator):
    """Return linear and angular momentum, summed over all vertices."""
    x, v, masses = positions(simulator), velocities(simulator), vertex_masses_of(simulator.model)
    return np.concatenate([masses @ v, masses @ np.cross(x, v)])


def momenta(simulator):
    return np.concatenate([simulator.linear_momentum, simulator.angular_momentum])


def thrown(model, dt=1e-3, speed=0.1, **options):
    simulator = FreeStvkSimulator(model, dt, **options)
    simulator.reset(
        velocity=speed * np.linspace(1, 0.3, model.modes),
        root=PLACE,
        linear=[1.0, 2.0, -0.5],
        angular=[1.0, 2.0, 6.0],
    )
    return simulator
