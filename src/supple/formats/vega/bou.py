"""Fixed vertices of VegaFEM (``.bou`` files), counted from 1 and separated by commas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_path, plain_array
from supple.errors import FormatError
from supple.formats.file_bytes import as_floats, as_integers, as_text, read_bytes, reading
from supple.saving import write_whole

_PER_LINE = 8


def read_bou(path: str | Path, n_vertices: int | None = None) -> NDArray[np.int64]:
    """Read a list of vertices, counted from 0, ascending and without duplicates.

    Parameters
    ----------
    path : str or Path
        The ``.bou`` file.
    n_vertices : int, optional
        Number of vertices of the mesh; a larger index is an error.
    """
    path = checked_path("a .bou file", path)
    data = read_bytes(path, (".bou",))
    with reading(path.name):
        lines = [line.partition("#")[0] for line in as_text(path.name, data).splitlines()]
        words = " ".join(lines).replace(",", " ").split()
        listed = as_integers(path.name, as_floats(path.name, words, "vertices"), "vertices")
        end = np.iinfo(np.int32).max if n_vertices is None else n_vertices
        wrong = listed[(listed < 1) | (listed > end)]
        if len(wrong):
            raise FormatError(f"{path.name}: has vertex {wrong[0]}; vertices are 1 to {end}")
        return np.unique(listed - 1)


def write_bou(path: str | Path, vertices: ArrayLike) -> None:
    """Write a list of vertices, counted from 0; no file is left half written."""
    path = checked_path("a .bou file", path)
    listed = np.atleast_1d(plain_array(f"{path.name}: a list of vertices", vertices))
    if listed.ndim != 1 or listed.size == 0 or listed.dtype.kind not in "iu" or listed.min() < 0:
        raise FormatError(f"{path.name}: needs a list of at least one vertex, counted from 0")
    numbers = [str(number + 1) for number in np.unique(listed).tolist()]
    lines = [numbers[i : i + _PER_LINE] for i in range(0, len(numbers), _PER_LINE)]
    write_whole(path, "".join(",".join(line) + ",\n" for line in lines).encode())
