"""A joint pose of which only some entries are free, as riggers lock channels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.rig.protocol import Parameter
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton

__all__ = ["PartialJointPose"]


class PartialJointPose(JointPose):
    """The pose vector of a skeleton with locked channels.

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
        self._whole = JointPose(skeleton, translating)
        places = {entry.name: place for place, entry in enumerate(self._whole.parameters)}
        missing = [name for name in free if name not in places]
        if missing:
            raise SuppleError(f'the skeleton has no pose entry "{missing[0]}"')
        if len(set(free)) < len(free):
            raise SuppleError("an entry of the pose is listed twice")
        self._kept = np.array([places[name] for name in free], dtype=np.int64)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Those that are free."""
        return tuple(self._whole.parameters[place] for place in self._kept)

    @property
    def n_parameters(self) -> int:
        """Length of a pose."""
        return len(self._kept)

    def whole(self, pose: ArrayLike) -> Floats:
        """The unlocked skeleton's poses, (…, S), of these, (…, s)."""
        rows, leading = self._rows(pose)
        full = np.zeros((len(rows), self._whole.n_parameters))
        full[:, self._kept] = rows
        return full.reshape(*leading, -1)

    def pack(
        self,
        translations: ArrayLike | None = None,
        rotations: ArrayLike | None = None,
        scales: ArrayLike | None = None,
    ) -> Floats:
        """Poses of local joint transforms; moving a locked channel is an error."""
        full = self._whole.pack(translations, rotations, scales)
        locked = np.delete(np.abs(full), self._kept, axis=-1)
        if locked.size and locked.max() > 1e-4:
            raise SuppleError("the joints move along a channel that is locked in this pose")
        return full[..., self._kept]

    def unpack(self, pose: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Local translations (…, J, 3), rotations (…, J, 4) and scales (…, J, 3) of poses."""
        return self._whole.unpack(self.whole(pose))

    def matrices(self, pose: ArrayLike) -> Floats:
        """World transforms of the joints, (…, J, 4, 4)."""
        return self._whole.matrices(self.whole(pose))
