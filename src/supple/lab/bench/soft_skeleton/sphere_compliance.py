"""Compliance of soft skeletons under pressed spheres, compared with the unreduced flesh."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.engines.soft_skeleton.contact.contact import CUT, HARDNESS
from supple.engines.soft_skeleton.contact.forces import HARDER, THIN
from supple.engines.soft_skeleton.contact.search import FINEST, MAX_FINE_CONTACTS, middle_of_part
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.linalg.cholesky import SparseCholesky
from supple.mesh.obstacles import Sphere
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_core

#: Steps in which the sphere moves in, steps in which the flesh settles, and steps over which the
#: force of flesh at rest is constant.
COMING, SETTLING, AT_REST = 20, 60, 10
#: Increments of the depth, and maximum Newton iterations of each, with all tets.
INCREMENTS, MOST_ITERATIONS = 5, 40


@dataclass(frozen=True)
class Probe:
    """Sphere pressed into the skin."""

    name: str
    #: (3,) point of the skin at rest, and outward direction there.
    place: Floats
    outward: Floats
    #: Radius, and depth of the lowest point below the skin, in m.
    radius: float
    depth: float

    def sphere(self, part: float = 1.0) -> Sphere:
        """Return the sphere at a fraction of its depth."""
        return Sphere(self.place + (self.radius - part * self.depth) * self.outward, self.radius)


class Pressed(NamedTuple):
    """Outward force of the flesh on the sphere in N, and displacement (n̄, 3) of the skin in m."""

    force: float
    displacements: Floats


def probes_of(character: Character) -> list[Probe]:
    """Return spheres for a body (belly) or a hand (palm and a fingertip).

    Bodies stand along y and face z, hands lie palm down, as in the rest poses of SMPL and MANO.
    """
    core = skinned_core(character.rig)
    if core is None:
        return []
    places = core.rig.skeleton.rest_world()[:, :3, 3]
    skin = character.surface
    if len(places) <= 16:  # a hand
        middle = 0.5 * (places[0] + places[4])
        palm = _touched(skin, middle, np.array([0.0, -1.0, 0.0]))
        along = places[3] - places[2]
        tip = _touched(skin, places[3], along / np.linalg.norm(along))
        return [
            Probe("palm, r 15 mm", *palm, 0.015, 0.004),
            Probe("palm, r 40 mm", *palm, 0.040, 0.004),
            Probe("fingertip, r 4 mm", *tip, 0.004, 0.002),
        ]
    middle = places[3] if len(places) > 3 else places[0]
    belly = _touched(skin, middle, np.array([0.0, 0.0, 1.0]))
    return [
        Probe("belly, r 15 mm", *belly, 0.015, 0.008),
        Probe("belly, r 40 mm", *belly, 0.040, 0.010),
    ]


def _touched(skin: SurfaceMesh, start: Floats, outward: Floats) -> tuple[Floats, Floats]:
    """Return the vertex where a ray leaves the skin, and the normal there."""
    offsets = skin.vertices - start
    along = offsets @ outward
    aside = np.linalg.norm(offsets - along[:, None] * outward, axis=1)
    ahead = np.where(along > 0, along - 2 * aside, -np.inf)
    vertex = int(ahead.argmax())
    corners = skin.triangles[(skin.triangles == vertex).any(axis=1)]
    a, b, c = (skin.vertices[corners[:, i]] for i in range(3))
    normal = np.cross(b - a, c - a).sum(axis=0)
    return skin.vertices[vertex], normal / np.linalg.norm(normal)


def press_model(model: SoftSkeletonModel, probe: Probe) -> Pressed:
    """Press a sphere into a soft skeleton with fixed bones until the force is constant."""
    simulator = SoftSkeletonSimulator(
        model,
        1 / 90,
        tracking=1000.0,  # bones are fixed in the unreduced flesh
        gravity=(0, 0, 0),
        friction=0.0,
        beta=0.05,
        self_contact=False,
    )
    simulator.reset()
    before, forces = simulator.surface().astype(float), []
    for step in range(COMING + SETTLING):
        simulator.obstacles = (probe.sphere(min(1.0, (step + 1) / COMING)),)
        state = simulator.step()
        forces.append(float(state.readings["contact_force"] @ probe.outward))
        if step >= COMING + AT_REST and np.ptp(forces[-AT_REST:]) < 1e-3 * abs(forces[-1]):
            break
    return Pressed(-float(np.mean(forces[-AT_REST:])), simulator.surface().astype(float) - before)


def press_full(layer: FleshLayer, surface: SurfaceMesh, probe: Probe) -> Pressed:
    """Press a sphere into the unreduced flesh by Newton's method, with the same contact."""
    body = layer.body
    unknown = (3 * layer.free[:, None] + np.arange(3)).ravel()
    shares, areas = contact_points(surface, probe)
    spread = sp.csr_array(sp.kron(shares @ layer.embedding, sp.eye_array(3)))
    thickness = shares @ layer.thickness(surface.vertices)
    offset = shares @ (surface.vertices - layer.embedding @ body.rest)
    x, force = body.rest.copy(), 0.0
    for part in np.arange(1, INCREMENTS + 1) / INCREMENTS:
        sphere = probe.sphere(float(part))
        for _ in range(MOST_ITERATIONS):
            # As in the simulator, flesh is stiffer where it is thin above the bone.
            inward = -(spread @ (x - body.rest).ravel()).reshape(-1, 3) @ probe.outward
            remaining = np.maximum(thickness - np.maximum(inward, 0.0), THIN / HARDER)
            firm = HARDNESS * np.maximum(THIN / remaining, 1.0) * areas
            force, step, size = _newton_step(body, x, unknown, spread, offset, firm, sphere, probe)
            x.ravel()[unknown] += step
            if size < 1e-7 * probe.depth:
                break
    displacements = layer.embedding @ (x - body.rest)
    # As in the simulator, the displayed skin lies outside the sphere.
    distance, out = probe.sphere().distances(surface.vertices + displacements)
    displacements -= np.minimum(distance, 0.0)[:, None] * out
    return Pressed(force, displacements)


