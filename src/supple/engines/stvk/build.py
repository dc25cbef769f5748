"""Parts of building a Saint Venant–Kirchhoff model: its basis, masses and surface."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.checks import checked_array, numbers, shown
from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.material import Material
from supple.engines.stvk.bases import derivative_basis, fixed_vertices, free_vertices, mode_basis
from supple.engines.stvk.measured_basis import measured_basis
from supple.engines.stvk.sketch import pulled_basis
from supple.engines.stvk.strain_points import MaterialGroups, StrainPoints, volume_matrix
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.mesh.embedding import embed
from supple.mesh.hex_embedding import embed_hexes
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.progress import PartDone, unreported

BASES = ("derivatives", "modes", "sketch")
#: Mass matrices: diagonal, or of the shape functions.
MASSES = ("lumped", "consistent")
#: Relative squared size below which a column depends on the others.
_DEPENDENT = 1e-12


class BasisRequest(NamedTuple):
    """Kind of a basis, number of its vectors, and number of linear modes, or None."""

    kind: str = "derivatives"
    modes: int = 20
    linear: int | None = None


def elastic_basis(
    mesh: TetMesh | HexMesh,
    material: Material,
    request: BasisRequest,
    fixed: ArrayLike,
    order: int,
    progress: PartDone | None = None,
) -> Floats:
    """Return a mass-orthonormal basis (n, 3, modes) of a body held at `fixed` vertices."""
    kind, modes, linear = request
    if not (isinstance(kind, str) and kind in BASES):
        raise SuppleError(f"no basis {shown(kind, 40)}; there are {', '.join(BASES)}")
    if linear is not None and kind != "derivatives":
        raise SuppleError(f'linear modes are for the basis "derivatives", not "{kind}"')
    body: ElasticBody | HexBody
    if isinstance(mesh, TetMesh):
        body = ElasticBody(mesh, material)
    else:
        body = HexBody(mesh, material, order=order)
    report = progress or unreported
    report(0.0)
    if kind == "modes":
        shapes = mode_basis(body, modes, fixed=fixed)
    elif kind == "sketch":
        shapes = pulled_basis(body, modes, fixed=fixed, progress=report)
    elif linear is None:
        shapes = measured_basis(body, material, order, modes, fixed=fixed, progress=report)
    else:
        shapes = derivative_basis(body, modes, fixed=fixed, linear=linear, progress=report)
    shapes[np.setdiff1d(np.arange(len(shapes)), free_vertices(body, fixed))] = 0.0  # exactly
    return shapes


def held_count(fixed: ArrayLike, points: StrainPoints, basis: Floats) -> int:
    """Return the number of fixed vertices with mass; raise an error if the basis moves one."""
    held = fixed_vertices(fixed, points.n_vertices)
    moving = held[basis[held].any(axis=(1, 2))]
    if len(moving):
        raise SuppleError(
            f"the basis moves {len(moving)} of the fixed vertices (one is vertex {moving[0]}); "
            "make it with the same fixed vertices, or do not fix these"
        )
    return int((points.vertex_volumes()[held] > 0).sum())


def checked_basis(
    basis: ArrayLike, points: StrainPoints, groups: MaterialGroups, most: int
) -> Floats:
    """Return a basis as (n, 3, r), contiguous: finite, of independent columns, not too many."""
    columns = numbers("the basis", basis)
    n = points.n_vertices
    if columns.ndim == 2 and columns.shape[0] == 3 * n:
        columns = columns.reshape(n, 3, -1)
    if columns.ndim != 3 or columns.shape[:2] != (n, 3) or columns.shape[2] == 0:
        raise SuppleError(f"a basis of shape {columns.shape}; expected ({n}, 3, r) or ({3 * n}, r)")
    r = columns.shape[2]
    if r > min(most, 3 * n):
        raise SuppleError(f"a basis of {r} columns is too large; use at most {min(most, 3 * n)}")
    shapes = checked_array("the basis", columns, columns.shape).copy()
    density = groups.density[groups.of_element[points.element]]
    lumped = (points.shares * density[:, None]).ravel()
    masses = np.bincount(points.corners.ravel(), lumped, minlength=n)
    _check_independent(shapes, np.asarray(masses, np.float64))
    return shapes


def _check_independent(shapes: Floats, masses: Floats) -> None:
    r = shapes.shape[2]
    largest = np.abs(shapes).max(axis=(0, 1))
    if not (largest > 0).all():
        raise SuppleError(f"column {int(largest.argmin())} of the basis is zero; leave it out")
    flat = (shapes / largest * np.sqrt(masses)[:, None, None]).reshape(-1, r)
    with single_threaded():
        gram = flat.T @ flat
        sizes = np.sqrt(np.diag(gram))
        if not (sizes > 0).all():
            raise SuppleError(
                f"column {int(sizes.argmin())} of the basis moves no mass; leave it out"
            )
        parts = np.linalg.eigvalsh(gram / np.outer(sizes, sizes))
    rank = int((parts > _DEPENDENT * parts[-1]).sum())
    if rank < r:
        raise SuppleError(
            f"the basis has {r} columns but only {rank} independent ones; orthonormalise it "
            "(supple.reduction.mass_pca) and keep the independent ones"
        )


def mass_parts(
    points: StrainPoints, group: NDArray[np.int64], n_groups: int, basis: Floats, mass: str
) -> tuple[Floats, Floats]:
    """Return UᵀMU (g, r, r) and UᵀM along each axis (g, 3, r) of g groups at 1 kg/m³."""
    n, r = len(basis), basis.shape[2]
    found, weight = np.empty((n_groups, r, r)), np.empty((n_groups, 3, r))
    for number in range(n_groups):
        volumes = volume_matrix(points.taken(np.flatnonzero(group == number)), mass)
        weighed = (volumes @ basis.reshape(n, -1)).reshape(basis.shape)
        with single_threaded():  # the same bits for any number of cores
            product = weighed.reshape(-1, r).T @ basis.reshape(-1, r)
        found[number] = (product + product.T) / 2
        weight[number] = weighed.sum(axis=0)
    return found, weight


def checked_mass_kind(mass: str) -> str:
    """Return "lumped" or "consistent"; raise an error for anything else."""
    if not (isinstance(mass, str) and mass in MASSES):
        raise SuppleError(f"no mass {shown(mass, 40)}; there are {', '.join(MASSES)}")
    return mass


def surface_of(
    mesh: TetMesh | HexMesh, surface: SurfaceMesh | None, basis: Floats
) -> tuple[SurfaceMesh, Floats]:
    """Return the surface, by default the mesh's boundary, and its basis (n̄, 3, r)."""
    if surface is None:
        boundary, vertices = mesh.surface()
        return boundary, np.ascontiguousarray(basis[vertices])
    if not isinstance(surface, SurfaceMesh):
        raise SuppleError(f"the surface must be a SurfaceMesh, not {shown(surface)}")
    if isinstance(mesh, TetMesh):
        embedding = embed(surface.vertices, mesh)
    else:
        embedding = embed_hexes(surface.vertices, mesh)
    surface_basis: Any = embedding @ basis.reshape(len(basis), -1)
    return surface, np.ascontiguousarray(surface_basis.reshape(-1, 3, basis.shape[2]))
