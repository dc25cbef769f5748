"""Moving parts of a stage as one tree of joints: skeletons, and transforms that carry meshes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.errors import FormatError
from supple.maths.rotations import (
    LocalTransforms,
    decompose,
    relative_to_parents,
    scaling,
    uniform_scale,
)
from supple.rig.motion.root_motion import WORLD
from supple.rig.skeleton.joints import Skeleton, unique_names

PARTS = ("translations", "rotations", "scales")
#: Deviation from orthogonal columns above which a transform is sheared: float32.
SHEAR = 1e-5
#: Relative difference from rest below which a transform is constant: float32.
HELD = 1e-6


@dataclass
class Branch:
    """The joints of one skeleton within the tree, or the one joint of a transform.

    `number` is the index of the branch's frame in the stage, with skeletons first; `first` is its
    first joint in the tree. `order` (j,) has the indices in the file's list `joints` in tree order,
    empty for a transform. `rest` is in tree order, in the skeleton's space in metres; `unit` has
    metres per unit of that space. `carrier` is the joint that moves like the frame, -1 if the frame
    is constant. `folded` is True if transforms of root joints contain that of the frame. `above` is
    the index of the frame that carries this one, or -1.
    """

    number: int
    first: int
    order: Ints
    joints: list[str]
    rest: LocalTransforms
    unit: float
    carrier: int
    folded: bool
    above: int


@dataclass
class JointForest:
    """Joints of the skeletons of meshes and of moving transforms of a stage, as one tree.

    Each branch is one skeleton or one transform; `static` is the joint of parts that never move, or
    -1. `attached` maps each transform to the nearest moving transform at or above it (-1 if none)
    and to its own rest transform (4, 4) relative to that one. `carrying` maps it to the nearest one
    that is also never scaled to zero, to which joints are attached. `holders` maps paths to the
    joints that carry meshes without a skin.
    """

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    rest: list[LocalTransforms] = field(default_factory=list)
    inverse_bind: list[Floats] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    moving: dict[int, Branch] = field(default_factory=dict)
    attached: dict[int, tuple[int, Floats]] = field(default_factory=lambda: {-1: (-1, np.eye(4))})
    carrying: dict[int, int] = field(default_factory=lambda: {-1: -1})
    holders: dict[str, int] = field(default_factory=dict)
    static: int = -1
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, parent: int, rest: LocalTransforms, inverse_bind: Floats) -> int:
        """Append a joint and return its index."""
        self.names.append(name)
        self.parents.append(parent)
        self.rest.append(rest)
        self.inverse_bind.append(inverse_bind)
        return len(self.names) - 1

    def world(self, number: int, frames: Floats, to_supple: Floats) -> Floats:
        """Return world transforms of the joint of moving prim `number` from `frames` (…, 4, 4)."""
        joint: Floats = to_supple @ frames @ scaling(1 / self.moving[number].unit)
        return joint

    def skeleton(self) -> Skeleton:
        """Return the tree as a skeleton."""
        return Skeleton(
            unique_names(self.names),
            np.array(self.parents),
            *(np.array([getattr(rest, part) for rest in self.rest]) for part in PARTS),
        )


def read_joints(stage: dict[str, Any], to_supple: Floats) -> JointForest:
    """Return the tree of all moving parts, with one joint for the constant parts if any."""
    forest = JointForest()
    count = len(stage["skeletons"])
    for number in range(count, len(stage["frames"])):
        _add_transform(forest, number, stage, to_supple)
    followed = {mesh["skin"]["skeleton"] for mesh in stage["meshes"] if mesh["skin"] is not None}
    for number, skeleton in enumerate(stage["skeletons"]):
        # Other skeletons only drive blend shapes.
        if skeleton["path"] in followed:
            _add_skeleton(forest, number, skeleton, stage, to_supple)
    rigid = [mesh for mesh in stage["meshes"] if mesh["skin"] is None]
    for mesh in rigid:
        if forest.attached[mesh["frame"]][0] >= 0:
            _add_holder(forest, mesh, stage)
    if any(forest.attached[mesh["frame"]][0] < 0 for mesh in rigid):
        still, _ = decompose(np.eye(4))
        forest.static = forest.add(WORLD, -1, still, np.eye(4))
    return forest


def _add_holder(forest: JointForest, mesh: dict[str, Any], stage: dict[str, Any]) -> None:
    """Add the joint that carries a mesh without a skin, below the transform that moves it."""
    number, transform = forest.attached[mesh["frame"]]
    holder, moving = mesh["holder"], forest.moving[number]
    if holder in forest.holders:
        return
    matrix = scaling(moving.unit) @ transform @ mesh["place"]
    unit = uniform_scale(matrix)
    if unit is None or holder == stage["frames"][number]:
        forest.holders[holder] = moving.first
        return
    matrix = matrix @ scaling(1 / unit)
    local, _ = decompose(matrix)
    # The mesh is given in the space of the moving transform.
    joint = forest.add(holder.rpartition("/")[2], moving.first, local, np.linalg.inv(matrix))
    forest.holders[holder] = joint


def _add_transform(
    forest: JointForest, number: int, stage: dict[str, Any], to_supple: Floats
) -> None:
    """Add the joint of a moving transform; a constant transform becomes part of its descendants."""
    above = forest.carrying[int(stage["above"][number])]
    if not _moves(stage, number, above):
        forest.attached[number] = above, _relative(stage["rest_frames"], number, above)
        forest.carrying[number] = above
        return
    forest.attached[number] = number, np.eye(4)
    forest.carrying[number] = above if _is_flat(stage, number) else number
    world = to_supple @ stage["rest_frames"][number]
    unit = uniform_scale(world) or _to_supple_unit(to_supple)
    joint, parent = world @ scaling(1 / unit), -1
    if above >= 0:
        parent = forest.moving[above].first
        base = forest.world(above, stage["rest_frames"][above], to_supple)
        joint = np.linalg.solve(base, joint)
    local, _ = decompose(joint)
    first = forest.add(stage["frames"][number].rpartition("/")[2], parent, local, np.eye(4))
    no_joints = np.empty(0, np.int64)
    branch = Branch(number, first, no_joints, [], local, unit, first, False, above)
    forest.branches.append(branch)
    forest.moving[number] = branch


def _is_flat(stage: dict[str, Any], number: int) -> bool:
    """Return whether a frame is ever scaled to zero, so that nothing can be relative to it."""
    all_frames = [stage["rest_frames"], *(clip["frames"] for clip in stage["clips"])]
    return any((np.abs(np.linalg.det(each[number])) < 1e-30).any() for each in all_frames)


def _relative(frames: Floats, number: int, above: int) -> Floats:
    """Return frame `number` relative to frame `above`, (…, 4, 4); -1 is the world."""
    transforms: Floats = frames[number]
    return transforms if above < 0 else np.linalg.solve(frames[above], transforms)


def _moves(stage: dict[str, Any], number: int, above: int) -> bool:
    """Return whether frame `number` moves relative to frame `above` in any clip."""
    rest = _relative(stage["rest_frames"], number, above)
    tolerance = HELD * np.abs(rest).max()
    return any(
        np.abs(_relative(clip["frames"], number, above) - rest).max(initial=0) > tolerance
        for clip in stage["clips"]
    )


def _to_supple_unit(to_supple: Floats) -> float:
    """Return metres per unit of the stage."""
    return float(np.cbrt(np.linalg.det(to_supple[:3, :3])))


def _add_skeleton(
    forest: JointForest, number: int, data: dict[str, Any], stage: dict[str, Any], to_supple: Floats
) -> None:
    path, joints = data["path"], data["joints"]
    order, parents = _tree(path, joints)
    bind, rest = _checked_transforms(forest, data, order, parents)
    above = forest.carrying[int(stage["above"][number])]
    transform = to_supple @ stage["rest_frames"][number]
    carrying_joint = -1
    if above >= 0:
        carrying_joint = forest.moving[above].first
        transform = np.linalg.solve(
            forest.world(above, stage["rest_frames"][above], to_supple), transform
        )
    unit = uniform_scale(transform)
    moves = _moves(stage, number, above)
    folded = unit is not None and not moves
    unit = unit or _to_supple_unit(to_supple)
    frame = transform @ scaling(1 / unit)
    bind, rest = (scaling(unit) @ m @ scaling(1 / unit) for m in (bind, rest))
    neutral = _neutral_pose(forest, path, bind, rest, parents, frame if folded else np.eye(4))
    parent_joint = carrying_joint
    if not folded:
        parent_joint = _add_carrier(forest, path.rpartition("/")[2], frame, moves, carrying_joint)
    first = len(forest.names)
    inverse = np.linalg.inv(bind)
    for row, old in enumerate(order):
        parent = parent_joint if parents[row] < 0 else first + parents[row]
        local = LocalTransforms(*(getattr(neutral, p)[row] for p in PARTS))
        forest.add(joints[old].rpartition("/")[2], parent, local, inverse[row])
    fallback, _ = decompose(rest)
    carrier = parent_joint if moves else -1
    branch = Branch(number, first, order, joints, fallback, unit, carrier, folded, above)
    forest.branches.append(branch)


def _add_carrier(forest: JointForest, name: str, frame: Floats, moves: bool, parent: int) -> int:
    """Add and return the joint that carries a skeleton with a moving or non-uniform frame."""
    rigid, shear = decompose(frame)
    if moves or shear < SHEAR:
        if shear >= SHEAR:
            forest.notes.append(f"skeleton {name} is sheared while it moves; the shear is ignored")
        return forest.add(name, parent, rigid, np.eye(4))
    # A = U Σ Vᵀ: two joints represent any transform.
    left, sizes, right = np.linalg.svd(frame[:3, :3])
    sign = np.linalg.det(left), np.linalg.det(right)
    left[:, 2] *= sign[0]
    right[2] *= sign[1]
    sizes[2] *= sign[0] * sign[1]
    outer, inner = np.eye(4), np.eye(4)
    outer[:3, :3], inner[:3, :3] = left, right
    rotation = decompose(outer)[0].rotations
    outer_parts = LocalTransforms(frame[:3, 3].copy(), rotation, sizes)
    first = forest.add(name, parent, outer_parts, np.eye(4))
    return forest.add(f"{name}_stretch", first, decompose(inner)[0], np.eye(4))


def _tree(path: str, joints: list[str]) -> tuple[Ints, Ints]:
    """Return an order with parents first and subtrees together, and each joint's parent in it."""
    if len(set(joints)) < len(joints):
        duplicate = next(joint for joint in joints if joints.count(joint) > 1)
        raise FormatError(f'skeleton {path} lists joint "{duplicate[:60]}" twice')
    number = {joint: k for k, joint in enumerate(joints)}
    children: dict[int, list[int]] = {}
    for k in range(len(joints) - 1, -1, -1):
        above = joints[k].rpartition("/")[0]
        while above and above not in number:
            above = above.rpartition("/")[0]
        children.setdefault(number.get(above, -1), []).append(k)
    order: list[int] = []
    parents: list[int] = []
    stack = [(k, -1) for k in children.get(-1, [])]
    while stack:
        k, parent = stack.pop()
        stack += [(child, len(order)) for child in children.get(k, [])]
        order.append(k)
        parents.append(parent)
    return np.array(order), np.array(parents)


