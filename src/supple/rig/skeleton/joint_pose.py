"""How the joints of a skeleton become one flat vector of numbers, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import numbers
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.maths.quaternions import exponential, logarithm_near, multiply
from supple.rig.protocol import Parameter, checked_parameters
from supple.rig.skeleton.joints import Skeleton, compose_world

__all__ = ["JointPose"]


#: Part of the skeleton's size, or of a scale, that `pack` may lose silently: file precision.
NEGLIGIBLE = 1e-4
#: Scales shrink no further than this part of the rest scale; the logarithm of zero is not a pose.
SMALLEST_SCALE = 1e-6


class JointPose:
    """The pose vector of a skeleton.

    For every joint three entries of a rotation vector ω relative to rest (local rotation =
    rest rotation · exp ω), in radians; then three offsets in metres for each joint in
    `translating` (local translation = rest + offset); then three logarithms of scale for each
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

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Names are "joint.rx", "joint.tx", "joint.sx" and so on."""
        kinds: list[tuple[Iterable[int], str, str]] = [
            (range(self.skeleton.n_joints), "r", "rad"),
            (self.translating, "t", "m"),
            (self.scaling, "s", "1"),
        ]
        return checked_parameters(
            [
                Parameter(f"{self.skeleton.names[joint]}.{letter}{axis}", unit)
                for joints, letter, unit in kinds
                for joint in joints
                for axis in "xyz"
            ]
        )

    @property
    def n_parameters(self) -> int:
        """Length of a pose."""
        return 3 * (self.skeleton.n_joints + len(self.translating) + len(self.scaling))

    def pack(
        self,
        translations: ArrayLike | None = None,
        rotations: ArrayLike | None = None,
        scales: ArrayLike | None = None,
    ) -> Floats:
        """Poses of local joint transforms.

        Parameters
        ----------
        translations, rotations, scales : (…, J, 3), (…, J, 4), (…, J, 3) arrays, optional
            What is left out is as in the rest pose. With leading axes the first is time.

        Returns
        -------
        (…, s) array
            Rotation vectors are continuous along the first axis: of the equivalent vectors the
            one nearest to the row before; the first row's are the shortest. Scales below a
            millionth of the rest scale are raised to that.

        Raises
        ------
        SuppleError
            When a joint moves or scales that this pose has no entries for, or a scale changes
            its sign.
        """
        rest = self.skeleton
        given = (
            rest.translations if translations is None else translations,
            rest.rotations if rotations is None else rotations,
            rest.scales if scales is None else scales,
        )
        local = [
            rest._joint_array("transforms", a, w) for a, w in zip(given, (3, 4, 3), strict=True)
        ]
        try:
            leading = np.broadcast_shapes(*(a.shape[:-2] for a in local))
        except ValueError:
            shapes = ", ".join(str(a.shape) for a in local)
            raise SuppleError(f"joint transforms of shapes {shapes} do not fit together") from None
        moved, turned, sized = (np.broadcast_to(a, (*leading, *a.shape[-2:])) for a in local)
        if not all(np.isfinite(a).all() for a in local):
            raise SuppleError("joint transforms to pack are not all finite")
        self._refuse_loss(moved, sized)
        steps = leading[0] if leading else 1
        across = int(np.prod(leading[1:], dtype=np.int64))
        quaternions = np.ascontiguousarray(turned, dtype=np.float64).reshape(
            steps, across, rest.n_joints, 4
        )
        vectors = np.empty((*quaternions.shape[:-1], 3))
        bad = _relative_vectors(quaternions, rest.rotations, vectors)
        if bad >= 0:
            raise SuppleError(f'joint "{rest.names[bad]}": a rotation is a zero quaternion')
        offsets = (moved - rest.translations)[..., self.translating, :]
        logs = self._log_scales(sized)
        parts = (vectors.reshape(*leading, rest.n_joints, 3), offsets, logs)
        widths = [3 * part.shape[-2] for part in parts]
        flat = [p.reshape(*leading, w) for p, w in zip(parts, widths, strict=True)]
        return np.concatenate(flat, axis=-1)

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
        size = max(
            float(np.ptp(places, axis=0).max()), float(np.abs(rest.translations).max()), 1e-9
        )
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
        """Local translations (…, J, 3), rotations (…, J, 4) and scales (…, J, 3) of poses."""
        rows, leading = self._rows(pose)
        shape = (*leading, self.skeleton.n_joints)
        translations, rotations, scales = self._unpack_rows(rows)
        return (
            translations.reshape(*shape, 3),
            rotations.reshape(*shape, 4),
            scales.reshape(*shape, 3),
        )

    def matrices(self, pose: ArrayLike) -> Floats:
        """World transforms of the joints, (…, J, 4, 4)."""
        rows, leading = self._rows(pose)
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
        # Writable, though nobody writes: Numba would compile once more for what is not.
        rows = np.require(array, requirements=["C", "W"]).reshape(-1, self.n_parameters)
        return rows, array.shape[:-1]


def _sorted_joints(skeleton: Skeleton, joints: Iterable[str | int]) -> Ints:
    return np.array(sorted({skeleton.joint(joint) for joint in joints}), dtype=np.int64)


@compiled
def _relative_vectors(rotations: Floats, rest: Floats, out: Floats) -> int:
    """Rotation vectors (t, m, J, 3) relative to rest; a joint with a zero quaternion, or -1."""
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
    turn = np.empty(4)
    for row in range(len(poses)):
        pose = poses[row]
        for joint in range(count):
            exponential(pose[3 * joint : 3 * joint + 3], turn)
            multiply(rest_rotations[joint], turn, rotations[row, joint])
        translations[row] = rest_translations
        scales[row] = rest_scales
        entry = 3 * count
        for joint in translating:
            translations[row, joint] += pose[entry : entry + 3]
            entry += 3
        for joint in scaling:
            scales[row, joint] *= np.exp(pose[entry : entry + 3])
            entry += 3
