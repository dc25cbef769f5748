"""Reduced models of VegaFEM, read for simulation here and written for simulation there.

VegaFEM's simulator of reduced bodies reads a ``.cub`` of forces, a modal matrix and the surface to
deform. It assumes that the reduced mass is the identity, as its modes are mass-normalised, and
multiplies forces by the square of ``frequencyScaling``.
"""

from __future__ import annotations

from pathlib import Path

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

#: Largest deviation of the reduced mass from the identity, which VegaFEM assumes.
_NORMAL = 1e-6


def read_vega(
    cub: str | Path | CubicForce,
    modes: str | Path | ArrayLike | None = None,
    mesh: str | Path | SurfaceMesh | None = None,
    *,
    mass: ArrayLike | None = None,
    frequency_scaling: float = 1.0,
) -> CubicModel:
    """Read a reduced body of VegaFEM, for `StvkSimulator`.

    Parameters
    ----------
    cub
        Its ``.cub`` file, or the result of `read_cub`.
    modes
        Its modal matrix (``.U``, ``.URendering.float``), or (n, 3, r): displacements of the
        vertices of `mesh`. Without `modes` and `mesh` the model has no surface.
    mesh
        Mesh of the modes: a surface (``.obj`` and others), or a ``.veg``, whose boundary is shown
        and whose densities define gravity.
    mass
        (r, r) UᵀMU; by default the identity, as in VegaFEM.
    frequency_scaling
        As in configurations of VegaFEM: factor of frequencies; forces have its square.

    Raises
    ------
    FormatError
        When a file is damaged, or the files are inconsistent.

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
            f"{name}: give modes and mesh together, or neither for a model without surface"
        )
    tangent = _tangent(name, force) * scaling**2
    if modes is None or mesh is None:
        return CubicModel(tangent, mass)
    surface, vertices, n_vertices, masses = _mesh_surface(mesh)
    basis = _shapes(name, modes, n_vertices, force.r)
    return CubicModel(
        tangent,
        mass,
        surface=surface,
        surface_basis=basis[vertices],
        axis_weights=None if masses is None else np.einsum("v,vkr->kr", masses, basis),
    )


def _named_force(cub: str | Path | CubicForce) -> tuple[str, CubicForce]:
    """Return a force, and its name in errors."""
    if isinstance(cub, CubicForce):
        return "the force", cub
    path = checked_path("a .cub file or CubicForce", cub)
    return path.name, read_cub(path)


def _tangent(name: str, force: CubicForce) -> Floats:
    if force.r > MOST_MODES:  # the tangent would take too long, and too much memory
        raise FormatError(
            f"{name}: has {force.r} coordinates, more than {MOST_MODES}; use fewer modes"
        )
    try:
        return force.tangent_coefficients()
    except SuppleError as error:
        raise FormatError(f"{name}: {error}") from error


def _mesh_surface(
    mesh: str | Path | SurfaceMesh,
) -> tuple[SurfaceMesh, NDArray[np.int64], int, Floats | None]:
    """Return surface, its vertices in the mesh, the mesh's vertex count, and masses or None."""
    if not isinstance(mesh, SurfaceMesh):
        path = checked_path("the path of a mesh", mesh)
        if path.suffix.lower() == ".veg":
            veg = read_any_veg(path)
            material = veg_material(veg)
            body: ElasticBody | HexBody
            if isinstance(veg.mesh, TetMesh):
                body = ElasticBody(veg.mesh, material)
            else:
                body = HexBody(veg.mesh, material)
            return *veg.mesh.surface(), len(veg.mesh.vertices), body.vertex_masses()
        mesh = read_surface(path)
    count = len(mesh.vertices)
    return mesh, np.arange(count), count, None


def _shapes(name: str, modes: str | Path | ArrayLike, n_vertices: int, r: int) -> Floats:
    """Return modes (n, 3, r); FormatError if mesh or force have another size."""
    label = "modes"
    if isinstance(modes, str | Path):
        label, values = Path(modes).name, np.asarray(read_modal_matrix(modes), np.float64)
    else:
        values = numbers("modes", modes)
    if values.ndim == 2 and values.shape[0] == 3 * n_vertices:
        values = values.reshape(n_vertices, 3, -1)
    if values.shape != (n_vertices, 3, r):
        raise FormatError(
            f"{label}: has shape {values.shape}, but the mesh has {n_vertices} vertices and {name} "
            f"{r} coordinates; use files of one model"
        )
    return checked_array("modes", values, values.shape)


def write_vega(path: str | Path, model: StvkModel | CubicModel) -> list[Path]:
    """Write a model for VegaFEM's simulator of reduced bodies; no file is left half written.

    The modes of a mesh go to ``A.U`` beside ``A.cub``; the modes of the surface, if any, to
    ``A.URendering.float``, and the surface to ``A.obj``.

    Returns
    -------
    list of Path
        The written files.

    Raises
    ------
    SuppleError
        If the reduced mass is not the identity, which VegaFEM assumes.
    """
    path = checked_path("a .cub file", path)
    if path.suffix.lower() != ".cub":
        raise FormatError(f"{path.name}: forces are written to a .cub file; use that suffix")
    if not isinstance(model, StvkModel | CubicModel):
        raise FormatError(f"{path.name}: expected a StvkModel or CubicModel, not {shown(model)}")
    if np.abs(model.mass - np.eye(model.modes)).max() > _NORMAL:
        raise FormatError(
            f"{path.name}: the reduced mass is not the identity, which VegaFEM assumes; build the"
            " model with mass-orthonormal modes (supple.reduction.mass_pca)"
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
    """Return a Wavefront file of vertices and triangles, with all digits of the coordinates."""
    vertices = "".join("v {!r} {!r} {!r}\n".format(*row) for row in surface.vertices.tolist())
    corners = (surface.triangles + 1).tolist()
    return (vertices + "".join("f {} {} {}\n".format(*row) for row in corners)).encode()


# Materials of a ``.veg`` file by element.


def veg_material_groups(veg: VegFile[TetMesh] | VegFile[HexMesh]) -> NDArray[np.int64]:
    """Return the index of each element's material in ``veg.materials``; −1 for none."""
    number = {name: i for i, name in enumerate(veg.materials)}
    groups = np.full(len(veg.mesh.elements), -1, np.int64)
    for of, material in veg.regions:
        groups[slice(None) if of == ALL else veg.mesh.sets[of]] = number[material]
    return groups


def veg_material(veg: VegFile[TetMesh] | VegFile[HexMesh], kind: str = "stvk") -> Material:
    """Return a `Material` with the file's density, Young's modulus and Poisson's ratio by element.

    Raises FormatError if an element has no material, or a material of another kind than ENU.
    """
    groups = veg_material_groups(veg)
    if (groups < 0).any():
        bad = int((groups < 0).argmax())
        raise FormatError(f"element {bad} of the mesh is in no region; assign a material to it")
    listed = list(veg.materials.items())
    rows = np.zeros((len(listed), 3))
    for group in np.unique(groups):
        name, material = listed[group]
        if material.kind != "ENU":
            raise FormatError(f'material "{name}" is {material.kind}; only ENU is supported')
        rows[group] = material.parameters
    density, young, poisson = rows[groups].T
    return Material(kind, young=young, poisson=poisson, density=density)
