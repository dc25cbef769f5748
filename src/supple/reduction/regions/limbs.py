"""Limbs of a skeleton: joints grouped by branches of the skeleton and by their flesh."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from supple.arrays import Bools, Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.skinned_tets import extended_influences
from supple.rig.tets.surface_samples import SurfaceSamples

Contact = dict[int, dict[int, float]]


# A branch of the skeleton is a limb if it has this fraction of the flesh,
_HEAVY = 0.04


# or, as a tail, this fraction and this length relative to the body's size.
_LIGHT, _LONG = 0.005, 0.15


# Weight of flesh that follows two joints, relative to tets between them.
_FOLLOWING = 1e-3


#: A small branch joins its parent if they touch by at least this fraction of its largest contact.
HANGS = 0.1


class CarriedFlesh:
    """Flesh of each joint. Joint J, beyond the last, is the parent of all roots."""

    def __init__(self, rig: SkinnedRig, surface: SurfaceMesh, mesh: TetMesh) -> None:
        count = rig.skeleton.n_joints
        joints, weights = extended_influences(rig, mesh, SurfaceSamples.of(surface, mesh))
        quarters = np.repeat(mesh.volumes() / (4 * mesh.volumes().sum()), 4)
        volumes = np.bincount(mesh.tets.ravel(), quarters, len(joints)).astype(np.float64)
        carried = (weights * volumes[:, None]).ravel()
        self.n = count
        self.places = rig.skeleton.rest_world()[:, :3, 3]
        self.parents = np.append(
            np.where(rig.skeleton.parents < 0, count, rig.skeleton.parents), -1
        )
        self.part = np.bincount(joints.ravel(), carried, count + 1)
        self.vertex_part = volumes
        self.joints, self.weights = joints, weights
        self.tets = mesh.tets
        self.points = mesh.vertices
        self.joint_of = joints[np.arange(len(joints)), weights.argmax(axis=1)].astype(np.int64)
        self.size = mesh.size

    def branches(self) -> Bools:
        """Return a mask (J + 1,) of joints with a limb's flesh at or below them, and ancestors."""
        below, reach = self.part.copy(), np.zeros(self.n + 1)
        at = self.joint_of
        points = self.points
        while len(at):
            np.maximum.at(reach, at, np.linalg.norm(points - self.places[at], axis=1))
            up = self.parents[at]
            at, points = up[up < self.n], points[up < self.n]
        for joint in range(self.n - 1, -1, -1):
            below[self.parents[joint]] += below[joint]
        limb_joints = (below >= _HEAVY) | ((below >= _LIGHT) & (reach >= _LONG * self.size))
        limb_joints[self.n] = True
        for joint in range(self.n - 1, -1, -1):
            limb_joints[self.parents[joint]] |= limb_joints[joint]
        return limb_joints

    def owners(self, limb_joints: Bools) -> Ints:
        """Return for each joint the joint of a limb to which its flesh is assigned, (J + 1,). Small
        branches are assigned to the joint of largest contact, which is not always the parent: feet
        driven by inverse kinematics are children of the root.
        """
        owner = np.arange(self.n + 1)
        for joint in range(self.n):
            parent = self.parents[joint]
            if not limb_joints[joint] and not limb_joints[parent]:
                owner[joint] = owner[parent]
        contact = self.contact(owner)
        part = np.bincount(owner, self.part, self.n + 1)
        small = np.flatnonzero(~limb_joints & (owner == np.arange(self.n + 1)))
        assigned = np.arange(self.n + 1)
        for branch in small[np.argsort(part[small], kind="stable")].tolist():
            stem = _last(assigned, int(self.parents[branch]))
            touched = contact.get(branch, {})
            nearest = max(touched, key=lambda joint: (touched[joint], -joint), default=stem)
            if touched.get(stem, 0.0) >= HANGS * touched.get(nearest, 0.0):
                nearest = stem
            assigned[branch] = nearest
            _rename(contact, branch, nearest)
        return np.array([_last(assigned, joint) for joint in owner.tolist()])

    def contact(self, owner: Ints) -> Contact:
        """Measure the contact of the flesh of each two joints: the volume of tets between them,
        plus a little of the volume that follows both, as joints that are small compared with the
        tets may have no vertex.
        """
        corners = owner[self.joint_of][self.tets]
        rows, columns = np.repeat(corners, 4, axis=1).ravel(), np.tile(corners, 4).ravel()
        volumes = np.repeat(self.vertex_part[self.tets].sum(axis=1), 16)
        vertex = np.arange(len(self.joints)).repeat(self.joints.shape[1])
        shape = (len(self.joints), self.n + 1)
        entries = (self.weights.ravel(), (vertex, owner[self.joints].ravel()))
        follows = sp.csr_array(sp.coo_array(entries, shape=shape))
        between = sp.csr_array(sp.coo_array((volumes, (rows, columns)), shape=(self.n + 1,) * 2))
        both = follows.T @ (sp.diags_array(self.vertex_part) @ follows)
        shared = sp.coo_array(between + _FOLLOWING * both)
        contact: Contact = {}
        for first, second, volume in zip(
            shared.row.tolist(), shared.col.tolist(), shared.data.tolist(), strict=True
        ):
            if first != second and volume > 0:
                contact.setdefault(first, {})[second] = volume
        return contact


