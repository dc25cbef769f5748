"""Inverse kinematics: the pose of a joint chain that moves its end to a target, and a rig of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array
from supple.errors import SuppleError
from supple.rig.protocol import Parameter, Rig, checked_parameters, checked_pose, rest_values
from supple.rig.skeleton.chain_kinematics import chain_span
from supple.rig.skeleton.chain_solver import solve_chain
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.stored.field_reader import DOUBLE, Field
from supple.rig.stored.schema import Array, PartOf, Value

REACHED = 1e-4


@dataclass(frozen=True, eq=False)
class ChainSolution:
    """Result of `InverseKinematics.solve`.

    Attributes
    ----------
    pose : (s,) array
        The whole pose, with the chain's rotations in it.
    error : float
        Distance left to the target, in metres.
    turn_error : float
        Angle left to the target orientation, in radians; 0 without one.
    iterations : int
    reached : bool
        Whether both errors are below 1e-4, of the chain's length and in radians.
    """

    pose: Floats
    error: float
    turn_error: float
    iterations: int
    reached: bool


class InverseKinematics:
    """Damped least squares on the rotations of a chain of joints, within limits.

    A Newton method with the damping of Levenberg and Marquardt; it also uses the second
    derivatives, so that a target out of reach, where Gauss–Newton creeps, takes few iterations.

    Parameters
    ----------
    joint_pose : JointPose
        Rotations without an entry stay at rest, whatever the limits.
    top, tip : str or int
        First and last joint of the chain, the second below the first.
    offset : (3,) array
        The end of the chain, in the frame of the tip joint, in metres. Without an offset the tip's
        rotation matters only for an orientation.
    limits : mapping from joint to ((3,), (3,)), optional
        Lowest and highest rotation vector of joints of the chain, in radians, entry by entry;
        ±π by default. Equal limits lock an entry.

    Examples
    --------
    >>> from supple.rig import JointPose, Skeleton
    >>> arm = Skeleton(["upper", "fore"], [-1, 0], [[0, 0, 0], [1, 0, 0]])
    >>> chain = InverseKinematics(JointPose(arm), "upper", "fore", offset=[1, 0, 0])
    >>> bool(chain.solve([1, 1, 0]).reached)
    True
    """

    def __init__(
        self,
        joint_pose: JointPose,
        top: str | int,
        tip: str | int,
        *,
        offset: ArrayLike = (0.0, 0.0, 0.0),
        limits: Mapping[str | int, tuple[ArrayLike, ArrayLike]] | None = None,
    ) -> None:
        self.joint_pose = joint_pose
        skeleton = joint_pose.skeleton
        self.joints = skeleton.path(top, tip)
        self.offset = checked_array("offset of the chain's end", offset, (3,))
        #: Entries of the pose that are solved for, and their indices among the chain's rotations.
        self.entries, self._rotations = self._chain_entries()
        #: Limits of these entries.
        self.low, self.high = self._checked_limits(limits or {})
        if not (self.low < self.high).any():
            raise SuppleError("all joints of the chain are locked; widen a limit")
        sizes = np.linalg.norm(skeleton.translations[self.joints[1:]], axis=1)
        world = skeleton.rest_world()[self.joints]
        scales = np.linalg.norm(world[:, :3, :3], ord=2, axis=(1, 2))
        self.length = float(sizes @ scales[:-1] + np.linalg.norm(self.offset) * scales[-1])
        if not self.length > 0:
            raise SuppleError("the joint chain has no length; give a tip farther down or an offset")

    def __repr__(self) -> str:
        names = [self.joint_pose.skeleton.names[joint] for joint in self.joints]
        return f"InverseKinematics({' > '.join(names)})"

    @property
    def can_move(self) -> bool:
        """Whether a free rotation can move the end: that of the tip only does with an offset."""
        last = len(self.joints) - (0 if self.offset.any() else 1)
        return bool(((self._rotations // 3 < last) & (self.low < self.high)).any())

    def _chain_entries(self) -> tuple[Ints, Ints]:
        """Find the chain's entries by name: with locked channels they are elsewhere, or missing."""
        places = {entry.name: place for place, entry in enumerate(self.joint_pose.parameters)}
        names = self.joint_pose.skeleton.names
        rotations = [f"{names[joint]}.r{axis}" for joint in self.joints for axis in "xyz"]
        present = [k for k, name in enumerate(rotations) if name in places]
        entries = [places[rotations[k]] for k in present]
        return np.array(entries, dtype=np.int64), np.array(present, dtype=np.int64)

    def _checked_limits(
        self, limits: Mapping[str | int, tuple[ArrayLike, ArrayLike]]
    ) -> tuple[Floats, Floats]:
        low = np.full((len(self.joints), 3), -np.pi)
        high = -low
        skeleton = self.joint_pose.skeleton
        for joint, (lowest, highest) in limits.items():
            index = skeleton.joint(joint)
            name = skeleton.names[index]
            place = np.flatnonzero(self.joints == index)
            if not place.size:
                raise SuppleError(f'limits for joint "{name}", which is not in the chain')
            low[place[0]] = checked_array(f'low limits of "{name}"', lowest, (3,))
            high[place[0]] = checked_array(f'high limits of "{name}"', highest, (3,))
            if (low[place[0]] > high[place[0]]).any():
                raise SuppleError(f'joint "{name}": a low limit is above its high one')
        return low.reshape(-1)[self._rotations], high.reshape(-1)[self._rotations]

    def span(self, pose: ArrayLike | None = None, *, held: ArrayLike = ()) -> tuple[Floats, float]:
        """Return the position (3,) of the first free joint, and the reach of the end from it.

        Locked joints make one bone. Translations and scales of the pose, by default the rest pose,
        may move and lengthen the chain.

        Parameters
        ----------
        pose : (s,) array, optional
            Pose of all joints; entries that are solved for are ignored.
        held : list of ints
            Entries of the pose that keep their value although they are in the chain.
        """
        values = self._pose(pose)
        low, high = map(self._all_rotations, self._bounds(values, held))
        return chain_span(self._chain(values), np.clip(0.0, low, high), low, high)

    def end(self, pose: ArrayLike | None = None) -> Floats:
        """Return the position (3,) of the chain's end at a pose, by default the rest pose."""
        tip = self.joint_pose.matrices(self._pose(pose))[self.joints[-1]]
        return tip[:3, :3] @ self.offset + tip[:3, 3]

    def solve(
        self,
        target: ArrayLike,
        orientation: ArrayLike | None = None,
        *,
        pose: ArrayLike | None = None,
        held: ArrayLike = (),
        softness: float = 0.0,
    ) -> ChainSolution:
        """Solve for the pose that brings the chain's end nearest to a target.

        Parameters
        ----------
        target : (3,) array
            In metres, in the rig's space.
        orientation : (4,) array, optional
            Target rotation of the tip joint in the rig's space, quaternion (x, y, z, w). An error
            of a radian counts as much as a distance of the chain's length.
        pose : (s,) array, optional
            Start, such as the last solution, and the pose of all other joints; by default the
            rest pose. Entries outside their limits are clamped.
        held : list of ints
            Entries of the pose that keep their value although they are in the chain.
        softness : float
            Fraction of the chain's reach over which a target is moved closer, so that the chain is
            never fully stretched; errors are then relative to the moved target.

        Returns
        -------
        ChainSolution
            The pose nearest to the target that was found, if the target is out of reach.
        """
        goal = checked_array("target", target, (3,))
        values = self._pose(pose).copy()
        low, high = map(self._all_rotations, self._bounds(values, held))
        turn, quaternion = orientation is not None, np.array([0.0, 0, 0, 1])
        if orientation is not None:
            quaternion = checked_array("target orientation", orientation, (4,))
            if not np.linalg.norm(quaternion) > 0:
                raise SuppleError("the target orientation is a zero quaternion")
            quaternion = quaternion / np.linalg.norm(quaternion)
        chain = self._chain(values)
        start = np.clip(self._all_rotations(values[self.entries]), low, high)
        preferred = np.clip(0.0, low, high)
        if softness:
            top, reach = chain_span(chain, preferred, low, high)
            goal = _drawn_in(goal, top, reach, softness)
        within = (preferred, low, high)
        rotations, error, turn_error, iterations = solve_chain(
            chain, (goal, quaternion, turn, self.length), within, start
        )
        values[self.entries] = rotations[self._rotations]
        reached = error <= REACHED * self.length and turn_error <= REACHED
        return ChainSolution(values, error, turn_error, iterations, bool(reached))

    def _chain(self, pose: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
        """Return transform (4, 4) and rotation (4,) above the chain, and its local transforms."""
        translations, turned, sized = self.joint_pose.unpack(pose)
        skeleton = self.joint_pose.skeleton
        parent = int(skeleton.parents[self.joints[0]])
        base, rotation = np.eye(4), np.array([0.0, 0, 0, 1])
        if parent >= 0:
            base = self.joint_pose.matrices(pose)[parent].copy()
            # Without scales: a scaled parent's matrix is not a rotation.
            above = skeleton.world(np.zeros_like(translations), turned, np.ones_like(sized))[parent]
            rotation = _quaternion_of(above[:3, :3])
        local = (translations[self.joints], skeleton.rotations[self.joints], sized[self.joints])
        return (base, rotation, *local, self.offset)

    def _pose(self, pose: ArrayLike | None) -> Floats:
        count = self.joint_pose.n_parameters
        return np.zeros(count) if pose is None else checked_array("pose", pose, (count,))

    def _bounds(self, pose: Floats, held: ArrayLike) -> tuple[Floats, Floats]:
        """Return limits of the entries; both equal the value of an entry that is held."""
        low, high = self.low.copy(), self.high.copy()
        kept = np.isin(self.entries, np.asarray(held, dtype=np.int64))
        low[kept] = high[kept] = pose[self.entries[kept]]
        return low, high

    def _all_rotations(self, values: Floats) -> Floats:
        """Return values of all rotations of the chain, (3c,); zero if not in the pose."""
        rotations = np.zeros(3 * len(self.joints))
        rotations[self._rotations] = values
        return rotations

    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf("joint_pose", JointPose),
        Value("top", "number", lambda chain: int(chain.joints[0])),
        Value("tip", "number", lambda chain: int(chain.joints[-1])),
        Array("low", DOUBLE, ("chain", 3), lambda chain: chain._limits(chain.low, -np.pi)),
        Array("high", DOUBLE, ("chain", 3), lambda chain: chain._limits(chain.high, np.pi)),
        Array("offset", DOUBLE, (3,)),
    )

    def _limits(self, limits: Floats, unlimited: float) -> Floats:
        """Return limits (joints, 3); rotations that are not in the pose have `unlimited`."""
        entries = np.full(3 * len(self.joints), unlimited)
        entries[self._rotations] = limits
        return entries.reshape(-1, 3)

    @classmethod
    def restored(
        cls,
        joint_pose: JointPose,
        top: float,
        tip: float,
        low: Floats,
        high: Floats,
        offset: Floats,
    ) -> InverseKinematics:
        """Make the solver from its stored fields."""
        joints = joint_pose.skeleton.path(int(top), int(tip)).tolist()
        limits = dict(zip(joints, zip(low, high, strict=True), strict=True))
        return cls(joint_pose, int(top), int(tip), offset=offset, limits=limits)


