"""Files of rig-space models: one safetensors file, and nothing that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.elastic.material import Material
from supple.engines.pose_space.model.model_file import damage_named, model_bytes, sealed, unsealed
from supple.engines.pose_space.model.model_tensors import motion_tensors, read_motions
from supple.engines.rig_space.condensation import interior_vertices
from supple.errors import FormatError, SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.protocol import Rig
from supple.rig.stored.packed_arrays import narrowed, rounded
from supple.rig.stored.rigs import check_same_rig, restored_rigs, stored_rigs
from supple.tensors import HeaderReader, TensorReader

CONSTANTS = ("young", "poisson", "density")
#: Bounds beyond this bound nothing.
UNBOUNDED = 1e30


def packed_rig_space(model: Any) -> bytes:
    """Return the bytes of a `RigSpaceModel`'s file."""
    rigs, arrays = stored_rigs({"rig": model.rig, "tet_rig": model.tet_rig, "mesh": model.mesh})
    motions, tensors = motion_tensors(model.motions)
    tensors |= {f"rigs.{name}": array for name, array in arrays.items()}
    constants = {name: getattr(model.material, name) for name in CONSTANTS}
    tensors |= {f"material.{n}": np.asarray(v, float) for n, v in constants.items() if np.ndim(v)}
    condensed, cubature = model.condensed, model.cubature
    tensors |= {
        "surface.vertices": rounded(model.surface.vertices),
        "surface.triangles": narrowed(model.surface.triangles),
        "held": narrowed(model.held),
        "free.entries": narrowed(model.entries),
        "free.lower": np.maximum(model.lower, -UNBOUNDED),
        "free.upper": np.minimum(model.upper, UNBOUNDED),
        "condensed.corrections": rounded(condensed.corrections),
        "condensed.mass": condensed.mass,
        "condensed.stiffness": condensed.stiffness,
        "skin": model.skin,
        "cubature.tets": narrowed(cubature.tets),
        "cubature.weights": cubature.weights,
        "cubature.missed": cubature.missed,
    }
    header = {
        "name": model.name,
        "rigs": rigs,
        "motions": motions,
        "material": {
            "kind": model.material.kind,
            **{n: None if np.ndim(v) else float(v) for n, v in constants.items()},
        },
        "cubature_error": cubature.error,
    }
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    return sealed(header, contiguous, model.engine)


def read_rig_space(path: Path, engine: str, rig: Rig | None) -> dict[str, Any]:
    """Return the fields of the model in a file, checked; `rig` for one of a black box.

    Raises
    ------
    FormatError
        If the file is not such a model's, whole and unchanged.
    """
    data = model_bytes(path)
    try:
        header, tensors = unsealed(data, engine)
        with damage_named():
            return _fields(header, tensors, rig)
    except SuppleError as error:
        raise FormatError(f"{path.name}: {error}") from error


def _fields(header: dict[str, Any], tensors: dict[str, NDArray], rig: Rig | None) -> dict[str, Any]:
    for name, array in tensors.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FormatError(f'array "{name}" has a value that is no finite number')
    reader, told = TensorReader(tensors), HeaderReader(header, "its header")
    rigs = restored_rigs(told.table("rigs"), reader.under("rigs"), rig)
    if set(rigs) != {"rig", "tet_rig", "mesh"} or not isinstance(rigs["mesh"], TetMesh):
        raise FormatError("has no rig of the surface, none of the tets, or no tets")
    if not all(isinstance(rigs[name], Rig) for name in ("rig", "tet_rig")):
        raise FormatError("what it calls its rigs are none")
    if rig is not None:
        check_same_rig(rig, rigs["rig"].parameters, rigs["rig"].n_vertices)
    mesh = rigs["mesh"]
    if rigs["tet_rig"].n_vertices != len(mesh.vertices):
        raise FormatError("has a rig of other tets than its own")
    if tuple(rigs["tet_rig"].parameters) != tuple(rigs["rig"].parameters):
        raise FormatError("has rigs of skin and tets with other parameters")
    surface = SurfaceMesh(
        reader.floats("surface.vertices", (rigs["rig"].n_vertices, 3)),
        reader.indices("surface.triangles", (None, 3)),
    )
    held = _below("held", reader.indices("held", (None,)), len(mesh.vertices))
    entries = reader.indices("free.entries", (None,))
    if not len(entries):
        raise FormatError("has no free parameters")
    _below("free.entries", entries, len(rigs["rig"].parameters))
    lower = reader.floats("free.lower", (len(entries),), single=False).copy()
    upper = reader.floats("free.upper", (len(entries),), single=False).copy()
    lower[lower <= -UNBOUNDED], upper[upper >= UNBOUNDED] = -np.inf, np.inf
    if not (lower <= upper).all():
        raise FormatError("has a lower bound above its upper one")
    condensed = _condensed(reader, len(entries))
    if len(condensed["corrections"]) != len(interior_vertices(mesh, held)):
        raise FormatError("has corrections of other flesh than its interior")
    fields = {
        "name": told.text("name"),
        "surface": surface,
        **rigs,
        "held": held,
        "material": _material(told, reader, len(mesh.tets)),
        "entries": entries.astype(np.int64),
        "lower": lower,
        "upper": upper,
        "condensed": condensed,
        "skin": reader.floats("skin", (len(entries), len(entries)), single=False).copy(),
        "cubature": _cubature(told, reader, len(mesh.tets), len(condensed["mass"])),
        "motions": read_motions(told.listed("motions"), reader),
    }
    told.finish()
    reader.finish()
    return fields


def _below(what: str, indices: NDArray, count: int) -> NDArray:
    if indices.size and not (indices.min() >= 0 and indices.max() < count):
        raise FormatError(f'array "{what}" has an index that is out of range')
    return indices.astype(np.int64)


def _material(told: HeaderReader, reader: TensorReader, count: int) -> Material:
    table = HeaderReader(told.table("material"), "its material")
    kind = table.text("kind")
    constants: dict[str, Any] = {}
    for name in CONSTANTS:
        number = table.number_or_none(name)
        constants[name] = (
            reader.floats(f"material.{name}", (count,), single=False) if number is None else number
        )
    table.finish()
    return Material(kind, **constants)


def _condensed(reader: TensorReader, k: int) -> dict[str, Any]:
    corrections = reader.floats("condensed.corrections", (None, 3, None)).astype(float)
    size = corrections.shape[2]
    if size < k:
        raise FormatError("has fewer coordinates than free parameters")
    return {
        "corrections": corrections,
        "mass": reader.floats("condensed.mass", (size, size), single=False).copy(),
        "stiffness": reader.floats("condensed.stiffness", (size, size), single=False).copy(),
        "n_modes": size - k,
    }


def _cubature(told: HeaderReader, reader: TensorReader, count: int, size: int) -> dict[str, Any]:
    tets = _below("cubature.tets", reader.indices("cubature.tets", (None,)), count)
    weights = reader.floats("cubature.weights", tets.shape, single=False).copy()
    if weights.size and weights.min() < 0:
        raise FormatError("has a negative cubature weight")
    missed = reader.floats("cubature.missed", (size, size), single=False).copy()
    error = told.number_or_none("cubature_error")
    return {"tets": tets, "weights": weights, "missed": missed, "error": error or 0.0}
