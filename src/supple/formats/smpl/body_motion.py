"""Motions of parametric bodies: AMASS in both layouts, hand clips, and Meshcapade's ``.smpl``.

Joints are matched to a body by name; joints that the file lacks stay at rest, and joints that the
body lacks are ignored. The root joint's rotation and the translation become the motion's root; z up
is converted to y up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.checks import checked_array
from supple.errors import FormatError, SuppleError, warn
from supple.formats.smpl.archive_fields import named_errors, read_fields
from supple.formats.smpl.body_model import (
    BODY_ONLY,
    BodyModel,
    JointLayout,
    joint_layout,
    layout_of_columns,
)
from supple.maths.rotations import exponential, to_matrix
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import sampled_tracks
from supple.rig.skeleton.joint_pose import JointPose

#: Names of the field with the frames per second.
RATES = ("mocap_framerate", "mocap_frame_rate", "framerate", "frame_rate", "frameRate", "fps")
_PARTS = ("root_orient", "pose_body", "pose_jaw", "pose_eye", "pose_hand")
_CAMEL = ("bodyPose", "headPose", "leftHandPose", "rightHandPose", "bodyTranslation")
_AMASS = ("poses", "trans", "betas", "flat_hand_mean", "mocap_time_length")
MOTION_FIELDS = (*_AMASS, *RATES, *_PARTS, *_CAMEL, "shapeParameters")
#: Default frames per second.
USUAL_RATE = 30.0
#: Most frames times joints, as for BVH.
LARGEST_MOTION = 25_000_000
#: Rotation from z up to y up.
Z_TO_Y = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
#: Limits of rotation vectors, and of translations in metres.
LARGEST_TURN, FARTHEST = 1000.0, 1e6


@dataclass(frozen=True, eq=False)
class MotionFile:
    """Rotations and translations of a file, unconverted.

    Attributes
    ----------
    name : str
        Name of the file, without suffix.
    layout : JointLayout
        Names of the joints, in the order of `poses`.
    poses : (t, k) array
        Axis-angle of each joint; a hand may have its wrist's and k − 3 coefficients of
        principal components instead.
    translations : (t, 3) array
    rate : float
        Frames per second.
    betas : (b,) array
        Shape of the recorded body, for a body of the same kind.
    up : {"y", "z"}
    flat_hand_mean : bool
        Whether fingers are relative to a flat hand.
    """

    name: str
    layout: JointLayout
    poses: Floats
    translations: Floats
    rate: float
    betas: Floats
    up: str
    flat_hand_mean: bool

    def motion(self, body: BodyModel, joint_pose: JointPose) -> Motion:
        """Return the motion of a body whose rig has this pose layout.

        Raises SuppleError if only one of motion and body is a hand.
        """
        poses = self.poses
        if body.kind == "MANO" and self.layout.kind == "MANO":
            poses = body.full_pose(poses, flat_hand_mean=self.flat_hand_mean)
        index_of = {name: k for k, name in enumerate(body.joint_names)}
        names = enumerate(self.layout.names)
        pairs = [(index_of[name], k) for k, name in names if name in index_of]
        if (0, 0) not in pairs:
            kind, other = self.layout.kind or "another body", body.kind or "of another kind"
            raise SuppleError(f"{self.name}: is a motion of {kind}, but the body is {other}")
        vectors = poses.reshape(len(poses), -1, 3)
        rotation_vectors = np.zeros((len(poses), body.n_joints, 3))
        for target, source in pairs:
            rotation_vectors[:, target] = vectors[:, source]
        rotation = to_matrix(exponential(rotation_vectors[:, 0]))
        pelvis = joint_pose.skeleton.translations[0]
        roots = np.tile(np.eye(4), (len(poses), 1, 1))
        roots[:, :3, :3] = rotation
        roots[:, :3, 3] = pelvis - rotation @ pelvis + self.translations
        if self.up == "z":
            roots = Z_TO_Y @ roots
        rotation_vectors[:, 0] = 0.0
        packed = joint_pose.pack(rotations=exponential(rotation_vectors))
        times = np.arange(len(poses)) / self.rate
        tracks = sampled_tracks(joint_pose, times, packed, roots, 0)
        return Motion(times, packed, roots, self.name, tracks=tracks)


def read_body_motion(
    path: str | Path, *, rate: float | None = None, up: str | None = None
) -> MotionFile:
    """Read a motion of a body or a hand.

    Parameters
    ----------
    path : str or Path
        ``.npz`` or ``.pkl`` with ``poses`` and ``trans`` (AMASS, SMPL+H or SMPL-X, or a hand's
        clip), or Meshcapade's ``.smpl``.
    rate : float, optional
        Frames per second, in place of the file's rate.
    up : {"y", "z"}, optional
        Upward axis of the file's world. By default z for AMASS, and for others the axis nearest to
        the body's upward axis; hands are not converted.

    Raises
    ------
    FormatError
        When the file is damaged, or not a motion.

    Warns
    -----
    SuppleWarning
        When it has no frame rate; 30 per second are assumed.
    """
    path = Path(path)
    if up not in (None, "y", "z"):
        raise SuppleError(f'up cannot be "{up}"; use y or z')
    fields = read_fields(path, MOTION_FIELDS)
    with named_errors(path.name):
        return _motion_of_fields(path, fields, rate, up)


@np.errstate(all="ignore")  # numbers that overflow are not finite, which is an error
def _motion_of_fields(
    path: Path, fields: dict[str, Any], rate: float | None, up: str | None
) -> MotionFile:
    poses, layout = _poses(fields)
    count = len(poses)
    translations = fields.get("bodyTranslation" if "bodyPose" in fields else "trans")
    if translations is None:
        translations = np.zeros((count, 3))
    betas = fields.get("shapeParameters" if "bodyPose" in fields else "betas")
    if up is None:
        up = _upward(layout, poses, amass=any(name in fields for name in RATES[:2]))
    flat = fields.get("flat_hand_mean", True)
    return MotionFile(
        path.stem,
        layout,
        poses,
        _bounded("translations", translations, (count, 3), FARTHEST),
        _rate(path.name, fields, count) if rate is None else _checked_rate(rate),
        np.zeros(0) if betas is None else np.ravel(_numeric("betas", betas))[:1000],
        up,
        bool(np.ravel(flat)[0]) if np.size(flat) else True,
    )


def _poses(fields: dict[str, Any]) -> tuple[Floats, JointLayout]:
    """Return rotation vectors (t, 3 joints), or a hand's in fewer numbers; and the layout."""
    if "poses" in fields:
        values = _numeric("poses", fields["poses"])
        if values.ndim == 3 and values.shape[2] == 3:
            values = values.reshape(len(values), -1)
        if values.ndim != 2 or not values.size:
            raise FormatError(f'"poses" has shape {values.shape}; expected (frames, 3 per joint)')
        layout = layout_of_columns(values.shape[1])
        if layout is None and 3 < values.shape[1] < 48:
            layout = joint_layout(16)  # a hand's wrist, and coefficients
        if layout is None:
            columns = "72 (SMPL), 156 (SMPL-H), 165 (SMPL-X), 66 (body alone), at most 48 (hand)"
            raise FormatError(f'"poses" has {values.shape[1]} columns; supported are {columns}')
    elif "bodyPose" in fields:
        values, layout = _camel_poses(fields)
    elif "pose_body" in fields and "root_orient" in fields:
        values, layout = _parts(fields)
    else:
        raise FormatError("is not a motion: it has neither poses, nor root_orient and pose_body")
    if values.size > 3 * LARGEST_MOTION:
        raise FormatError(f"has {len(values):,} frames, too many to read; split it")
    return _bounded("poses", values, values.shape, LARGEST_TURN), layout


