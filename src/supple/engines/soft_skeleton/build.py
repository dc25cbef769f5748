"""Building a soft skeleton from a character."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from supple.anatomy.anatomy import Anatomy
from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_choice, checked_count, checked_number, shown
from supple.elastic.material import Material
from supple.engines.soft_skeleton.bones.body_points import point_tables
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.cubature import (
    TetCubature,
    fitted_cubature,
    mass_weights,
    oblivious_cubature,
)
from supple.engines.soft_skeleton.flesh.deformation_bases import BASES, flesh_stiffness
from supple.engines.soft_skeleton.flesh.handles import Handles
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer, flesh_layer
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import same_entries
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character
from supple.rig.stored.packed_arrays import rounded
from supple.rig.stored.schema import rounded_rows
from supple.rig.tets.bone_meshes import BoneMeshes
from supple.rig.tets.surface_samples import typical_edge

#: Sampling of the paper's cubature by name of the method.
CUBATURES = {
    "fitted": "",
    "paper": "uniform",
    "paper-colocated": "colocated",
    "paper-importance": "importance",
}
#: Radius of the residual flexibility, in tet edges, and right-hand sides per solve for it.
REACH, BATCH = 3.0, 256


def build(
    character: Character,
    *,
    handles: Handles | int | ArrayLike = 90,
    basis: str = "handles",
    denser: Mapping[str, float] | ArrayLike | None = None,
    tets: int | TetMesh = 12_000,
    anatomy: Anatomy | Literal["auto"] = "auto",
    skeleton: BoneMeshes | None = None,
    material: Material | None = None,
    young: ArrayLike | None = None,
    cubature: int = 600,
    cubature_method: str = "fitted",
    points: int = 400,
    seed: int = 0,
    log: BuildLog | None = None,
) -> SoftSkeletonModel:
    """Build a model of rotating bones, flesh on them, and skin in contact (tapia2021).

    Parameters
    ----------
    character
        A surface, its rig with one skeleton and linear skinning, and motions.
    handles
        Number of handles on the skin, three coordinates each; or those chosen by hand: vertices of
        the skin (h,), points (h, 3) at rest, or `Handles`. Bodies with two sides have the same on
        both, unless ``Handles(mirror=False)``.
    basis
        ``"handles"``; ``"paper"``: linearly precise; ``"interior"``: handles inside as well;
        ``"modal"``: softest modes; ``"responses"``: half as many handles, and responses to loads on
        patches.
    denser
        Relative density of handles by bone name, as in ``{"*hand*": 3}``, or painted (n̄,).
    tets
        Number of tets, or a `TetMesh` that fills the surface.
    anatomy
        Bone and flesh: ``"auto"``, or an `Anatomy`.
    skeleton
        Meshes of bones, instead of bone as deep as in the anatomy; see `read_bone_meshes`.
    material, young
        Material of the flesh, by default the anatomy's; and Young's modulus in Pa at each
        skin vertex.
    cubature, points
        Number of tets for the energy, and of points for the mass.
    cubature_method
        ``"fitted"`` to forces; ``"paper"``: points by volume, without examples;
        ``"paper-colocated"``: at the handles; ``"paper-importance"``.
    seed
        Random seed. The same seed gives the same bytes.
    log
        Receives stages and progress.
    """
    _check_kinds(character, skeleton)
    log = BuildLog() if log is None else log
    chosen_handles = Handles.of(handles)
    for name, value in (("cubature", cubature), ("points", points)):
        checked_count(name, value)
    checked_choice("basis", basis, BASES)
    checked_choice("cubature_method", cubature_method, CUBATURES)
    bones = RigBones(character.rig)
    with single_threaded():
        with log.stage("tets"):
            chosen = None if isinstance(anatomy, str) else anatomy
            layer = flesh_layer(character, bones, tets, chosen, material, skeleton, young)
        with log.stage("handles"):
            near = _nearness(denser, character, bones, layer)
            shapes, at = BASES[basis](layer, chosen_handles, near)
        with log.stage("cubature"):
            chosen_tets = _cubature(layer, shapes, at, cubature, cubature_method, seed, log)
        with log.stage("contact"):
            motion = _residual_flexibility(layer, shapes)
        with log.stage("points"):
            tables = _points(character, bones, layer, shapes, points, seed)
    return SoftSkeletonModel(
        bones=tuple(bones.names),
        parents=bones.parents,
        joints=bones.joints,
        flesh=chosen_tets.tables,
        stiffness=chosen_tets.stiffness,
        error=chosen_tets.error,
        motion=motion,
        **tables,
        **_of_layer(character, layer, at),
    )


def _check_kinds(character: object, skeleton: object) -> None:
    if not isinstance(character, Character):
        raise SuppleError(f"build needs a Character, not {shown(character)}; see supple.load")
    if not (skeleton is None or isinstance(skeleton, BoneMeshes)):
        raise SuppleError(f"skeleton must be BoneMeshes, not {shown(skeleton)}")


def _cubature(
    layer: FleshLayer,
    shapes: list[sp.csr_array],
    handles: Ints,
    count: int,
    method: str,
    seed: int,
    log: BuildLog,
) -> TetCubature:
    if method == "fitted":
        return fitted_cubature(layer, shapes, count, seed, log.report)
    return oblivious_cubature(layer, shapes, handles, count, seed, CUBATURES[method])


def _residual_flexibility(
    layer: FleshLayer, shapes: list[sp.csr_array]
) -> tuple[sp.csr_array, ...]:
    """Return (K⁻¹ − U (UᵀKU)⁻¹ Uᵀ) Nᵀ: the response to normal loads that handles lack.

    Handles are three to five times too stiff under a small sphere. With this flexibility added at
    contacts, the force is 1.00 to 1.06 times that of the full flesh; with 82 handles alone it was
    3.1 to 4.2 times. `shapes` are x, y and z of U (n, m). Returns x, y and z of
    the motion (p, p) of the outer vertices, a row each, by a force of 1 N along the normal of each,
    a column; entries between distant vertices are dropped.
    """
    n, p, positions = len(layer.mesh.vertices), len(layer.outer), layer.mesh.vertices[layer.outer]
    stiffness, unknown = flesh_stiffness(layer)
    factor = SparseCholesky(stiffness, block=3).factorise(stiffness)
    by_vertex = np.arange(3 * n).reshape(3, n).T.ravel()  # x, y, z of each vertex in turn
    basis = sp.csr_array(sp.vstack([sp.csr_array(each) for each in shapes])[by_vertex])[unknown]
    reduced = (basis.T @ (stiffness @ basis)).toarray()
    rows = np.searchsorted(unknown, 3 * layer.outer[:, None] + np.arange(3))
    reach = REACH * typical_edge(layer.mesh)
    pairs = cKDTree(positions).query_pairs(reach, output_type="ndarray")
    one_way = sp.coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), (p, p))
    near = sp.csr_array(one_way + one_way.T + sp.eye_array(p))
    parts: list[list[sp.csr_array]] = [[], [], []]
    for first in range(0, p, BATCH):
        batch = slice(first, min(first + BATCH, p))
        count = batch.stop - first
        load = np.zeros((len(unknown), count))
        load[rows[batch], np.arange(count)[:, None]] = layer.normals[batch]
        responses = factor.solve(load) - basis @ np.linalg.solve(reduced, basis.T @ load)
        displacements = responses[rows]  # (p, 3, count)
        mask = near[:, batch].toarray() > 0  # (p, count)
        for i in range(3):
            parts[i].append(sp.csr_array(np.where(mask, displacements[:, i], 0.0)))
    return tuple(rounded_rows(sp.csr_array(sp.hstack(part))) for part in parts)


def _nearness(
    denser: Mapping[str, float] | ArrayLike | None,
    character: Character,
    bones: RigBones,
    layer: FleshLayer,
) -> Floats | None:
    """Return the relative density (n,) of handles by tet vertex; None for a uniform one."""
    if denser is None:
        return None
    skin = character.surface.vertices
    painted = np.ones(len(skin))
    if isinstance(denser, Mapping):
        for pattern, times in denser.items():
            named = [k for k, name in enumerate(bones.names) if fnmatchcase(name, pattern)]
            if not named:
                checked_choice("bone", pattern, bones.names)
            selected = np.asarray(bones.weights[:, named].sum(axis=1)).ravel() > 0.5
            painted[selected] = checked_number(f'denser["{pattern}"]', times)
    else:
        painted = checked_array("denser", denser, (len(skin),))
    if not (painted > 0).all():
        raise SuppleError(f"`denser` must be positive, not {painted.min():g}")
    return painted[cKDTree(skin).query(layer.mesh.vertices)[1]]


def _of_layer(character: Character, layer: FleshLayer, handles: Ints) -> dict[str, Any]:
    """Return the model's fields from the character and the tets."""
    skin = character.surface
    near = cKDTree(skin.vertices).query(layer.mesh.vertices[handles])[1]
    return {
        "name": character.name,
        "surface": skin,
        "rig": character.rig,
        "motions": dict(character.motions),
        "material": layer.typical_material,
        "areas": skin.vertex_areas(),
        "thickness": layer.thickness(skin.vertices),
        "spread": rounded_rows(layer.embedding[:, layer.outer]),
        "normals": layer.normals,
        "handles": near.astype(np.int64),
        "sizes": {"tets": len(layer.mesh.tets), "tet_vertices": len(layer.mesh.vertices)},
    }


