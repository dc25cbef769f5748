"""Free curves as Biovision ``.bvh``: the whole motion of a skeleton, with secondary motion."""

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

#: Files are in centimetres, as most programs assume; the format has no field for the unit.
PER_METRE = 100.0
#: Joints that move less than this fraction of the skeleton's size have no position channels.
FIXED = 1e-5
ROTATIONS = ("Zrotation", "Xrotation", "Yrotation")
POSITIONS = ("Xposition", "Yposition", "Zposition")


def write_bvh_curves(
    path: str | Path, curves: FreeCurves, *, additive: bool = False
) -> dict[str, Any]:
    """Write the motion of a rig with one skeleton, in centimetres: keys, and curves of free joints.

    The rest pose has the joints' positions and no rotations. The format has no channels for weights
    of shapes and for scales. `additive` writes only the motion that physics adds, around rest.
    """
    path = Path(path)
    core = skinned_core(curves.character.rig)
    if core is None or not curves.joints:
        what = "no joint is free" if core is not None else "the rig has no skeleton"
        raise FormatError(
            f"{path.name}: {what}, and .bvh files hold only joints; use .csv or .json"
        )
    scaled = sum(joint.scale is not None for joint in curves.joints)
    if len(curves.others) or scaled:
        omitted = len(curves.others) + scaled
        warn(f"{path.name}: .bvh holds only joints; {omitted} curves of weights or scales omitted")
    sampled = _evenly_sampled(curves.additive() if additive else curves)
    pose = core.rig.joint_pose
    rotations, positions = _aligned(pose, sampled.poses[:, core.entries], sampled.roots)
    text, count = _written(pose.skeleton, rotations, PER_METRE * positions, sampled)
    data = text.encode()
    write_whole(path, data)
    samples = count * sampled.n_frames
    figures = {"channels": count, "keys": "every", "n_keys": samples, "n_samples": samples}
    return {**figures, "error": 0.0, "bytes": len(data)}


def _evenly_sampled(motion: Motion) -> Motion:
    """Return the motion with evenly spaced frames, as the format requires."""
    gaps = np.diff(motion.times)
    if len(gaps) < 2 or np.ptp(gaps) < 1e-6:
        return motion
    return motion.resample(round(motion.rate, 6))


def _aligned(pose: JointPose, rows: Floats, roots: Floats) -> tuple[Floats, Floats]:
    """Return rotations (t, J, 4) and positions (t, J, 3) in frames aligned with the world at rest.

    With D the rotation of a joint since rest, the local rotation is D⁻¹ of the parent times D of
    the joint, and the local position is D⁻¹ of the parent times the offset from the parent.
    """
    skeleton = pose.skeleton
    translations, rotations, scales = pose.unpack(rows)
    # Without scales, rotations stay rotations.
    ones = np.ones_like(scales)
    world = roots[:, None] @ skeleton.world(translations, rotations, ones)
    positions = (roots[:, None] @ skeleton.world(translations, rotations, scales))[:, :, :3, 3]
    rest = skeleton.world(scales=ones[0])
    from_rest = multiply(from_matrix(world[..., :3, :3]), inverse(from_matrix(rest[:, :3, :3])))
    parents = np.asarray(skeleton.parents)
    has_parent = parents >= 0
    local_rotations, local_positions = from_rest.copy(), positions.copy()
    to_parent = inverse(from_rest[:, parents[has_parent]])
    local_rotations[:, has_parent] = multiply(to_parent, from_rest[:, has_parent])
    local_positions[:, has_parent] = rotate(
        to_parent, positions[:, has_parent] - positions[:, parents[has_parent]]
    )
    return local_rotations, local_positions


def _written(
    skeleton: Skeleton, rotations: Floats, positions: Floats, motion: Motion
) -> tuple[str, int]:
    """Return the text of the file, and the number of channels."""
    parents, rest = np.asarray(skeleton.parents), PER_METRE * skeleton.rest_world()[:, :3, 3]
    offsets = np.where(parents[:, None] >= 0, rest - rest[parents], 0.0)
    size = max(float(np.ptp(rest, axis=0).max()), 1e-9)
    translates = (np.abs(positions - offsets).max(axis=(0, 2)) > FIXED * size) | (parents < 0)
    children: dict[int, list[int]] = {}
    for joint, parent in enumerate(parents.tolist()):
        children.setdefault(parent, []).append(joint)
    lines, order = ["HIERARCHY"], []

    def end(joint: int, depth: int) -> None:
        offset = 0.3 * offsets[joint] if offsets[joint].any() else np.array([0, 0.05 * size, 0])
        pad = "\t" * depth
        lines.extend([f"{pad}End Site", pad + "{", f"{pad}\tOFFSET {_row(offset)}", pad + "}"])

    # No recursion: a hair may have a thousand joints in a chain.
    stack = [(joint, 0, False) for joint in reversed(children.get(-1, []))]
    while stack:
        joint, depth, done = stack.pop()
        pad = "\t" * depth
        if done:
            lines.append(pad + "}")
            continue
        order.append(joint)
        channels = (*POSITIONS, *ROTATIONS) if translates[joint] else ROTATIONS
        name = re.sub(r"[\s{}]", "_", skeleton.names[joint]) or f"joint_{joint}"
        lines += [f"{pad}{'JOINT' if depth else 'ROOT'} {name}", pad + "{"]
        lines.append(f"{pad}\tOFFSET {_row(offsets[joint])}")
        lines.append(f"{pad}\tCHANNELS {len(channels)} {' '.join(channels)}")
        stack.append((joint, depth, True))
        if joint not in children:
            end(joint, depth + 1)
        stack += [(child, depth + 1, False) for child in reversed(children.get(joint, []))]
    columns = []
    for joint in order:
        if translates[joint]:
            columns.append(positions[:, joint])
        angles = Rotation.from_quat(rotations[:, joint]).as_euler("ZXY")
        columns.append(np.degrees(np.unwrap(angles, axis=0)))
    table = np.concatenate(columns, axis=1)
    seconds = motion.duration / max(motion.n_frames - 1, 1) or 1 / 30
    lines += ["MOTION", f"Frames: {len(table)}", f"Frame Time: {seconds:.9g}"]
    lines += [_row(row) for row in table]
    return "\n".join(lines) + "\n", table.shape[1]


def _row(values: Floats) -> str:
    return " ".join(f"{value:.7g}" for value in values.tolist())