class HandleRig:
    """A skinned rig whose pose is a handle's position and some parameters of its base.

    Parameters are "<name>.x", "<name>.y", "<name>.z", the position of the handle in metres in the
    rig's space, at rest at the chain's end; then the extra parameters of the base. Each evaluation
    solves from the rest pose, so that the surface is a function of the pose and not of its history.

    Parameters
    ----------
    base : Rig
        Its first parameters must be the chain's `JointPose`'s: a `SkinnedRig`, or blend
        shapes or corrections over one.
    chain : InverseKinematics
    extra : sequence of str
        Parameters of `base` that remain parameters, such as the twist of the fore arm. The chain
        is solved with their values.
    softness : float
        Fraction of the chain's reach over which the end lags behind the handle, at least 0 and less
        than 1. With 0 a chain snaps when it straightens: its pose changes like a square root.

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
            raise SuppleError("the rig's parameters do not begin with the joint chain's")
        if not 0 <= softness < 1:
            raise SuppleError(f"softness {softness}; it must be at least 0 and less than 1")
        self.base, self.chain, self.softness = base, chain, float(softness)
        indices = {parameter.name: k for k, parameter in enumerate(base.parameters)}
        missing = [each for each in extra if each not in indices]
        if missing:
            raise SuppleError(f'the rig has no parameter "{missing[0]}"; remove it from extra')
        self._extra = np.array([indices[each] for each in extra], dtype=np.int64)
        rest = np.asarray(base.rest_pose)[: len(of_joints)]
        end = chain.end(rest)
        top, reach = chain.span(rest, held=self._extra)
        if softness and np.linalg.norm(end - top) > (1 - softness) * reach:
            raise SuppleError("the chain is stretched at rest; bend it a little, or use softness=0")
        handle = [
            Parameter(f"{name}.{axis}", "m", float(x)) for axis, x in zip("xyz", end, strict=True)
        ]
        self.parameters = checked_parameters([*handle, *(base.parameters[k] for k in self._extra)])
        self.rest_pose = rest_values(self.parameters)
        self.n_vertices = base.n_vertices

    def __repr__(self) -> str:
        return f"HandleRig({len(self.parameters)} parameters on {self.base!r})"

    def base_pose(self, pose: ArrayLike) -> Floats:
        """Return the base's pose at a handle position, by inverse kinematics."""
        values = checked_pose(self.parameters, pose)
        base_pose = np.array(self.base.rest_pose, dtype=np.float64)
        base_pose[self._extra] = values[3:]
        joints = slice(self.chain.joint_pose.n_parameters)
        # Extra parameters may move the chain and change its reach; softness applies to that reach.
        base_pose[joints] = self.chain.solve(
            values[:3], pose=base_pose[joints], held=self._extra, softness=self.softness
        ).pose
        return base_pose

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices, or of the listed vertices."""
        return self.base(self.base_pose(pose), vertices)

    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf("base", Rig),
        PartOf("chain", InverseKinematics),
        Value("extra", "texts", lambda rig: [parameter.name for parameter in rig.parameters[3:]]),
        Value("softness", "number"),
        Value("name", "text", lambda rig: rig.parameters[0].name.removesuffix(".x")),
    )


def _drawn_in(target: Floats, top: Floats, reach: float, softness: float) -> Floats:
    """Return the target, or a nearer point if the chain would be nearly stretched."""
    if not 0 <= softness < 1:
        raise SuppleError(f"softness {softness}; it must be at least 0 and less than 1")
    arm = target - top
    distance = float(np.linalg.norm(arm))
    zone = softness * reach
    begins = reach - zone
    if zone == 0 or distance <= begins:
        return target
    drawn = reach - zone * np.exp(-(distance - begins) / zone)
    return checked_array("target", top + arm * (drawn / distance), (3,))


def _quaternion_of(matrix: Floats) -> Floats:
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(matrix).as_quat()
