"""Poses that arrive live, from a hand tracker say: by a call, or as datagrams on this computer.

A datagram is one pose, either as JSON, ``{"pose": [48 or 72 … numbers], "trans": [x, y, z]}``, or
as bytes: little-endian float32, three a joint and perhaps three more for the translation. Numbers
are axis-angle in the body's own order of joints. What is damaged, too long, or not finite is
dropped and counted; the last sound pose stays.
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

#: Bytes of a datagram: 55 joints as JSON take some 4 KB.
LARGEST_DATAGRAM = 16_384
#: Seconds between looks at whether it is to end.
PATIENCE = 0.2
#: No joint turns further, and nobody goes further, than this.
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
    numbers = _json_numbers(data, n_joints) if data[:1] == b"{" else _binary_numbers(data)
    if numbers is None or numbers.size not in (3 * n_joints, 3 * n_joints + 3):
        return None
    if not (np.abs(numbers) <= LARGEST_NUMBER).all():
        return None
    moved = numbers[3 * n_joints :] if numbers.size > 3 * n_joints else np.zeros(3)
    return numbers[: 3 * n_joints].reshape(-1, 3).copy(), moved.copy()


def _binary_numbers(data: bytes) -> Floats | None:
    return None if len(data) % 4 else np.frombuffer(data, "<f4").astype(np.float64)


def _json_numbers(data: bytes, n_joints: int) -> Floats | None:
    try:
        found = json.loads(data)
        pose, moved = found["pose"], found.get("trans", [0.0, 0.0, 0.0])
        if not (isinstance(pose, list) and isinstance(moved, list)):
            return None
        if len(pose) != 3 * n_joints or len(moved) != 3:
            return None
        values = [*pose, *moved]
        if not all(type(each) in (int, float) and math.isfinite(each) for each in values):
            return None
        return np.array(values, dtype=np.float64)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


class PoseStream:
    """The latest pose and root of a character that something moves live.

    Parameters
    ----------
    character : Character
        With a skeleton. The first joint's rotation, about its place at rest, and the translation
        make the root.
    port : int, optional
        Listen for datagrams at this port of this computer, 0 for any free one (`address` says
        which); without it poses come by `feed`.
    on_pose : callable, optional
        Called with pose and root whenever one has come, in the thread that received it.

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
            raise SuppleError(f"{character.name}: has no skeleton for poses to move")
        skin, self._own = core
        self._joint_pose = skin.joint_pose
        self._entries = skin.joint_pose.entries()[:, :3]
        self._first = skin.skeleton.rest_world()[0, :3, 3]
        self._lock, self._on_pose = threading.Lock(), on_pose
        self._last = np.array(character.rig.rest_pose, np.float64), np.eye(4)
        #: Poses received, and datagrams that were none.
        self.received, self.dropped = 0, 0
        #: Error of the last call of `on_pose`, if it failed; listening goes on.
        self.failure: Exception | None = None
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        if port is not None:
            self._listen(port)

    @property
    def n_joints(self) -> int:
        """Number of joints that a pose has."""
        return len(self._entries)

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port listened at, None without one."""
        return None if self._socket is None else self._socket.getsockname()

    def latest(self) -> tuple[Floats, Floats]:
        """Return pose (s,) and root (4, 4) of the latest pose; those at rest before any came."""
        with self._lock:
            return self._last[0].copy(), self._last[1].copy()

    def feed(self, rotations: ArrayLike, translation: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        """Take a pose: rotation vectors (K, 3) and a translation (3,).

        Raises
        ------
        SuppleError
            If it has another shape, or a number that is not finite or far too large.
        """
        flat = np.concatenate(
            [np.ravel(np.asarray(part, np.float64)) for part in (rotations, translation)]
        )
        sound = flat.size == 3 * self.n_joints + 3 and (np.abs(flat) <= LARGEST_NUMBER).all()
        if not sound:
            raise SuppleError(f"a pose needs ({self.n_joints}, 3) finite rotation vectors")
        self._take(flat[:-3].reshape(-1, 3), flat[-3:])

    def _take(self, turns: Floats, moved: Floats) -> None:
        pose, root = self._last[0].copy(), np.eye(4)
        own = pose[self._own]
        free = self._entries >= 0
        own[self._entries[free]] = turns[free]
        top = self._entries[0]
        own[top[top >= 0]] = 0.0
        pose[self._own] = own
        root[:3, :3] = to_matrix(exponential(turns[0]))
        root[:3, 3] = self._first - root[:3, :3] @ self._first + moved
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
        found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            found.bind(("127.0.0.1", port))  # this computer alone
        except OSError as error:
            found.close()
            raise SuppleError(f"port {port} cannot be listened at ({error.strerror})") from None
        found.settimeout(PATIENCE)
        self._socket = found
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        assert self._socket is not None
        while not self._closed.is_set():
            try:
                data = self._socket.recv(LARGEST_DATAGRAM + 1)
            except TimeoutError:
                continue
            except OSError:  # too long, where the system says so; or closed
                self.dropped += 1
                self._closed.wait(0.01)
                continue
            found = parsed_pose(data, self.n_joints)
            if found is None:
                self.dropped += 1
            else:
                self._take(*found)

    def close(self) -> None:
        """End listening; the latest pose stays."""
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