def contact_points(surface: SurfaceMesh, probe: Probe) -> tuple[sp.csr_array, Floats]:
    """Return contact points near a probe as weights (s, n̄) of vertices, and their areas.

    As in the simulator, they are centres of parts of triangles for a small sphere, else vertices.
    """
    skin, triangles = surface.vertices, surface.triangles
    distances = np.linalg.norm(skin - probe.place, axis=1)
    reach = 3 * probe.radius + 2 * probe.depth
    ends = skin[triangles] - skin[np.roll(triangles, 1, axis=1)]
    edge = float(np.median(np.linalg.norm(ends, axis=2)))
    cut = math.ceil(min(CUT * edge / probe.radius, FINEST))
    near = triangles[(distances[triangles] < reach + edge).any(axis=1)]
    a, b, c = (skin[near[:, i]] for i in range(3))
    across = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    parts = np.array([middle_of_part(k, cut) for k in range(cut**2)])
    parts = np.column_stack([parts, 1 - parts.sum(axis=1)])
    count = len(near) * len(parts)
    columns, values = np.repeat(near, len(parts), axis=0), np.tile(parts, (len(near), 1))
    starts = 3 * np.arange(count + 1)
    shares = sp.csr_array((values.ravel(), columns.ravel(), starts), (count, len(skin)))
    inside = probe.sphere().distances(shares @ skin)[0] < 0
    if cut > 1 and inside.sum() < MAX_FINE_CONTACTS:
        return shares, np.repeat(across / cut**2, len(parts))
    nearby = np.flatnonzero(distances < reach)
    return sp.csr_array(sp.eye_array(len(skin)).tocsr()[nearby]), surface.vertex_areas()[nearby]


def _newton_step(
    body: Any,
    x: Floats,
    unknown: Ints,
    spread: sp.csr_array,
    offset: Floats,
    firm: Floats,
    sphere: Sphere,
    probe: Probe,
) -> tuple[float, Floats, float]:
    """Return the outward force in N, the limited Newton step (k,), and a size.

    The size is the largest absolute entry of the full step.
    """
    distance, out = sphere.distances((spread @ x.ravel()).reshape(-1, 3) + offset)
    pressed = np.maximum(-distance, 0.0) * firm
    load = spread.T @ (pressed[:, None] * out).ravel()
    gradient = (body.force(x).ravel() - load)[unknown]
    touching = np.flatnonzero(distance < 0)
    normals = sp.csr_array(
        (out[touching].ravel(), (3 * touching[:, None] + np.arange(3)).ravel(),
         3 * np.arange(len(touching) + 1)),
        (len(touching), spread.shape[0]),
    )  # fmt: skip
    rows = sp.csr_array(normals @ spread)[:, unknown]
    stiffness = sp.csr_array(body.stiffness(x, psd=True))[unknown][:, unknown]
    stiffness = sp.csr_array(stiffness + rows.T @ sp.diags_array(firm[touching]) @ rows)
    step = -SparseCholesky(stiffness, block=3).factorise(stiffness).solve(gradient)
    largest = float(np.abs(step).max())
    step *= min(1.0, 0.3 * probe.depth / max(largest, 1e-300))
    return -float((pressed[:, None] * out).sum(axis=0) @ probe.outward), step, largest


def without_residual(model: SoftSkeletonModel) -> SoftSkeletonModel:
    """Return a model without residual flexibility in contact, as in the paper."""
    none = sp.csr_array(model.motion[0].shape)
    return replace(model, motion=(none, none, none))
