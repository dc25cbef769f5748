"""Readings of baked motions as a table: forces on parts, objects, contacts; torques of joints."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from supple.errors import SuppleError
from supple.rig.baked_motion import BakedMotion
from supple.saving import write_whole

COLUMNS = (
    *("motion", "frame", "time", "kind", "name", "touches"),
    *("fx", "fy", "fz", "pressure", "x", "y", "z"),
)
#: Kinds of rows that have a force or torque by name, and the readings they come from.
NAMED = {"part": "parts", "thing": "things", "joint": "torques"}


def write_readings(path: str | Path, baked: BakedMotion | Sequence[BakedMotion]) -> int:
    """Write readings of contacts as ``.csv``; return the number of rows.

    Rows of kind ``body`` have the total external force, ``part`` the force on a bone's part of the
    skin, ``thing`` the force of an obstacle or object on the body, all in N; ``joint`` the torque
    of a soft skeleton's joint, in N m; ``contact`` the force on a vertex of the skin in N, its
    pressure in Pa, its position in m, and the touched object.
    """
    bakes = [baked] if isinstance(baked, BakedMotion) else list(baked)
    if not any("touching" in readings for bake in bakes for readings in bake.readings):
        raise SuppleError(
            f"{path}: the motions have no readings; use the engine pose-space or soft-skeleton"
        )
    text = io.StringIO(newline="")
    table, count = csv.writer(text, lineterminator="\n"), 0
    table.writerow(COLUMNS)
    for bake in bakes:
        for frame, (time, readings) in enumerate(zip(bake.times, bake.readings, strict=True)):
            for row in _rows(readings):
                cells = [bake.motion.name, frame, f"{time:.9g}", *row]
                table.writerow(cells + [""] * (len(COLUMNS) - len(cells)))
                count += 1
    write_whole(path, text.getvalue().encode())
    return count


def _rows(readings: Mapping[str, Any]) -> Iterator[list[Any]]:
    if "touching" not in readings:
        return
    touching = readings["touching"]
    largest = max(touching["pressures"], default=0.0)
    yield ["body", "", "", *_figures(readings["contact_force"]), f"{largest:.6g}"]
    for kind, source in NAMED.items():
        for name, vector in readings.get(source, {}).items():
            yield [kind, name, "", *_figures(vector)]
    columns = (touching[name] for name in ("points", "things", "forces", "pressures", "places"))
    for point, collider, force, pressure, place in zip(*columns, strict=True):
        yield [
            "contact",
            int(point),
            collider,
            *_figures(force),
            f"{pressure:.6g}",
            *_figures(place),
        ]


def _figures(vector: Any) -> list[str]:
    return [f"{value:.6g}" for value in vector]
