"""Fields of a model from the results of a build's stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.checks import numbers
from supple.elastic.material import Material
from supple.engines.pose_space.model.field_checks import embedding_table
from supple.errors import SuppleError
from supple.mesh.tets import TetMesh
from supple.reduction.regions.region import Region
from supple.rig.stored.rigs import restored_rigs, stored_rigs

Ints = NDArray[np.int32]


def _needed_vertices(region: Region, *lists: ArrayLike) -> Ints:
    """Return the region's vertices that are in one of the lists, ascending.

    Bases are stored there only: at what carries the skin, and at cubature points.
    """
    wanted = np.concatenate([np.asarray(each, np.int64).ravel() for each in lists])
    return np.intersect1d(region.vertices, wanted).astype(np.int32)


def packed_products(products: ArrayLike) -> Floats:
    """Return upper triangles, row by row, (…, r(r+1)/2), of symmetric matrices (…, r, r)."""
    given = numbers("mass products", products)
    if given.ndim < 2 or given.shape[-1] != given.shape[-2]:
        raise SuppleError(f"mass products of shape {given.shape}; expected (pairs, r, r)")
    return given[..., *np.triu_indices(given.shape[-1])]


def built_fields(
    *,
    rig: Any,
    tet_rig: Any,
    embedding: Any,
    material: Material | Sequence[Material],
    pose_weights: Any,
    regions: tuple[Region, ...],
    bases: Sequence[Sequence[ArrayLike]],
    rotations: ArrayLike | None,
    mass_products: ArrayLike,
    mesh: TetMesh,
    elastic_tets: ArrayLike,
    inertial_vertices: ArrayLike,
    **others: Any,
) -> dict[str, Any]:
    """Return the fields of a model; see `PoseSpaceModel.make`."""
    fields = others | built_flesh(
        rig=rig,
        tet_rig=tet_rig,
        embedding=embedding,
        material=material,
        pose_weights=pose_weights,
        mesh=mesh,
    )
    carrying = fields["embedding_vertices"][fields["embedding_weights"] != 0]
    corners = mesh.tets[np.asarray(elastic_tets, np.int64)]
    stored = tuple(_needed_vertices(r, carrying, corners, inertial_vertices) for r in regions)
    fields |= {
        "regions": regions,
        "basis_vertices": stored,
        "bases": _stored_bases(bases, regions, stored),
        "rotations": None,
        "mass_products": packed_products(mass_products),
        "elastic_tets": elastic_tets,
        "inertial_vertices": inertial_vertices,
    }
    if rotations is not None:
        turns = numbers("vertex rotations", rotations)
        fields["rotations"] = turns[:, np.unique(np.concatenate(stored))]
    return fields


def built_flesh(
    *,
    rig: Any,
    tet_rig: Any,
    embedding: Any,
    material: Material | Sequence[Material],
    pose_weights: Any,
    mesh: TetMesh,
    **others: Any,
) -> dict[str, Any]:
    """Return the fields of a model's flesh; rigs are brought to the precision of the model file."""
    header, arrays = stored_rigs({"rig": rig, "tet_rig": tet_rig, "pose_weights": pose_weights})
    columns, weights = embedding_table(embedding)
    return {
        **others,
        **restored_rigs(header, arrays, rig),
        **_material_fields(material, pose_weights.n_poses, len(mesh.tets)),
        "mesh": mesh,
        "embedding_vertices": columns,
        "embedding_weights": weights,
    }


def _stored_bases(
    bases: Sequence[Sequence[ArrayLike]], regions: tuple[Region, ...], stored: tuple[Ints, ...]
) -> tuple[Floats, ...]:
    """Return for each region (m, k, 3, r) the poses' bases at the vertices that are stored."""
    for pose, parts in enumerate(bases):
        if len(parts) != len(regions):
            raise SuppleError(f"pose {pose} has {len(parts)} bases for {len(regions)} regions")
    found = []
    for at, (region, vertices) in enumerate(zip(regions, stored, strict=True)):
        rows = np.searchsorted(region.vertices, vertices)
        found.append(np.stack([np.asarray(parts[at])[rows] for parts in bases]))
    return tuple(found)


def _material_fields(
    material: Material | Sequence[Material], count: int, n_tets: int
) -> dict[str, Any]:
    each = [material] if isinstance(material, Material) else list(material)
    first = each[0]
    if len(each) not in (1, count):
        raise SuppleError(f"{len(each)} materials for {count} poses; give one, or one for each")
    for other in each:
        same = other.kind == first.kind and np.array_equal(other.density, first.density)
        if not same:
            raise SuppleError("materials of the poses differ in kind or density; they must not")
    return {
        "material_kind": first.kind,
        "young": _of_poses("young", [other.young for other in each], n_tets),
        "poisson": _of_poses("poisson", [other.poisson for other in each], n_tets),
        "density": first.density,
    }


def _of_poses(what: str, values: list[ArrayLike], n_tets: int) -> ArrayLike:
    """Return a constant once if it is the same at all poses, or else a row of tets for each."""
    if all(np.array_equal(value, values[0]) for value in values):
        return values[0]
    try:
        return np.stack([np.broadcast_to(value, (n_tets,)) for value in values])
    except ValueError:
        raise SuppleError(f"{what}: give one value, or one for each of {n_tets} tets") from None
