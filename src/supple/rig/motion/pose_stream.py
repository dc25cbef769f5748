"""Live poses: datagrams of a motion-capture program, on a local port, as poses of a rig.

A datagram is a JSON object of UTF-8 text with one of

- ``"pose"``: numbers of all parameters of the rig, or an object of values by parameter name;
- ``"skeleton"``: ``names``, ``parents``, ``translations`` and, optionally, ``rotations`` (unit
  quaternions x, y, z, w) of another skeleton at rest: the source of retargeting;
- ``"rotations"``: local rotations (x, y, z, w) by joint name of that skeleton. They are retargeted
  to the rig; joints that are not listed keep their last rotation.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count
from supple.errors import SuppleError
from supple.rig.motion.motion import Motion
from supple.rig.motion.retarget import retarget
from supple.rig.protocol import LARGEST_VALUE, Rig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import skinned_core

#: Most bytes of a datagram, and joints of a skeleton.
LARGEST, MOST_JOINTS = 65_535, 1_000
#: Most datagrams that are read at once: of a faster stream, the rest is read at the next call.
MOST_AT_ONCE = 256


class PoseStream:
    """Poses of a rig that another program sends by UDP.

    Only this computer can send, unless `host` says otherwise. Invalid datagrams are counted and
    change nothing. Nothing in them is executed.

    Parameters
    ----------
    rig : Rig
        The rig that is posed. Retargeting needs a skinned one.
    port : int
        0 for any free port.
    host : str
        Address to listen at.

    Attributes
    ----------
    port : int
    received, refused : int
        Numbers of datagrams.
    trouble : str
        Reason why the last refused datagram was refused.

    Examples
    --------
    >>> import json, socket, time
    >>> from supple.scenes import scene
    >>> with PoseStream(scene("x").character.rig) as stream:
    ...     sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ...     _ = sender.sendto(json.dumps({"pose": [0.5]}).encode(), ("127.0.0.1", stream.port))
    ...     time.sleep(0.05)
    ...     stream.latest()
    array([0.5])
    """

    def __init__(self, rig: Rig, port: int = 0, host: str = "127.0.0.1") -> None:
        number = checked_count("the port of poses", port, 0)
        self.received, self.refused, self.trouble = 0, 0, ""
        self._names = {parameter.name: k for k, parameter in enumerate(rig.parameters)}
        self._pose = np.array(rig.rest_pose, np.float64)
        self._target, self._entries, self._places = _joint_pose(rig, self._names)
        self._source: JointPose | None = None
        self._rotations = np.empty((0, 4))
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.bind((host, number))
        except (OSError, OverflowError) as error:
            self._socket.close()
            raise SuppleError(
                f"port {number}: cannot be listened at ({error}); choose another one"
            ) from None
        self.port = int(self._socket.getsockname()[1])

    def __repr__(self) -> str:
        return f"PoseStream(port {self.port}, {self.received} received, {self.refused} refused)"

    def __enter__(self) -> PoseStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port."""
        self._socket.close()

    def latest(self) -> Floats | None:
        """Return the pose (s,) of the last datagrams, or None if none came since the last call.

        Several poses that came are one; only the last one is retargeted.
        """
        fresh = turned = False
        for _ in range(MOST_AT_ONCE):
            try:
                data = self._socket.recv(LARGEST)
            except (BlockingIOError, ConnectionError):
                break
            self.received += 1
            try:
                kind = self._take(_object_of(data))
            except (SuppleError, ValueError, TypeError, KeyError, RecursionError) as error:
                self.refused += 1
                self.trouble = (str(error).splitlines() or ["no pose"])[0][:200]
                continue
            fresh, turned = fresh or kind != "skeleton", turned or kind == "rotations"
        if turned:
            self._retarget()
        return self._pose.copy() if fresh else None

    def _take(self, message: Mapping[str, Any]) -> str:
        """Take one message; return its kind."""
        if "skeleton" in message:
            source = _source_of(message["skeleton"])
            if self._target is not None:  # refuses a skeleton without matching joints
                rest = source.pack(rotations=source.skeleton.rotations[None])
                retarget(Motion(np.zeros(1), rest), source, self._target)
            self._source, self._rotations = source, source.skeleton.rotations.copy()
            return "skeleton"
        if "rotations" in message:
            self._rotate(message["rotations"])
            return "rotations"
        if "pose" not in message:
            raise SuppleError('a datagram needs "pose", "rotations" or "skeleton"')
        given = message["pose"]
        if isinstance(given, Mapping):
            unknown = [name for name in given if name not in self._names]
            if unknown:
                raise SuppleError(f'the rig has no parameter "{str(unknown[0])[:60]}"')
            values = checked_array("pose", list(given.values()), (len(given),))
            pose = self._pose.copy()
            pose[[self._names[name] for name in given]] = values
        else:
            pose = checked_array("pose", given, self._pose.shape)
        if not (np.abs(pose) <= LARGEST_VALUE).all():
            raise SuppleError("a value of the pose is too large")
        self._pose = np.array(pose)
        return "pose"

    def _rotate(self, given: Any) -> None:
        if self._source is None:
            raise SuppleError('rotations need a "skeleton" before them')
        if self._target is None:
            raise SuppleError('the rig has no skeleton; send "pose"')
        names = {name: k for k, name in enumerate(self._source.skeleton.names)}
        rotations = self._rotations.copy()
        for name, value in dict(given).items():
            if name not in names:
                raise SuppleError(f'the skeleton has no joint "{str(name)[:60]}"')
            quaternion = checked_array("rotation", value, (4,))
            length = float(np.linalg.norm(quaternion))
            if not 1e-6 < length < 1e6:
                raise SuppleError(f'the rotation of "{name}" is no unit quaternion')
            rotations[names[name]] = quaternion / length
        self._rotations = rotations

    def _retarget(self) -> None:
        assert self._source is not None
        assert self._target is not None
        poses = self._source.pack(rotations=self._rotations[None])
        moved = retarget(Motion(np.zeros(1), poses), self._source, self._target).poses[0]
        before = moved.copy()  # locked channels have no place in the rig's pose
        before[self._entries] = self._pose[self._places]
        self._pose[self._places] = _nearest_vectors(self._target, moved, before)[self._entries]


