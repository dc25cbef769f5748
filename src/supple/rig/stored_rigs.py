"""Rigs stored as a header and plain arrays, and restored from them.

A header lists parts. Each has a kind, plain values and the numbers of the earlier parts on which it
is built, so that shared parts are stored once, and reading neither recurses nor runs anything.
Arrays are named "<number of the part>.<field>". Arrays over vertices are rounded to float32,
weights to multiples of 2⁻²⁴ that add up to 1; poses, skeletons and curves are stored as float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from supple.checks import shown
from supple.errors import SuppleError
from supple.mesh.tets import TetMesh
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.free_form import Lattice
from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.twist import Twist
from supple.rig.deformers.wire import Wire
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Parameter, Rig, checked_parameters
from supple.rig.skeleton.inverse_kinematics import HandleRig, InverseKinematics
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.stored.field_reader import (
    DOUBLE,
    INDEX,
    SINGLE,
    Field,
    FieldReader,
    FieldWriter,
    Values,
)
from supple.rig.stored.packed_arrays import UnpackingBudget, narrowed
from supple.rig.stored.schema import Array, Value
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.skinned_tets import SkinnedTetRig
from supple.rig.tets.tet_rig import TetRig

Arrays = dict[str, NDArray]
Header = dict[str, Any]

#: Kind of a rig that the caller must pass to the reader.
GIVEN = "given"
#: Most parts of a file, and of a rig if a shared part counts as often as it is used.
MOST_PARTS, MOST_USES = 1000, 10_000
#: Most levels of rigs that are built on other rigs.
DEEPEST = 100
#: Most characters of the name of a kind.
LONGEST_KIND = 40
#: Lengths, angles and weights of a rig are below this.
LARGEST_NUMBER = 1e15


class _Sets(Field):
    """Named sets of tets."""

    def write(self, owner: TetMesh, writer: FieldWriter) -> None:
        """Write names, sorted, and an array for each."""
        names = writer.values[self.name] = sorted(owner.sets)
        writer.arrays |= {f"set_{k}": narrowed(owner.sets[name]) for k, name in enumerate(names)}

    def read(self, reader: FieldReader) -> Values:
        """Read the sets by name."""
        names = reader.texts(self.name)
        if tuple(sorted(set(names))) != names:
            raise reader.fail("its sets are not sorted by name")
        return {
            "sets": {name: reader.array(f"set_{k}", INDEX, (None,)) for k, name in enumerate(names)}
        }


class _StoredTetMesh(TetMesh):
    """Declared fields of a `TetMesh`, whose package is below the package of stored fields."""

    stored_fields: ClassVar[tuple[Field, ...]] = (
        Array("vertices", SINGLE, ("n", 3)),
        Array("tets", INDEX, ("tets", 4)),
        _Sets("sets"),
    )

    @staticmethod
    def restored(**fields: Any) -> TetMesh:
        return TetMesh(**fields)


#: Classes of parts by the names of their kinds in files. Each has a tuple `stored_fields`, and a
#: function `restored` of these fields by name, unless the constructor takes them.
KINDS: dict[str, Any] = {
    "skeleton": Skeleton,
    "joint pose": JointPose,
    "partial joint pose": PartialJointPose,
    "pose weights": PoseWeights,
    "skinned": SkinnedRig,
    "inverse kinematics": InverseKinematics,
    "handle": HandleRig,
    "bend": Bend,
    "twist": Twist,
    "wire": Wire,
    "lattice": Lattice,
    "blend shapes": BlendShapeRig,
    "pose blend shapes": PoseBlendShapeRig,
    "corrections": PoseSpaceDeformation,
    "chain": RigChain,
    "tet mesh": _StoredTetMesh,
    "shepard": ShepardRig,
    "carried": SkinnedTetRig,
    "tet rig": TetRig,
}


def register_deformer(name: str, type_: type) -> None:
    """Add a class of rigs that model files can hold, for this process.

    `name` is its kind in files. A program that reads such files registers the class first. A
    subclass of a registered class needs its own name.

    Raises
    ------
    SuppleError
        If the name or the class is registered already, or `stored_fields` of the class is not a
        tuple of fields.
    """
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_KIND:
        expected = f"a string of 1 to {LONGEST_KIND} characters"
        raise SuppleError(f"the name of a deformer is {expected}, not {shown(name)}")
    if name in KINDS or name == GIVEN:
        other = f", the class {KINDS[name].__name__}" if name in KINDS else ""
        advice = "choose another name, or start a new process if the class has changed"
        raise SuppleError(f"a deformer {name!r} exists already{other}; {advice}")
    if not isinstance(type_, type):
        raise SuppleError(f"{shown(type_)} is not a class; pass the class of the deformer")
    for known, other in KINDS.items():
        if other is type_:
            raise SuppleError(f"the class {type_.__name__} is registered already, as {known!r}")
    fields, advice = (
        getattr(type_, "stored_fields", None),
        "a tuple of fields such as points_field()",
    )
    if fields is None:
        raise SuppleError(f"the class {type_.__name__} has no stored_fields; add {advice}")
    if not isinstance(fields, tuple) or not all(isinstance(each, Field) for each in fields):
        what = f"stored_fields of the class {type_.__name__}"
        raise SuppleError(f"{what} must be {advice}, not {shown(fields)}")
    KINDS[name] = type_


def stored_rig(rig: Rig) -> tuple[Header, Arrays]:
    """Return a rig as a header for JSON, and arrays by name.

    If the class is not in `KINDS`, only the parameters and the number of vertices are stored, and
    `restored_rigs` needs the rig again. `restored_rigs` returns the rig rounded to float32; storing
    that rig gives the same arrays, bit for bit.
    """
    return stored_rigs({"rig": rig})


def stored_rigs(roots: Mapping[str, Any]) -> tuple[Header, Arrays]:
    """Store rigs, or parts such as `PoseWeights`, that may share parts; see `stored_rig`."""
    writer = _Writer()
    try:
        numbers = {name: writer.add(part) for name, part in roots.items()}
    except _Unknown:
        raise SuppleError("pose weights of an unknown class cannot be stored") from None
    given = [k for k, entry in enumerate(writer.entries) if entry["kind"] == GIVEN]
    # The caller of `restored_rigs` passes a part of the first root, not one that only others have.
    if len(given) > 1 or any(number > next(iter(numbers.values())) for number in given):
        deformers = sorted({each.__name__ for each in writer.unknown if hasattr(each, "deform")})
        if deformers:
            which = f"rigs of class {' and '.join(deformers)} cannot be stored"
            raise SuppleError(f"{which}; register it by supple.rig.register_deformer")
        raise SuppleError(
            "two rigs of unknown classes cannot be stored; build the tets' rig on the surface's"
        )
    return {"parts": writer.entries, "roots": numbers}, writer.arrays


class _Unknown(Exception):
    """Error of a part whose class cannot be stored."""


def _kind(part: Any) -> tuple[str, tuple[Field, ...]]:
    """Return kind and fields of a part; raise `_Unknown` if its class, exactly, has no kind."""
    if type(part) is TetMesh:
        return "tet mesh", _StoredTetMesh.stored_fields
    for name, type_ in KINDS.items():
        if type(part) is type_:
            return name, type_.stored_fields
    raise _Unknown


class _Writer:
    """Parts that have been written; the same object is written once."""

    def __init__(self) -> None:
        self.entries: list[Header] = []
        self.arrays: Arrays = {}
        self._written: dict[int, tuple[int, Any]] = {}
        self._depth = 0
        #: Classes that `KINDS` does not list.
        self.unknown: list[type] = []

    def add(self, part: Any) -> int:
        """Write a part, unless it is written already; return its number."""
        if id(part) in self._written:
            return self._written[id(part)][0]
        if self._depth >= DEEPEST:
            raise SuppleError(f"a rig built on more than {DEEPEST} others cannot be stored")
        mark = len(self.entries), dict(self.arrays), dict(self._written)
        self._depth += 1
        try:
            kind, fields = self._fields(part)
        except _Unknown:
            # Remove the parts that the rig is built on: no other part may use them.
            del self.entries[mark[0] :]
            self.arrays, self._written = mark[1], mark[2]
            if not isinstance(part, Rig):
                raise
            kind, fields = GIVEN, FieldWriter().write(_GIVEN_FIELDS, part)
        finally:
            self._depth -= 1
        return self._append(part, kind, fields)

    def _fields(self, part: Any) -> tuple[str, FieldWriter]:
        try:
            name, fields = _kind(part)
        except _Unknown:
            self.unknown.append(type(part))
            raise
        # A surface's rig is stored completely or not at all, as the caller can only pass all of it.
        over_any = getattr(part, "stored_over_any_rig", False)
        return name, FieldWriter(self.add if over_any else self._add_known, "_").write(fields, part)

    def _add_known(self, part: Any) -> int:
        number = self.add(part)
        if self.entries[number]["kind"] == GIVEN:
            raise _Unknown
        return number

    def _append(self, part: Any, kind: str, fields: FieldWriter) -> int:
        number = len(self.entries)
        self.entries.append({"kind": kind, "values": fields.values, "parts": fields.parts})
        self.arrays |= {f"{number}.{name}": array for name, array in fields.arrays.items()}
        self._written[id(part)] = (number, part)
        return number


#: Fields of a rig that the caller must pass to the reader.
_GIVEN_FIELDS = (
    Value("names", "texts", lambda rig: [each.name for each in rig.parameters], "parameters"),
    Value("units", "texts", lambda rig: [each.unit for each in rig.parameters]),
    Array("rest", DOUBLE, ("parameters",), lambda rig: [each.rest for each in rig.parameters]),
    Value("vertices", "number", lambda rig: int(rig.n_vertices)),
)


def restored_rigs(
    header: Header, arrays: Mapping[str, NDArray], rig: Rig | None = None
) -> dict[str, Any]:
    """Restore the rigs of `stored_rigs`, or of `stored_rig` under the name "rig", by name.

    Data may come from an untrusted file: a field that is missing, unknown or out of range is
    refused, and nothing is executed. `rig` is the surface's rig, needed if it could not be stored;
    its parameters must equal the stored parameters.
    """
    entries, roots = _checked_header(header)
    arrays_of: list[Arrays] = [{} for _ in entries]
    for name, array in arrays.items():
        digits, _, field = name.partition(".")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 6 and field):
            raise SuppleError(f'a stored rig has an array "{name[:40]}" without a part number')
        if int(digits) >= len(entries):
            raise SuppleError(f'a stored rig has an array "{name[:40]}" of a missing part')
        arrays_of[int(digits)][field] = array
    parts: list[Any] = []
    budget = UnpackingBudget(sum(array.nbytes for array in arrays.values()))
    # Numbers that are far too large overflow, and the checks of the results refuse them.
    with np.errstate(all="ignore"):
        for number, entry in enumerate(entries):
            parts.append(_restored(number, entry, arrays_of[number], parts, budget, rig))
    return {name: parts[number] for name, number in roots.items()}


def rounded_rigs(roots: Mapping[str, Any]) -> dict[str, Any]:
    """Return rigs as a file would hold them; "rig" is the surface's.

    Raises
    ------
    SuppleError
        If a rig would have other parameters, as `stored_fields` of its class lack its name.
    """
    rigs = restored_rigs(*stored_rigs(roots), roots["rig"])
    for name, rig in rigs.items():
        if not isinstance(rig, Rig):
            continue
        for one, other in zip_longest(roots[name].parameters, rig.parameters):
            if one != other:
                change = f"{other} instead of {one}"
                advice = "add a field such as name_field(1) to stored_fields of its class"
                raise SuppleError(f"the rig as stored has a {change}; {advice}")
    return rigs


def _checked_header(header: Any) -> tuple[list[Any], dict[str, int]]:
    if not isinstance(header, dict) or set(header) != {"parts", "roots"}:
        raise SuppleError("the header of a stored rig has no parts and roots")
    entries, roots = header["parts"], header["roots"]
    if not isinstance(entries, list) or len(entries) > MOST_PARTS or not isinstance(roots, dict):
        raise SuppleError("the parts of a stored rig are not a list, or too many")
    for name, number in roots.items():
        if type(number) is not int or not 0 <= number < len(entries):
            raise SuppleError(f'the stored rig "{str(name)[:40]}" refers to a missing part')
    _check_uses(entries)
    return entries, roots


def _check_uses(entries: list[Any]) -> None:
    """Refuse rigs whose parts, counted with repetitions, are too many to evaluate."""
    uses: list[int] = []
    for entry in entries:
        parts = entry.get("parts") if isinstance(entry, dict) else None
        references = parts.values() if isinstance(parts, dict) else ()
        numbers = [n for each in references for n in (each if isinstance(each, list) else [each])]
        earlier = [n for n in numbers if type(n) is int and 0 <= n < len(uses)]
        uses.append(1 + sum(uses[n] for n in earlier))
        if uses[-1] > MOST_USES:
            raise SuppleError("a stored rig is built on too many other parts")


def _restored(
    number: int,
    entry: Any,
    arrays: Arrays,
    before: list[Any],
    budget: UnpackingBudget,
    rig: Rig | None,
) -> Any:
    """Restore one part from its header entry and its arrays."""
    types = {"kind": str, "values": dict, "parts": dict}
    if not isinstance(entry, dict) or set(entry) != set(types):
        raise SuppleError(f"part {number} of a stored rig has no kind, values and parts")
    for name, type_ in types.items():
        if not isinstance(entry[name], type_):
            raise SuppleError(f'part {number} of a stored rig: "{name}" has the wrong type')
    reader = FieldReader(
        entry["values"],
        arrays,
        f"part {number} ({entry['kind'][:40]}) of a stored rig",
        parts=entry["parts"],
        before=before,
        budget=budget,
        largest=LARGEST_NUMBER,
        joint="_",
    )
    if entry["kind"] == GIVEN:
        part: Any = _checked_given(reader, rig)
    elif entry["kind"] in KINDS:
        part = _restored_known(reader, KINDS[entry["kind"]])
    else:
        readers = "a newer version of Supple, or a program that registers it by register_deformer,"
        raise reader.fail(f"its kind is unknown; {readers} may read it")
    reader.finish()
    return part


def _restored_known(reader: FieldReader, type_: Any) -> Any:
    try:
        fields = reader.read(type_.stored_fields)
        return getattr(type_, "restored", type_)(**fields)
    except SuppleError as error:
        prefix = "" if str(error).startswith(reader.what) else f"{reader.what}: "
        raise SuppleError(f"{prefix}{error}") from error
    except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
        raise reader.fail(f"cannot be made of these numbers ({error})") from error
    except TypeError as error:
        made = f"{type_.__name__} cannot be made of its fields {', '.join(fields)}"
        raise reader.fail(f"{made} ({error})") from error


def _checked_given(reader: FieldReader, rig: Rig | None) -> Rig:
    fields = reader.read(_GIVEN_FIELDS)
    names, units, rest = fields["names"], fields["units"], fields["rest"].tolist()
    if len(units) != len(names):
        raise reader.fail(f"{len(units)} units for {len(names)} parameters")
    parameters = checked_parameters(
        [Parameter(*each) for each in zip(names, units, rest, strict=True)]
    )
    if rig is None:
        what = f"the file does not hold its rig, of {len(names)} parameters"
        why = "its class cannot be stored, or was not registered"
        raise SuppleError(f"{what}: {why}; pass the rig as rig=")
    check_same_rig(rig, parameters, int(fields["vertices"]))
    return rig


def check_same_rig(rig: Rig, parameters: Iterable[Parameter], n_vertices: int) -> None:
    """Refuse a rig that has other parameters or another number of vertices."""
    if not isinstance(rig, Rig):
        raise SuppleError(f"{type(rig).__name__} is not a rig")
    if rig.n_vertices != n_vertices:
        counts = f"{rig.n_vertices:,} vertices; the stored one had {n_vertices:,}"
        raise SuppleError(f"the rig passed has {counts}")
    stored, passed = tuple(parameters), tuple(rig.parameters)
    if len(stored) != len(passed):
        counts = f"{len(passed)} parameters; the stored one had {len(stored)}"
        raise SuppleError(f"the rig passed has {counts}")
    for one, other in zip(stored, passed, strict=True):
        if one != other:
            now, then = (f'"{p.name}" ({p.unit}, {p.rest:g})' for p in (other, one))
            raise SuppleError(f"the rig passed has a parameter {now}; the stored one had {then}")
