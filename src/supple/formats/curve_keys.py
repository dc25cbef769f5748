"""Free curves in files: channels and their keys, and tables (.csv and .json)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from supple.arrays import Floats, Ints
from supple.checks import checked_choice, checked_number
from supple.errors import SuppleError
from supple.maths.key_reduction import KeyKind, Keys, reduced_keys
from supple.rig.free_curves import FreeCurves, skin_reach
from supple.saving import write_whole

TrackPath = Literal["rotation", "translation", "scale", "weights"]
#: Kinds of keys.
KEYS = ("every", "linear", "spline")
#: Most choices of keys: several channels together may move the skin farther than each alone.
MOST_TRIES = 6
#: Ratio of errors with more and with fewer keys above which fewer are better.
GAIN = 0.85
#: Largest default error as a fraction of the size, and of the largest motion, and the least one.
USUAL_ERROR, OF_MOTION, LEAST_ERROR = 2e-3, 0.1, 1e-5
#: Lower bound of a control's reach, as a fraction of the size.
LEAST_REACH = 1e-3

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class ValueTrack:
    """Values (t, c) of one channel at `times` (t,): unit quaternions, metres, scales or weights.

    `reach` (c,) is the skin's displacement in metres per unit of each value (a radian of a
    rotation).
    """

    path: TrackPath
    times: Floats
    values: Floats
    reach: Floats

    def keys(self, metres: float, kind: KeyKind, curves: FreeCurves) -> Keys:
        """Return keys whose curve moves the skin by at most `metres` from the samples."""
        lowest_reach = LEAST_REACH * curves.character.surface.size
        tolerance = metres / np.maximum(self.reach, lowest_reach)
        is_rotation = self.path == "rotation"
        return reduced_keys(
            self.times,
            self.values,
            tolerance.min() if is_rotation else tolerance,
            kind,
            rotation=is_rotation,
            closed=curves.loop,
            kept=self._cuts(curves),
            allowed=curves.keyable(self.times),
        )

    def bounded_keys(self, metres: float, kind: KeyKind, curves: FreeCurves) -> Keys:
        """Return keys of weights. If the samples are within 0 to 1, so are a spline's control
        points, which bound the curve: tangents that are too steep become less steep.
        """
        keys = self.keys(metres, kind, curves)
        inside = self.values.min() >= 0 and self.values.max() <= 1
        if keys.tangents is None or not inside or len(keys) < 2:
            return keys
        third = np.diff(keys.times)[:, None] / 3
        low, high = np.full_like(keys.values, -np.inf), np.full_like(keys.values, np.inf)
        low[:-1], high[:-1] = -keys.values[:-1] / third, (1 - keys.values[:-1]) / third
        np.maximum(low[1:], (keys.values[1:] - 1) / third, out=low[1:])
        np.minimum(high[1:], keys.values[1:] / third, out=high[1:])
        return replace(keys, tangents=np.clip(keys.tangents, low, high))

    def _cuts(self, curves: FreeCurves) -> Iterable[int]:
        for cut in curves.cuts:
            at = int(np.searchsorted(self.times, curves.times[cut] - 1e-6))
            yield from (k for k in (at - 1, at) if 0 < k < len(self.times))


def track_reach(curves: FreeCurves, columns: Ints) -> Floats:
    """Return metres of skin motion per unit of each parameter in `columns`; 0 for column -1."""
    reach = np.zeros(len(columns))
    reach[columns >= 0] = skin_reach(curves.character.rig, columns[columns >= 0])
    return reach


def within_error(
    curves: FreeCurves,
    error: float,
    kind: KeyKind,
    attempt: Callable[[float], tuple[Result, float]],
) -> tuple[Result, float]:
    """Choose keys with smaller and smaller tolerances until all of the skin is within the error.

    `error` is a fraction of the size. `attempt` computes, from the tolerance of each channel in
    metres, a result and its error. If no attempt is within the error, the one with the fewest keys
    whose error is near the least is made again, so that its files and figures are the last ones.
    """
    metres = tried = error * curves.character.surface.size
    best: tuple[Result, float, float] | None = None
    for _ in range(MOST_TRIES):
        tried = metres
        result, reached = attempt(tried)
        if best is None or reached <= error or reached < GAIN * best[1]:
            best = result, reached, tried  # more keys on frames may not help between frames
        if reached <= error or kind == "every":
            break
        metres *= min(0.6, 0.8 * error / reached)
    assert best is not None
    return (best[0], best[1]) if best[2] == tried else attempt(best[2])


def checked_keys(kind: str) -> KeyKind:
    """Return the kind of keys; SuppleError if it is unknown."""
    return checked_choice("kind of keys", kind, KEYS)  # type: ignore[return-value]


def sampled_curves(curves: FreeCurves, kind: KeyKind) -> FreeCurves:
    """Return the samples of curves to make keys from: for splines also those between frames."""
    return curves.fine if kind == "spline" and curves.fine is not None else curves


def error_of(error: float | None, curves: FreeCurves) -> float:
    """Return an error as a fraction of the size, by default 0.002, or a tenth of the largest motion
    that is added, if that is less.
    """
    if error is not None:
        return checked_error(error)
    return (
        min(USUAL_ERROR, max(OF_MOTION * curves.moves, LEAST_ERROR))
        if curves.moves
        else USUAL_ERROR
    )


def checked_error(error: float) -> float:
    """Return an error as a fraction of the size; SuppleError if it is out of range."""
    fraction = checked_number("error", error)
    if not 1e-6 <= fraction <= 0.5:
        raise SuppleError(f"the error is {fraction:g} of the size; use 0.000001 to 0.5")
    return fraction


# Tables, for rigs of any kind.


#: Value of "format" in a .json of curves.
JSON_FORMAT = "supple curves"


def write_csv_curves(
    path: str | Path, curves: FreeCurves, *, additive: bool = False
) -> dict[str, Any]:
    """Write a row for each frame: seconds, and the value of each free parameter.

    Angles are in radians, lengths in metres; a joint's three angles are a rotation vector relative
    to its rest pose. `additive` writes only the difference that physics adds to the keys.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["time", *curves.free])
    for time, row in zip(curves.times, _values(curves, additive), strict=True):
        table.writerow([f"{time:.9g}", *(f"{value:.9g}" for value in row)])
    data = text.getvalue().encode()
    write_whole(path, data)
    count = curves.n_frames * len(curves.free)
    figures = {"channels": len(curves.free), "keys": "every", "n_keys": count, "n_samples": count}
    return {**figures, "error": 0.0, "bytes": len(data)}


