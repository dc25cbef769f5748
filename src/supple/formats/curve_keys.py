"""Channels that free curves become in a file, and their keys: few, within an error of the skin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from supple.arrays import Floats, Ints
from supple.checks import checked_number
from supple.errors import SuppleError
from supple.maths.key_reduction import KeyKind, Keys, reduced_keys
from supple.rig.free_curves import FreeCurves, skin_reach

TrackPath = Literal["rotation", "translation", "scale", "weights"]
#: Kinds of keys.
KEYS = ("every", "linear", "spline")
#: Times that keys are chosen again where together they move skin farther than each alone.
MOST_TRIES = 6
#: Controls that move skin less than this part of the size for a unit are as good as others.
LEAST_REACH = 1e-3

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class ValueTrack:
    """Values of one channel over time.

    Attributes
    ----------
    path
        What they are: unit quaternions, offsets in metres, scales, or weights of shapes.
    times, values
        (t,) seconds and (t, c).
    reach
        (c,) metres of skin for a unit of each, of a rotation one for a radian.
    """

    path: TrackPath
    times: Floats
    values: Floats
    reach: Floats

    def keys(self, metres: float, kind: KeyKind, curves: FreeCurves) -> Keys:
        """Return keys whose curve moves skin by no more than so many metres from the samples."""
        least = LEAST_REACH * curves.character.surface.size
        tolerance = metres / np.maximum(self.reach, least)
        turning = self.path == "rotation"
        return reduced_keys(
            self.times,
            self.values,
            tolerance.min() if turning else tolerance,
            kind,
            rotation=turning,
            closed=curves.loop,
            kept=self._cuts(curves),
        )

    def bounded_keys(self, metres: float, kind: KeyKind, curves: FreeCurves) -> Keys:
        """Return the same of weights, by lines where a spline would leave 0 to 1 and they do not.

        A Bézier curve stays between its control points.
        """
        keys = self.keys(metres, kind, curves)
        inside = self.values.min() >= 0 and self.values.max() <= 1
        if keys.tangents is None or not inside or len(keys) < 2:
            return keys
        third = np.diff(keys.times)[:, None] / 3
        points = np.concatenate(
            [
                keys.values[:-1] + third * keys.tangents[:-1],
                keys.values[1:] - third * keys.tangents[1:],
            ]
        )
        if points.min() >= 0 and points.max() <= 1:
            return keys
        return self.keys(metres, "linear", curves)

    def _cuts(self, curves: FreeCurves) -> Iterable[int]:
        for cut in curves.cuts:
            at = int(np.searchsorted(self.times, curves.times[cut] - 1e-6))
            yield from (k for k in (at - 1, at) if 0 < k < len(self.times))


def track_reach(curves: FreeCurves, places: Ints) -> Floats:
    """Return metres of skin for a unit of the parameters at these places of the pose, (c,)."""
    found = np.zeros(len(places))
    found[places >= 0] = skin_reach(curves.character.rig, places[places >= 0])
    return found


def within_error(
    curves: FreeCurves, error: float, kind: KeyKind, made: Callable[[float], tuple[Result, float]]
) -> tuple[Result, float]:
    """Choose keys ever more closely until the whole skin is within an error of the curves.

    Parameters
    ----------
    curves
        Whose skin.
    error, kind
        Part of the size, and kind of keys.
    made
        From metres that each channel alone may be off, to what is written, and how far its skin
        is off, as part of the size.

    Returns
    -------
    Result
        What was written last.
    float
        The error it reaches.
    """
    metres = error * curves.character.surface.size
    for _ in range(MOST_TRIES):
        result, reached = made(metres)
        if reached <= error or kind == "every":
            break
        metres *= min(0.6, 0.8 * error / reached)
    return result, reached


def checked_keys(kind: str) -> KeyKind:
    """Return a kind of keys that is one."""
    if kind not in KEYS:
        raise SuppleError(f'no keys of the kind "{kind}"; there are {", ".join(KEYS)}')
    return kind  # type: ignore[return-value]


def checked_error(error: float) -> float:
    """Return an error, as part of the size, that can be kept."""
    found = checked_number("error", error)
    if not 1e-6 <= found <= 0.5:
        raise SuppleError(f"an error of {found:g} of the size; use 0.000001 to 0.5")
    return found
