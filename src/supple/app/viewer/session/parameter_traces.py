"""Traces of free parameters: keys and results of the last seconds; groups of names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from supple.arrays import Floats, Ints
from supple.rig.motion.joint_names import NOISE, SIDES
from supple.rig.protocol import Rig

#: Duration of a trace in s, and its number of samples.
SECONDS, SAMPLES = 4.0, 120
#: Step of the finite differences that measure a parameter's effect.
NUDGE = 1e-4
#: Endings of names that denote channels of joints and control points.
CHANNEL = re.compile(r"\.[rts]?[xyzw]$")
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def name_groups(names: Sequence[str]) -> dict[str, Ints]:
    """Return the indices of parameters, grouped by the first word of their names.

    Sides, numbers, channels and prefixes of rigging tools are ignored. If all names share the first
    word, the next one counts, too.

    Examples
    --------
    >>> {name: list(map(int, group)) for name, group in name_groups(
    ...     ["L_ear_01.rx", "R_ear_01.rx", "Bip01 Tail2.rz", "bellyLow", "belly3"]).items()}
    {'ear': [0, 1], 'tail': [2], 'belly': [3, 4]}
    >>> list(name_groups(["sumo_belly1", "sumo_belly2", "sumo_hair1", "sumo_hair2"]))
    ['sumo belly', 'sumo hair']
    """
    words = [_words(name) for name in names]
    depth = 1
    while depth < min(map(len, words), default=1) and len({tuple(w[:depth]) for w in words}) == 1:
        depth += 1
    if len({tuple(w[:depth]) for w in words}) > len(words) / 2:  # too many groups
        depth = 1
    groups: dict[str, list[int]] = {}
    for number, parts in enumerate(words):
        groups.setdefault(" ".join(parts[:depth]), []).append(number)
    return {name: np.array(numbers, np.int64) for name, numbers in groups.items()}


def _words(name: str) -> list[str]:
    """Return the significant words of a name, or the whole name if there are none."""
    plain = CHANNEL.sub("", re.split(r"[:|/]", name)[-1])
    words = [word.lower() for word in WORDS.findall(plain)]
    significant = [word for word in words if word not in SIDES and not NOISE.fullmatch(word)]
    return significant or words or [name]


class ParameterTraces:
    """Keys and results of the k `free` parameters over the last seconds.

    `groups` has their indices by group, `units` the unit of each.
    """

    def __init__(self, rig: Rig, free: Sequence[str]) -> None:
        place = {each.name: entry for entry, each in enumerate(rig.parameters)}
        self.names = tuple(free)
        self.groups = name_groups(self.names)
        self._entries = np.array([place[name] for name in free], np.int64)
        self.units = [rig.parameters[entry].unit for entry in self._entries]
        self._reach = _moved_skin(rig, self._entries)
        self._rows = np.zeros((SAMPLES, 2, len(free)))
        self._times = np.zeros(SAMPLES)
        self._count, self._time, self._next = 0, 0.0, 0.0

    def clear(self) -> None:
        """Remove all samples, after a jump in time."""
        self._count, self._next = 0, self._time

    def add(self, dt: float, pose: Floats, result: Callable[[], Floats]) -> None:
        """Add a step of `dt` s; sample its key pose (s,) and result (s,) when a sample is due."""
        self._time += dt
        if self._time < self._next:
            return
        self._next = self._time + SECONDS / SAMPLES - 0.5 * dt
        row = self._count % SAMPLES
        self._rows[row, 0], self._rows[row, 1] = pose[self._entries], result()[self._entries]
        self._times[row] = self._time
        self._count += 1

    def read(self) -> tuple[Floats, Floats, Floats]:
        """Return times in s relative to now (m,), keys (m, k) and results (m, k), oldest first."""
        count = min(self._count, SAMPLES)
        order = np.arange(self._count - count, self._count) % SAMPLES
        return self._times[order] - self._time, self._rows[order, 0], self._rows[order, 1]

    def liveliest(self, numbers: Ints) -> Ints:
        """Return indices `numbers` sorted by the skin motion that physics adds, largest first."""
        _, keys, results = self.read()
        added = np.abs(results - keys)[:, numbers]
        motion = added.max(axis=0, initial=0.0) * self._reach[numbers]
        return np.asarray(numbers[np.argsort(-motion, kind="stable")])


def _moved_skin(rig: Rig, entries: Ints) -> Floats:
    """Return the largest displacement of a vertex per unit of each parameter at rest, (k,)."""
    rest = np.array(rig.rest_pose, np.float64)
    points = rig(rest)
    reach = np.empty(len(entries))
    for k, entry in enumerate(entries):
        nudged = rest.copy()
        nudged[entry] += NUDGE
        reach[k] = np.abs(rig(nudged) - points).max() / NUDGE
    return reach
