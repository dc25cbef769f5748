"""The flesh that each joint of a skeleton carries, and which joints' flesh touches."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.mesh import SurfaceMesh, TetMesh
from supple.rig.carried_weights import carried_influences
from supple.rig.skinning import SkinnedRig
from supple.rig.surface_samples import SurfaceSamples

__all__ = ["HANGS", "CarriedFlesh", "Contact"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Contact = dict[int, dict[int, float]]

# A branch of the skeleton is a limb if it carries this part of the flesh,
_HEAVY = 0.04
# or this part, as far out from its joint as that part of the body's size: a tail.
_LIGHT, _LONG = 0.005, 0.15
# What following two joints counts, against being between them.
_FOLLOWING = 1e-3
#: A small branch stays with what it hangs from if it touches that so much, of what it could.
HANGS = 0.1


class CarriedFlesh:
    """What each joint carries. Joint J, beyond the last, is the parent of all roots."""

    def __init__(self, rig: SkinnedRig, surface: SurfaceMesh, mesh: TetMesh) -> None:
        count = rig.skeleton.n_joints
        joints, weights = carried_influences(rig, mesh, SurfaceSamples.of(surface, mesh))
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

    def branches(self) -> NDArray[np.bool_]:
        """Which joints, (J + 1,), have a limb's worth of flesh at and below them."""
        below, reach = self.part.copy(), np.zeros(self.n + 1)
        at = self.joint_of
        points = self.points
        while len(at):
            np.maximum.at(reach, at, np.linalg.norm(points - self.places[at], axis=1))
            up = self.parents[at]
            at, points = up[up < self.n], points[up < self.n]
        for joint in range(self.n - 1, -1, -1):
            below[self.parents[joint]] += below[joint]
        matters = (below >= _HEAVY) | ((below >= _LIGHT) & (reach >= _LONG * self.size))
        matters[self.n] = True
        for joint in range(self.n - 1, -1, -1):
            matters[self.parents[joint]] |= matters[joint]
        return matters

    def owners(self, matters: NDArray[np.bool_]) -> Ints:
        """The joint that matters whose flesh each joint's goes with, (J + 1,).

        Small branches go where they touch most, which is not always what they hang from: feet
        led by inverse kinematics hang from the root.
        """
        owner = np.arange(self.n + 1)
        for joint in range(self.n):
            parent = self.parents[joint]
            if not matters[joint] and not matters[parent]:
                owner[joint] = owner[parent]
        contact = self.contact(owner)
        part = np.bincount(owner, self.part, self.n + 1)
        small = np.flatnonzero(~matters & (owner == np.arange(self.n + 1)))
        goes_to = np.arange(self.n + 1)
        for branch in small[np.argsort(part[small], kind="stable")].tolist():
            stem = _last(goes_to, int(self.parents[branch]))
            touched = contact.get(branch, {})
            nearest = max(touched, key=lambda joint: (touched[joint], -joint), default=stem)
            if touched.get(stem, 0.0) >= HANGS * touched.get(nearest, 0.0):
                nearest = stem
            goes_to[branch] = nearest
            _rename(contact, branch, nearest)
        return np.array([_last(goes_to, joint) for joint in owner.tolist()])

    def contact(self, owner: Ints) -> Contact:
        """How much flesh of one joint touches that of another.

        The volume of tets between them counts, and a little what follows both: joints too small
        for the tets have no vertex of their own.
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


def _last(goes_to: Ints, joint: int) -> int:
    """The end of a trail, which is then made short."""
    end = joint
    while goes_to[end] != end:
        end = int(goes_to[end])
    while goes_to[joint] != end:
        goes_to[joint], joint = end, int(goes_to[joint])
    return end


def _rename(contact: Contact, old: int, new: int) -> None:
    """What touched `old` touches `new`."""
    for other, volume in contact.pop(old, {}).items():
        contact[other].pop(old)
        if other != new:
            for first, second in ((new, other), (other, new)):
                row = contact.setdefault(first, {})
                row[second] = row.get(second, 0.0) + volume
