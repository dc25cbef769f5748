"""The limbs of a skeleton: joints grouped by where it branches and by the flesh they carry."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from supple.mesh import SurfaceMesh, TetMesh
from supple.reduction.carried_flesh import HANGS, CarriedFlesh, Contact
from supple.rig.skinning import SkinnedRig

__all__ = ["MOST_LIMBS", "Limb", "limbs_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: As many limbs as a four-legged animal with a tail has, and its trunk and head.
MOST_LIMBS = 8
# What is between branchings is part of the trunk unless it carries this part of the flesh.
_TRUNK = 0.10
# Joints with less than this part of the flesh (roots on the floor) are not on a limb's path.
_NOTHING = 0.002
_LEAST_TRUNK = 0.02
# Limbs of one joint whose flesh differs by less than this are merged together or not at all.
_ALIKE = 0.2


@dataclass(frozen=True, eq=False)
class Limb:
    """A group of joints.

    Attributes
    ----------
    name
        Of the joint with most of the flesh.
    joints
        Names of all its joints, the skeleton's order.
    path
        (p, 3) places of its joints from the trunk outward, without side branches; the last is
        the middle of the last joint's flesh if nothing follows.
    vertices
        Tet vertices that follow its joints more than others.
    middle
        (3,) of its flesh.
    part
        Of the body's volume, 0 to 1.
    is_end
        Whether no other limb follows.
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
        """Also those of chains that became part of it."""
        return self.path + [joint for chain in self.merged for joint in chain.all_joints()]


def limbs_of(
    rig: SkinnedRig, surface: SurfaceMesh, mesh: TetMesh, *, most: int = MOST_LIMBS
) -> tuple[Limb, ...]:
    """Group a skeleton's joints into a trunk and limbs.

    Joints between two branchings are one limb. A branch with little flesh (a finger, a jaw) is
    part of what it touches, unless it is long (a tail); the root and the chain of joints
    that goes on to further branchings (hips and spine) are the trunk. If there are more than
    `most`, the lightest become part of what they grow from, like ones together.

    Parameters
    ----------
    rig
        The skinned rig.
    surface, mesh
        The skin and the tets inside, at the rig's rest pose.
    most
        How many limbs at most, the trunk among them.

    Returns
    -------
    tuple of Limb
        The trunk first, then in the order of the skeleton.
    """
    flesh = CarriedFlesh(rig, surface, mesh)
    matters = flesh.branches()
    chains = _chains(flesh, matters)
    owner = flesh.owners(matters)
    part = np.bincount(owner, flesh.part, flesh.n + 1).astype(np.float64)
    _merge_trunk(chains, part)
    _merge_lightest(chains, part, flesh.contact(owner), most)
    limbs = [_limb(rig, flesh, chain, chains, owner, part) for chain in chains]
    return tuple(limb for limb in limbs if limb is not None)


def _chains(flesh: CarriedFlesh, matters: NDArray[np.bool_]) -> list[_Chain]:
    children = np.bincount(flesh.parents[:-1][matters[:-1]], minlength=flesh.n + 1)
    root = _Chain(None, [flesh.n])
    chains, chain_of = [root], {flesh.n: root}
    for joint in np.flatnonzero(matters[:-1]):
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
    """The root goes on into the heaviest branch that branches again; so do light links."""
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
    """The chain that one hangs from, or if they do not touch, what it touches most."""
    touched: dict[int, float] = {}
    for joint in chain.all_joints():
        for other, volume in contact.get(joint, {}).items():
            touched[other] = touched.get(other, 0.0) + volume

    def shared(other: _Chain) -> float:
        return sum(touched.get(joint, 0.0) for joint in other.all_joints())

    nearest = max((other for other in chains if other is not chain), key=shared)
    assert chain.parent is not None  # only the root has none, and it is never merged
    return chain.parent if shared(chain.parent) >= HANGS * shared(nearest) else nearest


def _limb(
    rig: SkinnedRig,
    flesh: CarriedFlesh,
    chain: _Chain,
    chains: list[_Chain],
    owner: Ints,
    part: Floats,
) -> Limb | None:
    own = np.isin(owner[:-1], chain.all_joints())
    vertices = np.flatnonzero(own[flesh.joint_of])
    # A root from which all limbs grow, flesh and all, is not one.
    if len(vertices) == 0 or (chain.parent is None and flesh.part[:-1][own].sum() < _LEAST_TRUNK):
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
        names[int(np.argmax(np.where(own, flesh.part[:-1], -1.0)))],
        tuple(names[joint] for joint in np.flatnonzero(own)),
        np.array(places or [middle]).reshape(-1, 3),
        vertices,
        middle,
        float(flesh.part[:-1][own].sum()),
        is_end,
    )


def _middle(flesh: CarriedFlesh, vertices: Ints) -> Floats:
    share = flesh.vertex_part[vertices]
    if share.sum() <= 0:
        return flesh.points[vertices].mean(axis=0)
    return share @ flesh.points[vertices] / share.sum()
