"""Files of Saint Venant–Kirchhoff models: one safetensors file, read with suspicion."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.checks import checked_path
from supple.elastic.material import Material
from supple.engines.stvk.coefficients import MOST_MODES, pair_count
from supple.engines.stvk.cubic_model import checked_mass
from supple.engines.stvk.rigid_integrals import RigidIntegrals
from supple.engines.stvk.strain_points import MOST_GROUPS, MaterialGroups
from supple.errors import FormatError, SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.saving import write_whole
from supple.tensors import TensorReader, packed_tensors, unpacked_tensors

FORMAT, VERSION = "supple stvk", "1"
LARGEST_FILE = 16 * 2**30
AGAIN = "build the model again"
#: What rounding may take from a moment, or put between two that are the same, as a part of them.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class StvkFields:
    """Arrays of a `StvkModel`, as its file has them; see there."""

    rest: Floats
    basis: Floats
    groups: MaterialGroups
    parts: Floats
    mass_parts: Floats
    weight_parts: Floats
    surface: SurfaceMesh
    surface_basis: Floats
    inertia: RigidIntegrals | None = None

    @property
    def modes(self) -> int:
        """Size r of the basis."""
        return self.basis.shape[2]

    @cached_property
    def mass(self) -> Floats:
        """UᵀMU, (r, r)."""
        return np.einsum("g,gij->ij", self.groups.density, self.mass_parts)


def save_stvk(model: StvkFields, path: str | Path) -> None:
    """Write a model; see `StvkModel.save`."""
    write_whole(checked_path("a model's file", path), packed_stvk(model))


def load_stvk(path: str | Path) -> StvkFields:
    """Read the arrays of a model; see `StvkModel.load`."""
    path = checked_path("a model's file", path)
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else f"there is no such file in {path.parent}"
            raise FormatError(what)
        if path.stat().st_size > LARGEST_FILE:
            raise FormatError("is far too large for a model")
        return unpacked_stvk(path.read_bytes())
    except SuppleError as error:
        raise FormatError(f"{path.name}: {error}") from error
    except MemoryError as error:
        raise FormatError(f"{path.name}: needs more memory than there is") from error
    except (OSError, ValueError) as error:
        raise FormatError(f"{path.name}: cannot be opened ({error})") from error


def packed_stvk(model: StvkFields) -> bytes:
    """Return the bytes of a model's file: the same for the same model."""
    groups = model.groups
    tensors: dict[str, NDArray] = {
        "rest": model.rest,
        "basis": model.basis,
        "parts": model.parts,
        "mass_parts": model.mass_parts,
        "weight_parts": model.weight_parts,
        "groups.of_element": groups.of_element.astype(np.int32),
        "groups.materials": np.column_stack([groups.young, groups.poisson, groups.density]),
        "surface.vertices": np.asarray(model.surface.vertices, np.float64),
        "surface.triangles": np.asarray(model.surface.triangles, np.int32),
        "surface.basis": model.surface_basis,
    }
    if model.inertia is not None:
        tensors |= _inertia_tensors(model.inertia)
    texts = {"format": FORMAT, "version": VERSION}
    return packed_tensors(tensors, texts | {"checksum": _checksum(tensors)})


def _inertia_tensors(inertia: RigidIntegrals) -> dict[str, NDArray]:
    names = ("about", "volumes", "first", "second", "mixed", "shapes")
    arrays: dict[str, NDArray] = {f"inertia.{name}": getattr(inertia, name) for name in names}
    return arrays | {"inertia.held": np.array([inertia.held], np.int32)}


def _checksum(tensors: dict[str, NDArray]) -> str:
    digest = hashlib.blake2b(digest_size=32)
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"\0{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def unpacked_stvk(data: bytes) -> StvkFields:
    """Return the arrays in a file's bytes, which must be whole and unchanged."""
    tensors, texts, _ = unpacked_tensors(data)
    if texts.get("format") != FORMAT:
        raise FormatError("is a safetensors file, but no StVK model of Supple's")
    if texts.get("version") != VERSION:
        raise FormatError(f"is of a version that is not read; upgrade Supple, or {AGAIN}")
    if texts.get("checksum") != _checksum(tensors):
        raise FormatError(f"has changed since it was written (its checksum differs); {AGAIN}")
    for name, array in tensors.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FormatError(f'array "{name}" is not finite; {AGAIN}')
    return _model(TensorReader(tensors))


