"""Rigs as a header and plain arrays, to be kept in a file, and back.

A header lists parts; each has a kind, plain values and the numbers of the parts before it that
it is built on, so that what several share is kept once, and reading neither recurses nor runs
anything. Arrays are named "<number of the part>.<field>". Arrays over vertices are rounded to
float32, weights to multiples of 2⁻²⁴ that add up to 1; poses, skeletons and curves keep float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import SuppleError
from supple.rig.protocol import Parameter, Rig, checked_parameters
from supple.rig.stored.deformer_parts import DEFORMERS
from supple.rig.stored.packed_arrays import UnpackingBudget
from supple.rig.stored.skeleton_parts import SKELETONS
from supple.rig.stored.stored_part import Fields, Kind, PartReader
from supple.rig.stored.tet_parts import TET_RIGS, RestoredCarriedRig, RestoredShepardRig
from supple.rig.tets.carried_weights import CarriedRig
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.tet_rig import TetRig

Arrays = dict[str, NDArray]
Header = dict[str, Any]

KINDS: tuple[Kind, ...] = (*SKELETONS, *DEFORMERS, *TET_RIGS)
_BY_TYPE = {kind.type: kind for kind in KINDS}
_BY_TYPE |= {
    RestoredShepardRig: _BY_TYPE[ShepardRig],
    RestoredCarriedRig: _BY_TYPE[CarriedRig],
}
_BY_NAME = {kind.name: kind for kind in KINDS}
#: Rigs that stand on a surface's rig. Where that cannot be stored, they still can.
_ON_TETS = (ShepardRig, CarriedRig, TetRig)

#: A rig that the reader must be given.
GIVEN = "given"
#: Parts of a file; and of a rig, when what is shared is counted as often as it is used.
MOST_PARTS, MOST_USES = 1000, 10_000
#: Rigs built on rigs built on rigs.
DEEPEST = 100


def stored_rig(rig: Rig) -> tuple[Header, Arrays]:
    """Return a rig as a header that JSON can carry, and arrays.

    Parameters
    ----------
    rig
        One of Supple's, or any other: that is a black box, of which only the parameters and the
        number of vertices are kept, and `restored_rigs` needs it again.

    Returns
    -------
    header : dict
    arrays : dict from str to array

    Notes
    -----
    `restored_rigs` gives the rig to float32 rounding; storing that gives the same arrays, to the
    bit.
    """
    return stored_rigs({"rig": rig})


def stored_rigs(roots: Mapping[str, Any]) -> tuple[Header, Arrays]:
    """Return rigs, or parts such as `PoseWeights`, that may share parts, as `stored_rig` does."""
    writer = _Writer()
    try:
        numbers = {name: writer.add(part) for name, part in roots.items()}
    except _Unknown:
        raise SuppleError("a class of pose weights that is not known cannot be stored") from None
    if sum(entry["kind"] == GIVEN for entry in writer.entries) > 1:
        raise SuppleError(
            "two rigs of unknown classes cannot be stored; build the tets' rig on the surface's"
        )
    return {"parts": writer.entries, "roots": numbers}, writer.arrays


class _Unknown(Exception):
    """A part is of a class that cannot be stored."""


class _Writer:
    """Parts written so far; the same object is written once."""

    def __init__(self) -> None:
        self.entries: list[Header] = []
        self.arrays: Arrays = {}
        self._written: dict[int, tuple[int, Any]] = {}
        self._depth = 0

    def add(self, part: Any) -> int:
        """Return the number of a part, which is written if it was not; a black box as such."""
        if id(part) in self._written:
            return self._written[id(part)][0]
        if self._depth >= DEEPEST:
            raise SuppleError(f"a rig built on more than {DEEPEST} others cannot be stored")
        mark = len(self.entries), dict(self.arrays), dict(self._written)
        self._depth += 1
        try:
            kind, fields = self._fields(part)
        except _Unknown:
            # What it is built on may be of use to nobody else: forget that it was written.
            del self.entries[mark[0] :]
            self.arrays, self._written = mark[1], mark[2]
            if not isinstance(part, Rig):
                raise
            kind, fields = GIVEN, _given_fields(part)
        finally:
            self._depth -= 1
        return self._append(part, kind, fields)

    def _fields(self, part: Any) -> tuple[str, Fields]:
        kind = _BY_TYPE.get(type(part))
        if kind is None:
            raise _Unknown
        # A surface's rig is stored whole or not at all: its user has it whole.
        store = self.add if isinstance(part, _ON_TETS) else self._add_known
        return kind.name, kind.store(part, store)

    def _add_known(self, part: Any) -> int:
        number = self.add(part)
        if self.entries[number]["kind"] == GIVEN:
            raise _Unknown
        return number

    def _append(self, part: Any, kind: str, fields: Fields) -> int:
        number = len(self.entries)
        self.entries.append({"kind": kind, "values": fields.values, "parts": fields.parts})
        self.arrays |= {f"{number}.{name}": array for name, array in fields.arrays.items()}
        self._written[id(part)] = (number, part)
        return number


def _given_fields(rig: Rig) -> Fields:
    parameters = tuple(rig.parameters)
    return Fields(
        {
            "names": [parameter.name for parameter in parameters],
            "units": [parameter.unit for parameter in parameters],
            "vertices": int(rig.n_vertices),
        },
        arrays={"rest": np.array([parameter.rest for parameter in parameters], np.float64)},
    )


def restored_rigs(
    header: Header, arrays: Mapping[str, NDArray], rig: Rig | None = None
) -> dict[str, Any]:
    """Restore the rigs that `stored_rigs` stored, by name.

    Parameters
    ----------
    header, arrays
        Made by `stored_rigs`, or under the name "rig" by `stored_rig`. They may come from anywhere:
        all is checked, nothing is run.
    rig
        The rig itself, or the one that it is built on, where it could not be stored.

    Raises
    ------
    SuppleError
        If something is missing, unknown or out of range; or a rig is needed and not given, or
        has other parameters.
    """
    entries, roots = _checked_header(header)
    own: list[Arrays] = [{} for _ in entries]
    for name, array in arrays.items():
        owner, _, field = name.partition(".")
        if not (owner.isascii() and owner.isdigit() and len(owner) < 6 and field):
            raise SuppleError(f'a stored rig has an array "{name[:40]}", which is no part\'s')
        if int(owner) >= len(entries):
            raise SuppleError(f'a stored rig has an array "{name[:40]}", and no such part')
        own[int(owner)][field] = array
    parts: list[Any] = []
    budget = UnpackingBudget(sum(array.nbytes for array in arrays.values()))
    # Numbers that are far too large overflow; what comes of it is refused where it shows.
    with np.errstate(all="ignore"):
        for number, entry in enumerate(entries):
            parts.append(_restored(PartReader(number, entry, own[number], parts, budget), rig))
    return {name: parts[number] for name, number in roots.items()}


def _checked_header(header: Any) -> tuple[list[Any], dict[str, int]]:
    if not isinstance(header, dict) or set(header) != {"parts", "roots"}:
        raise SuppleError("the header of a stored rig has no parts and roots")
    entries, roots = header["parts"], header["roots"]
    if not isinstance(entries, list) or len(entries) > MOST_PARTS or not isinstance(roots, dict):
        raise SuppleError("the parts of a stored rig are not a list, or too many")
    for name, number in roots.items():
        whole = isinstance(number, int) and not isinstance(number, bool)
        if not whole or not 0 <= number < len(entries):
            raise SuppleError(f'the stored rig "{str(name)[:40]}" is no part of the file')
    _check_uses(entries)
    return entries, roots


def _check_uses(entries: list[Any]) -> None:
    """Refuse parts that use parts twice that use parts twice …: they would never be evaluated."""
    uses: list[int] = []
    for entry in entries:
        parts = entry.get("parts") if isinstance(entry, dict) else None
        named = parts.values() if isinstance(parts, dict) else ()
        listed = [n for each in named for n in (each if isinstance(each, list) else [each])]
        known = [n for n in listed if type(n) is int and 0 <= n < len(uses)]
        uses.append(1 + sum(uses[n] for n in known))
        if uses[-1] > MOST_USES:
            raise SuppleError("a stored rig is built on too many others")


def _restored(part: PartReader, rig: Rig | None) -> Any:
    if part.kind == GIVEN:
        found: Any = _checked_given(part, rig)
    elif part.kind in _BY_NAME:
        found = _restored_known(part, _BY_NAME[part.kind])
    else:
        raise part.fail("such parts are not known; a newer Supple may know them")
    part.finish()
    return found


def _restored_known(part: PartReader, kind: Kind) -> Any:
    try:
        return kind.restore(part)
    except SuppleError as error:
        message = str(error)
        named = message if message.startswith(part.what) else f"{part.what}: {message}"
        raise SuppleError(named) from error
    except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
        raise part.fail(f"cannot be made of these numbers ({error})") from error


def _checked_given(part: PartReader, rig: Rig | None) -> Rig:
    names, units = part.texts("names"), part.texts("units")
    rest = part.floats("rest", (len(names),), single=False)
    count = part.number("vertices")
    if len(units) != len(names):
        raise part.fail(f"{len(units)} units for {len(names)} parameters")
    wanted = checked_parameters(
        [Parameter(*each) for each in zip(names, units, rest.tolist(), strict=True)]
    )
    if rig is None:
        raise SuppleError(
            f"the rig is a black box of {len(names)} parameters that no file can hold; give it,"
            " as rig="
        )
    check_same_rig(rig, wanted, int(count))
    return rig


def check_same_rig(rig: Rig, wanted: Iterable[Parameter], n_vertices: int) -> None:
    """Refuse a rig that has other parameters or another number of vertices."""
    if not isinstance(rig, Rig):
        raise SuppleError(f"{type(rig).__name__} is no rig")
    if rig.n_vertices != n_vertices:
        raise SuppleError(
            f"the rig given has {rig.n_vertices:,} vertices; the stored one had {n_vertices:,}"
        )
    mine, theirs = tuple(wanted), tuple(rig.parameters)
    if len(mine) != len(theirs):
        raise SuppleError(
            f"the rig given has {len(theirs)} parameters; the stored one had {len(mine)}"
        )
    for own, other in zip(mine, theirs, strict=True):
        if own != other:
            raise SuppleError(
                f'the rig given has a parameter "{other.name}" ({other.unit}, {other.rest:g}) where'
                f' the stored one had "{own.name}" ({own.unit}, {own.rest:g})'
            )
