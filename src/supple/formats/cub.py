"""VegaFEM's ``.cub`` files: the internal force of a reduced StVK body as cubic polynomials.

Four little-endian int32, the number of coordinates r and the numbers of linear, quadratic and
cubic monomials of them, r, r(r + 1)/2 and r(r + 1)(r + 2)/6; then float64 coefficients, all
linear ones, all quadratic, all cubic. Within each, the first component of the force comes first
with all its monomials, in lexicographic order: q_i, q_i q_j with i ≤ j, q_i q_j q_k with
i ≤ j ≤ k. A coefficient belongs to the whole monomial: that of q₀q₁ counts once, not for q₁q₀.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from supple.checks import checked_path, shown
from supple.errors import FormatError
from supple.formats.cub_force import CubicForce
from supple.formats.source import read_source, reading
from supple.saving import write_chunks

__all__ = ["CubicForce", "read_cub", "write_cub"]

_HEADER = 16


def read_cub(path: str | Path) -> CubicForce:
    """Read a VegaFEM file of cubic polynomials.

    Raises
    ------
    FormatError
        When its sizes do not fit each other or the file, or a coefficient is not finite.
    """
    path = checked_path("a .cub file", path)
    data = read_source(path, (".cub",))
    with reading(path.name):
        r = _checked_size(path.name, data)
        if r == 0:
            raise FormatError(f"{path.name}: has no coordinates (r = 0); nothing can move")
        values = np.frombuffer(data, "<f8", offset=_HEADER).astype(np.float64)
        if not np.isfinite(values).all():
            bad = int(np.argmin(np.isfinite(values)))
            raise FormatError(f"{path.name}: coefficient {bad} is not finite; make the file again")
        ends = np.cumsum([r * count for count in _counts(r)])
        parts = (part.reshape(r, -1) for part in np.split(values, ends[:-1]))
        return CubicForce(*parts)


def _checked_size(name: str, data: bytes) -> int:
    if len(data) < _HEADER:
        raise FormatError(f"{name}: has {len(data)} bytes, fewer than the head of a .cub file")
    r, *declared = (int(number) for number in np.frombuffer(data, "<i4", 4))
    if r < 0 or declared != list(_counts(r)):
        said = ", ".join(map(str, (r, *declared)))
        raise FormatError(
            f"{name}: declares the sizes {said}, which are not those of r coordinates"
            f" (r, r, r(r+1)/2, r(r+1)(r+2)/6); it is damaged or something else"
        )
    expected = _HEADER + 8 * r * sum(_counts(r))
    if len(data) != expected:
        raise FormatError(
            f"{name}: has {len(data)} bytes where r = {r} needs {expected};"
            f" it is {'damaged or cut off' if len(data) < expected else 'damaged'}"
        )
    return r


def _counts(r: int) -> tuple[int, int, int]:
    return r, r * (r + 1) // 2, r * (r + 1) * (r + 2) // 6


def write_cub(path: str | Path, force: CubicForce) -> None:
    """Write a VegaFEM file of cubic polynomials; the file is whole or not there.

    What was read from a file is written as the same bytes.
    """
    path = checked_path("a .cub file", path)
    if path.suffix.lower() != ".cub":
        raise FormatError(f'{path.name}: "{path.suffix}" is not read back; name it .cub')
    if not isinstance(force, CubicForce):
        raise FormatError(f"{path.name}: holds a CubicForce, not {shown(force)}")
    counts = _counts(force.r)
    if 8 * force.r * counts[2] > 2**31:
        raise FormatError(f"{path.name}: coefficients of r = {force.r} need more than 2 GiB")
    parts = (force.linear, force.quadratic, force.cubic)
    head = np.array([force.r, *counts], "<i4").tobytes()
    write_chunks(path, [head, *(np.ascontiguousarray(part, "<f8").tobytes() for part in parts)])