def _points(
    character: Character,
    bones: RigBones,
    layer: FleshLayer,
    shapes: list[sp.csr_array],
    count: int,
    seed: int,
) -> dict[str, Any]:
    """Return the model's fields ``points``, ``masses``, ``skin`` and ``inertias``."""
    rest, skin = np.asarray(character.rig.rest_pose, np.float64), character.surface.vertices
    weights = layer.weights
    masses = _fullness(character.surface, layer) * layer.body.vertex_masses()
    bound = bones.unposed(layer.mesh.vertices, weights, rest)
    chosen, kilograms = mass_weights(bound, masses, weights, count, seed)
    rotations = _unposing(bones, weights, rest)
    inside = [sp.csr_array(each[chosen]) for each in shapes]
    at_skin = same_entries([sp.csr_array(layer.embedding @ each) for each in shapes])
    return {
        "points": point_tables(
            bones.parents,
            bound[chosen],
            sp.csr_array(weights[chosen]),
            _rotated(inside, rotations[chosen]),
        ),
        "masses": kilograms,
        "skin": point_tables(
            bones.parents,
            bones.unposed(skin, bones.weights, rest),
            bones.weights,
            _rotated(at_skin, _unposing(bones, bones.weights, rest)),
        ),
        "inertias": _inertias(bones, bound, masses, weights),
    }


