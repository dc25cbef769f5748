"""Free curves in files: channels and their keys, and tables (.csv and .json)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from supple.arrays import Floats, Ints
from supple.checks import checked_number
from supple.errors import SuppleError
from supple.maths.key_reduction import KeyKind, Keys, reduced_keys
from supple.rig.free_curves import FreeCurves, skin_reach
from supple.saving import write_whole

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


# Tables, for rigs of any kind.


#: Text that opens a .json of curves.
JSON_FORMAT = "supple curves"


def write_csv_curves(
    path: str | Path, curves: FreeCurves, *, additive: bool = False
) -> dict[str, Any]:
    """Write a row for each frame: seconds, and the value of each free parameter.

    Parameters
    ----------
    path
        A ``.csv`` file.
    curves
        Angles are in radians, lengths in metres; a joint's three angles are a rotation vector
        relative to its rest pose.
    additive
        Write what physics adds to the keys, in place of both together.
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
    keys: KeyKind = "linear",
    error: float = 0.0005,
    additive: bool = False,
) -> dict[str, Any]:
    """Write keys of each free parameter, with what a reader needs to know of them.

    Parameters
    ----------
    path
        A ``.json`` file: ``curves`` is a list with ``parameter``, ``unit``, ``rest``, ``times`` and
        ``values`` of each, and ``tangents``, slopes a second, for cubic Hermite splines.
    curves, additive
        As for `write_csv_curves`.
    keys, error
        ``"every"`` frame a key, or as few as keep the skin within an error, as part of the size,
        with lines (``"linear"``) or splines (``"spline"``) between them.
    """
    kind, within = checked_keys(keys), checked_error(error)

    def made(metres: float) -> tuple[list[Keys], float]:
        found = _keys(curves, metres, kind, additive)
        return found, _error(curves, found, additive)

    found, reached = within_error(curves, within, kind, made)
    rig = curves.character.rig
    listed = []
    for name, column, each in zip(curves.free, curves.columns, found, strict=True):
        parameter = rig.parameters[column]
        told: dict[str, Any] = {"parameter": name, "unit": parameter.unit, "rest": parameter.rest}
        told |= {"times": _plain(each.times), "values": _plain(each.values[:, 0])}
        if each.tangents is not None:
            told["tangents"] = _plain(each.tangents[:, 0])
        listed.append(told)
    tree = {
        "format": JSON_FORMAT,
        "character": curves.character.name,
        "motion": curves.name,
        "rate": round(curves.rate, 6),
        "loop": curves.loop,
        "additive": additive,
        "interpolation": "spline" if kind == "spline" else "linear",
        "curves": listed,
    }
    data = json.dumps(tree, indent=1, allow_nan=False).encode()
    write_whole(path, data)
    return {
        "channels": len(listed),
        "keys": kind,
        "n_keys": sum(len(each) for each in found),
        "n_samples": curves.n_frames * len(listed),
        "error": reached,
        "bytes": len(data),
    }


def _values(curves: FreeCurves, additive: bool) -> Floats:
    """(t, k) values of the free parameters, or what is added to the keys."""
    if not additive:
        return curves.values
    rest = np.asarray(curves.character.rig.rest_pose)[curves.columns]
    return curves.additive().poses[:, curves.columns] - rest


def _keys(curves: FreeCurves, metres: float, kind: KeyKind, additive: bool) -> list[Keys]:
    values, found = _values(curves, additive), []
    for k in range(len(curves.free)):
        column = slice(k, k + 1)
        track = ValueTrack("weights", curves.times, values[:, column], curves.reach[column])
        bounded = curves.character.rig.parameters[curves.columns[k]].unit == "1"
        found.append((track.bounded_keys if bounded else track.keys)(metres, kind, curves))
    return found


def _error(curves: FreeCurves, found: list[Keys], additive: bool) -> float:
    """Return how far the skin of keys is from that of the curves, as part of the size."""
    values, rig = _values(curves, additive), curves.character.rig
    poses, off = curves.poses.copy(), 0.0
    for k, each in enumerate(found):
        poses[:, curves.columns[k]] += each.at(curves.times)[:, 0] - values[:, k]
    for pose, own in zip(poses, curves.poses, strict=True):
        if not np.array_equal(pose, own):
            off = max(off, float(np.linalg.norm(rig(pose) - rig(own), axis=1).max()))
    return off / curves.character.surface.size


def _plain(values: Floats) -> list[float]:
    return [float(f"{value:.9g}") for value in values]