def _nearest_vectors(joints: JointPose, pose: Floats, before: Floats) -> Floats:
    """Return a pose (s,) with the equivalent rotation vectors that are nearest to `before`."""
    places = {parameter.name: k for k, parameter in enumerate(joints.parameters)}
    out = pose.copy()
    for name in joints.skeleton.names:
        three = [places[f"{name}.r{axis}"] for axis in "xyz"]
        vector = pose[three]
        angle = float(np.linalg.norm(vector))
        if angle > 1e-9:
            turns = (1 + 2 * np.pi * np.arange(-2, 3)[:, None] / angle) * vector
            out[three] = turns[np.argmin(np.linalg.norm(turns - before[three], axis=1))]
    return out


def _object_of(data: bytes) -> Mapping[str, Any]:
    message = json.loads(data.decode("utf-8"))
    if not isinstance(message, dict):
        raise SuppleError("a datagram must be a JSON object")
    return message


def _source_of(described: Any) -> JointPose:
    """Return the pose vector of a skeleton that a message describes."""
    names = [str(name) for name in described["names"]]
    if not 0 < len(names) <= MOST_JOINTS:
        raise SuppleError(f"a skeleton of {len(names)} joints; use 1 to {MOST_JOINTS}")
    translations = checked_array("translations", described["translations"], (len(names), 3))
    rotations = described.get("rotations")
    given = {} if rotations is None else {"rotations": rotations}
    return JointPose(Skeleton(names, described["parents"], translations, **given))


def _joint_pose(rig: Rig, names: Mapping[str, int]) -> tuple[JointPose | None, Ints, Ints]:
    """Return the pose vector of all rotations of a rig's skeleton, and which of its entries the rig
    has as parameters, with their places there.
    """
    core, none = skinned_core(rig), np.empty(0, np.int64)
    if core is None:
        return None, none, none
    target = JointPose(core.rig.skeleton)
    own = {parameter.name for parameter in core.rig.parameters}
    pairs = [
        (k, names[parameter.name])
        for k, parameter in enumerate(target.parameters)
        if parameter.name in own and parameter.name in names
    ]
    entries, places = np.array(pairs, np.int64).reshape(-1, 2).T
    return target, entries, places