def _fullness(surface: SurfaceMesh, layer: FleshLayer) -> float:
    """Return the skin's volume over that of the tets, or 1 if it is not between 0.5 and 1.2.

    Tets extend beyond the skin: with 3,000 of them a person of 70 kg weighed 90 kg.
    """
    inside, filled = surface.volume(), float(layer.mesh.volumes().sum())
    return inside / filled if 0.5 * filled < inside < 1.2 * filled else 1.0


def _unposing(bones: RigBones, weights: sp.csr_array, rest: Floats) -> Floats:
    """Return matrices (n, 3, 3) that take directions at rest to the bind pose."""
    rotations = bones.rotations(rest)[0]
    blend = (weights @ rotations.reshape(-1, 9)).reshape(-1, 3, 3)
    return np.linalg.inv(blend)


def _rotated(shapes: list[sp.csr_array], rotations: Floats) -> list[sp.csr_array]:
    """Return x, y and z of Ψ with directions transformed by `rotations` (n, 3, 3) of the points."""
    pattern = shapes[0]
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    values = np.column_stack([each.data for each in shapes])
    rotated = np.einsum("nij,nj->ni", rotations[rows], values)
    positions = pattern.indices, pattern.indptr
    return [
        sp.csr_array((rounded(rotated[:, i]).astype(float), *positions), pattern.shape)
        for i in range(3)
    ]


def _inertias(bones: RigBones, bound: Floats, masses: Floats, weights: sp.csr_array) -> Floats:
    """Return the mean moment of inertia (K,) in kg m², about each joint, of all bones below it."""
    count, parents = len(bones.parents), bones.parents
    inertias, table = np.zeros(count), weights.toarray() * masses[:, None]
    for joint in range(count):
        hangs = np.zeros(count, bool)
        hangs[joint] = True
        for k in range(joint + 1, count):
            hangs[k] = hangs[parents[k]] and parents[k] >= joint
        squared_distances = ((bound - bones.joints[joint]) ** 2).sum(axis=1)
        inertias[joint] = 2 / 3 * float(table[:, hangs].sum(axis=1) @ squared_distances)
    return inertias
