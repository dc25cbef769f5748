"""Reduced models that VegaFEM made, to be stepped here; and ours, to be stepped there.

VegaFEM's simulator of reduced bodies reads a ``.cub`` of forces, a modal matrix and the surface
that it moves. It takes the reduced mass for the identity, as its modes are mass-normalised, and
multiplies forces by the square of a ``frequencyScaling``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.checks import checked_array, checked_number, checked_path, numbers, shown
from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.material import Material
from supple.engines.stvk.coefficients import MOST_MODES
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.model import StvkModel
from supple.errors import FormatError, SuppleError
from supple.formats.meshes.read_mesh import read_surface
from supple.formats.meshes.veg import ALL, VegFile, read_any_veg
from supple.formats.vega.reduced_files import (
    CubicForce,
    read_cub,
    read_modal_matrix,
    write_cub,
    write_modal_matrix,
)
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.saving import write_whole

#: How far a mass may be from the identity that VegaFEM takes it for.
_NORMAL = 1e-6


def read_vega(
    cub: str | Path | CubicForce,
    modes: str | Path | ArrayLike | None = None,
    mesh: str | Path | SurfaceMesh | None = None,
    *,
    mass: ArrayLike | None = None,
    frequency_scaling: float = 1.0,
) -> CubicModel:
    """Read a reduced body of VegaFEM's, for `StvkSimulator`.

    Parameters
    ----------
    cub
        Its ``.cub`` file, or what `read_cub` made of one.
    modes
        Its modal matrix (``.U``, ``.URendering.float``), or (n, 3, r): how the vertices of `mesh`
        move. Without both the model has no surface; reduced forces step it all the same.
    mesh
        What the modes move: a surface (``.obj`` and others), or a ``.veg``, whose boundary is
        seen and whose densities give gravity something to pull at.
    mass
        (r, r) UᵀMU; by default the identity, as VegaFEM has it.
    frequency_scaling
        As in VegaFEM's configurations: frequencies are multiplied by it, forces by its square.

    Raises
    ------
    FormatError
        When a file is damaged, or files do not belong together.

    Examples
    --------
    >>> model = read_vega(CubicForce([[4.0]], [[0.0]], [[1.0]]), frequency_scaling=0.5)
    >>> model, model.force([2.0])
    (CubicModel(1 modes, no surface), array([4.]))
    """
    name, force = _named_force(cub)
    scaling = checked_number("frequency_scaling", frequency_scaling)
    if not 0 < scaling <= 1e6:
        raise SuppleError(f"frequency_scaling must be a positive number, not {frequency_scaling}")
    if (modes is None) != (mesh is None):
        raise FormatError(
            f"{name}: modes and mesh must be given together, as the modes move the mesh; "
            "or neither, for a model without surface"
        )
    tangent = _tangent(name, force) * scaling**2
    if modes is None or mesh is None:
        return CubicModel(tangent, mass)
    seen = _Seen.of(mesh)
    basis = _shapes(name, modes, seen.n_vertices, force.r)
    masses = seen.masses
    return CubicModel(
        tangent,
        mass,
        surface=seen.surface,
        surface_basis=basis[seen.vertices],
        axis_weights=None if masses is None else np.einsum("v,vkr->kr", masses, basis),
    )


def _named_force(cub: str | Path | CubicForce) -> tuple[str, CubicForce]:
    """Return a force, and the word for it in errors."""
    if isinstance(cub, CubicForce):
        return "the force", cub
    path = checked_path("a .cub file or CubicForce", cub)
    return path.name, read_cub(path)


def _tangent(name: str, force: CubicForce) -> Floats:
    if force.r > MOST_MODES:  # whose tangent would take long, and much room
        raise FormatError(
            f"{name}: has {force.r} coordinates, and at most {MOST_MODES} can be stepped; "
            "make it of fewer modes"
        )
    try:
        return force.tangent_coefficients()
    except SuppleError as error:
        raise FormatError(f"{name}: {error}") from error


class _Seen(NamedTuple):
    """The surface of a mesh, which of its vertices that has, and what each weighs if known."""

    surface: SurfaceMesh
    vertices: NDArray[np.int64]
    n_vertices: int
    masses: Floats | None

    @classmethod
    def of(cls, mesh: str | Path | SurfaceMesh) -> _Seen:
        if not isinstance(mesh, SurfaceMesh):
            path = checked_path("a mesh that is no SurfaceMesh", mesh)
            if path.suffix.lower() == ".veg":
                return cls._of_body(_veg_body(path))
            mesh = read_surface(path)
        count = len(mesh.vertices)
        return cls(mesh, np.arange(count), count, None)

    @classmethod
    def _of_body(cls, body: ElasticBody | HexBody) -> _Seen:
        surface, vertices = body.mesh.surface()
        return cls(surface, vertices, len(body.mesh.vertices), body.vertex_masses())


def _veg_body(path: Path) -> ElasticBody | HexBody:
    veg = read_any_veg(path)
    material = veg_material(veg)
    if isinstance(veg.mesh, TetMesh):
        return ElasticBody(veg.mesh, material)
    return HexBody(veg.mesh, material)


def _shapes(name: str, modes: str | Path | ArrayLike, n_vertices: int, r: int) -> Floats:
    """Return modes (n, 3, r), if they belong to the mesh and to the force."""
    told = "modes"
    if isinstance(modes, str | Path):
        told, given = Path(modes).name, np.asarray(read_modal_matrix(modes), np.float64)
    else:
        given = numbers("modes", modes)
    if given.ndim == 2 and given.shape[0] == 3 * n_vertices:
        given = given.reshape(n_vertices, 3, -1)
    if given.shape != (n_vertices, 3, r):
        raise FormatError(
            f"{told}: has shape {given.shape}, but the mesh has {n_vertices} vertices and {name} "
            f"{r} coordinates; they do not belong together"
        )
    return checked_array("modes", given, given.shape)


def write_vega(path: str | Path, model: StvkModel | CubicModel) -> list[Path]:
    """Write a model for VegaFEM's simulator of reduced bodies; each file is whole or not there.

    Beside ``A.cub``, the modes of a mesh go to ``A.U``; those of the surface, if there is one, to
    ``A.URendering.float``, and the surface to ``A.obj``.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    SuppleError
        If the reduced mass is not the identity, which VegaFEM takes it for.
    """
    path = checked_path("a .cub file", path)
    if path.suffix.lower() != ".cub":
        raise FormatError(f"{path.name}: forces are written to a .cub file; name it so")
    if not isinstance(model, StvkModel | CubicModel):
        raise FormatError(f"{path.name}: holds a StvkModel or CubicModel, not {shown(model)}")
    if np.abs(model.mass - np.eye(model.modes)).max() > _NORMAL:
        raise FormatError(
            f"{path.name}: VegaFEM takes the reduced mass for the identity, which this one is not;"
            " make the model of mass-orthonormal modes (supple.reduction.mass_pca)"
        )
    written = [path]
    write_cub(path, CubicForce.of_tangent(model.tangent))
    if isinstance(model, StvkModel):
        written.append(path.with_suffix(".U"))
        write_modal_matrix(written[-1], model.basis)
    if isinstance(model, StvkModel) or model.has_surface:
        written += [path.with_suffix(".URendering.float"), path.with_suffix(".obj")]
        write_modal_matrix(written[-2], model.surface_basis)
        write_whole(written[-1], _obj(model.surface))
    return written


def _obj(surface: SurfaceMesh) -> bytes:
    """Return a Wavefront file of vertices and triangles, coordinates to the last bit."""
    vertices = "".join("v {!r} {!r} {!r}\n".format(*row) for row in surface.vertices.tolist())
    corners = (surface.triangles + 1).tolist()
    return (vertices + "".join("f {} {} {}\n".format(*row) for row in corners)).encode()


# Materials of a ``.veg`` file, element by element.


def veg_material_groups(veg: VegFile[TetMesh] | VegFile[HexMesh]) -> NDArray[np.int64]:
    """Return the number of each element's material in ``veg.materials``; −1 for none."""
    mesh = veg.mesh
    count = len(mesh.tets if isinstance(mesh, TetMesh) else mesh.hexes)
    number = {name: i for i, name in enumerate(veg.materials)}
    groups = np.full(count, -1, np.int64)
    for of, material in veg.regions:
        groups[slice(None) if of == ALL else mesh.sets[of]] = number[material]
    return groups


def veg_material(veg: VegFile[TetMesh] | VegFile[HexMesh], kind: str = "stvk") -> Material:
    """Return a `Material` with the file's density, Young's modulus and Poisson's ratio by element.

    Raises
    ------
    FormatError
        If an element has no material, or one of another kind than ENU.
    """
    groups = veg_material_groups(veg)
    if (groups < 0).any():
        bad = int((groups < 0).argmax())
        raise FormatError(f"element {bad} of the mesh is in no region; give it a material")
    listed = list(veg.materials.items())
    rows = np.zeros((len(listed), 3))
    for group in np.unique(groups):
        name, material = listed[group]
        if material.kind != "ENU":
            raise FormatError(f'material "{name}" is {material.kind}; only ENU can be used')
        rows[group] = material.parameters
    density, young, poisson = rows[groups].T
    return Material(kind, young=young, poisson=poisson, density=density)