def _model(reader: TensorReader) -> StvkFields:
    def floats(name: str, *shape: int | None) -> NDArray[np.float64]:
        # A copy: what is read from a file may lie anywhere in memory, and cannot be written to.
        return np.array(reader.floats(name, shape, single=False))

    rest = floats("rest", None, 3)
    basis = floats("basis", len(rest), 3, None)
    r, materials = basis.shape[2], floats("groups.materials", None, 3)
    count = len(materials)
    if not (1 <= r <= MOST_MODES and 1 <= count <= MOST_GROUPS):
        raise FormatError(f"has {r} modes and {count} groups, which no model has; {AGAIN}")
    of_element = reader.indices("groups.of_element", (None,)).astype(np.int64)
    if not (len(of_element) and of_element.min() >= 0 and of_element.max() < count):
        raise FormatError(f"has elements of groups that are not there; {AGAIN}")
    young, poisson, density = (np.ascontiguousarray(column) for column in materials.T)
    Material("stvk", young, poisson, density)  # refuses what no material has
    pairs = pair_count(r)
    seen = floats("surface.vertices", None, 3)
    triangles = reader.indices("surface.triangles", (None, 3))
    model = StvkFields(
        rest=rest,
        basis=basis,
        groups=MaterialGroups(of_element, young, poisson, density),
        parts=floats("parts", count, 2, pairs, 1 + r + pairs),
        mass_parts=floats("mass_parts", count, r, r),
        weight_parts=floats("weight_parts", count, 3, r),
        surface=SurfaceMesh(seen, triangles),
        surface_basis=floats("surface.basis", len(seen), 3, r),
        # Files made before free bodies flew have none, and are read as they were.
        inertia=_inertia(reader, count, r) if reader.has("inertia.about") else None,
    )
    reader.finish()
    _check_physical(model)
    return model


def _inertia(reader: TensorReader, count: int, r: int) -> RigidIntegrals:
    shapes = {
        "about": (3,),
        "volumes": (count,),
        "first": (count, 3),
        "second": (count, 3, 3),
        "mixed": (count, 3, 3, r),
        "shapes": (count, 3, 3, r, r),
    }
    arrays = {
        name: np.array(reader.floats(f"inertia.{name}", shape, single=False))
        for name, shape in shapes.items()
    }
    return RigidIntegrals(**arrays, held=int(reader.indices("inertia.held", (1,))[0]))


# A checksum says that a file is as it was written, not who wrote it: a mass that is none would be
# found deep in a simulator, or not at all. So a model that is read is shown to be one of a body.


def _check_physical(model: StvkFields) -> None:
    """Refuse a model that no body has: of bad mass, size, shapes or inertia.

    Raises
    ------
    FormatError
        With one line that says which.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is beyond all numbers is refused
        _check_shapes(model)
        _check_mass(model)
        if model.inertia is not None:
            _check_inertia(model, model.inertia)


def _refused(what: str) -> FormatError:
    return FormatError(f"{what}, which no model has; build the model again")


def _check_shapes(model: StvkFields) -> None:
    if not (len(model.rest) and np.ptp(model.rest, axis=0).any()):
        raise _refused("has all vertices at one point")
    still = ~model.basis.any(axis=(0, 1))
    if still.any():
        raise _refused(f"has a column of zeros in its basis (column {int(still.argmax())})")


def _check_mass(model: StvkFields) -> None:
    for number, part in enumerate(model.mass_parts):
        if not _semidefinite(part):
            raise _refused(f"has a mass of group {number} that is not symmetric or not positive")
    try:
        checked_mass(model.mass, model.modes)
    except SuppleError as error:
        raise FormatError(f"{error}; build the model again") from error


def _check_inertia(model: StvkFields, inertia: RigidIntegrals) -> None:
    if not (inertia.volumes > 0).all():
        raise _refused("has groups without volume")
    if not 0 <= inertia.held <= len(model.rest):
        raise _refused(f"has {inertia.held} of {len(model.rest)} vertices held")
    arms = inertia.first[:, :, None] * inertia.first[:, None, :]
    for number, second in enumerate(inertia.second):
        spread = second - arms[number] / inertia.volumes[number]  # about the group's own centre
        if not (_semidefinite(second) and _semidefinite(spread, float(np.trace(second)))):
            raise _refused(f"has second moments of group {number} that are not positive")
    # Products of shapes are symmetric, and those along one axis add up to the mass.
    shapes = inertia.shapes
    _check_same("products of shapes", shapes, shapes.transpose(0, 2, 1, 4, 3))
    _check_same("products of shapes", np.einsum("gaaij->gij", shapes), model.mass_parts)
    moments = inertia.moments(model.groups.density, model.weight_parts)
    if not _semidefinite(moments.inertia_terms[0], strict=True):
        raise _refused("has an inertia that is not positive")


def _check_same(what: str, mine: Floats, wanted: Floats) -> None:
    if not np.abs(mine - wanted).max() <= _ROUNDING * np.abs(wanted).max():
        raise _refused(f"has {what} that contradict each other")


def _semidefinite(matrix: Floats, size: float = 0.0, *, strict: bool = False) -> bool:
    """Return whether a matrix is symmetric and has no negative direction, but for rounding."""
    size = max(size, float(np.abs(matrix).max()))
    if not (np.isfinite(size) and np.abs(matrix - matrix.T).max() <= _ROUNDING * size):
        return False
    lowest = float(np.linalg.eigvalsh(matrix / size if size else matrix)[0])
    return lowest > 0 if strict else lowest >= -_ROUNDING