def _last(assigned: Ints, joint: int) -> int:
    """Return the end of a chain of assignments, and shorten the chain."""
    end = joint
    while assigned[end] != end:
        end = int(assigned[end])
    while assigned[joint] != end:
        assigned[joint], joint = end, int(assigned[joint])
    return end


def _rename(contact: Contact, old: int, new: int) -> None:
    """Replace contacts with `old` by contacts with `new`."""
    for other, volume in contact.pop(old, {}).items():
        contact[other].pop(old)
        if other != new:
            for first, second in ((new, other), (other, new)):
                row = contact.setdefault(first, {})
                row[second] = row.get(second, 0.0) + volume


#: Default limit of limbs: those of a four-legged animal with a tail, including trunk and head.
MOST_LIMBS = 8


# A chain between branchings is part of the trunk unless it has this fraction of the flesh.
_TRUNK = 0.10


# Joints with a smaller fraction of the flesh (roots on the floor) are not on a limb's path.
_NOTHING = 0.002


_LEAST_TRUNK = 0.02


# Limbs of one joint whose flesh differs by less than this are merged all or none.
_ALIKE = 0.2


@dataclass(frozen=True, eq=False)
class Limb:
    """Group of joints, in the skeleton's order; `name` is the name of the joint with most flesh.

    `path` (p, 3) are positions of its joints from the trunk outward, without side branches; at the
    end of a limb also the centre of the last joint's flesh. `vertices` are tet vertices that follow
    its joints more than others, `middle` the centre of its flesh, and `part` its fraction of the
    body's volume. `is_end` is whether it has no child limb.
    """

    name: str
    joints: tuple[str, ...]
    path: Floats
    vertices: Ints
    middle: Floats
    part: float
    is_end: bool


@dataclass(eq=False)
class _Chain:
    """Joints between two branchings."""

    parent: _Chain | None
    path: list[int] = field(default_factory=list)
    merged: list[_Chain] = field(default_factory=list)

    def all_joints(self) -> list[int]:
        """Return the joints of the chain and of chains merged into it."""
        return self.path + [joint for chain in self.merged for joint in chain.all_joints()]


def limbs_of(
    rig: SkinnedRig, surface: SurfaceMesh, mesh: TetMesh, *, most: int = MOST_LIMBS
) -> tuple[Limb, ...]:
    """Group a skeleton's joints into a trunk, which comes first, and limbs in the skeleton's order.

    Joints between two branchings are one limb. A branch with little flesh (a finger, a jaw) is
    part of the limb that it touches, unless it is long (a tail); the root and the chain of joints
    that leads to further branchings (hips and spine) are the trunk. If there are more than `most`,
    including the trunk, the lightest are merged with their parents, equals together. `surface`
    and `mesh` are the skin and the tets inside, at the rig's rest pose.
    """
    flesh = CarriedFlesh(rig, surface, mesh)
    limb_joints = flesh.branches()
    chains = _chains(flesh, limb_joints)
    owner = flesh.owners(limb_joints)
    part = np.bincount(owner, flesh.part, flesh.n + 1).astype(np.float64)
    _merge_trunk(chains, part)
    _merge_lightest(chains, part, flesh.contact(owner), most)
    limbs = [_limb(rig, flesh, chain, chains, owner, part) for chain in chains]
    return tuple(limb for limb in limbs if limb is not None)


