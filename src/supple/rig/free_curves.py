"""Free curves: a motion with simulated free parameters, in addition to keyed parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_array, checked_number
from supple.errors import SuppleError
from supple.maths.curves import Curve
from supple.maths.rotations import exponential, inverse, logarithm, multiply
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import skinned_core

#: Tolerance within which weights count as kept within 0 to 1, so that scaled ones are clamped.
ROUNDING = 1e-6
#: Step of the differences that measure how far a parameter moves the skin.
PROBE = 1e-2
#: Largest strength of scaled curves.
STRONGEST = 100.0


@dataclass(frozen=True)
class FreeJoint:
    """A joint with free channels.

    `turn`, `move` and `scale` (3,) are indices in the pose of its rotation vector, offset and
    logarithms of scale, -1 for missing entries; None for channels that are not free.
    """

    joint: int
    name: str
    turn: Ints | None
    move: Ints | None
    scale: Ints | None


@dataclass(frozen=True, eq=False, repr=False, init=False)
class FreeCurves(Motion):
    """A motion with curves on free parameters, as `supple.curves` makes them.

    A `Motion` whose poses have keyed parameters, and simulated free parameters.

    Attributes
    ----------
    character
        The character.
    free
        Names of the simulated parameters.
    keyed
        (t, s) poses of the rig alone at the same times.
    loop
        Whether the last frame leads into the first.
    span
        First and last second of the whole clip, of which this may be a part.
    report
        Settings and results of the simulation, as plain values for JSON.
    fine
        The same curves with samples between the frames, from which splines get their slopes; None
        if there are none.
    stride
        Samples per frame: keys are at multiples of it. 1, except in `fine`.
    """

    character: Character = None  # type: ignore[assignment]
    free: tuple[str, ...] = ()
    keyed: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    loop: bool = False
    span: tuple[float, float] = (0.0, 0.0)
    report: dict[str, Any] = field(default_factory=dict)
    fine: FreeCurves | None = None
    stride: int = 1

    def __init__(
        self,
        character: Character,
        free: Sequence[str],
        motion: Motion,
        poses: ArrayLike,
        *,
        loop: bool = False,
        span: tuple[float, float] | None = None,
        report: dict[str, Any] | None = None,
        fine: FreeCurves | None = None,
        stride: int = 1,
    ) -> None:
        super().__init__(motion.times, poses, motion.roots, motion.name, motion.cuts)
        keyed = checked_array("poses of the rig alone", motion.poses, self.poses.shape)
        known = {each.name for each in character.rig.parameters}
        missing = [name for name in free if name not in known]
        if missing:
            raise SuppleError(f'{character.name}: the rig has no parameter "{missing[0]}"')
        clip = (float(motion.times[0]), float(motion.times[-1])) if span is None else span
        vars(self).update(character=character, free=tuple(free), keyed=keyed, loop=bool(loop))
        vars(self).update(span=clip, report=dict(report or {}), fine=fine, stride=stride)

    def __repr__(self) -> str:
        count, name = len(self.free), self.name
        return f'FreeCurves("{name}", {count} free, {self.n_frames} frames, {self.duration:.3g} s)'

    @property
    def moves(self) -> float:
        """Largest motion of the skin that is added, as a fraction of the size: by each parameter
        alone, linearised at rest.
        """
        largest = float((np.abs(self.added) * self.reach).max(initial=0.0))
        return largest / max(self.character.surface.size, 1e-30)

    def keyable(self, times: Floats) -> Bools:
        """Return a mask (t,) of the times that may have keys: all but those between frames."""
        if self.stride == 1:
            return np.ones(len(times), bool)
        place = np.clip(np.searchsorted(self.times, times - 1e-6), 0, len(self.times) - 1)
        sampled = np.abs(self.times[place] - times) < 1e-6 * np.maximum(1.0, np.abs(times))
        return np.asarray(~sampled | (place % self.stride == 0) | (place == len(self.times) - 1))

    def smooth_between(self, samples: Floats) -> Floats:
        """Return samples (t, …) of which those between frames are on C² splines through the frames.

        Linear interpolation of keys has kinks at frames, which splines need not follow.
        """
        smooth = np.array(samples, np.float64)
        ends = [0, *self.cuts, len(self.times)]
        for first, last in pairwise(ends if self.stride > 1 else ()):
            shot = slice(first, last)
            on = np.flatnonzero(np.arange(len(self.times)) % self.stride == 0)
            on = np.union1d(on[(on >= first) & (on < last)], [first, last - 1])
            smooth[shot] = Curve(self.times[on], smooth[on])(self.times[shot])
        return smooth

    @cached_property
    def columns(self) -> Ints:
        """Indices (k,) of the free parameters in a pose."""
        place = {each.name: k for k, each in enumerate(self.character.rig.parameters)}
        return np.array([place[name] for name in self.free], dtype=np.int64)

    @property
    def values(self) -> Floats:
        """Curves (t, k) of the free parameters."""
        return self.poses[:, self.columns]

    @property
    def added(self) -> Floats:
        """Differences (t, k) of the free parameters from their keyed values."""
        return (self.poses - self.keyed)[:, self.columns]

    @property
    def motion(self) -> Motion:
        """Motion of the rig alone at the same times."""
        return Motion(self.times, self.keyed, self.roots, self.name, self.cuts)

    @cached_property
    def joints(self) -> tuple[FreeJoint, ...]:
        """Joints with a free rotation, offset or scale."""
        core = skinned_core(self.character.rig)
        if core is None:
            return ()
        pose = core.rig.joint_pose
        entries = pose.entries()
        entries = np.where(entries >= 0, entries + core.entries.start, -1)
        free = np.zeros(self.poses.shape[1] + 1, dtype=bool)  # the last for missing entries
        free[self.columns] = True
        joints = []
        for joint, row in enumerate(entries):
            parts = [part if free[part].any() else None for part in (row[:3], row[3:6], row[6:])]
            if any(part is not None for part in parts):
                joints.append(FreeJoint(joint, pose.skeleton.names[joint], *parts))
        return tuple(joints)

    @cached_property
    def others(self) -> Ints:
        """Indices in the pose of free parameters of shapes and wires."""
        of_joints = [p for j in self.joints for p in (j.turn, j.move, j.scale) if p is not None]
        return np.setdiff1d(self.columns, np.concatenate([np.empty(0, np.int64), *of_joints]))

    @cached_property
    def reach(self) -> Floats:
        """Largest motion (k,) of the skin at rest, in metres per unit of each free parameter."""
        return skin_reach(self.character.rig, self.columns)

    def turned(self, joint: FreeJoint) -> Floats:
        """Return rotations δ (t, 4) relative to a joint's keys: q = q_key · δ."""
        key, pose = (_vectors(poses, joint.turn) for poses in (self.keyed, self.poses))
        return multiply(inverse(exponential(key)), exponential(pose))

    def scaled(self, strength: float) -> FreeCurves:
        """Return curves with scaled differences from the keys; 0 is the rig alone.

        Weights that the simulation kept within 0 to 1 stay there.
        """
        factor = checked_number("strength", strength)
        if not 0 <= factor <= STRONGEST:
            raise SuppleError(
                f"strength {factor:g}; use 0 to {STRONGEST:g}, where 1 is as simulated"
            )
        poses = self.poses.copy()
        if factor != 1:
            poses = self.keyed + factor * (self.poses - self.keyed)
        for column in self.others if factor > 1 else ():
            is_weight = self.character.rig.parameters[column].unit == "1"
            both = np.stack([self.poses[:, column], self.keyed[:, column]])
            if is_weight and both.min() >= -ROUNDING and both.max() <= 1 + ROUNDING:
                poses[:, column] = np.clip(poses[:, column], 0, 1)
        settings: dict[str, Any] = {"loop": self.loop, "span": self.span, "report": self.report}
        settings |= {"stride": self.stride}
        fine = None if self.fine is None else self.fine.scaled(strength)
        return FreeCurves(self.character, self.free, self.motion, poses, fine=fine, **settings)

    def over(self, poses: Floats) -> Floats:
        """Add the differences from the keys to other poses (t, s), as an additive clip.

        Rotations are applied after the pose's, in the joint's frame.
        """
        result = np.array(poses, np.float64)
        result[:, self.columns] += self.added
        for joint in self.joints:
            if joint.turn is not None:
                present = joint.turn >= 0
                below = exponential(_vectors(np.asarray(poses), joint.turn))
                vectors = logarithm(multiply(below, self.turned(joint)))
                result[:, joint.turn[present]] = vectors[:, present]
        return result

    def additive(self) -> Motion:
        """Return the differences from the keys added to the rest pose, without root motion."""
        rest = np.tile(np.asarray(self.character.rig.rest_pose, np.float64), (self.n_frames, 1))
        return Motion(self.times, self.over(rest), None, self.name, self.cuts)

    def skin(self, frame: int) -> Floats:
        """Return the skin (n̄, 3) of the rig with the curves at a frame, in the world."""
        return _placed(self.roots[frame], self.character.rig(self.poses[frame]))

    def baked(self, poses: Floats | None = None) -> BakedMotion:
        """Return the skin at every frame as a `BakedMotion`; `poses` (t, s) replace the curves."""
        rows = self.poses if poses is None else poses
        rig = self.character.rig
        frames = np.empty((self.n_frames, rig.n_vertices, 3), np.float32)
        for frame, pose in enumerate(rows):
            frames[frame] = _placed(self.roots[frame], rig(pose))
        return BakedMotion(
            self.character, self.motion, frames, self.rate or 30.0, self.loop, self.report
        )


def _placed(root: Floats, points: Floats) -> Floats:
    return points @ root[:3, :3].T + root[:3, 3]


def _vectors(poses: Floats, places: Ints | None) -> Floats:
    """Return rotation vectors (t, 3) of a joint; missing entries are zero."""
    assert places is not None
    return np.where(places >= 0, poses[:, np.maximum(places, 0)], 0.0)


def skin_reach(rig: Rig, columns: Ints) -> Floats:
    """Return the largest motion (k,) of the skin at rest, in metres per unit of each parameter."""
    rest = np.asarray(rig.rest_pose, np.float64)
    skin, reach = rig(rest), np.zeros(len(columns))
    for k, column in enumerate(columns):
        pose = rest.copy()
        pose[column] += PROBE
        displacements = rig(pose) - skin
        reach[k] = (
            np.sqrt(np.einsum("ni,ni->n", displacements, displacements).max(initial=0.0)) / PROBE
        )
    return reach
