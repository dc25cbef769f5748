"""Pose vectors: the joints of a skeleton as one flat vector of numbers, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import numbers
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.maths.quaternions import exponential, logarithm_near, multiply
from supple.rig.protocol import Parameter, checked_parameters
from supple.rig.skeleton.joints import Skeleton, compose_world
from supple.rig.stored.field_reader import INDEX, Field
from supple.rig.stored.schema import Array, PartOf, Value

#: Fraction of the skeleton's size, or of a scale, that `pack` may lose silently: file precision.
NEGLIGIBLE = 1e-4
#: Smallest scale relative to the rest scale, since the logarithm of zero is not finite.
SMALLEST_SCALE = 1e-6


class JointPose:
    """Pose vector of a skeleton.

    The vector has three entries per joint, a rotation vector ω relative to rest in radians (local
    rotation = rest rotation · exp ω). Three offsets in metres follow for each joint in
    `translating` (local translation = rest + offset), then three logarithms of scale for each
    joint in `scaling` (local scale = rest · exp). The rest pose is all zeros.

    Parameters
    ----------
    skeleton : Skeleton
    translating, scaling : iterables of joint names or indices
        Kept in the order of the joints.

    Examples
    --------
    >>> arm = Skeleton(["upper", "fore"], [-1, 0], [[0, 1, 0], [1, 0, 0]])
    >>> pose = JointPose(arm, translating=["upper"])
    >>> [parameter.name for parameter in pose.parameters][3:7]
    ['fore.rx', 'fore.ry', 'fore.rz', 'upper.tx']
    """

    def __init__(
        self,
        skeleton: Skeleton,
        translating: Iterable[str | int] = (),
        scaling: Iterable[str | int] = (),
    ) -> None:
        self.skeleton = skeleton
        self.translating = _sorted_joints(skeleton, translating)
        self.scaling = _sorted_joints(skeleton, scaling)
        for joint in self.scaling:
            if not np.all(skeleton.scales[joint] != 0):
                name = skeleton.names[joint]
                raise SuppleError(f'joint "{name}" has a rest scale of zero and cannot be scaled')
        self._n_channels = 3 * (skeleton.n_joints + len(self.translating) + len(self.scaling))
        #: Length of a pose.
        self.n_parameters = self._n_channels

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters named "joint.rx", "joint.tx", "joint.sx" and so on."""
        return self._channels()

    def _channels(self) -> tuple[Parameter, ...]:
        joints = (np.arange(self.skeleton.n_joints), self.translating, self.scaling)
        channels = [
            Parameter(f"{self.skeleton.names[joint]}.{letter}{axis}", unit)
            for listed, letter, unit in zip(joints, "rts", ("rad", "m", "1"), strict=True)
            for joint in listed
            for axis in "xyz"
        ]
        return checked_parameters(channels)

    def entries(self) -> Ints:
        """Return the indices in the pose of each joint's channels, (J, 9); -1 for missing channels.

        Columns are the rotation vector, the offset and the logarithms of scale.
        """
        free = self._free_channels()
        places = np.full(self._n_channels, -1, np.int64)
        places[free] = np.arange(len(free))
        rotations, others = np.split(places.reshape(-1, 3), [self.skeleton.n_joints])
        entries = np.full((self.skeleton.n_joints, 9), -1, np.int64)
        entries[:, :3] = rotations
        entries[self.translating, 3:6] = others[: len(self.translating)]
        entries[self.scaling, 6:] = others[len(self.translating) :]
        return entries

    def rotation_entries(self) -> Ints:
        """Return the indices (k, 3) in the pose of rotation vectors with all three entries."""
        vectors = self.entries()[:, :3]
        return vectors[(vectors >= 0).all(axis=1)]

    def _free_channels(self) -> Ints:
        """Return the channels that are entries of the pose, in the pose's order."""
        return np.arange(self._n_channels)

    def pack(
        self,
        translations: ArrayLike | None = None,
        rotations: ArrayLike | None = None,
        scales: ArrayLike | None = None,
        *,
        check: bool = True,
    ) -> Floats:
        """Return the poses of local joint transforms.

        Arguments are as for `Skeleton.world`; the first of the leading axes is time. Without
        `check`, motion along channels that the pose lacks is left out.

        Returns
        -------
        (…, s) array
            Rotation vectors are continuous along the first axis: of the equivalent vectors the
            one nearest to the row before; the first row's are the shortest. Scales below a
            millionth of the rest scale are raised to that.

        Raises
        ------
        SuppleError
            When a joint moves, turns or scales along a channel for which this pose has no entry, or
            a scale changes its sign.
        """
        rest = self.skeleton
        full_translations, turned, sized = rest.local_transforms(translations, rotations, scales)
        leading = full_translations.shape[:-2]
        if not all(np.isfinite(array).all() for array in (full_translations, turned, sized)):
            raise SuppleError("joint transforms to pack are not all finite")
        if check:
            self._refuse_loss(full_translations, sized)
        steps = leading[0] if leading else 1
        across = int(np.prod(leading[1:], dtype=np.int64))
        quaternions = np.ascontiguousarray(turned, dtype=np.float64)
        quaternions = quaternions.reshape(steps, across, rest.n_joints, 4)
        vectors = np.empty((*quaternions.shape[:-1], 3))
        bad = _relative_vectors(quaternions, rest.rotations, vectors)
        if bad >= 0:
            raise SuppleError(f'joint "{rest.names[bad]}": a rotation is a zero quaternion')
        offsets = (full_translations - rest.translations)[..., self.translating, :]
        logs = self._log_scales(sized)
        parts = (vectors.reshape(*leading, rest.n_joints, 3), offsets, logs)
        widths = [3 * part.shape[-2] for part in parts]
        flat = [p.reshape(*leading, w) for p, w in zip(parts, widths, strict=True)]
        return self._without_locked(np.concatenate(flat, axis=-1))

    def _without_locked(self, channels: Floats) -> Floats:
        """Return the entries of the pose, (…, s), selected from all channels."""
        return channels

    def _log_scales(self, scales: Floats) -> Floats:
        ratios = scales[..., self.scaling, :] / self.skeleton.scales[self.scaling]
        negative = np.argwhere(ratios < 0)
        if len(negative):
            name = self.skeleton.names[self.scaling[negative[0][-2]]]
            raise SuppleError(f'joint "{name}": its scale changes sign, which no pose can express')
        return np.log(np.maximum(ratios, SMALLEST_SCALE))

    def _refuse_loss(self, translations: Floats, scales: Floats) -> None:
        rest = self.skeleton
        places = rest.rest_world()[:, :3, 3]
        size = max(np.ptp(places, axis=0).max(), np.abs(rest.translations).max(), 1e-9)
        checks = [
            ("moves", "translating", translations - rest.translations, self.translating, size),
            ("scales", "scaling", scales - rest.scales, self.scaling, 1.0),
        ]
        for verb, where, change, listed, unit in checks:
            lost = np.abs(change).max(axis=-1).reshape(-1, rest.n_joints).max(axis=0, initial=0)
            lost[listed] = 0
            worst = int(np.argmax(lost))
            if lost[worst] > NEGLIGIBLE * unit:
                name = rest.names[worst]
                raise SuppleError(f'joint "{name}" {verb} by {lost[worst]:.3g}; list it as {where}')

    def unpack(self, pose: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Return local translations (…, J, 3), rotations (…, J, 4), scales (…, J, 3) of poses."""
        rows, leading = self._channel_rows(pose)
        t, r, s = (array.reshape(*leading, *array.shape[1:]) for array in self._unpack_rows(rows))
        return t, r, s

    def matrices(self, pose: ArrayLike) -> Floats:
        """Return world transforms of the joints, (…, J, 4, 4)."""
        rows, leading = self._channel_rows(pose)
        out = np.empty((len(rows), self.skeleton.n_joints, 4, 4))
        compose_world(self.skeleton.parents, *self._unpack_rows(rows), out)
        return out.reshape(*leading, self.skeleton.n_joints, 4, 4)

    def _unpack_rows(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        rest = self.skeleton
        count = (len(rows), rest.n_joints)
        local = (np.empty((*count, 3)), np.empty((*count, 4)), np.empty((*count, 3)))
        tables = (rest.translations, rest.rotations, rest.scales)
        _unpack(rows, self.translating, self.scaling, *tables, *local)
        return local

    def _rows(self, pose: ArrayLike) -> tuple[Floats, tuple[int, ...]]:
        array = numbers("a pose", pose)
        if array.ndim == 0 or array.shape[-1] != self.n_parameters:
            raise SuppleError(f"pose of shape {array.shape}; expected (…, {self.n_parameters})")
        # Writable: Numba would compile kernels again for read-only arrays.
        rows = np.require(array, requirements=["C", "W"]).reshape(-1, self.n_parameters)
        return rows, array.shape[:-1]

    def _channel_rows(self, pose: ArrayLike) -> tuple[Floats, tuple[int, ...]]:
        """Return all channels of poses (…, s) in rows, and the leading axes."""
        return self._rows(pose)

    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf("skeleton", Skeleton),
        Array("translating", INDEX, (None,)),
        Array("scaling", INDEX, (None,)),
    )


class PartialJointPose(JointPose):
    """The pose vector of a skeleton of which only some channels are free, as riggers lock them.

    Parameters
    ----------
    skeleton : Skeleton
    free : sequence of str
        Names of the entries that remain, such as ``"elbow.rz"``; all others stay at rest.
    translating : iterable of joint names or indices
        Joints whose translations can be named in `free`.

    Examples
    --------
    >>> arm = Skeleton(["upper", "fore"], [-1, 0], [[0, 1, 0], [1, 0, 0]])
    >>> PartialJointPose(arm, ["fore.rz"]).matrices([np.pi / 2])[1, :2, 0].round(6)
    array([0., 1.])
    """

    def __init__(
        self, skeleton: Skeleton, free: Sequence[str], translating: Iterable[str | int] = ()
    ) -> None:
        super().__init__(skeleton, translating)
        channels = self._channels()
        places = {channel.name: place for place, channel in enumerate(channels)}
        missing = [name for name in free if name not in places]
        if missing:
            raise SuppleError(f'the skeleton has no pose entry "{missing[0]}"')
        if len(set(free)) < len(free):
            raise SuppleError("an entry of the pose is listed twice; remove one")
        self._free = np.array([places[name] for name in free], dtype=np.int64)
        self.n_parameters = len(self._free)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The free channels."""
        channels = self._channels()
        return tuple(channels[place] for place in self._free)

    def _free_channels(self) -> Ints:
        return self._free

    def _without_locked(self, channels: Floats) -> Floats:
        locked = np.delete(np.abs(channels), self._free, axis=-1)
        if locked.size and locked.max() > 1e-4:
            raise SuppleError("the joints move along a channel that is locked in this pose")
        return channels[..., self._free]

    def _channel_rows(self, pose: ArrayLike) -> tuple[Floats, tuple[int, ...]]:
        rows, leading = self._rows(pose)
        channels = np.zeros((len(rows), self._n_channels))
        channels[:, self._free] = rows
        return channels, leading

    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf("skeleton", Skeleton),
        Value("free", "texts", lambda pose: [parameter.name for parameter in pose.parameters]),
        Array("translating", INDEX, (None,)),
    )


