"""Traces of free parameters: keys and results of the last seconds, and groups by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from supple.arrays import Floats, Ints
from supple.rig.motion.joint_names import NOISE, SIDES
from supple.rig.protocol import Rig

#: Seconds that are kept, and times in them.
SECONDS, KEPT = 4.0, 120
#: Change of a parameter, by which what it moves is measured.
NUDGE = 1e-4
#: Channels of joints and of control points, as names end.
CHANNEL = re.compile(r"\.[rts]?[xyzw]$")
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def name_groups(names: Sequence[str]) -> dict[str, Ints]:
    """Group parameters by the word that their names begin with, and return their numbers.

    Sides, numbers, channels and words of whoever made the rig do not count. Where all begin with
    the same word, the next one tells them apart.

    Examples
    --------
    >>> {name: list(map(int, own)) for name, own in name_groups(
    ...     ["L_ear_01.rx", "R_ear_01.rx", "Bip01 Tail2.rz", "bellyLow", "belly3"]).items()}
    {'ear': [0, 1], 'tail': [2], 'belly': [3, 4]}
    >>> list(name_groups(["sumo_belly1", "sumo_belly2", "sumo_hair1", "sumo_hair2"]))
    ['sumo belly', 'sumo hair']
    """
    words = [_words(name) for name in names]
    depth = 1
    while depth < min(map(len, words), default=1) and len({tuple(w[:depth]) for w in words}) == 1:
        depth += 1
    if len({tuple(w[:depth]) for w in words}) > len(words) / 2:  # no groups, but single ones
        depth = 1
    groups: dict[str, list[int]] = {}
    for number, own in enumerate(words):
        groups.setdefault(" ".join(own[:depth]), []).append(number)
    return {name: np.array(numbers, np.int64) for name, numbers in groups.items()}


def _words(name: str) -> list[str]:
    """Return words of a name that mean something; the whole of it if none does."""
    plain = CHANNEL.sub("", re.split(r"[:|/]", name)[-1])
    found = [word.lower() for word in WORDS.findall(plain)]
    kept = [word for word in found if word not in SIDES and not NOISE.fullmatch(word)]
    return kept or found or [name]


class ParameterTraces:
    """Keys and results of the free parameters over the last seconds.

    Parameters
    ----------
    rig
        Rig of the skin.
    free
        Names of the parameters that physics moves.

    Attributes
    ----------
    names, groups
        Of the k parameters; numbers by group.
    units
        Unit of each.
    """

    def __init__(self, rig: Rig, free: Sequence[str]) -> None:
        place = {each.name: entry for entry, each in enumerate(rig.parameters)}
        self.names = tuple(free)
        self.groups = name_groups(self.names)
        self._entries = np.array([place[name] for name in free], np.int64)
        self.units = [rig.parameters[entry].unit for entry in self._entries]
        self._reach = _moved_skin(rig, self._entries)
        self._rows = np.zeros((KEPT, 2, len(free)))
        self._times = np.zeros(KEPT)
        self._count, self._time, self._next = 0, 0.0, 0.0

    def clear(self) -> None:
        """Forget what was kept: time jumps."""
        self._count, self._next = 0, self._time

    def add(self, dt: float, pose: Floats, result: Callable[[], Floats]) -> None:
        """Count a step of `dt`; now and then keep the key pose (s,) and the pose that came of it.

        Parameters
        ----------
        dt, pose
            Seconds of the step, and key pose at its end.
        result
            Gives the pose (s,) of the rig with what physics added.
        """
        self._time += dt
        if self._time < self._next:
            return
        self._next = self._time + SECONDS / KEPT - 0.5 * dt
        row = self._count % KEPT
        self._rows[row, 0], self._rows[row, 1] = pose[self._entries], result()[self._entries]
        self._times[row] = self._time
        self._count += 1

    def read(self) -> tuple[Floats, Floats, Floats]:
        """Return seconds before now (m,), keys (m, k) and results (m, k), the oldest first."""
        kept = min(self._count, KEPT)
        order = np.arange(self._count - kept, self._count) % KEPT
        return self._times[order] - self._time, self._rows[order, 0], self._rows[order, 1]

    def liveliest(self, numbers: Ints) -> Ints:
        """Return numbers of parameters by how far physics moved the skin with them, most first."""
        _, keys, results = self.read()
        added = np.abs(results - keys)[:, numbers]
        far = added.max(axis=0, initial=0.0) * self._reach[numbers]
        return np.asarray(numbers[np.argsort(-far, kind="stable")])


def _moved_skin(rig: Rig, entries: Ints) -> Floats:
    """Metres (k,) that the farthest vertex goes for a unit of each parameter, at rest."""
    rest = np.array(rig.rest_pose, np.float64)
    still = rig(rest)
    found = np.empty(len(entries))
    for k, entry in enumerate(entries):
        nudged = rest.copy()
        nudged[entry] += NUDGE
        found[k] = np.abs(rig(nudged) - still).max() / NUDGE
    return found
