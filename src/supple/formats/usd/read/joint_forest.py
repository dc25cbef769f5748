"""All that moves in a stage as one tree of joints: skeletons, and transforms meshes ride on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.errors import FormatError
from supple.maths.transforms import (
    LocalTransforms,
    decompose,
    relative_to_parents,
    scaling,
    uniform_scale,
)
from supple.rig.skeleton.joints import Skeleton, unique_names

__all__ = ["Branch", "JointForest", "read_joints"]


PARTS = ("translations", "rotations", "scales")
#: How far columns may be from orthogonal before a transform is called sheared: float32.
SHEAR = 1e-5


@dataclass
class Branch:
    """The joints of one skeleton within the tree, or the one joint of a transform.

    Attributes
    ----------
    number : int
        Its frame's among the frames of the stage; skeletons come first and in their order.
    first : int
        Its first joint; a transform's only one.
    order : (j,) ints
        Joints of the file's list in the order of the tree, empty for a transform.
    joints : list of str
        The file's list.
    rest : LocalTransforms
        What the file calls rest, in the order of the tree, in the skeleton's space in metres.
    unit : float
        Metres per unit in the skeleton's space.
    carrier : int
        The joint that moves as the frame does, -1 when the frame is still.
    folded : bool
        Whether the top joints' transforms contain the frame's.
    """

    number: int
    first: int
    order: Ints
    joints: list[str]
    rest: LocalTransforms
    unit: float
    carrier: int
    folded: bool


@dataclass
class JointForest:
    """The whole tree and its branches; `static` is the joint of what never moves, or -1."""

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    rest: list[LocalTransforms] = field(default_factory=list)
    inverse_bind: list[Floats] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    static: int = -1
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, parent: int, rest: LocalTransforms, inverse_bind: Floats) -> int:
        """Append a joint."""
        self.names.append(name)
        self.parents.append(parent)
        self.rest.append(rest)
        self.inverse_bind.append(inverse_bind)
        return len(self.names) - 1

    def skeleton(self) -> Skeleton:
        """Return the tree as a skeleton."""
        return Skeleton(
            unique_names(self.names),
            np.array(self.parents),
            *(np.array([getattr(rest, part) for rest in self.rest]) for part in PARTS),
        )


def read_joints(stage: dict[str, Any], to_supple: Floats) -> JointForest:
    """Return the tree of all that moves, with a joint for the still parts if there are any."""
    forest = JointForest()
    followed = {mesh["skin"]["skeleton"] for mesh in stage["meshes"] if mesh["skin"] is not None}
    for number, skeleton in enumerate(stage["skeletons"]):
        # Others drive blend shapes only.
        if skeleton["path"] in followed:
            _add_skeleton(forest, number, skeleton, stage, to_supple)
    for number in range(len(stage["skeletons"]), len(stage["frames"])):
        place = to_supple @ stage["rest_frames"][number]
        unit = uniform_scale(place) or _to_supple_unit(to_supple)
        rest, _ = decompose(place @ scaling(1 / unit))
        first = forest.add(stage["frames"][number].rpartition("/")[2], -1, rest, np.eye(4))
        forest.branches.append(
            Branch(number, first, np.empty(0, np.int64), [], rest, unit, first, False)
        )
    if any(mesh["skin"] is None and mesh["frame"] < 0 for mesh in stage["meshes"]):
        still, _ = decompose(np.eye(4))
        forest.static = forest.add("world", -1, still, np.eye(4))
    return forest


def _to_supple_unit(to_supple: Floats) -> float:
    """Return metres per unit of the stage."""
    return float(np.cbrt(np.linalg.det(to_supple[:3, :3])))


def _add_skeleton(
    forest: JointForest, number: int, data: dict[str, Any], stage: dict[str, Any], to_supple: Floats
) -> None:
    path, joints = data["path"], data["joints"]
    order, parents = _tree(path, joints)
    bind, rest = _checked_transforms(forest, data, parents)
    place = to_supple @ stage["rest_frames"][number]
    unit = uniform_scale(place)
    moves = any(_moves(clip["frames"][number]) for clip in stage["clips"])
    folded = unit is not None and not moves
    unit = unit or _to_supple_unit(to_supple)
    frame = place @ scaling(1 / unit)
    bind, rest = (scaling(unit) @ m @ scaling(1 / unit) for m in (bind, rest))
    neutral = _neutral_pose(forest, path, bind, rest, parents, frame if folded else np.eye(4))
    top = -1 if folded else _add_carrier(forest, path.rpartition("/")[2], frame, moves)
    first = len(forest.names)
    inverse = np.linalg.inv(bind)
    for row, old in enumerate(order):
        parent = top if parents[row] < 0 else first + parents[row]
        local = LocalTransforms(*(getattr(neutral, p)[row] for p in PARTS))
        forest.add(joints[old].rpartition("/")[2], parent, local, inverse[row])
    fallback, _ = decompose(rest)
    carrier = top if moves else -1
    forest.branches.append(Branch(number, first, order, joints, fallback, unit, carrier, folded))


def _moves(frames: Floats) -> bool:
    return len(frames) > 0 and np.abs(frames - frames[0]).max() > 1e-9 * np.abs(frames).max()


def _add_carrier(forest: JointForest, name: str, frame: Floats, moves: bool) -> int:
    """Add the joint that carries a skeleton which moves as a whole or is scaled unevenly."""
    whole, shear = decompose(frame)
    if moves or shear < SHEAR:
        if shear >= SHEAR:
            forest.notes.append(f"skeleton {name} is sheared while it moves; the shear is lost")
        return forest.add(name, -1, whole, np.eye(4))
    # A = U Σ Vᵀ: two joints express any transform.
    left, sizes, right = np.linalg.svd(frame[:3, :3])
    sign = np.linalg.det(left), np.linalg.det(right)
    left[:, 2] *= sign[0]
    right[2] *= sign[1]
    sizes[2] *= sign[0] * sign[1]
    outer, inner = np.eye(4), np.eye(4)
    outer[:3, :3], outer[:3, 3], inner[:3, :3] = left * sizes, frame[:3, 3], right
    turn = np.eye(4)
    turn[:3, :3] = left
    turned, _ = decompose(turn)
    stretch = LocalTransforms(frame[:3, 3].copy(), turned.rotations, sizes)
    first = forest.add(name, -1, stretch, np.eye(4))
    return forest.add(f"{name}_stretch", first, decompose(inner)[0], np.eye(4))


def _tree(path: str, joints: list[str]) -> tuple[Ints, Ints]:
    """Return an order with parents first, and each joint's parent in that order, -1 for none."""
    if len(set(joints)) < len(joints):
        twice = next(joint for joint in joints if joints.count(joint) > 1)
        raise FormatError(f'skeleton {path} lists joint "{twice[:60]}" twice')
    order = sorted(range(len(joints)), key=lambda j: joints[j].count("/"))
    row = {joints[old]: new for new, old in enumerate(order)}
    parents = []
    for old in order:
        above = joints[old].rpartition("/")[0]
        while above and above not in row:
            above = above.rpartition("/")[0]
        parents.append(row.get(above, -1))
    return np.array(order), np.array(parents)


