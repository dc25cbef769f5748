"""Free curves as tables, for rigs of any kind: .csv with every frame, .json with keys."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.formats.curve_keys import (
    ValueTrack,
    checked_error,
    checked_keys,
    within_error,
)
from supple.maths.key_reduction import KeyKind, Keys
from supple.rig.free_curves import FreeCurves
from supple.saving import write_whole

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