def _chains(flesh: CarriedFlesh, limb_joints: Bools) -> list[_Chain]:
    children = np.bincount(flesh.parents[:-1][limb_joints[:-1]], minlength=flesh.n + 1)
    root = _Chain(None, [flesh.n])
    chains, chain_of = [root], {flesh.n: root}
    for joint in np.flatnonzero(limb_joints[:-1]):
        parent = int(flesh.parents[joint])
        chain = chain_of[parent]
        if children[parent] > 1:
            chain = _Chain(chain)
            chains.append(chain)
        chain.path.append(int(joint))
        chain_of[int(joint)] = chain
    return chains


def _children(chains: list[_Chain], chain: _Chain) -> list[_Chain]:
    return [other for other in chains if other.parent is chain]


def _part(chain: _Chain, part: Floats) -> float:
    return float(part[chain.all_joints()].sum())


def _merge(chains: list[_Chain], chain: _Chain, into: _Chain) -> None:
    for other in chains:
        if other.parent is chain:
            other.parent = into
    into.merged.append(chain)
    chains.remove(chain)


def _merge_trunk(chains: list[_Chain], part: Floats) -> None:
    """Merge the root with the heaviest branch that branches again, and with light chains."""
    root = chains[0]
    inner = [chain for chain in _children(chains, root) if _children(chains, chain)]
    if inner:
        onward = max(inner, key=lambda chain: _part(chain, part))
        root.path += onward.path
        onward.path = []
        _merge(chains, onward, root)
    for chain in chains[:0:-1]:
        if _children(chains, chain) and chain.parent and _part(chain, part) < _TRUNK:
            _merge(chains, chain, chain.parent)


def _merge_lightest(chains: list[_Chain], part: Floats, contact: Contact, most: int) -> None:
    while len(chains) > most:
        ends = [chain for chain in chains[1:] if not _children(chains, chain)]
        lightest = min(ends, key=lambda chain: _part(chain, part))
        limit = (1 + _ALIKE) * _part(lightest, part)
        alike = [end for end in ends if end.parent is lightest.parent and _part(end, part) <= limit]
        for chain in alike:
            _merge(chains, chain, _touched(chains, chain, contact))


def _touched(chains: list[_Chain], chain: _Chain, contact: Contact) -> _Chain:
    """Return the parent of a chain or, if they hardly touch, the chain of largest contact."""
    touched: dict[int, float] = {}
    for joint in chain.all_joints():
        for other, volume in contact.get(joint, {}).items():
            touched[other] = touched.get(other, 0.0) + volume

    def shared(other: _Chain) -> float:
        return sum(touched.get(joint, 0.0) for joint in other.all_joints())

    nearest = max((other for other in chains if other is not chain), key=shared)
    assert chain.parent is not None  # only the root has none, and it is not merged
    return chain.parent if shared(chain.parent) >= HANGS * shared(nearest) else nearest


def _limb(
    rig: SkinnedRig,
    flesh: CarriedFlesh,
    chain: _Chain,
    chains: list[_Chain],
    owner: Ints,
    part: Floats,
) -> Limb | None:
    members = np.isin(owner[:-1], chain.all_joints())
    vertices = np.flatnonzero(members[flesh.joint_of])
    # A root whose flesh all belongs to its limbs is not a limb.
    if len(vertices) == 0 or (
        chain.parent is None and flesh.part[:-1][members].sum() < _LEAST_TRUNK
    ):
        return None
    is_end = len(chains) > 1 and not _children(chains, chain)
    path = [joint for joint in chain.path if joint < flesh.n]
    path = [joint for joint in path if part[joint] >= _NOTHING] or path
    places = list(flesh.places[path])
    if path and (is_end or len(path) == 1):
        last = np.flatnonzero(owner[flesh.joint_of] == path[-1])
        places.append(_middle(flesh, last if len(last) else vertices))
    middle = _middle(flesh, vertices)
    names = rig.skeleton.names
    return Limb(
        names[int(np.argmax(np.where(members, flesh.part[:-1], -1.0)))],
        tuple(names[joint] for joint in np.flatnonzero(members)),
        np.array(places or [middle]).reshape(-1, 3),
        vertices,
        middle,
        float(flesh.part[:-1][members].sum()),
        is_end,
    )


def _middle(flesh: CarriedFlesh, vertices: Ints) -> Floats:
    share = flesh.vertex_part[vertices]
    if share.sum() <= 0:
        return flesh.points[vertices].mean(axis=0)
    return share @ flesh.points[vertices] / share.sum()