def _checked_transforms(
    forest: JointForest, data: dict[str, Any], parents: Ints
) -> tuple[Floats, Floats]:
    """Return world bind and local rest transforms in tree order; one can stand for the other."""
    order, _ = _tree(data["path"], data["joints"])
    good: dict[str, Floats | None] = {}
    for what in ("bind", "rest"):
        matrices = data[what]
        fits = matrices is not None and len(matrices) == len(order) and np.isfinite(matrices).all()
        good[what] = matrices[order] if fits else None
    bind, rest = good["bind"], good["rest"]
    if bind is None and rest is None:
        raise FormatError(f"skeleton {data['path']} has neither bind nor rest transforms that fit")
    if bind is None:
        assert rest is not None
        forest.notes.append(f"skeleton {data['path']} has no bind transforms; rest is used")
        bind = _world(rest, parents)
    if (np.abs(np.linalg.det(bind[:, :3, :3])) < 1e-30).any():
        joint = data["joints"][order[int(np.argmin(np.abs(np.linalg.det(bind))))]]
        raise FormatError(f'skeleton {data["path"]}: joint "{joint}" is bound at scale zero')
    if rest is None:
        if data["rest"] is not None or data["animation"] is None:
            forest.notes.append(f"skeleton {data['path']} has no rest transforms; bind is used")
        rest = relative_to_parents(bind, parents)
    return bind, rest


def _world(local: Floats, parents: Ints) -> Floats:
    world = local.copy()
    for joint, parent in enumerate(parents):
        if parent >= 0:
            world[joint] = world[parent] @ local[joint]
    return world


def _neutral_pose(
    forest: JointForest, path: str, bind: Floats, rest: Floats, parents: Ints, frame: Floats
) -> LocalTransforms:
    """Return local transforms of the pose the surface was modelled in, placed in the stage.

    That is the bind pose: what a file calls rest may be any pose, a crouch at the first frame.
    """
    local, shear = decompose(_placed(relative_to_parents(bind, parents), parents, frame))
    if shear.max() < SHEAR:
        return local
    local, shear = decompose(_placed(rest, parents, frame))
    if shear.max() >= SHEAR:
        forest.notes.append(f"skeleton {path} has sheared joints; the shear is lost at rest")
    return local


def _placed(local: Floats, parents: Ints, frame: Floats) -> Floats:
    placed = local.copy()
    placed[parents < 0] = frame @ placed[parents < 0]
    return placed
