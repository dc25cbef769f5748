"""Fields of a model as a header and named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.engines.pose_space.model.basis_rounding import packed_basis, unpacked_basis
from supple.engines.pose_space.model.fields import ModelFields
from supple.engines.pose_space.model.flesh_fields import FleshFields
from supple.errors import FormatError, SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.reduction.regions.region import Region
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import TrackSpace
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig
from supple.rig.stored.packed_arrays import (
    UnpackingBudget,
    narrowed,
    packed_rows,
    rounded,
    unpacked_rows,
)
from supple.rig.stored.rigs import restored_rigs, stored_rigs
from supple.rig.stored.track_parts import (
    restored_space,
    restored_tracks,
    stored_space,
    stored_tracks,
)
from supple.tensors import HeaderReader, TensorReader

Arrays = dict[str, NDArray]
Header = dict[str, Any]

STIFFNESS = "cubature.stiffness_corrections"
CORRECTIONS = "cubature.inertial_corrections"
PAINTED = ("young", "poisson", "density")
#: Rigs and poses share parts, so they are stored together.
ROOTS = ("rig", "tet_rig", "pose_weights")


def tensors_of(model: ModelFields) -> tuple[Header, Arrays]:
    """Return the header and the arrays that a file holds of a model."""
    header, tensors = flesh_tensors(model)
    regions, region_arrays = _region_tensors(model)
    products = packed_rows(model.mass_products.T)
    tensors |= region_arrays
    tensors |= {
        "root_eigenvalues": model.root_eigenvalues,
        "mass_products.mask": products["mask"],
        "mass_products.rows": products["rows"],
        "cubature.elastic_tets": narrowed(model.elastic_tets),
        "cubature.elastic_weights": model.elastic_weights,
        "cubature.inertial_vertices": narrowed(model.inertial_vertices),
        "cubature.inertial_weights": model.inertial_weights,
        "parents": narrowed(model.parents + 1),
    }
    if model.rotations is not None:
        tensors["rotations"] = model.rotations[1:]
    if model.stiffness_corrections is not None:
        rows = packed_rows(model.stiffness_corrections.T)
        tensors |= {f"{STIFFNESS}.{name}": array for name, array in rows.items()}
        tensors[f"{STIFFNESS}.ends"] = narrowed(model.correction_ends)
    if model.inertial_corrections is not None:
        tensors |= _correction_tensors(model.inertial_corrections)
    tensors |= {f"extras.{name}": array for name, array in model.extras.items()}
    header |= {
        "interpolation": model.interpolation,
        "basis_bits": model.basis_bits,
        "regions": regions,
        "seed": model.seed,
        "report": dict(model.report),
    }
    return header, {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def flesh_tensors(model: FleshFields) -> tuple[Header, Arrays]:
    """Return the header and the arrays of a model's flesh alone, without a reduction."""
    rigs, rig_arrays = stored_rigs({name: getattr(model, name) for name in ROOTS})
    motions, motion_arrays = motion_tensors(model.motions)
    tensors = {f"rigs.{name}": array for name, array in rig_arrays.items()}
    tensors |= motion_arrays | _mesh_tensors(model) | {"fixed": narrowed(model.fixed)}
    constants = {name: getattr(model, name) for name in PAINTED}
    tensors |= {f"material.{name}": value for name, value in constants.items() if np.ndim(value)}
    numbers = {name: None if np.ndim(value) else value for name, value in constants.items()}
    header = {
        "name": model.name,
        "material": {"kind": model.material_kind, **numbers},
        "rigs": rigs,
        "motions": motions,
    }
    return header, {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def _mesh_tensors(model: FleshFields) -> Arrays:
    return {
        "surface.vertices": rounded(model.surface.vertices),
        "surface.triangles": narrowed(model.surface.triangles),
        "mesh.vertices": rounded(model.mesh.vertices),
        "mesh.tets": narrowed(model.mesh.tets),
        "embedding.vertices": narrowed(model.embedding_vertices),
        "embedding.weights": model.embedding_weights[:, 1:],
    }


def _region_tensors(model: ModelFields) -> tuple[list[str], Arrays]:
    arrays: Arrays = {}
    for k, region in enumerate(model.regions):
        arrays |= {
            f"regions.{k}.vertices": narrowed(region.vertices),
            f"regions.{k}.weights": rounded(region.weights),
            f"regions.{k}.basis_vertices": narrowed(model.basis_vertices[k]),
        }
        if model.basis_bits == 16:
            steps, exponents = packed_basis(model.bases[k])
            arrays |= {f"regions.{k}.basis": steps, f"regions.{k}.exponents": exponents}
        else:
            arrays[f"regions.{k}.basis"] = model.bases[k]
    return [region.name for region in model.regions], arrays


def motion_tensors(motions: Mapping[str, Motion]) -> tuple[list[Header], Arrays]:
    """Return entries of a header, and arrays, of motions by name."""
    listed: list[Header] = []
    arrays: Arrays = {}
    spaces: dict[int, int] = {}
    for k, (key, motion) in enumerate(motions.items()):
        entry: Header = {"key": key, "name": motion.name, "cuts": list(motion.cuts)}
        if motion.tracks is not None:
            entry["tracks"], own = stored_tracks(motion.tracks, f"motions.{k}.tracks")
            arrays |= own
            space = motion.tracks.space
            entry["moves"] = spaces.setdefault(id(space), k)
            if entry["moves"] == k:
                entry["space"], own = stored_space(space, f"motions.{k}.space")
                arrays |= own
        listed.append(entry)
        arrays |= {
            f"motions.{k}.times": motion.times,
            f"motions.{k}.poses": rounded(motion.poses),
            f"motions.{k}.roots": motion.roots[:, :3],
        }
    return listed, arrays


def fields_of(header: Header, tensors: Arrays, rig: Rig | None) -> dict[str, Any]:
    """Return the fields of the model that `tensors_of` wrote, shapes and types checked.

    Values are checked where the model is made of them, by `ModelFields`.
    """
    reader, told = TensorReader(tensors), HeaderReader(header, "its header")
    fields = _read_flesh(told, reader, rig) | {
        "interpolation": told.text("interpolation"),
        "basis_bits": told.whole("basis_bits"),
        "seed": told.whole("seed"),
        "report": told.table("report"),
    }
    m = fields["pose_weights"].n_poses
    fields |= _read_regions(told.texts("regions"), reader, m, fields["basis_bits"])
    r = sum(basis.shape[3] for basis in fields["bases"])
    fields |= {
        "root_eigenvalues": reader.floats("root_eigenvalues", (r,), single=False),
        "mass_products": _read_products(reader, m, r),
        "rotations": _read_rotations(reader, m),
        "inertial_corrections": None,
        "parents": reader.indices("parents", (m,)) - 1,
        "extras": reader.under("extras"),
    }
    for kind, points in (("elastic", "tets"), ("inertial", "vertices")):
        chosen = reader.indices(f"cubature.{kind}_{points}", (None,))
        weights = reader.floats(f"cubature.{kind}_weights", (m, len(chosen)))
        fields |= {f"{kind}_{points}": chosen, f"{kind}_weights": weights}
    if reader.has(f"{STIFFNESS}.rows"):
        fields |= _read_stiffness_corrections(reader, m, r)
    if reader.has(f"{CORRECTIONS}.rows"):
        fields["inertial_corrections"] = _read_corrections(reader, m, len(chosen), r)
    told.finish()
    reader.finish()
    return fields


def flesh_fields_of(header: Header, tensors: Arrays, rig: Rig | None) -> dict[str, Any]:
    """Return the fields of the flesh that `flesh_tensors` wrote, as `fields_of` does."""
    reader, told = TensorReader(tensors), HeaderReader(header, "its header")
    fields = _read_flesh(told, reader, rig)
    told.finish()
    reader.finish()
    return fields


def _read_flesh(told: HeaderReader, reader: TensorReader, rig: Rig | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": told.text("name")}
    fields |= restored_rigs(told.table("rigs"), reader.under("rigs"), rig)
    if sorted(set(fields) & set(ROOTS)) != sorted(ROOTS):
        raise FormatError("has no rig of the surface, rig of the tets, or poses")
    if not isinstance(fields["pose_weights"], PoseWeights):
        raise FormatError("what it calls its poses are none")
    fields |= _read_material(told, reader)
    fields |= _read_meshes(reader)
    fields["motions"] = read_motions(told.listed("motions"), reader)
    fields["fixed"] = reader.indices("fixed", (None,))
    return fields


def _read_material(told: HeaderReader, reader: TensorReader) -> dict[str, Any]:
    table = HeaderReader(told.table("material"), "its material")
    fields: dict[str, Any] = {"material_kind": table.text("kind")}
    for name in PAINTED:
        number = table.number_or_none(name)
        fields[name] = reader.floats(f"material.{name}", None) if number is None else number
    table.finish()
    return fields


def _read_meshes(reader: TensorReader) -> dict[str, Any]:
    surface = SurfaceMesh(
        reader.floats("surface.vertices", (None, 3)), reader.indices("surface.triangles", (None, 3))
    )
    mesh = TetMesh(
        reader.floats("mesh.vertices", (None, 3)), reader.indices("mesh.tets", (None, 4))
    )
    others = reader.floats("embedding.weights", (None, 3))
    first = 1 - others.sum(axis=1, dtype=np.float64, keepdims=True)
    return {
        "surface": surface,
        "mesh": mesh,
        "embedding_vertices": reader.indices("embedding.vertices", (None, 4)),
        "embedding_weights": np.hstack([first, others]),
    }


def _read_regions(names: list[str], reader: TensorReader, m: int, bits: int) -> dict[str, Any]:
    regions, stored, bases = [], [], []
    for k, name in enumerate(names):
        vertices = reader.indices(f"regions.{k}.vertices", (None,))
        weights = reader.floats(f"regions.{k}.weights", vertices.shape)
        regions.append(Region(name, vertices, weights))
        stored.append(reader.indices(f"regions.{k}.basis_vertices", (None,)))
        shape = (m, len(stored[-1]), 3, None)
        if bits == 16:
            steps = reader.shorts(f"regions.{k}.basis", shape)
            exponents = reader.shorts(f"regions.{k}.exponents", (m, steps.shape[3]))
            bases.append(unpacked_basis(f'basis of region "{name}"', steps, exponents))
        else:
            bases.append(reader.floats(f"regions.{k}.basis", shape))
    return {"regions": tuple(regions), "basis_vertices": tuple(stored), "bases": tuple(bases)}


def _read_rotations(reader: TensorReader, m: int) -> NDArray | None:
    if not reader.has("rotations"):
        return None
    turned = reader.floats("rotations", (m - 1, None, 4))
    neutral = np.zeros((1, *turned.shape[1:]), np.float32)
    neutral[..., 3] = 1
    return np.concatenate([neutral, turned])


def _read_products(reader: TensorReader, m: int, r: int) -> NDArray:
    shape = (r * (r + 1) // 2, m * (m + 1) // 2)
    rows = reader.floats("mass_products.rows", (None, shape[1]))
    mask = _read_mask(reader, "mass_products")
    return unpacked_rows("mass products", mask, rows, shape, UnpackingBudget(rows.nbytes)).T


def _correction_tensors(corrections: NDArray) -> Arrays:
    """Pack corrections: a row for each vertex and column, where the column's region reaches."""
    m, c, _, r = corrections.shape
    rows = packed_rows(corrections.transpose(1, 3, 0, 2).reshape(c * r, m * 3))
    return {f"{CORRECTIONS}.mask": rows["mask"], f"{CORRECTIONS}.rows": rows["rows"]}


def _read_stiffness_corrections(reader: TensorReader, m: int, r: int) -> dict[str, Any]:
    ends = reader.indices(f"{STIFFNESS}.ends", (None, 2))
    shape = (r * (r + 1) // 2, m + len(ends))
    rows = reader.floats(f"{STIFFNESS}.rows", (None, shape[1]))
    mask = _read_mask(reader, STIFFNESS)
    whole = unpacked_rows("stiffness corrections", mask, rows, shape, UnpackingBudget(rows.nbytes))
    return {"stiffness_corrections": whole.T, "correction_ends": ends.astype(np.int32)}


def _read_corrections(reader: TensorReader, m: int, c: int, r: int) -> NDArray:
    shape = (c * r, m * 3)
    rows = reader.floats(f"{CORRECTIONS}.rows", (None, shape[1]))
    mask = _read_mask(reader, CORRECTIONS)
    whole = unpacked_rows("inertial corrections", mask, rows, shape, UnpackingBudget(rows.nbytes))
    return whole.reshape(c, r, m, 3).transpose(2, 0, 3, 1)


def _read_mask(reader: TensorReader, name: str) -> NDArray:
    mask = reader.indices(f"{name}.mask", (None,))
    if mask.dtype != np.uint8:
        raise FormatError(f'array "{name}.mask" is not of bytes')
    return mask


def read_motions(listed: list[Any], reader: TensorReader) -> dict[str, Motion]:
    """Return the motions that `motion_tensors` wrote."""
    found: dict[str, Motion] = {}
    spaces: dict[int, TrackSpace] = {}
    for k, entry in enumerate(listed):
        told = HeaderReader(entry, f"its motion {k}")
        key, name, cuts = told.text("key"), told.text("name"), told.listed("cuts")
        tracks = None
        if "tracks" in entry:
            moves, kept = told.whole("moves"), told.listed("tracks")
            if moves == k:
                spaces[k] = restored_space(told.table("space"), reader, f"motions.{k}.space")
            if moves not in spaces:
                raise FormatError(f"its motion {k} moves what there is not")
            tracks = restored_tracks(kept, reader, f"motions.{k}.tracks", spaces[moves])
            try:
                tracks.sample(np.zeros(1))
            except (np.linalg.LinAlgError, IndexError, ValueError) as error:
                raise FormatError(f"tracks of its motion {k} move nothing that can be") from error
        told.finish()
        times = reader.floats(f"motions.{k}.times", (None,), single=False)
        poses = reader.floats(f"motions.{k}.poses", (len(times), None))
        upper = reader.floats(f"motions.{k}.roots", (len(times), 3, 4), single=False)
        roots = np.zeros((len(times), 4, 4))
        roots[:, :3], roots[:, 3, 3] = upper, 1
        if key in found:
            raise SuppleError(f'two motions are called "{key[:40]}"')
        found[key] = Motion(times, poses, roots, name, cuts, tracks)
    return found
