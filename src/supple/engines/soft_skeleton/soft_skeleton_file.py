"""Files of soft skeletons: one safetensors file, and nothing that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.arrays import Ints
from supple.elastic.material import Material
from supple.engines.pose_space.model.model_file import damage_named, model_bytes, sealed, unsealed
from supple.engines.pose_space.model.model_tensors import motion_tensors, read_motions
from supple.engines.soft_skeleton.bones.body_points import MOST_FOLLOWED, PointTables, point_tables
from supple.engines.soft_skeleton.flesh.flesh_energy import FleshTables
from supple.errors import FormatError, SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.rig.protocol import Rig
from supple.rig.stored.packed_arrays import narrowed, rounded
from supple.rig.stored.rigs import check_same_rig, restored_rigs, stored_rigs
from supple.tensors import HeaderReader, TensorReader

Arrays = dict[str, NDArray]
CONSTANTS = ("young", "poisson", "density")
SIZES = ("tets", "tet_vertices")
#: More bones than any character has.
MOST_BONES = 4096


def stored_rows(matrix: sp.csr_array) -> sp.csr_array:
    """Return a sparse matrix as a file gives it back: sorted, and rounded to float32."""
    found = sp.csr_array(matrix)
    found.sum_duplicates()
    found.eliminate_zeros()
    return sp.csr_array(
        (rounded(found.data).astype(float), found.indices, found.indptr), found.shape
    )


def packed_soft_skeleton(model: Any) -> bytes:
    """Return the bytes of a `SoftSkeletonModel`'s file."""
    rigs, arrays = stored_rigs({"rig": model.rig})
    motions, tensors = motion_tensors(model.motions)
    tensors |= {f"rigs.{name}": array for name, array in arrays.items()}
    flesh = model.flesh
    tensors |= {
        "surface.vertices": rounded(model.surface.vertices),
        "surface.triangles": narrowed(model.surface.triangles),
        "parents": narrowed(model.parents + 1),
        "joints": model.joints,
        "flesh.volumes": flesh.volumes,
        "flesh.constants": flesh.constants,
        "flesh.starts": narrowed(flesh.starts),
        "flesh.columns": narrowed(flesh.columns),
        "flesh.strains": flesh.strains,
        "flesh.gradients": flesh.gradients,
        "stiffness": model.stiffness,
        "masses": model.masses,
        "areas": model.areas,
        "thickness": model.thickness,
        "normals": model.normals,
        "inertias": model.inertias,
        "handles": narrowed(model.handles),
        **_point_tensors("points", model.points),
        **_point_tensors("skin", model.skin),
        **_row_tensors("spread", model.spread),
    }
    for axis, each in zip("xyz", model.motion, strict=True):
        tensors |= _row_tensors(f"motion.{axis}", each)
    header = {
        "name": model.name,
        "rigs": rigs,
        "motions": motions,
        "bones": list(model.bones),
        "material": {
            "kind": model.material.kind,
            **{name: float(getattr(model.material, name)) for name in CONSTANTS},
        },
        "error": model.error,
        "sizes": {name: int(model.sizes[name]) for name in SIZES},
    }
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    return sealed(header, contiguous, model.engine)


def _point_tensors(name: str, tables: PointTables) -> Arrays:
    return {
        f"{name}.rest": tables.rest,
        f"{name}.bone_starts": narrowed(tables.bone_starts),
        f"{name}.bones": narrowed(tables.bones),
        f"{name}.weights": tables.weights,
        f"{name}.flesh_starts": narrowed(tables.flesh_starts),
        f"{name}.columns": narrowed(tables.columns),
        f"{name}.shapes": rounded(tables.shapes),
    }


def _row_tensors(name: str, rows: sp.csr_array) -> Arrays:
    return {
        f"{name}.starts": narrowed(rows.indptr),
        f"{name}.columns": narrowed(rows.indices),
        f"{name}.values": rounded(rows.data),
    }


def read_soft_skeleton(path: Path, engine: str, rig: Rig | None) -> dict[str, Any]:
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


def _fields(header: dict[str, Any], tensors: Arrays, rig: Rig | None) -> dict[str, Any]:
    for name, array in tensors.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FormatError(f'array "{name}" has a value that is no finite number')
    reader, told = TensorReader(tensors), HeaderReader(header, "its header")
    rigs = restored_rigs(told.table("rigs"), reader.under("rigs"), rig)
    if set(rigs) != {"rig"} or not isinstance(rigs["rig"], Rig):
        raise FormatError("has no rig of the surface")
    own = rigs["rig"]
    if rig is not None:
        check_same_rig(rig, own.parameters, own.n_vertices)
    n = own.n_vertices
    surface = SurfaceMesh(
        reader.floats("surface.vertices", (n, 3)), reader.indices("surface.triangles", (None, 3))
    )
    parents, bones = _bones(told, reader)
    count = len(parents)
    stiffness = reader.floats("stiffness", (None, None), single=False).copy()
    m = len(stiffness)
    if stiffness.shape != (m, m) or not m:
        raise FormatError("has a stiffness that is not square")
    material = _material(told)
    masses = _positive(reader, "masses", None)
    points = _points(reader, "points", len(masses), parents, m)
    normals = reader.floats("normals", (None, 3), single=False).copy()
    p = len(normals)
    fields = {
        "name": told.text("name"),
        "surface": surface,
        "rig": own,
        "bones": bones,
        "parents": parents,
        "joints": reader.floats("joints", (count, 3), single=False).copy(),
        "material": material,
        "flesh": _flesh(reader, material, m),
        "stiffness": stiffness,
        "points": points,
        "masses": masses,
        "skin": _points(reader, "skin", n, parents, m),
        "areas": _positive(reader, "areas", n),
        "thickness": _positive(reader, "thickness", n),
        "spread": _rows(reader, "spread", (n, p)),
        "normals": normals,
        "motion": tuple(_rows(reader, f"motion.{axis}", (p, p)) for axis in "xyz"),
        "inertias": _positive(reader, "inertias", count),
        "handles": _below("handles", reader.indices("handles", (None,)), n),
        "error": told.number_or_none("error") or 0.0,
        "sizes": _sizes(told),
        "motions": read_motions(told.listed("motions"), reader),
    }
    told.finish()
    reader.finish()
    return fields