def _sorted_joints(skeleton: Skeleton, joints: Iterable[str | int]) -> Ints:
    return np.array(sorted({skeleton.joint(joint) for joint in joints}), dtype=np.int64)


@compiled
def _relative_vectors(rotations: Floats, rest: Floats, out: Floats) -> int:
    """Write rotation vectors (t, m, J, 3) relative to rest.

    Returns a joint with a zero quaternion, or -1.
    """
    inverse, relative, unit = np.empty(4), np.empty(4), np.empty(4)
    for step in range(rotations.shape[0]):
        for row in range(rotations.shape[1]):
            for joint in range(rotations.shape[2]):
                unit[:] = rotations[step, row, joint]
                largest = np.abs(unit).max()
                if not largest > 0:
                    return joint
                # A power of two keeps all digits; the squares of 1e200 would overflow.
                exponent = math.frexp(largest)[1]
                for k in range(4):
                    unit[k] = math.ldexp(unit[k], -exponent)
                unit /= np.sqrt((unit**2).sum())
                inverse[:3] = -rest[joint, :3]
                inverse[3] = rest[joint, 3]
                multiply(inverse, unit, relative)
                vector = out[step, row, joint]
                if step > 0:
                    logarithm_near(relative, out[step - 1, row, joint], vector)
                else:
                    logarithm_near(relative, np.zeros(3), vector)
    return -1


@compiled
def _unpack(
    poses: Floats,
    translating: Ints,
    scaling: Ints,
    rest_translations: Floats,
    rest_rotations: Floats,
    rest_scales: Floats,
    translations: Floats,
    rotations: Floats,
    scales: Floats,
) -> None:
    count = len(rest_rotations)
    relative = np.empty(4)
    for row in range(len(poses)):
        pose = poses[row]
        for joint in range(count):
            exponential(pose[3 * joint : 3 * joint + 3], relative)
            multiply(rest_rotations[joint], relative, rotations[row, joint])
        translations[row] = rest_translations
        scales[row] = rest_scales
        entry = 3 * count
        for joint in translating:
            translations[row, joint] += pose[entry : entry + 3]
            entry += 3
        for joint in scaling:
            scales[row, joint] *= np.exp(pose[entry : entry + 3])
            entry += 3