def _checked_transforms(
    forest: JointForest, data: dict[str, Any], order: Ints, parents: Ints
) -> tuple[Floats, Floats]:
    """Return world bind and local rest transforms; invalid transforms are computed from others."""
    path = data["path"]
    bind, rest = (
        each[order]
        if each is not None and len(each) == len(order) and np.isfinite(each).all()
        else None
        for each in (data["bind"], data["rest"])
    )
    if bind is None and rest is None:
        raise FormatError(f"skeleton {path} has neither valid bind nor rest transforms")
    if bind is None:
        assert rest is not None
        forest.notes.append(f"skeleton {path} has no bind transforms; rest transforms are used")
        bind = _world(rest, parents)
    if (np.abs(np.linalg.det(bind[:, :3, :3])) < 1e-30).any():
        joint = data["joints"][order[int(np.argmin(np.abs(np.linalg.det(bind))))]]
        raise FormatError(f'skeleton {path}: joint "{joint}" has bind scale zero')
    if rest is None:
        if data["rest"] is not None or data["animation"] is None:
            forest.notes.append(f"skeleton {path} has no rest transforms; bind transforms are used")
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
    """Return local transforms of the pose in which the surface was modelled, placed in the stage.

    This is the bind pose; the rest pose of a file may be any pose, such as the first frame.
    """
    local, shear = decompose(_placed(relative_to_parents(bind, parents), parents, frame))
    if shear.max() < SHEAR:
        return local
    local, shear = decompose(_placed(rest, parents, frame))
    if shear.max() >= SHEAR:
        forest.notes.append(f"skeleton {path} has sheared joints; the shear is ignored at rest")
    return local


def _placed(local: Floats, parents: Ints, frame: Floats) -> Floats:
    """Return local transforms with the roots' transforms placed in a frame."""
    placed = local.copy()
    placed[parents < 0] = frame @ placed[parents < 0]
    return placed