def _parts(fields: dict[str, Any]) -> tuple[Floats, JointLayout]:
    """Join the separate parts of AMASS files: root, body, jaw, eyes, hands."""
    root = _numeric("root_orient", fields["root_orient"])
    if root.ndim < 2 or not root.size or root.size != 3 * len(root):
        raise FormatError(f'"root_orient" has shape {root.shape}; expected (frames, 3)')
    pieces = [root.reshape(len(root), 3)]
    widths = {"pose_body": 63, "pose_jaw": 3, "pose_eye": 6, "pose_hand": 90}
    names = [name for name in widths if name in fields]
    layout = {1: BODY_ONLY, 2: joint_layout(52), 4: joint_layout(55)}.get(len(names))
    if layout is None or (len(names) == 2 and "pose_hand" not in names):
        raise FormatError("has only some parts of a face or hand; save all of them")
    for name in names:
        part = _numeric(name, fields[name])
        if part.shape != (len(root), widths[name]):
            raise FormatError(f'"{name}" has shape {part.shape}; expected (frames, {widths[name]})')
        pieces.append(part)
    return np.concatenate(pieces, axis=1), layout


def _camel_poses(fields: dict[str, Any]) -> tuple[Floats, JointLayout]:
    """Join the poses of the parts in a ``.smpl`` file; missing parts are at rest."""
    body = _numeric("bodyPose", fields["bodyPose"])
    if body.ndim != 3 or body.shape[1:] != (22, 3):
        raise FormatError(f'"bodyPose" has shape {body.shape}; expected (frames, 22, 3)')
    pieces = [body]
    for name, joints in (("headPose", 3), ("leftHandPose", 15), ("rightHandPose", 15)):
        shape = (len(body), joints, 3)
        part = _numeric(name, fields[name]) if name in fields else np.zeros(shape)
        if part.shape != shape:
            raise FormatError(f'"{name}" has shape {part.shape}; expected {shape}')
        pieces.append(part)
    return np.concatenate(pieces, axis=1).reshape(len(body), -1), joint_layout(55)


def _rate(name: str, fields: dict[str, Any], count: int) -> float:
    for spelling in RATES:
        if spelling in fields:
            return _checked_rate(fields[spelling])
    if "mocap_time_length" in fields and count > 1:
        return _checked_rate(count / _number(fields["mocap_time_length"]))
    warn(f"{name}: has no frame rate; {USUAL_RATE:g} frames per second are assumed")
    return USUAL_RATE


def _checked_rate(value: Any) -> float:
    rate = _number(value)
    if not 0.1 <= rate <= 10_000:
        raise FormatError(f"the frame rate is {rate:g}; use 0.1 to 10000 frames per second")
    return rate


def _number(value: Any) -> float:
    values = np.ravel(_numeric("frame rate", value))
    number = float(values[0]) if values.size == 1 else math.nan
    return number if number > 0 else math.nan


def _upward(layout: JointLayout, poses: Floats, *, amass: bool) -> str:
    """Return the upward axis of a motion's world, "y" or "z"; hands are always "y"."""
    if layout.kind == "MANO":
        return "y"
    if amass:
        return "z"
    up = to_matrix(exponential(poses[:, :3]))[:, :, 1].mean(axis=0)
    return "z" if abs(up[2]) > abs(up[1]) else "y"


def _numeric(name: str, value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise FormatError(f'"{name}" is not numeric')
    return array


def _bounded(name: str, value: Any, shape: tuple[int, ...], most: float) -> Floats:
    values = checked_array(f'"{name}"', _numeric(name, value), shape)
    if not (np.abs(values) <= most).all():
        raise FormatError(f'"{name}" has a number above {most:g}')
    return values
