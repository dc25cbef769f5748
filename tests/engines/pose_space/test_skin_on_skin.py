"""Claims about skin that touches itself in the reduced step."""

from __future__ import annotations

import copy
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.build_samples import WIDTH, bar_mesh, bar_options, motion_of
from supple import Crowd, PoseSpaceModel, build
from supple.engines.common.self_contact.detection import add_sample_forces
from supple.engines.common.self_contact.samples import skin_samples
from supple.engines.pose_space.self_contact.self_contact import SelfContact
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.mesh.obstacles import Plane
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.deformers.bend import Bend

CELLS = (12, 3, 3)
GAP = 0.03
FORCE = 1.0
#: Damping with which the prongs do not swing back.
CALM: dict[str, Any] = {"gravity_mode": "none", "alpha": 6.0}


def detector_of(simulator: PoseSpaceSimulator) -> SelfContact:
    """Return the self-contact of a simulator that has it."""
    detector = simulator._stepper._self_contact
    assert detector is not None
    return detector


@cache
def fork_mesh() -> TetMesh:
    """Two bars along x, one above the other in z."""
    bar = bar_mesh(CELLS)
    other = bar.vertices + np.array([0, 0, WIDTH + GAP])
    tets = np.concatenate([bar.tets, bar.tets + len(bar.vertices)])
    return TetMesh(np.concatenate([bar.vertices, other]), tets)


@cache
def fork() -> PoseSpaceModel:
    """A fork with two prongs, held at x = 0."""
    mesh = fork_mesh()
    surface, _ = mesh.surface()
    rig = Bend(surface.vertices, (0, WIDTH / 2, WIDTH), (1, 0, 0), (0, 0, 1), low=0, high=1)
    sweep = np.radians(np.linspace(-30, 30, 9))[:, None]
    character = Character("fork", surface, rig, {"sweep": motion_of(sweep)})
    bones = np.flatnonzero(mesh.vertices[:, 0] < 1e-9)
    poses = {"left": np.radians([-20.0]), "right": np.radians([20.0])}
    changed = {"tets": mesh, "bones": bones, "poses": poses, "modes": 24, "elastic_cubature": 80}
    return build(character, **bar_options(CELLS, **changed))


def prongs(surface: SurfaceMesh) -> tuple[np.ndarray, np.ndarray]:
    """The vertices of the lower and of the upper prong that face each other."""
    x, z = surface.vertices[:, 0], surface.vertices[:, 2]
    free = x > 0.3
    return np.flatnonzero(free & (abs(z - WIDTH) < 1e-6)), np.flatnonzero(
        free & (abs(z - WIDTH - GAP) < 1e-6)
    )


def squeeze(simulator: PoseSpaceSimulator, force: float = FORCE) -> dict[int, np.ndarray]:
    """Forces that press the ends of the prongs together."""
    surface = simulator.model.surface
    end = surface.vertices[:, 0] > 1 - 1e-6
    upper = surface.vertices[:, 2] > WIDTH + GAP / 2
    sides = [(end & upper, -force), (end & ~upper, force)]
    return {
        int(v): np.array([0, 0, f / mask.sum()]) for mask, f in sides for v in np.flatnonzero(mask)
    }


def gap(simulator: PoseSpaceSimulator) -> float:
    """The smallest vertical gap between the prongs, in sizes of the body."""
    low, high = prongs(simulator.model.surface)
    skin = simulator.surface().astype(np.float64)
    return float((skin[high, 2].min() - skin[low, 2].max()) / simulator.runtime.size)


def squeezed(steps: int = 150, **options) -> PoseSpaceSimulator:
    simulator = PoseSpaceSimulator(fork(), **CALM, **options)
    forces = squeeze(simulator)
    for _ in range(steps):
        simulator.step(forces=forces)
    return simulator


def test_prongs_that_are_pressed_together_do_not_pass_through_each_other():
    without, touching = squeezed(), squeezed(self_contact=True)
    assert gap(without) < -0.02
    assert -0.002 < gap(touching) < GAP
    assert touching.step(forces=squeeze(touching)).self_contacts > 0
    assert without.step(forces=squeeze(without)).readings["self_contacts"] == 0


