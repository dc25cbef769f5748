"""Vertices by which a body is held, from words on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supple.app.bodies.body_options import SIDES, checked_word
from supple.app.bodies.body_source import BodySource
from supple.arrays import Floats, Ints
from supple.errors import SuppleError
from supple.formats.meshes.veg import read_bou
from supple.mesh.hexes import HexMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted

Mask = NDArray[np.bool_]

#: Parts of the extent that a side is, the next if that is too little to hold anything by.
THICKNESS = (0.05, 0.1, 0.2, 0.4)
#: Points this near to a line, as a part of their distance, hold nothing from turning round it.
IN_LINE = 1e-6


def held_vertices(source: BodySource, words: Sequence[str] | None) -> tuple[Ints, str]:
    """Return the vertices of the mesh that are held, and in a few words which.

    Parameters
    ----------
    source
        What is to be held.
    words
        What was asked for; None for what the scene has, or else the bottom.
    """
    found, named = _held(source, words)
    if len(found):
        _check_pieces(source.mesh, found)
    return found, named


def _held(source: BodySource, words: Sequence[str] | None) -> tuple[Ints, str]:
    points = source.mesh.vertices
    if words is None and source.fixed is not None:
        return source.fixed, f"those of {source.fixed_by}"
    if words is None:
        return _bottom(points)
    if list(words) == ["none"]:
        return np.empty(0, np.int64), "nothing: it floats"
    held = np.zeros(len(points), bool)
    for word in words:
        held |= _of_word(word, source)
    named = " ".join(words)[:80]
    if not held.any():
        low, high = points.min(axis=0), points.max(axis=0)
        spans = ", ".join(
            f"{axis} {a:.4g} to {b:.4g}" for axis, a, b in zip("xyz", low, high, strict=True)
        )
        raise SuppleError(f"--fixed {named}: no vertex is there; the body is at {spans} m")
    _check_held(points[held], named)
    return np.flatnonzero(held), named


def _of_word(word: str, source: BodySource) -> Mask:
    kind, read = checked_word(word)
    points = source.mesh.vertices
    if kind == "file":
        return _of_file(Path(word), source)
    assert read is not None
    if kind == "side":
        part = THICKNESS[0] if read[2] is None else float(read[2]) / 100
        return _side(points, read[1], part)
    along = points[:, "xyz".index(read[1])]
    return along <= float(read[3]) if read[2] == "<" else along >= float(read[3])


def _of_file(file: Path, source: BodySource) -> Mask:
    """Mark the vertices that a list names: the mesh's, or those that carry a surface's."""
    held = np.zeros(len(source.mesh.vertices), bool)
    if source.listed is None:
        held[read_bou(file, len(held))] = True
        return held
    rows = source.listed[read_bou(file, source.listed.shape[0])]
    held[rows.indices] = True
    return held


def _side(points: Floats, name: str, part: float) -> Mask:
    axis, sign = SIDES[name]
    depth = sign * points[:, axis]
    return depth >= depth.max() - part * float(np.ptp(depth))


def _bottom(points: Floats) -> tuple[Ints, str]:
    """Return the lowest vertices, as many as it takes to hold the body."""
    for part in THICKNESS:
        held = _side(points, "bottom", part)
        if _spread(points[held]) and not held.all():
            return np.flatnonzero(held), f"the lowest {100 * part:.0f} %"
    raise SuppleError("nothing below can hold the body; say where with --fixed, or --fixed none")


def _check_pieces(mesh: TetMesh | HexMesh, held: Ints) -> None:
    """Refuse a mesh of which a piece floats while others are held."""
    pieces = mesh.components()
    elements = mesh.tets if isinstance(mesh, TetMesh) else mesh.hexes
    kept = np.zeros(len(mesh.vertices), bool)
    kept[held] = True
    grasped = np.zeros(int(pieces.max()) + 1, bool)
    grasped[pieces[kept[elements].any(axis=1)]] = True
    if not grasped.all():
        loose = int((~grasped).argmax())
        raise SuppleError(
            f"a piece of the mesh is held by nothing (element {int((pieces == loose).argmax())} is "
            "one of it); hold some of it with --fixed, or remove it"
        )


def _check_held(points: Floats, named: str) -> None:
    if not _spread(points):
        raise SuppleError(
            f"--fixed {named}: {counted(len(points), 'vertex is', 'vertices are')} in a line, and "
            "the body would turn round it; hold more"
        )


def _spread(points: Floats) -> bool:
    """Return whether points are not all on one line."""
    if len(points) < 3:
        return False
    sizes = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return bool(sizes[1] > IN_LINE * sizes[0])
