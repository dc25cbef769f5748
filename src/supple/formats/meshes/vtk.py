"""Legacy ``.vtk`` files, through meshio."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

from supple.errors import FormatError
from supple.formats.file_bytes import checked_count

COUNTS = re.compile(
    rb"^[ \t]*(POINTS|CELLS|CELL_TYPES|POINT_DATA|CELL_DATA|LOOKUP_TABLE)"
    rb"[ \t]+(-?\d+)(?:[ \t]+(-?\d+))?",
    re.MULTILINE | re.IGNORECASE,
)


def parse_vtk(
    path: Path, data: bytes
) -> tuple[np.ndarray, np.ndarray, list[str], dict[str, np.ndarray]]:
    """Return vertices (n, 3), tets (m, 4), names of volume cells other than tets, and no sets."""
    name = path.name
    if not data.startswith(b"# vtk DataFile Version"):
        raise FormatError(f"{name}: is not a legacy VTK file; save it as one")
    if not re.search(rb"^DATASET[ \t]+UNSTRUCTURED_GRID", data, re.MULTILINE):
        raise FormatError(f"{name}: is not an unstructured grid; save it as one")
    for what, *numbers in COUNTS.findall(data):
        for number in filter(None, numbers):
            checked_count(name, number.decode(), what.decode(), 1, len(data))
    # meshio is slow to import, prints, and reads arrays only from files on disk.
    import meshio

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        mesh = meshio.vtk.read(str(path))
    if mesh.points is None or len(mesh.points) == 0:
        raise FormatError(f"{name}: has no points")
    tets = [block.data for block in mesh.cells if block.type == "tetra"]
    others = {b.type for b in mesh.cells if b.type != "tetra" and b.dim == 3}
    stacked = np.concatenate(tets) if tets else np.empty((0, 4), dtype=np.int64)
    points = np.asarray(mesh.points, dtype=np.float64)
    return points, stacked.astype(np.int64), sorted(others), {}