@pytest.mark.parametrize("degrees", [-25, 0, 10])
def test_a_held_pose_equals_the_rig(degrees):
    model = fork()
    simulator = PoseSpaceSimulator(model, self_contact=True, **CALM)
    pose = np.radians([degrees])
    simulator.reset(pose)
    for _ in range(20):
        assert simulator.step(pose).self_contacts == 0
    rig = model.rig(pose)
    assert np.abs(simulator.surface() - rig).max() < 1e-6 * model.surface.size


def test_forces_on_both_sides_sum_to_zero():
    simulator = squeezed(self_contact=True)
    touching = detector_of(simulator)
    vertices, forces = touching.forces()
    largest = np.abs(forces).max()
    assert largest > 0.01
    assert len(vertices) == len(forces)
    assert np.abs(forces.sum(axis=0)).max() < 1e-9 * np.abs(forces).sum()


def test_contact_bears_the_forces_that_press():
    simulator = squeezed(400, self_contact=True)
    vertices, forces = detector_of(simulator).forces()
    upper = simulator.model.surface.vertices[vertices, 2] > WIDTH + GAP / 2
    up = forces[upper, 2].sum()
    # They act nearer to the held ends than the forces, so that they may be larger.
    assert 0.5 * FORCE < up < 1.5 * FORCE
    assert forces[~upper, 2].sum() == pytest.approx(-up, rel=1e-9)


