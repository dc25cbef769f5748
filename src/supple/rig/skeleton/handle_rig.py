"""Rig driven by a handle: inverse kinematics as a parameterisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.rig.protocol import Parameter, Rig, checked_parameters, checked_pose, rest_values
from supple.rig.skeleton.inverse_kinematics import InverseKinematics
from supple.rig.stored.field_reader import Field
from supple.rig.stored.schema import PartOf, Value


class HandleRig:
    """A skinned rig whose pose is a handle's position and some parameters of its base.

    Parameters are "<name>.x", "<name>.y", "<name>.z", the position of the handle in metres in the
    rig's space, at rest at the chain's end; then the extra ones of the base. Each evaluation solves
    from the rest pose, so that the surface is a function of the pose and not of its history.

    Parameters
    ----------
    base : Rig
        Its first parameters must be those of the chain's `JointPose`: a `SkinnedRig`, or blend
        shapes or corrections over one.
    chain : InverseKinematics
    extra : sequence of str
        Parameters of `base` that remain parameters, such as the twist of the fore arm. The chain
        is solved with their values.
    softness : float
        Part of the chain's reach over which it yields before it is stretched. With 0 a chain snaps
        when it straightens: its pose changes like a square root.

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
        of_joints = chain.joint_pose.parameters
        if base.parameters[: len(of_joints)] != of_joints:
            raise SuppleError("the rig's parameters do not begin with those of the joint chain")
        if not 0 <= softness < 1:
            raise SuppleError(f"softness {softness}; it must be 0 or a part of 1")
        self.base, self.chain, self.softness = base, chain, float(softness)
        indices = {parameter.name: k for k, parameter in enumerate(base.parameters)}
        for extra_name in extra:
            if extra_name not in indices:
                raise SuppleError(
                    f'the rig has no parameter "{extra_name}" to keep beside the handle'
                )
        self._extra = np.array([indices[extra_name] for extra_name in extra], dtype=np.int64)
        self._n_joint_parameters = len(of_joints)
        rest = np.asarray(base.rest_pose)[: len(of_joints)]
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
        """Return the base's pose at a handle position, by inverse kinematics."""
        values = checked_pose(self.parameters, pose)
        whole = np.array(self.base.rest_pose, dtype=np.float64)
        whole[self._extra] = values[3:]
        joints = self._n_joint_parameters
        # Extra parameters may move the chain and change its reach; softness applies to that reach.
        whole[:joints] = self.chain.solve(
            values[:3], pose=whole[:joints], held=self._extra, softness=self.softness
        ).pose
        return whole

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices or of the listed ones."""
        return self.base(self.base_pose(pose), vertices)

    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf("base", Rig),
        PartOf("chain", InverseKinematics),
        Value("extra", "texts", lambda rig: [parameter.name for parameter in rig.parameters[3:]]),
        Value("softness", "number"),
        Value("name", "text", lambda rig: rig.parameters[0].name.removesuffix(".x")),
    )

    @classmethod
    def restored(cls, **fields: Any) -> HandleRig:
        """Make the rig from its stored fields."""
        return cls(**fields)
