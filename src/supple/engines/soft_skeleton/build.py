"""Building a soft skeleton of a character."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from supple.anatomy.anatomy import Anatomy
from supple.anatomy.body_plan import anatomical_material, plan_body
from supple.anatomy.painted_material import pose_materials
from supple.anatomy.skin_regions import vertex_areas
from supple.arrays import Floats
from supple.checks import checked_count, shown
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.soft_skeleton.bones.body_points import point_tables
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.flesh_energy import add_flesh_terms, flesh_tables
from supple.engines.soft_skeleton.flesh.handle_weights import farthest_handles, handle_weights
from supple.engines.soft_skeleton.flesh.residual_flexibility import residual_flexibility
from supple.engines.soft_skeleton.flesh.tet_cubature import (
    force_samples,
    lloyd_tets,
    mass_weights,
    weighed_tets,
)
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.mesh.embedding import embed_parts
from supple.mesh.tets import TetMesh
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_core
from supple.rig.tets.carried_weights import carried_influences
from supple.rig.tets.surface_samples import SurfaceSamples, typical_edge

__all__ = ["build"]

#: Coordinates that cubature is fitted to, and their strength.
SAMPLES, STRAIN = 90, 1.0
#: Points of the skin feel each other's contact beside the handles within so many edges of tets.
REACH = 2.5


def build(
    character: Character,
    *,
    handles: int = 90,
    tets: int | TetMesh = 12_000,
    anatomy: Anatomy | Literal["auto"] = "auto",
    material: Material | None = None,
    cubature: int = 600,
    points: int = 400,
    seed: int = 0,
    log: BuildLog | None = None,
) -> SoftSkeletonModel:
    """Build a model of bones that turn, flesh on them, and skin that touches (tapia2021).

    Parameters
    ----------
    character
        A surface, its rig with one skeleton and linear skinning, and motions.
    handles
        Places of the skin that flesh is moved by, three coordinates each.
    tets
        Number of tets to make, or tets that fill the surface. They are needed here only.
    anatomy
        Bone and flesh: ``"auto"``, or an `Anatomy`.
    material
        Of the flesh; by default that of the anatomy.
    cubature, points
        Tets that stand for the energy of all, and points for their mass.
    seed
        Of the samples. The same seed gives the same bytes.
    log
        Told about stages and progress.
    """
    if not isinstance(character, Character):
        raise SuppleError(f"build needs a Character, not {shown(character)}; see supple.load")
    log = BuildLog() if log is None else log
    for name, value in (("handles", handles), ("cubature", cubature), ("points", points)):
        checked_count(name, value)
    rig, surface = character.rig, character.surface
    bones = RigBones(rig)
    rest = np.asarray(rig.rest_pose, np.float64)
    with single_threaded():
        with log.stage("tets"):
            plan = plan_body(character, tets, None if isinstance(anatomy, str) else anatomy)
            mesh, held = plan.mesh, plan.held
            used = anatomical_material(plan.anatomy) if material is None else material
            n_skin = len(surface.vertices)
            places = embed_parts(surface, surface.vertices, np.arange(n_skin), mesh)
            young = plan.factors * np.asarray(used.young) if material is None else None
            used = pose_materials(used, mesh, places, 1, young=young)[0]
            weights = _tet_weights(character, bones, mesh)
        with log.stage("handles"):
            skin = np.setdiff1d(np.unique(mesh.boundary()), held)
            chosen = farthest_handles(mesh, skin, handles)
            reach = handle_weights(mesh, held, chosen)
            shapes = _coordinates(reach)
        with log.stage("cubature"):
            soft = np.flatnonzero(~np.isin(mesh.tets, held).all(axis=1))
            whole = flesh_tables(mesh, used, shapes, soft, np.ones(len(soft)))
            m = 3 * len(chosen)
            stiffness, slope = np.zeros((m, m)), np.zeros(m)
            add_flesh_terms(used.code, 1.0, whole, np.zeros(m), 0, slope, stiffness, 2)
            stiffness = np.triu(stiffness) + np.triu(stiffness, 1).T
            samples = force_samples(stiffness, SAMPLES, STRAIN, seed)
            few, volumes = lloyd_tets(mesh, soft, cubature, seed)
            flesh, error = weighed_tets(mesh, used, shapes, whole, few, volumes, samples)
            body = ElasticBody(mesh, used)
            masses = body.vertex_masses()
            bound = bones.unposed(mesh.vertices, weights, rest)
            own, kilograms = mass_weights(bound, masses, weights, points, seed)
        with log.stage("contact"):
            free = np.setdiff1d(np.unique(mesh.tets), held)
            outer = np.setdiff1d(np.unique(mesh.boundary()), held)
            flexible, motion = residual_flexibility(
                body, free, shapes, outer, _normals(mesh)[outer], REACH * typical_edge(mesh)
            )
            spread = sp.csr_array(places[:, outer])
            residual = sp.csr_array(spread @ flexible @ spread.T)
            moved = [sp.csr_array(spread @ each @ spread.T) for each in motion]
    unposed = _unposing(bones, weights, rest)
    at_skin = [sp.csr_array(places @ each) for each in shapes]
    return SoftSkeletonModel(
        name=character.name,
        surface=surface,
        rig=rig,
        bones=tuple(bones.names),
        parents=bones.parents,
        joints=bones.joints,
        material=used,
        flesh=flesh,
        stiffness=stiffness,
        points=point_tables(
            bones.parents,
            bound[own],
            sp.csr_array(weights[own]),
            _turned([sp.csr_array(each[own]) for each in shapes], unposed[own]),
        ),
        masses=kilograms,
        skin=point_tables(
            bones.parents,
            bones.unposed(surface.vertices, bones.weights, rest),
            bones.weights,
            _turned(at_skin, _unposing(bones, bones.weights, rest)),
        ),
        areas=vertex_areas(surface),
        residual=residual,
        motion=moved,
        inertias=_inertias(bones, bound, masses, weights),
        handles=chosen,
        error=error,
        motions=dict(character.motions),
    )


def _tet_weights(character: Character, bones: RigBones, mesh: TetMesh) -> sp.csr_array:
    """(n, K) weights of the bones at tet vertices."""
    core = skinned_core(character.rig)
    assert core is not None
    samples = SurfaceSamples.of(character.surface, mesh)
    joints, values = carried_influences(core.rig, mesh, samples)
    n, count = joints.shape
    total = core.rig.skeleton.n_joints
    rows = np.repeat(np.arange(n), count)
    matrix = sp.coo_array((values.ravel(), (rows, joints.ravel())), (n, total))
    found = sp.csr_array(matrix.tocsr()[:, bones.kept])
    found.eliminate_zeros()
    return found


def _coordinates(reach: sp.csr_array) -> list[sp.csr_array]:
    """x, y and z (n, 3h) of three coordinates for each handle, all with the same entries."""
    return [_of_axis(sp.csr_array(reach), axis) for axis in range(3)]


def _of_axis(reach: sp.csr_array, axis: int) -> sp.csr_array:
    columns = (3 * reach.indices[:, None] + np.arange(3)).ravel()
    values = np.zeros((len(reach.data), 3))
    values[:, axis] = reach.data
    return sp.csr_array(
        (values.ravel(), columns, 3 * reach.indptr), (reach.shape[0], 3 * reach.shape[1])
    )


def _unposing(bones: RigBones, weights: sp.csr_array, rest: Floats) -> Floats:
    """(n, 3, 3) what turns directions at rest to where the skin was bound."""
    turns = bones.turns(rest)[0]
    blend = (weights @ turns.reshape(-1, 9)).reshape(-1, 3, 3)
    return np.linalg.inv(blend)


def _turned(shapes: list[sp.csr_array], turns: Floats) -> list[sp.csr_array]:
    """Turn the directions of Ψ by a matrix for each point."""
    pattern = shapes[0]
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    values = np.column_stack([each.data for each in shapes])
    turned = np.einsum("nij,nj->ni", turns[rows], values)
    return [
        sp.csr_array((turned[:, i], pattern.indices, pattern.indptr), pattern.shape)
        for i in range(3)
    ]


def _normals(mesh: TetMesh) -> Floats:
    """(n, 3) unit normals of the boundary, outwards."""
    corners = mesh.boundary()
    a, b, c = (mesh.vertices[corners[:, i]] for i in range(3))
    found = np.zeros_like(mesh.vertices)
    for i in range(3):
        np.add.at(found, corners[:, i], np.cross(b - a, c - a))
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-300)


def _inertias(bones: RigBones, bound: Floats, masses: Floats, weights: sp.csr_array) -> Floats:
    """(K,) mean moment of inertia of what hangs on each joint, about it."""
    count, parents = len(bones.parents), bones.parents
    found, table = np.zeros(count), weights.toarray() * masses[:, None]
    for joint in range(count):
        hangs = np.zeros(count, bool)
        hangs[joint] = True
        for k in range(joint + 1, count):
            hangs[k] = hangs[parents[k]] and parents[k] >= joint
        away = ((bound - bones.joints[joint]) ** 2).sum(axis=1)
        found[joint] = 2 / 3 * float(table[:, hangs].sum(axis=1) @ away)
    return found
