"""Flesh layer between skin and bone: the tets from which a soft skeleton is built."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from supple.anatomy.anatomy import Anatomy
from supple.anatomy.body_plan import BodyPlan, anatomical_material, held_vertices, plan_body
from supple.anatomy.layers import layered_embedding
from supple.anatomy.painted_material import pose_materials
from supple.anatomy.symmetry import Mirror
from supple.arrays import Bools, Floats, Ints
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.fibres import with_fibres
from supple.errors import SuppleError
from supple.mesh.embedding import embed_parts
from supple.mesh.filling.bisection import refined
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_core
from supple.rig.tets.bone_meshes import BoneMeshes, meet_bones
from supple.rig.tets.skinned_tets import extended_influences
from supple.rig.tets.surface_samples import SurfaceSamples, typical_edge

#: Vertices of the skin whose mirror images define that of a tet vertex.
NEIGHBOURS = 12
#: Edges are at most this many times the thickness of a part, but not shorter than this part of the
#: lattice's edges; and most tets after refinement, per tet before.
THIN, LEAST_EDGE, MOST_TETS = 0.9, 0.15, 2
#: Smallest Young's modulus in Pa of flesh that bears loads.
SOFTEST = 10e3


@dataclass(frozen=True, eq=False)
class FleshLayer:
    """Tets of flesh and bone, at rest.

    `held` are the vertices in bone, `embedding` (n̄, n) weights of the tet vertices at each vertex
    of the skin, and `weights` (n, K) skinning weights of the bones at tet vertices. `skin` (n̄, 3)
    are the vertices of the skin, and `mirror` is the symmetry of a body with two sides.
    """

    mesh: TetMesh
    held: Ints
    material: Material
    embedding: sp.csr_array
    weights: sp.csr_array
    skin: Floats
    mirror: Mirror | None = None

    @cached_property
    def twins(self) -> Ints | None:
        """(n,) outer vertex at the mirror image of each outer vertex; itself on the plane.

        It is −1 where there is no skin at the mirror image, and None for a body without two sides.
        """
        if self.mirror is None:
            return None
        return mirrored_vertices(self.mirror, self.skin, self.mesh, self.outer)

    @cached_property
    def body(self) -> ElasticBody:
        """Elasticity of the tets."""
        return ElasticBody(self.mesh, self.material)

    @cached_property
    def soft(self) -> Ints:
        """Tets with a corner outside bone."""
        return np.flatnonzero(~np.isin(self.mesh.tets, self.held).all(axis=1))

    @cached_property
    def free(self) -> Ints:
        """Vertices of tets outside bone."""
        return np.setdiff1d(np.unique(self.mesh.tets), self.held)

    @cached_property
    def outer(self) -> Ints:
        """(p,) vertices of the boundary outside bone."""
        return np.setdiff1d(np.unique(self.mesh.boundary()), self.held)

    @cached_property
    def normals(self) -> Floats:
        """(p, 3) outward normals of the outer vertices."""
        corners = self.mesh.boundary()
        a, b, c = (self.mesh.vertices[corners[:, i]] for i in range(3))
        areas, normals = np.cross(b - a, c - a), np.zeros_like(self.mesh.vertices)
        for i in range(3):
            np.add.at(normals, corners[:, i], areas)
        normals = normals[self.outer]
        return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)

    @cached_property
    def youngs(self) -> Floats:
        """(T,) Young's modulus of each tet; the mean over axes if orthotropic."""
        young = np.asarray(self.material.young, np.float64)
        count = len(self.mesh.tets)
        if young.ndim == 2 or (young.shape == (3,) and not self.material.isotropic):
            young = young.mean(axis=-1)
        return np.broadcast_to(young, (count,))

    def thickness(self, skin: Floats) -> Floats:
        """Return distances (n̄,) in m of skin points to bone; without bone, the skin's extent."""
        if not len(self.held):
            return np.full(len(skin), float(np.ptp(skin, axis=0).max()))
        distances: Floats = cKDTree(self.mesh.vertices[self.held]).query(skin)[0]
        return distances

    @property
    def typical_material(self) -> Material:
        """Material with the median over tets of each constant."""
        young, poisson, density = (
            float(np.median(np.asarray(value, np.float64)))
            for value in (self.material.young, self.material.poisson, self.material.density)
        )
        return Material(self.material.kind, young, poisson, density)


def mirrored_vertices(mirror: Mirror, skin: Floats, mesh: TetMesh, among: Ints) -> Ints:
    """Return the vertex of `among` (k,) nearest to the mirror image of each of them, in (n,).

    The mirror image is that of the `skin` (n̄, 3): its vertices around a point are mapped by the
    reflection that fits them to their images. The entry is −1 for vertices outside `among`, and
    where the skin has no counterpart.
    """
    paired, images = np.flatnonzero(mirror.has), mirror.counterpart @ skin
    positions = mesh.vertices[among]
    count = min(NEIGHBOURS, len(paired))
    near = paired[cKDTree(skin[paired]).query(positions, k=count)[1]].reshape(len(among), -1)
    a, b = skin[near], images[near]
    centres, moved = a.mean(axis=1), b.mean(axis=1)
    cross = np.einsum("pki,pkj->pij", a - centres[:, None], b - moved[:, None])
    u, _, vt = np.linalg.svd(cross)
    signs = np.ones((len(among), 3))
    signs[:, 2] = -np.sign(np.linalg.det(u @ vt))  # a reflection
    offsets = np.einsum("pi,pij,pj,pjk->pk", positions - centres, u, signs, vt)
    nearest = cKDTree(positions).query(moved + offsets)[1]
    on_skin = cKDTree(skin).query(positions)[1]
    result = np.full(len(mesh.vertices), -1)
    result[among] = np.where(mirror.has[on_skin] > 0, among[nearest], -1)
    return result


