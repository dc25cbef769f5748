"""Free curves as Biovision ``.bvh``: the skeleton's whole motion, secondary motion included."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from supple.arrays import Floats
from supple.errors import FormatError, warn
from supple.maths.rotations import from_matrix, inverse, multiply, rotate
from supple.rig.free_curves import FreeCurves
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import skinned_core
from supple.saving import write_whole

#: Centimetres, as most programs take the numbers of the format, which has no field for it.
PER_METRE = 100.0
#: A joint that strays less than this part of the skeleton has no position channels.
FIXED = 1e-5
TURNS = ("Zrotation", "Xrotation", "Yrotation")
PLACES = ("Xposition", "Yposition", "Zposition")


def write_bvh_curves(
    path: str | Path, curves: FreeCurves, *, additive: bool = False
) -> dict[str, Any]:
    """Write the motion of a skeleton: the keys, and the curves on free joints.

    Parameters
    ----------
    path
        A ``.bvh`` file, in centimetres. Its rest pose has the places of the joints, and no joint
        turned.
    curves
        Of a rig that stands on one skeleton. Weights of shapes and scales have no channels here.
    additive
        Write what physics adds, around the rest pose.
    """
    path = Path(path)
    core = skinned_core(curves.character.rig)
    if core is None or not curves.joints:
        what = "no joint is free" if core is not None else "the rig is no skeleton's"
        raise FormatError(f"{path.name}: {what}, and .bvh holds joints only; use .csv or .json")
    scaled = sum(joint.scale is not None for joint in curves.joints)
    if len(curves.others) or scaled:
        left = len(curves.others) + scaled
        warn(f"{path.name}: holds joints only; {left} curves of weights and scales are left out")
    motion: Motion = curves.additive() if additive else curves
    even = _even(motion)
    pose = core.rig.joint_pose
    turns, places = _aligned(pose, even.poses[:, core.entries], even.roots)
    text, count = _written(pose.skeleton, turns, PER_METRE * places, even)
    data = text.encode()
    write_whole(path, data)
    samples = count * even.n_frames
    figures = {"channels": count, "keys": "every", "n_keys": samples, "n_samples": samples}
    return {**figures, "error": 0.0, "bytes": len(data)}


def _even(motion: Motion) -> Motion:
    """Return a motion whose frames are even, as the format has them."""
    gaps = np.diff(motion.times)
    if len(gaps) < 2 or np.ptp(gaps) < 1e-6:
        return motion
    return motion.resample(round(motion.rate, 6))


def _aligned(pose: JointPose, rows: Floats, roots: Floats) -> tuple[Floats, Floats]:
    """Return rotations (t, J, 4) and places (t, J, 3) in frames that rest along the world's axes.

    With D the rotation of each joint since rest, a joint turns by D⁻¹ of its parent times its own,
    and stands at D⁻¹ of its parent times the way from there.
    """
    skeleton = pose.skeleton
    moves, turns, scales = pose.unpack(rows)
    # Without scales, rotations stay rotations.
    ones = np.ones_like(scales)
    world = roots[:, None] @ skeleton.world(moves, turns, ones)
    where = (roots[:, None] @ skeleton.world(moves, turns, scales))[:, :, :3, 3]
    rest = skeleton.world(scales=ones[0])
    since = multiply(from_matrix(world[..., :3, :3]), inverse(from_matrix(rest[:, :3, :3])))
    parents = np.asarray(skeleton.parents)
    below = parents >= 0
    local, place = since.copy(), where.copy()
    back = inverse(since[:, parents[below]])
    local[:, below] = multiply(back, since[:, below])
    place[:, below] = rotate(back, where[:, below] - where[:, parents[below]])
    return local, place


def _written(skeleton: Skeleton, turns: Floats, places: Floats, motion: Motion) -> tuple[str, int]:
    """Return the text of the file, and the number of its channels."""
    parents, rest = np.asarray(skeleton.parents), PER_METRE * skeleton.rest_world()[:, :3, 3]
    offsets = np.where(parents[:, None] >= 0, rest - rest[parents], 0.0)
    size = max(float(np.ptp(rest, axis=0).max()), 1e-9)
    moves = (np.abs(places - offsets).max(axis=(0, 2)) > FIXED * size) | (parents < 0)
    children: dict[int, list[int]] = {}
    for joint, parent in enumerate(parents.tolist()):
        children.setdefault(parent, []).append(joint)
    lines, order = ["HIERARCHY"], []

    def end(joint: int, depth: int) -> None:
        along = 0.3 * offsets[joint] if offsets[joint].any() else np.array([0, 0.05 * size, 0])
        pad = "\t" * depth
        lines.extend([f"{pad}End Site", pad + "{", f"{pad}\tOFFSET {_row(along)}", pad + "}"])

    # Nesting is held in a list: a hair of a thousand joints is no deeper than the stack.
    waiting = [(joint, 0, False) for joint in reversed(children.get(-1, []))]
    while waiting:
        joint, depth, done = waiting.pop()
        pad = "\t" * depth
        if done:
            lines.append(pad + "}")
            continue
        order.append(joint)
        named = (*PLACES, *TURNS) if moves[joint] else TURNS
        name = re.sub(r"[\s{}]", "_", skeleton.names[joint]) or f"joint_{joint}"
        lines += [f"{pad}{'JOINT' if depth else 'ROOT'} {name}", pad + "{"]
        lines.append(f"{pad}\tOFFSET {_row(offsets[joint])}")
        lines.append(f"{pad}\tCHANNELS {len(named)} {' '.join(named)}")
        waiting.append((joint, depth, True))
        if joint not in children:
            end(joint, depth + 1)
        waiting += [(child, depth + 1, False) for child in reversed(children.get(joint, []))]
    columns = []
    for joint in order:
        if moves[joint]:
            columns.append(places[:, joint])
        angles = Rotation.from_quat(turns[:, joint]).as_euler("ZXY")
        columns.append(np.degrees(np.unwrap(angles, axis=0)))
    table = np.concatenate(columns, axis=1)
    seconds = motion.duration / max(motion.n_frames - 1, 1) or 1 / 30
    lines += ["MOTION", f"Frames: {len(table)}", f"Frame Time: {seconds:.9g}"]
    lines += [_row(row) for row in table]
    return "\n".join(lines) + "\n", table.shape[1]


def _row(values: Floats) -> str:
    return " ".join(f"{value:.7g}" for value in values.tolist())
