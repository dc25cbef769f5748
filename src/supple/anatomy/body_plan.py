"""Body plan: tets, bone vertices and stiffness of a body, from a character's anatomy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import igl
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.flesh_firmness import (
    flesh_factors,
    flesh_triangles,
    motion_firmness,
    skin_values,
)
from supple.anatomy.flesh_presets import flesh_material
from supple.anatomy.loose_parts import RIDING, flesh_tets
from supple.arrays import Bools, Floats, Ints
from supple.elastic.material import Material
from supple.mesh.embedding import locate, part_set
from supple.mesh.filling.stuffing import split_pinches
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import EDGES, TetMesh
from supple.mesh.topology import components, row_keys
from supple.rig.character import Character
from supple.rig.poses.example_poses import farthest_poses
from supple.rig.skeleton.skinning import skinned_rigs
from supple.rig.tets.bones import BONE_RADIUS, Bones, held_tets
from supple.rig.tets.surface_samples import typical_edge

#: Depth, relative to flesh share times thickness, above which vertices near a bone segment are bone
#: in parts with a detected back or belly.
MOST_FLESH = 0.8
#: Depth in cells from which tets contain no skin.
INNER = 1.5


def held_vertices(
    character: Character, mesh: TetMesh, anatomy: Anatomy, bone_radius: float = BONE_RADIUS
) -> Ints:
    """Return the tet vertices (k,) that are bone: at bone segments, deep, or in hard parts.

    Deep means below the skin by more than φ times the thickness R. Components of tets without bone
    are held completely, so that parts which follow the rig do not fall off.
    """
    held = np.zeros(len(mesh.vertices), bool)
    skinned = skinned_rigs(character.rig)
    if len(skinned) == 1 and anatomy.joints:
        bones = Bones.of_rig(skinned[0])
        if len(bones.starts):
            flesh = flesh_tets(mesh)
            held[held_tets(bones, character.surface, flesh, bone_radius).vertices] = True
    riding = np.zeros(len(mesh.vertices), bool)
    riding[mesh.tets[mesh.sets.get(RIDING, np.empty(0, np.int64))]] = True
    triangles = flesh_triangles(anatomy)
    share = skin_values(anatomy, anatomy.share, mesh.vertices, triangles)
    hard = skin_values(anatomy, anatomy.hard.astype(float), mesh.vertices, triangles) > 0.5
    depth = anatomy.balls.depth(mesh.vertices)
    thickness = anatomy.balls.thickness(mesh.vertices)
    # Where the back is detected the spine runs along it, wherever the joints are. In parts less
    # than two cells thick hardly a vertex is deep: the neck of a dinosaur had no bone at all.
    on_side = skin_values(anatomy, np.abs(anatomy.back), mesh.vertices, triangles) > 0.2
    held &= ~on_side | (depth > MOST_FLESH * share * thickness) | (thickness < typical_edge(mesh))
    core = (depth > share * thickness) | hard | riding
    inner = (depth > INNER * typical_edge(mesh)) & ~riding
    if not (held | core).all():  # a body of bone alone could not move
        held |= core
    elif (hard | riding).all() and inner.any():  # nor be built; no skin depends on its inside
        return np.flatnonzero(~inner)
    body = components(mesh.tets, len(mesh.vertices))
    anchored = np.zeros(int(body.max()) + 1, bool)
    np.logical_or.at(anchored, body, held[mesh.tets].any(axis=1))
    held[mesh.tets[~anchored[body]]] = anchored.any()
    if not held.any():  # too coarse for a core, or painted hard all over
        held |= hard.all() & (depth > 0)
        held[depth.argmax()] |= not held.any()
    for component in range(int(body.max()) + 1):
        _hold_along_lines(mesh, mesh.tets[body == component], held)
    return np.flatnonzero(held)


#: Largest thickness of a bone that is a line, and distance of the tets held along it, in cells.
LINE, STRETCH = 0.25, 8.0


def _hold_along_lines(mesh: TetMesh, tets: Ints, held: Bools) -> None:
    """Hold corners of some tets along a straight bone, so that flesh cannot rotate about it."""
    bone = mesh.vertices[np.unique(tets[held[tets]])]
    if not len(bone):
        return
    cell = typical_edge(mesh)
    _, spread, axes = np.linalg.svd(bone - bone.mean(axis=0), full_matrices=False)
    if len(spread) > 1 and spread[1] > LINE * cell * np.sqrt(len(bone)):
        return
    counts = held[tets].sum(axis=1)
    around = tets[counts >= min(2, counts.max())]
    axis = axes[0] * np.sign(axes[0, np.abs(axes[0]).argmax()])
    along = mesh.vertices[around].mean(axis=1) @ axis
    # An irrational offset, so that rounding does not decide between evenly spaced tets.
    stretch = np.round((along - along.min()) / (STRETCH * cell) + 0.137)
    held[around[np.unique(stretch, return_index=True)[1]]] = True


#: Change of distance, in cells, from which skin points count as moving apart.
APART = 0.5
#: They belong to different folds if the path along the skin is this many times longer.
ALONG = 3.0
#: Number of poses tested, far from each other.
POSES = 24
#: Largest distance of skin from its tets, in cells.
MOST_AWAY = 0.75


def without_bridges(character: Character, mesh: TetMesh, anatomy: Anatomy) -> TetMesh:
    """Return the mesh without tets that bridge skin which moves apart.

    An edge of a tet is a bridge if the skin points nearest to its ends move relatively by more than
    half a cell over the motions, are more than three times farther apart along the skin than
    straight, and the segment between them leaves the body. Bridging tets are kept where skin would
    be far from all others.
    """
    frames = character.sampled_poses()
    if len(frames) < 2:
        return mesh
    bridging = _bridging_tets(character, mesh, anatomy, frames)
    if not bridging.any():
        return mesh
    skin = character.surface.vertices[np.unique(flesh_triangles(anatomy))]
    kept = _needed(skin, mesh, bridging)
    if kept.all() or not kept.any():
        return mesh
    used, tets = np.unique(mesh.tets[kept], return_inverse=True)
    return TetMesh(*split_pinches(mesh.vertices[used], tets.reshape(-1, 4)))


def _bridging_tets(character: Character, mesh: TetMesh, anatomy: Anatomy, frames: Floats) -> Bools:
    """Return the mask (T,) of tets with an edge that bridges skin which moves apart."""
    surface, cell = character.surface, typical_edge(mesh)
    ends = np.sort(mesh.tets[:, EDGES].reshape(-1, 2), axis=1)
    keys, edge_of = np.unique(row_keys(ends, len(mesh.vertices)), return_inverse=True)
    a, b = keys // len(mesh.vertices), keys % len(mesh.vertices)
    triangles = flesh_triangles(anatomy)
    nearest = _nearest_vertices(surface.vertices, triangles, mesh.vertices)
    p, q = nearest[a], nearest[b]
    straight = np.linalg.norm(surface.vertices[p] - surface.vertices[q], axis=1)
    at = np.flatnonzero((p != q) & _leave_body(anatomy, surface.vertices[p], surface.vertices[q]))
    change = np.zeros(len(at))
    chosen = frames[farthest_poses(character.rig, frames, min(POSES, len(frames)))]
    for pose in chosen:
        skin = character.rig(pose)
        now = np.linalg.norm(skin[p[at]] - skin[q[at]], axis=1)
        np.maximum(change, np.abs(now - straight[at]), out=change)
    at = at[change > APART * cell]
    at = at[_far_along(surface.vertices, surface.triangles, p[at], q[at], straight[at])]
    bridge = np.zeros(len(keys), bool)
    bridge[at] = True
    return np.asarray(bridge[edge_of].reshape(-1, 6).any(axis=1), bool)


def _nearest_vertices(vertices: Floats, triangles: Ints, points: Floats) -> Ints:
    """Return the surface vertices (m,) nearest to the surface points nearest to `points`."""
    tree = igl.AABB()
    tree.init(vertices, triangles)
    _, triangle, place = tree.squared_distance(vertices, triangles, points)
    corners = triangles[triangle]
    distances = np.linalg.norm(vertices[corners] - place[:, None], axis=2)
    return corners[np.arange(len(corners)), distances.argmin(axis=1)]


def _leave_body(anatomy: Anatomy, starts: Floats, ends: Floats) -> Bools:
    """Return the mask (m,) of segments that are partly outside the body."""
    outside = np.zeros(len(starts), bool)
    for part in (0.25, 0.5, 0.75):
        outside |= anatomy.balls.depth(starts + part * (ends - starts)) < 0
    return outside


def _far_along(
    vertices: Floats, triangles: Ints, starts: Ints, ends: Ints, straight: Floats
) -> Bools:
    """Return the mask (m,) of pairs whose path along the skin is `ALONG` times the straight one."""
    if not len(starts):
        return np.zeros(0, bool)
    sides = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    lengths = np.linalg.norm(vertices[sides[:, 0]] - vertices[sides[:, 1]], axis=1)
    n = len(vertices)
    graph = sp.coo_array((lengths, (sides[:, 0], sides[:, 1])), (n, n)).tocsr()
    # Edges of two triangles were summed twice.
    counts = sp.coo_array((np.ones(len(sides)), (sides[:, 0], sides[:, 1])), (n, n)).tocsr()
    graph.data /= counts.data
    sources, row = np.unique(starts, return_inverse=True)
    limit = ALONG * float(straight.max())
    far = np.zeros(len(starts), bool)
    for first in range(0, len(sources), 256):  # rows of n distances each
        here = (row >= first) & (row < first + 256)
        if here.any():
            along = dijkstra(graph, False, sources[first : first + 256], limit=limit)
            far[here] = along[row[here] - first, ends[here]] > ALONG * straight[here]
    return far


def _needed(skin: Floats, mesh: TetMesh, bridging: Bools) -> Bools:
    """Return the mask (T,) of tets to keep: bridging tets only where skin is far from others."""
    kept = ~bridging
    if not kept.any():
        return kept
    cell = typical_edge(mesh)
    distances = locate(skin, TetMesh(mesh.vertices, mesh.tets[kept])).distance
    missing = np.flatnonzero(distances > MOST_AWAY * cell)
    if len(missing):
        kept[locate(skin[missing], mesh).tet] = True
    return kept


#: Inscribed radius of a human's trunk, relative to the size.
TRUNK_RADIUS = 0.077
#: Young's modulus at rest relative to that of `flesh_material`, which does not stiffen.
SOFT_AT_REST = 0.6


@dataclass(frozen=True, eq=False)
class BodyPlan:
    """Input of builds: anatomy, tets without bridges, bone and stiffness.

    `held` (k,) are the tet vertices that are bone. `factors` (n̄,) multiply Young's modulus at the
    vertices of the skin.
    """

    anatomy: Anatomy
    mesh: TetMesh
    held: Ints
    factors: Floats


def plan_body(
    character: Character, tets: int | TetMesh, anatomy: Anatomy | None = None
) -> BodyPlan:
    """Make the body plan of a character; its motions determine which skin moves apart.

    `tets` is their number, or a mesh that fills the surface and is used unchanged.
    """
    anatomy = anatomy_of(character) if anatomy is None else anatomy
    mesh = tets if isinstance(tets, TetMesh) else _meshed(character, tets, anatomy)
    held = held_vertices(character, mesh, anatomy)
    factors = flesh_factors(anatomy, mesh)
    material = anatomical_material(anatomy)
    factors = factors * motion_firmness(character, anatomy, mesh, held, material, factors)
    return BodyPlan(anatomy, mesh, held, factors)


def _meshed(character: Character, tets: int, anatomy: Anatomy) -> TetMesh:
    """Return tets of the flesh, about `tets` of them, and one per part that follows the rig."""
    surface, riding = character.surface, anatomy.riding
    if not riding.any():
        return without_bridges(character, _filled(surface, tets), anatomy)
    flesh = _filled(_of_parts(surface, ~riding), tets)
    flesh = without_bridges(character, flesh, anatomy)
    pieces = [(flesh, np.unique(anatomy.part[~riding]))]
    cell = typical_edge(flesh)
    for part in np.unique(anatomy.part[riding]):
        pieces.append((_within(surface.vertices[anatomy.part == part], cell), np.array([part])))
    return _joined(pieces)


def _filled(surface: SurfaceMesh, tets: int) -> TetMesh:
    """Return about `tets` tets that fill a surface; they do not depend on its scale."""
    size = surface.size
    unit = SurfaceMesh(np.round(surface.vertices / size, 7), surface.triangles)
    mesh = tetrahedralise(unit, tets=tets)
    return TetMesh(mesh.vertices * size, mesh.tets)


def _within(points: Floats, cell: float) -> TetMesh:
    """Return one tet in the middle of points, no larger than a tet of edge `cell`."""
    low, high = points.min(axis=0), points.max(axis=0)
    radius = np.clip(0.5 * float(np.linalg.norm(high - low)), 0.01 * cell, 0.35 * cell)
    corners = np.array([[1.0, 1, 1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]])
    return TetMesh(0.5 * (low + high) + radius * corners, [[0, 1, 2, 3]])


def _of_parts(surface: SurfaceMesh, vertices: Bools) -> SurfaceMesh:
    """Return the surface of the triangles whose corners are all in the mask `vertices` (n̄,)."""
    triangles = surface.triangles[vertices[surface.triangles].all(axis=1)]
    used, corners = np.unique(triangles, return_inverse=True)
    return SurfaceMesh(surface.vertices[used], corners.reshape(-1, 3))


def _joined(pieces: Sequence[tuple[TetMesh, Ints]]) -> TetMesh:
    """Join meshes into one, with a set of tets for each; flesh is first.

    Each piece has its mesh and the surface components in it. The set `RIDING` has the tets of all
    pieces but the first.
    """
    vertices, tets, sets, first, at = [], [], {}, 0, 0
    for mesh, carried in pieces:
        vertices.append(mesh.vertices)
        tets.append(mesh.tets + at)
        sets[part_set(carried)] = np.arange(first, first + len(mesh.tets))
        at, first = at + len(mesh.vertices), first + len(mesh.tets)
    sets[RIDING] = np.arange(len(tets[0]), first)
    return TetMesh(np.concatenate(vertices), np.concatenate(tets), sets)


def anatomical_material(anatomy: Anatomy) -> Material:
    """Return flesh for a body of size h: E = 1.2·10⁴ Pa (h / 2 m)² min(1, R_trunk / (0.077 h))².

    R_trunk is the trunk's radius. It corrects the size, which includes spread arms: without it, the
    flesh of a sumo wrestler is 2.8 times too stiff. The last factor is at most 1, because a larger
    one halves the motion of a cow's trunk. The flesh is soft at rest, as it stiffens under strain.
    """
    size = anatomy.surface.size
    stout = anatomy.trunk_radius / (TRUNK_RADIUS * size)
    usual = flesh_material(size * min(stout, 1.0))
    return replace(usual, kind="yeoh", young=SOFT_AT_REST * float(np.asarray(usual.young)))