def _refined_limbs(character: Character, plan: BodyPlan) -> tuple[TetMesh, Ints]:
    """Return tets that are smaller in thin parts, such as fingers, and their bone vertices.

    In fingers as thick as two tets, all vertices were bone but for a few.
    """
    anatomy, mesh = plan.anatomy, plan.mesh
    if anatomy.hard.all():
        return mesh, plan.held
    least = LEAST_EDGE * typical_edge(mesh)
    skin, of_soft = cKDTree(anatomy.surface.vertices), ~anatomy.hard

    def marked(vertices: Floats, tets: Ints, longest: Floats) -> Bools:
        middles = vertices[tets].mean(axis=1)
        thin = longest > np.maximum(THIN * anatomy.balls.thickness(middles), least)
        thin[thin] = of_soft[skin.query(middles[thin])[1]]
        return np.asarray(thin, bool)

    mesh = refined(mesh, marked, MOST_TETS * len(mesh.tets))
    if len(mesh.tets) == len(plan.mesh.tets):
        return plan.mesh, plan.held
    return mesh, held_vertices(character, mesh, plan.anatomy)


def _on_both_sides(held: Ints, mirror: Mirror, skin: Floats, mesh: TetMesh) -> Ints:
    """Return bone vertices with those at mirror images of bone: the lattice decides either way."""
    twins = mirrored_vertices(mirror, skin, mesh, np.unique(mesh.tets))
    others = twins[held]
    mutual = (others >= 0) & (twins[others] == held)
    both: Ints = np.union1d(held, others[mutual])
    return both


def flesh_layer(
    character: Character,
    bones: RigBones,
    tets: int | TetMesh,
    anatomy: Anatomy | None,
    material: Material | None,
    skeleton: BoneMeshes | None = None,
    young: ArrayLike | None = None,
) -> FleshLayer:
    """Fill a character with tets, and find the vertices in bone.

    By default the anatomy is derived from the shape, the material is the anatomy's, and the depth
    of bone is the anatomy's. `young` in Pa on the skin overrides the material's.
    """
    surface = character.surface
    plan = plan_body(character, tets, anatomy)
    mesh, held = plan.mesh, plan.held
    mirror = None if plan.anatomy.skin is None else plan.anatomy.skin.mirror
    if skeleton is not None:
        mesh, held, joints = meet_bones(mesh, skeleton)
    elif not isinstance(tets, TetMesh):
        mesh, held = _refined_limbs(character, plan)
    if skeleton is None and mirror is not None:
        held = _on_both_sides(held, mirror, surface.vertices, mesh)
    chosen = _load_bearing(anatomical_material(plan.anatomy)) if material is None else material
    embedding = embed_parts(surface, surface.vertices, np.arange(len(surface.vertices)), mesh)
    if young is None and material is None:
        young = plan.factors * np.asarray(chosen.young)
    fibrous = not chosen.isotropic and chosen.axes is None and np.size(chosen.young) == 1
    painted = replace(chosen, kind="neo-hookean") if fibrous else chosen
    painted = pose_materials(painted, mesh, embedding, 1, young=young)[0]
    embedding = layered_embedding(embedding, surface, mesh, plan.anatomy.followed)
    weights = _tet_weights(character, bones, mesh)
    if skeleton is not None:
        weights = _on_bones(weights, bones, held, joints)
    if fibrous:
        core = skinned_core(character.rig)
        assert core is not None
        painted = replace(painted, kind=chosen.kind, saturation=chosen.saturation)
        painted = with_fibres(painted, core.rig, tuple(bones.names), weights, mesh)
    layer = FleshLayer(
        mesh, held, painted, sp.csr_array(embedding), weights, surface.vertices, mirror
    )
    if not len(layer.outer):
        raise SuppleError("all tets are bone; use more tets, or an anatomy with flesh")
    return layer


def _tet_weights(character: Character, bones: RigBones, mesh: TetMesh) -> sp.csr_array:
    """Return weights (n, K) of the bones at tet vertices."""
    core = skinned_core(character.rig)
    assert core is not None
    samples = SurfaceSamples.of(character.surface, mesh)
    joints, values = extended_influences(core.rig, mesh, samples)
    n, count = joints.shape
    total = core.rig.skeleton.n_joints
    rows = np.repeat(np.arange(n), count)
    matrix = sp.coo_array((values.ravel(), (rows, joints.ravel())), (n, total))
    result = sp.csr_array(matrix.tocsr()[:, bones.joint_indices])
    result.eliminate_zeros()
    return result


def _on_bones(weights: sp.csr_array, bones: RigBones, held: Ints, joints: Ints) -> sp.csr_array:
    """Return weights (n, K) with vertices in bone attached to their joints (k,) only."""
    place = np.full(max(int(joints.max(initial=0)), int(bones.joint_indices.max())) + 1, -1)
    place[bones.joint_indices] = np.arange(len(bones.joint_indices))
    if (place[joints] < 0).any():
        missing = int(joints[place[joints] < 0][0])
        raise SuppleError(f"a bone follows joint {missing}, which moves no skin of the rig")
    result = weights.tolil()
    result[held] = 0.0
    result[held, place[joints]] = 1.0
    return sp.csr_array(result)


def _load_bearing(material: Material) -> Material:
    """Return the material with its smallest Young's modulus everywhere, at least `SOFTEST`.

    An anatomy's flesh has the dynamics of a whole body, and is too soft in small parts: with 200 Pa
    in a hand, a ball of 200 g falls through it.
    """
    young = max(float(np.min(material.young)), SOFTEST)
    return replace(material, young=young)
