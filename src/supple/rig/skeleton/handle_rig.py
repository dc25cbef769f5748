"""A rig driven by a handle: inverse kinematics as a parameterisation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.rig.protocol import Parameter, Rig, checked_parameters, checked_pose, rest_values
from supple.rig.skeleton.inverse_kinematics import InverseKinematics


class HandleRig:
    """A skinned rig whose pose is a handle's place, and some of the rig's own parameters.

    Parameters are "<name>.x", "<name>.y", "<name>.z", the handle in metres in the rig's space,
    at rest at the chain's end; then the extra ones, as the rig has them. Each evaluation solves
    from the rest pose, so that the surface is a function of the pose and not of its history.

    Parameters
    ----------
    base : Rig
        Its first parameters must be those of the chain's `JointPose`: a `SkinnedRig`, or blend
        shapes or corrections over one.
    chain : InverseKinematics
    extra : sequence of str
        Parameters of `base` that stay in the artist's hand, such as the twist of the fore arm.
        The chain is solved around them.
    softness : float
        Part of the chain's reach over which it yields before it is stretched. A chain that
        straightens at once snaps: its pose changes like a square root. 0 for that.

    Examples
    --------
    >>> from supple.rig import JointPose, Skeleton, SkinnedRig
    >>> arm = Skeleton(["upper", "fore"], [-1, 0], [[0, 0, 0], [1, 0.5, 0]])
    >>> bind = np.linalg.inv(arm.rest_world())
    >>> skin = SkinnedRig(JointPose(arm), [[2, 0, 0]], [[1]], [[1]], bind)
    >>> chain = InverseKinematics(skin.joint_pose, "upper", "fore", offset=[1, -0.5, 0])
    >>> rig = HandleRig(skin, chain, extra=["fore.rx"])
    >>> np.round(rig([1, 1, 0, 0]), 6)
    array([[1., 1., 0.]])
    """

    def __init__(
        self,
        base: Rig,
        chain: InverseKinematics,
        extra: Sequence[str] = (),
        *,
        softness: float = 0.02,
        name: str = "handle",
    ) -> None:
        own = chain.joint_pose.parameters
        if base.parameters[: len(own)] != own:
            raise SuppleError("the rig's parameters do not begin with those of the joint chain")
        if not 0 <= softness < 1:
            raise SuppleError(f"softness {softness}; it must be 0 or a part of 1")
        self.base, self.chain, self.softness = base, chain, float(softness)
        known = {parameter.name: k for k, parameter in enumerate(base.parameters)}
        for wanted in extra:
            if wanted not in known:
                raise SuppleError(f'the rig has no parameter "{wanted}" to keep beside the handle')
        self._extra = np.array([known[wanted] for wanted in extra], dtype=np.int64)
        self._n_joint_parameters = len(own)
        rest = np.asarray(base.rest_pose)[: len(own)]
        end = chain.end(rest)
        top, reach = chain.span(rest, held=self._extra)
        if softness and np.linalg.norm(end - top) > (1 - softness) * reach:
            raise SuppleError("the chain is stretched at rest; bend it a little, or softness=0")
        self.parameters = checked_parameters(
            [
                *(
                    Parameter(f"{name}.{axis}", "m", float(x))
                    for axis, x in zip("xyz", end, strict=True)
                ),
                *(base.parameters[k] for k in self._extra),
            ]
        )
        self.rest_pose = rest_values(self.parameters)

    def __repr__(self) -> str:
        return f"HandleRig({len(self.parameters)} parameters on {self.base!r})"

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return self.base.n_vertices

    def base_pose(self, pose: ArrayLike) -> Floats:
        """Solve for the base rig's pose at this handle."""
        values = checked_pose(self.parameters, pose)
        whole = np.array(self.base.rest_pose, dtype=np.float64)
        whole[self._extra] = values[3:]
        joints = self._n_joint_parameters
        # The extra ones may move the chain and change its reach: it softens as it is posed here.
        whole[:joints] = self.chain.solve(
            values[:3], pose=whole[:joints], held=self._extra, softness=self.softness
        ).pose
        return whole

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices or of the listed ones."""
        return self.base(self.base_pose(pose), vertices)