def test_the_change_of_a_gap_is_linear_in_the_coordinates():
    simulator = squeezed(self_contact=True)
    scratch = detector_of(simulator).scratch
    found, system = scratch.detection, simulator._stepper.workspace.system
    count = int(found.counts[2])
    assert 0 < count <= 32  # rows of one batch
    r = simulator.model.n_modes
    padded = -(-r // 8) * 8
    rows = scratch.lines.reshape(-1, padded)[:count, :r].astype(np.float64)
    change = rows @ scratch.z
    expected = np.array([found.sums[s, 5] / found.sums[s, 0] for s in found.contacts[:count]])
    scale = change / expected  # √(k + k′) of each contact
    assert (scale > 0).all()
    # Rows were scaled by the stiffness that they add to the system.
    stiffness = np.triu(rows.T @ rows)
    np.testing.assert_allclose(np.triu(system.contact), stiffness, atol=1e-4 * stiffness.max())


def test_displacements_of_samples_are_those_of_the_skin():
    simulator = PoseSpaceSimulator(fork(), self_contact=True, **CALM)
    for pose in ([0.0], [0.2], [-0.3]):
        simulator.reset(pose)
        forces = squeeze(simulator)
        for _ in range(60):
            simulator.step(pose, forces=forces)
        velocity = simulator.velocity
        assert np.abs(velocity).max() > 0
        simulator.velocity = 0 * velocity
        contact = detector_of(simulator)
        contact.detect(simulator._state, simulator.pose, simulator._stepper.workspace)
        listed = np.flatnonzero(contact.scratch.known)
        vertices = contact._tables.samples.vertices[listed]
        moved = simulator.surface()[vertices] - simulator.model.rig(simulator.pose)[vertices]
        assert len(listed) > 10
        np.testing.assert_allclose(
            contact.scratch.detection.u[listed], moved, atol=0.01 * np.abs(moved).max()
        )


def test_a_body_at_rest_in_contact_with_itself_comes_to_rest():
    simulator = PoseSpaceSimulator(fork(), self_contact=True, **CALM)
    forces, energies = squeeze(simulator), []
    for _ in range(1500):
        simulator.step(forces=forces)
        energies.append(float((simulator.velocity**2).sum()))
    assert simulator.step(forces=forces).self_contacts > 0
    assert max(energies[-50:]) < 1e-6 * max(energies)


@pytest.mark.parametrize("integrator", ["backward-euler", "bdf2", "newmark"])
@pytest.mark.parametrize("dt", [1 / 30, 1 / 300])
def test_contact_is_stable_with_short_and_long_steps(integrator, dt):
    simulator = PoseSpaceSimulator(fork(), dt=dt, integrator=integrator, self_contact=True, **CALM)
    forces = squeeze(simulator, 4 * FORCE)
    for _ in range(200):
        assert "reset" not in simulator.step(forces=forces).limits
    assert gap(simulator) > -0.01


def test_a_copy_and_a_resumed_state_continue_with_the_same_bits():
    simulator = squeezed(60, self_contact=True)
    other, resumed = copy.deepcopy(simulator), squeezed(3, self_contact=True)
    resumed.resume(simulator.state())
    forces = squeeze(simulator)
    for _ in range(20):
        for each in (simulator, other, resumed):
            each.step(forces=forces)
    assert np.array_equal(simulator.surface(), other.surface())
    assert np.array_equal(simulator.q, resumed.q)


def test_it_may_be_switched_between_steps():
    simulator = squeezed(self_contact=True)
    forces = squeeze(simulator)
    simulator.self_contact = False
    for _ in range(150):
        simulator.step(forces=forces)
    assert gap(simulator) < -0.02
    simulator.self_contact = True
    for _ in range(100):
        simulator.step(forces=forces)
    assert gap(simulator) > -0.002


def test_obstacles_and_contact_with_itself_act_together():
    floor = Plane((0, 0, -0.02), (0, 0, 1))
    simulator = PoseSpaceSimulator(fork(), obstacles=[floor], self_contact=True, **CALM)
    upper = {v: 3 * f for v, f in squeeze(simulator).items() if f[2] < 0}  # pressed on the lower
    for _ in range(200):
        state = simulator.step(forces=upper)
    assert state.self_contacts > 0
    assert state.contacts > 0
    assert gap(simulator) > -0.005
    assert simulator.surface()[:, 2].min() > -0.022


def test_a_crowd_touches_itself_as_one_character_does():
    crowd = Crowd(fork(), 2, self_contact=True, **CALM)
    single = PoseSpaceSimulator(fork(), self_contact=True, **CALM)
    forces = squeeze(single)
    for _ in range(60):
        crowd.step(forces={1: forces})
        single.step(forces=forces)
    assert np.array_equal(crowd.surfaces()[1], single.surface())


def test_a_step_allocates_nothing():
    simulator = squeezed(self_contact=True)
    forces = squeeze(simulator)
    simulator.step(forces=forces)
    blocks = sys.getallocatedblocks()
    for _ in range(50):
        simulator.step(forces=forces)
    assert sys.getallocatedblocks() - blocks < 100


def test_neighbours_and_opposite_sides_of_a_part_cannot_touch():
    model = fork()
    shapes = [model.rig(pose) for pose in (model.rig.rest_pose, *model.poses)]
    surface = model.surface
    samples = skin_samples(surface, shapes, np.ones(len(surface.vertices), bool))
    low, high = prongs(surface)
    place = surface.vertices[samples.vertices]
    upper = place[:, 2] > WIDTH + GAP / 2
    height = np.where(upper, place[:, 2] - WIDTH - GAP, place[:, 2])
    apart = np.linalg.norm(place[:, None] - place, axis=2)
    same = (upper[:, None] == upper) & (apart < 2 * WIDTH)
    inner = place[:, 0] < 0.9
    across = same & inner & (height[:, None] < 1e-6) & (height > WIDTH - 1e-6)
    assert across.any()
    assert samples.excluded[across].all()
    near = same & (apart < 1.1 * WIDTH / 3)  # ends of an edge
    assert samples.excluded[near].all()
    flat = inner & (place[:, 1] > 1e-6) & (place[:, 1] < WIDTH - 1e-6)  # not at the edges
    facing = flat & np.isin(samples.vertices, low), flat & np.isin(samples.vertices, high)
    assert facing[0].any()
    assert facing[1].any()
    assert not samples.excluded[np.ix_(*facing)].any()
    assert samples.areas.sum() == pytest.approx(surface.vertex_areas().sum())


def test_forces_of_samples_are_equal_and_opposite_for_any_weights():
    simulator = squeezed(self_contact=True)
    detector = detector_of(simulator)
    found = detector.scratch.detection
    out, pushes = np.zeros((len(found.depths), 3)), np.linspace(1, 2, len(found.depths))
    add_sample_forces(found, pushes, out)
    assert np.abs(out.sum(axis=0)).max() < 1e-9 * np.abs(out).sum()
