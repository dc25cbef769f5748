"""VegaFEM's matrices of modes (``.U``): int32 rows and columns, then the columns one by one.

Entries are float64, or float32 in files for drawing (``.float``); the size of the file tells
which. Rows are 3v + c for component c of vertex v, so a matrix of r columns is a basis (n, 3, r).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_path, numbers
from supple.errors import FormatError
from supple.formats.file_bytes import read_bytes, reading
from supple.formats.registry import MODAL_MATRIX_SUFFIXES
from supple.saving import write_chunks

_HEADER = 8


def read_modal_matrix(path: str | Path) -> NDArray[np.float32] | NDArray[np.float64]:
    """Read modes, (n, 3, r), in the precision of the file.

    Raises
    ------
    FormatError
        When its size does not fit the file, or it has an entry that is not finite.
    """
    path = checked_path("a modal matrix", path)
    data = read_bytes(path, MODAL_MATRIX_SUFFIXES)
    with reading(path.name):
        rows, columns, kind = _checked_head(path.name, data)
        # Columns lie one after the other: their transpose is what the file has.
        matrix = np.frombuffer(data, kind, offset=_HEADER).reshape(columns, rows).T
        if not np.isfinite(matrix).all():
            mode, row = np.argwhere(~np.isfinite(matrix.T))[0]
            raise FormatError(f"{path.name}: row {row} of mode {mode} is not finite")
        native = matrix.astype(kind.newbyteorder("="), order="C")
        return native.reshape(rows // 3, 3, columns)


def _checked_head(name: str, data: bytes) -> tuple[int, int, np.dtype]:
    if len(data) < _HEADER:
        raise FormatError(f"{name}: has {len(data)} bytes, fewer than the head of a matrix")
    rows, columns = (int(number) for number in np.frombuffer(data, "<i4", 2))
    if rows < 1 or columns < 1:
        raise FormatError(f"{name}: declares {rows} rows and {columns} columns; it is damaged")
    for kind in (np.dtype("<f8"), np.dtype("<f4")):
        if len(data) == _HEADER + kind.itemsize * rows * columns:
            break
    else:
        raise FormatError(
            f"{name}: declares {rows} rows and {columns} columns, which do not fit its"
            f" {len(data)} bytes; it is damaged or cut off"
        )
    if rows % 3:
        raise FormatError(f"{name}: has {rows} rows, which are not three for each vertex")
    return rows, columns, kind


def write_modal_matrix(path: str | Path, basis: ArrayLike) -> None:
    """Write modes (n, 3, r) or (3n, r); the file is whole or not there.

    A name that ends in ``.float`` gets float32, any other float64.
    """
    path = checked_path("a modal matrix", path)
    if path.suffix.lower() not in MODAL_MATRIX_SUFFIXES:
        raise FormatError(f'{path.name}: "{path.suffix}" is not read back; use .U or .float')
    given = numbers("modes", basis)
    if given.ndim == 3 and given.shape[1] == 3:
        given = given.reshape(-1, given.shape[2])
    if given.ndim != 2 or given.size == 0 or len(given) % 3:
        raise FormatError(f"{path.name}: modes have shape {given.shape}, not (n, 3, r) or (3n, r)")
    kind = np.dtype("<f4" if path.suffix.lower() == ".float" else "<f8")
    with np.errstate(over="ignore"):
        columns = np.ascontiguousarray(given.T, kind)
    if not np.isfinite(columns).all():
        raise FormatError(f"{path.name}: modes are not finite numbers of {kind.itemsize} bytes")
    head = np.array(given.shape, "<i4").tobytes()
    write_chunks(path, [head, columns.tobytes()])
