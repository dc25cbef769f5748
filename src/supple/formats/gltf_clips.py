"""All clips of a glTF file: which move the character, and the pose vector they need."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.formats.gltf_accessors import Accessors
from supple.formats.gltf_animation import Channel, read_channels
from supple.formats.gltf_document import Document
from supple.formats.gltf_motion import (
    MOST_NUMBERS,
    ClipReader,
    GltfClip,
    RootPolicy,
    motion_times,
    moving_joints,
    varying_joints,
)
from supple.formats.gltf_notes import Notes
from supple.rig.joint_pose import JointPose
from supple.rig.skeleton import Skeleton, unique_names

__all__: list[str] = []

Clips = dict[str, tuple[int, list[Channel]]]


def read_clips(document: Document, accessors: Accessors, reader: ClipReader) -> Clips:
    """For each clip that moves the character its index in the file and its channels."""
    notes = document.notes
    n_targets = {node: len(shapes) for node, shapes in reader.shapes_of_node.items()}
    mine = set(reader.frames.nodes.tolist())
    width = 10 * (len(mine) + reader.n_copies) + len(reader.rest_weights)
    found, names, total = [], [], 0
    for index, animation in enumerate(document.part("animations")):
        what = document.label("animation", index)
        channels = [
            channel
            for channel in read_channels(document, accessors, index, n_targets)
            if channel.node in (n_targets if channel.path == "weights" else mine)
        ]
        if not channels:
            notes.warn("ANIMATION_MOVES_NOTHING", f"{what} moves nothing shown; left out")
            continue
        total += len(motion_times(channels)) * width
        if total > MOST_NUMBERS:
            notes.fail("TOO_LARGE", f"{what}: its keys on {len(mine)} joints take too much memory")
        found.append((index, channels))
        names.append(str(animation.get("name") or f"clip_{index}"))
    return dict(zip(unique_names(names), found, strict=True))


def pose_clips(
    notes: Notes,
    reader: ClipReader,
    clips: Clips,
    skeleton: Skeleton,
    weight: NDArray[np.float64],
    size: float,
) -> tuple[JointPose, dict[str, GltfClip]]:
    """The pose vector that all clips can be told in, and the clips.

    `weight` says how much of the surface follows each joint, `size` how large it is.
    """
    varies = np.zeros(skeleton.n_joints, dtype=bool)
    for _, channels in clips.values():
        varies[: len(reader.frames.nodes)] |= varying_joints(channels, reader.frames, size)
    policy = RootPolicy(skeleton, varies, weight)
    translating = np.zeros(skeleton.n_joints, dtype=bool)
    scaling = np.zeros(skeleton.n_joints, dtype=bool)
    for _, channels in clips.values():
        local, _ = reader.sample(channels, motion_times(channels))
        moves, scales = moving_joints(policy.split(local)[0], skeleton, size)
        translating |= moves
        scaling |= scales
    for joint in np.flatnonzero(scaling):
        if not np.all(skeleton.scales[joint] != 0):
            what = f'node "{skeleton.names[joint]}" has a scale of zero at rest, another in a clip'
            notes.fail("ZERO_SCALE", f"{what}; give it a rest scale")
    moving = (np.flatnonzero(which).tolist() for which in (translating, scaling))
    joint_pose = JointPose(skeleton, *moving)
    return joint_pose, {
        name: GltfClip(
            name,
            index,
            tuple(channels),
            float(min(channel.times[0] for channel in channels)),
            float(max(channel.times[-1] for channel in channels)),
            reader,
            policy,
            joint_pose,
        )
        for name, (index, channels) in clips.items()
    }
