"""Live poses, for example of a hand tracker: by a call, or as datagrams on this computer.

A datagram is one pose, either as JSON, ``{"pose": [48 or 72 … numbers], "trans": [x, y, z]}``, or
as bytes: little-endian float32, three per joint and optionally three for the translation. Joints
are rotation vectors in the order of the body's joints. Datagrams that are damaged, too long or not
finite are dropped and counted; the last valid pose remains.
"""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.maths.rotations import exponential, to_matrix
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_core

#: Bytes of a datagram: 55 joints as JSON take about 4 KB.
LARGEST_DATAGRAM = 16_384
#: Seconds after which the thread checks whether the stream is closed.
PATIENCE = 0.2
#: Bound of rotations in radians and translations in m.
LARGEST_NUMBER = 1000.0


def parsed_pose(data: bytes, n_joints: int) -> tuple[Floats, Floats] | None:
    """Return rotation vectors (K, 3) and a translation (3,) of a datagram; None if it is damaged.

    >>> parsed_pose(b'{"pose": [0, 0, 1, 0, 0, 0], "trans": [0, 1, 0]}', 2)[1]
    array([0., 1., 0.])
    >>> parsed_pose(b"nonsense", 2) is None
    True
    """
    if len(data) > LARGEST_DATAGRAM:
        return None
    if data[:1] == b"{":
        numbers = _json_numbers(data, n_joints)
    else:
        numbers = None if len(data) % 4 else np.frombuffer(data, "<f4").astype(np.float64)
    if numbers is None or numbers.size not in (3 * n_joints, 3 * n_joints + 3):
        return None
    if not (np.abs(numbers) <= LARGEST_NUMBER).all():
        return None
    translation = numbers[3 * n_joints :] if numbers.size > 3 * n_joints else np.zeros(3)
    return numbers[: 3 * n_joints].reshape(-1, 3).copy(), translation.copy()


def _json_numbers(data: bytes, n_joints: int) -> Floats | None:
    try:
        document = json.loads(data)
        pose, translation = document["pose"], document.get("trans", [0.0, 0.0, 0.0])
        if not (isinstance(pose, list) and isinstance(translation, list)):
            return None
        if len(pose) != 3 * n_joints or len(translation) != 3:
            return None
        values = [*pose, *translation]
        if not all(type(each) in (int, float) and math.isfinite(each) for each in values):
            return None
        return np.array(values, dtype=np.float64)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


class PoseStream:
    """Latest pose and root of a character with live input.

    Parameters
    ----------
    character : Character
        Character with a skeleton. The root is the first joint's rotation about its rest position,
        and the translation.
    port : int, optional
        Port of this computer at which datagrams are received, 0 for any free port (see `address`);
        without it, `feed` sets poses.
    on_pose : callable, optional
        Called with each pose and root, in the thread that received them.

    Examples
    --------
    ::

        with PoseStream(character, port=9000) as stream:
            while running:
                simulator.step(*stream.latest())
    """

    def __init__(
        self,
        character: Character,
        port: int | None = None,
        *,
        on_pose: Callable[[Floats, Floats], None] | None = None,
    ) -> None:
        core = skinned_core(character.rig)
        if core is None:
            raise SuppleError(f"{character.name}: has no skeleton, so it cannot be posed")
        skin, self._skin_entries = core
        self._joint_pose = skin.joint_pose
        self._entries = skin.joint_pose.entries()[:, :3]
        self._first = skin.skeleton.rest_world()[0, :3, 3]
        self._lock, self._on_pose = threading.Lock(), on_pose
        self._last = np.array(character.rig.rest_pose, np.float64), np.eye(4)
        #: Number of poses received, and of datagrams dropped.
        self.received, self.dropped = 0, 0
        #: Exception of the last failed call of `on_pose`; receiving continues.
        self.failure: Exception | None = None
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        if port is not None:
            self._listen(port)

    @property
    def n_joints(self) -> int:
        """Number of joints of a pose."""
        return len(self._entries)

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port at which datagrams are received; None without a port."""
        return None if self._socket is None else self._socket.getsockname()

    def latest(self) -> tuple[Floats, Floats]:
        """Return the latest pose (s,) and root (4, 4), or the rest pose before any is received."""
        with self._lock:
            return self._last[0].copy(), self._last[1].copy()

    def feed(self, rotations: ArrayLike, translation: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        """Set the pose: rotation vectors (K, 3) in radians and a translation (3,) in m.

        Raises
        ------
        SuppleError
            If the shape is wrong, or a number is not finite or too large.
        """
        flat = np.concatenate(
            [np.ravel(np.asarray(part, np.float64)) for part in (rotations, translation)]
        )
        valid = flat.size == 3 * self.n_joints + 3 and (np.abs(flat) <= LARGEST_NUMBER).all()
        if not valid:
            raise SuppleError(
                f"a pose needs ({self.n_joints}, 3) rotations and (3,) translation within ±1000"
            )
        self._take(flat[:-3].reshape(-1, 3), flat[-3:])

    def _take(self, rotations: Floats, translation: Floats) -> None:
        pose, root = self._last[0].copy(), np.eye(4)
        skin_pose = pose[self._skin_entries]
        free = self._entries >= 0
        skin_pose[self._entries[free]] = rotations[free]
        top = self._entries[0]
        skin_pose[top[top >= 0]] = 0.0
        pose[self._skin_entries] = skin_pose
        root[:3, :3] = to_matrix(exponential(rotations[0]))
        root[:3, 3] = self._first - root[:3, :3] @ self._first + translation
        with self._lock:
            self._last = pose, root
            self.received += 1
        if self._on_pose is not None:
            try:
                self._on_pose(pose.copy(), root.copy())
            except Exception as error:
                self.failure = error

    def _listen(self, port: int) -> None:
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
            raise SuppleError(f"port {port!r}: use 0 to 65535")
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            receiver.bind(("127.0.0.1", port))  # reachable from this computer only
        except OSError as error:
            receiver.close()
            raise SuppleError(f"port {port} cannot be opened ({error.strerror}); use 0") from None
        receiver.settimeout(PATIENCE)
        self._socket = receiver
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        assert self._socket is not None
        while not self._closed.is_set():
            try:
                data = self._socket.recv(LARGEST_DATAGRAM + 1)
            except TimeoutError:
                continue
            except OSError:  # a datagram too long, on some systems, or a closed socket
                self.dropped += 1
                self._closed.wait(0.01)
                continue
            pose = parsed_pose(data, self.n_joints)
            if pose is None:
                self.dropped += 1
            else:
                self._take(*pose)

    def close(self) -> None:
        """Stop receiving; the latest pose remains."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None:
        self.close()