def _bones(told: HeaderReader, reader: TensorReader) -> tuple[Ints, tuple[str, ...]]:
    parents = reader.indices("parents", (None,)).astype(np.int64) - 1
    names = tuple(told.texts("bones"))
    if not 0 < len(parents) <= MOST_BONES or len(names) != len(parents):
        raise FormatError(f"needs 1 to {MOST_BONES:,} bones with a name and a parent each")
    if parents[0] != -1 or (parents[1:] < 0).any() or (parents >= np.arange(len(parents))).any():
        raise FormatError("has a bone that does not come after its parent")
    return parents, names


def _sizes(told: HeaderReader) -> dict[str, int]:
    table = HeaderReader(told.table("sizes"), "its sizes")
    found = {name: table.whole(name) for name in SIZES}
    table.finish()
    return found


def _material(told: HeaderReader) -> Material:
    table = HeaderReader(told.table("material"), "its material")
    kind = table.text("kind")
    constants: dict[str, Any] = {name: table.number_or_none(name) for name in CONSTANTS}
    if None in constants.values():
        raise FormatError("has a material without its constants")
    table.finish()
    return Material(kind, **constants)


def _flesh(reader: TensorReader, material: Material, m: int) -> FleshTables:
    volumes = reader.floats("flesh.volumes", (None,), single=False).copy()
    kinds = material.element_parameters(1).shape[1]
    constants = reader.floats("flesh.constants", (len(volumes), kinds), single=False).copy()
    columns = reader.indices("flesh.columns", (None,)).astype(np.int64)
    starts = _starts(reader, "flesh.starts", len(volumes), len(columns))
    strains = reader.floats("flesh.strains", (9, None), single=False).copy()
    gradients = reader.floats("flesh.gradients", (3, None), single=False).copy()
    nodal = gradients.shape[1] > 0
    if (strains.shape[1], gradients.shape[1]) != (
        (0, len(columns)) if nodal else (len(columns), 0)
    ):
        raise FormatError("has strains of other coordinates than its flesh")
    _below("flesh.columns", columns, m - 2 if nodal else m)
    _check_ascending("flesh.columns", starts, columns)
    return FleshTables(volumes, constants, starts, columns, strains, gradients)


def _points(reader: TensorReader, name: str, n: int, parents: Ints, m: int) -> PointTables:
    rest = reader.floats(f"{name}.rest", (n, 3), single=False).copy()
    bones = reader.indices(f"{name}.bones", (None,))
    weights = _positive(reader, f"{name}.weights", len(bones))
    bone_starts = _starts(reader, f"{name}.bone_starts", n, len(bones))
    columns = reader.indices(f"{name}.columns", (None,))
    shapes = reader.floats(f"{name}.shapes", (len(columns), 3)).astype(float)
    flesh_starts = _starts(reader, f"{name}.flesh_starts", n, len(columns))
    _below(f"{name}.bones", bones, len(parents))
    _below(f"{name}.columns", columns, m)
    _check_ascending(f"{name}.bones", bone_starts, bones)
    _check_ascending(f"{name}.columns", flesh_starts, columns)
    if np.diff(bone_starts).max(initial=0) > MOST_FOLLOWED:
        raise FormatError(f"has a point that follows more than {MOST_FOLLOWED} bones")
    follow = sp.csr_array((weights, bones, bone_starts), (n, len(parents)))
    moved = [sp.csr_array((shapes[:, i], columns, flesh_starts), (n, m)) for i in range(3)]
    return point_tables(parents, rest, follow, moved)


def _rows(reader: TensorReader, name: str, shape: tuple[int, int]) -> sp.csr_array:
    columns = reader.indices(f"{name}.columns", (None,))
    values = reader.floats(f"{name}.values", (len(columns),)).astype(float)
    starts = _starts(reader, f"{name}.starts", shape[0], len(columns))
    _below(f"{name}.columns", columns, shape[1])
    _check_ascending(f"{name}.columns", starts, columns)
    return sp.csr_array((values, columns, starts), shape)


def _starts(reader: TensorReader, name: str, rows: int, total: int) -> Ints:
    found = reader.indices(name, (rows + 1,)).astype(np.int64)
    if found[0] != 0 or found[-1] != total or (np.diff(found) < 0).any():
        raise FormatError(f'array "{name}" does not count the rows of what it is for')
    return found


def _below(what: str, indices: NDArray, count: int) -> Ints:
    if indices.size and not (indices.min() >= 0 and indices.max() < count):
        raise FormatError(f'array "{what}" has an index that is out of range')
    return indices.astype(np.int64)


def _check_ascending(what: str, starts: Ints, columns: NDArray) -> None:
    within = np.ones(len(columns), bool)
    within[starts[:-1][starts[:-1] < len(columns)]] = False
    if (np.diff(columns.astype(np.int64), prepend=-1)[within] <= 0).any():
        raise FormatError(f'array "{what}" has a row that does not ascend')


def _positive(reader: TensorReader, name: str, count: int | None) -> NDArray:
    found = reader.floats(name, (count,), single=False).copy()
    if found.size and found.min() < 0:
        raise FormatError(f'array "{name}" has a negative value')
    return found