def write_json_curves(
    path: str | Path,
    curves: FreeCurves,
    *,
    keys: KeyKind = "spline",
    error: float | None = None,
    additive: bool = False,
) -> dict[str, Any]:
    """Write keys of each free parameter, in the units of `write_csv_curves`.

    ``curves`` in the file has ``parameter``, ``unit``, ``rest``, ``times`` and ``values`` of each,
    and ``tangents``, slopes per second, for cubic Hermite splines. `keys` is ``"every"`` frame, or
    as few as keep the skin within `error`, a fraction of the size (``"linear"`` or ``"spline"``;
    see `error_of`).
    """
    kind, tolerance = checked_keys(keys), error_of(error, curves)
    samples = sampled_curves(curves, kind)

    def attempt(metres: float) -> tuple[list[Keys], float]:
        chosen = _keys(samples, metres, kind, additive)
        return chosen, _error(samples, chosen, additive)

    chosen, reached = within_error(samples, tolerance, kind, attempt)
    rig = curves.character.rig
    entries = []
    for name, column, curve in zip(curves.free, curves.columns, chosen, strict=True):
        parameter = rig.parameters[column]
        entry: dict[str, Any] = {"parameter": name, "unit": parameter.unit, "rest": parameter.rest}
        entry |= {"times": _rounded(curve.times), "values": _rounded(curve.values[:, 0])}
        if curve.tangents is not None:
            entry["tangents"] = _rounded(curve.tangents[:, 0])
        entries.append(entry)
    tree = {
        "format": JSON_FORMAT,
        "character": curves.character.name,
        "motion": curves.name,
        "rate": round(curves.rate, 6),
        "loop": curves.loop,
        "additive": additive,
        "interpolation": "spline" if kind == "spline" else "linear",
        "curves": entries,
    }
    data = json.dumps(tree, indent=1, allow_nan=False).encode()
    write_whole(path, data)
    return {
        "channels": len(entries),
        "keys": kind,
        "n_keys": sum(map(len, chosen)),
        "n_samples": curves.n_frames * len(entries),
        "error": reached,
        "key_times": {
            name: keys.times.tolist() for name, keys in zip(curves.free, chosen, strict=True)
        },
        "bytes": len(data),
    }


def _values(curves: FreeCurves, additive: bool) -> Floats:
    """Return values of the free parameters, (t, k); their additions to the keys if `additive`."""
    if not additive:
        return curves.values
    rest = np.asarray(curves.character.rig.rest_pose)[curves.columns]
    return curves.additive().poses[:, curves.columns] - rest


def _keys(curves: FreeCurves, metres: float, kind: KeyKind, additive: bool) -> list[Keys]:
    values, chosen = _values(curves, additive), []
    for k in range(len(curves.free)):
        column = slice(k, k + 1)
        track = ValueTrack("weights", curves.times, values[:, column], curves.reach[column])
        bounded = curves.character.rig.parameters[curves.columns[k]].unit == "1"
        chosen.append((track.bounded_keys if bounded else track.keys)(metres, kind, curves))
    return chosen


def _error(curves: FreeCurves, chosen: list[Keys], additive: bool) -> float:
    """Return the largest distance of a vertex between keys and curves, relative to the size."""
    values, rig = _values(curves, additive), curves.character.rig
    poses, largest = curves.poses.copy(), 0.0
    for k, keys in enumerate(chosen):
        poses[:, curves.columns[k]] += keys.at(curves.times)[:, 0] - values[:, k]
    for pose, exact in zip(poses, curves.poses, strict=True):
        if not np.array_equal(pose, exact):
            largest = max(largest, float(np.linalg.norm(rig(pose) - rig(exact), axis=1).max()))
    return largest / curves.character.surface.size


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.9g}") for value in values]
