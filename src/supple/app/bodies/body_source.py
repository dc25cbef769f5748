"""Sources of Saint Venant–Kirchhoff bodies: a file of any mesh, or a scene by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supple.app.bodies.body_options import MOST_ELEMENTS, Filling
from supple.arrays import Floats, Ints
from supple.elastic.material import Material
from supple.engines.engine import BODY_MODEL
from supple.errors import FormatError, SuppleError, warn
from supple.formats.file_bytes import reading
from supple.formats.load import load
from supple.formats.meshes.read_mesh import read_surface, read_tets
from supple.formats.meshes.veg import read_any_veg, read_bou
from supple.formats.registry import CHARACTERS, SURFACES, TETS
from supple.formats.vega.vega_model import veg_material
from supple.mesh.embedding import embed, locate
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.filling.voxelise import voxelise
from supple.mesh.hex_embedding import embed_hexes, locate_hexes
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted
from supple.playback.character_sources import source_kind
from supple.progress import Progress
from supple.scenes.bodies.elastic_scene import STVK_SCENES, stvk_scene

Mesh = TetMesh | HexMesh

#: Default number of elements: fills in a second or two, and keeps the shape recognisable.
USUAL_ELEMENTS = 4_000


@dataclass(frozen=True, eq=False)
class BodySource:
    """Elements of a body, and the properties given by its file or scene; None if unknown."""

    mesh: Mesh
    surface: SurfaceMesh | None = None  # shown; None for the surface of the elements
    material: Material | None = None
    fixed: Ints | None = None  # vertices of the mesh
    fixed_by: str = ""  # name of the scene or file that lists them
    modes: int | None = None
    linear_modes: int | None = None  # for this number of modes
    embedding: Any = None
    """Sparse weights of the mesh's vertices, a row per vertex of the file, for a filled surface."""


def _surface_suffixes() -> tuple[str, ...]:
    """Return the suffixes of files, characters included, whose surface can be filled."""
    characters = [suffix for row in CHARACTERS.rows if row.body for suffix in row.suffixes]
    return (*SURFACES.suffixes(), *characters)


def read_body_source(
    given: str,
    filling: Filling,
    progress: Progress,
    *,
    scale: float = 1.0,
    shown: Path | None = None,
) -> BodySource:
    """Read a surface, a character, a mesh of tets or hexahedra, or one of `STVK_SCENES`.

    Surfaces are filled. `scale` is in metres per unit of the file, `shown` a surface to show in
    place of the elements, and `progress` is called with the fraction done and a description.
    """
    file = Path(given)
    suffix = file.suffix.lower()
    if source_kind(given) in ("body scene", "scene"):
        if scale != 1.0 or shown is not None:
            raise SuppleError(f"{given} is a scene with a surface; leave out --scale and --surface")
        return _from_scene(given, filling)
    surface = None if shown is None else _scaled_surface(read_surface(shown), scale)
    if suffix in _surface_suffixes():
        return _from_surface(file, filling, scale, surface, progress)
    if suffix == BODY_MODEL:
        raise SuppleError(f"{file.name}: is a body already; supple view shows it")
    if TETS.find(file) is None:
        suffixes = ", ".join((*_surface_suffixes(), *TETS.suffixes()))
        raise FormatError(
            f'{file.name or given!r}: bodies are not made from "{file.suffix}" files; use one of '
            f"{suffixes}, or {', '.join(STVK_SCENES)}"
        )
    if filling.given:
        raise SuppleError(
            f"{file.name}: is a mesh of elements already; leave out --elements, --count, "
            "--resolution and --pieces"
        )
    return _from_elements(file, scale, surface)


def _from_scene(name: str, filling: Filling) -> BodySource:
    scene = stvk_scene(name)
    if filling.count is not None or filling.resolution is not None:
        raise SuppleError(f"{name} is a scene with elements; leave out --count and --resolution")
    mesh: Mesh = scene.tets if filling.kind == "tets" else scene.mesh
    counts = scene.modes, scene.linear_modes
    return BodySource(mesh, scene.surface, scene.material, scene.fixed, name, *counts)


def _from_surface(
    file: Path, filling: Filling, scale: float, shown: SurfaceMesh | None, progress: Progress
) -> BodySource:
    progress(0.0, f"reading {file.name}")
    if SURFACES.find(file) is not None:
        surface = read_surface(file)
    else:
        character = load(file)
        if not character.has_mesh:
            raise SuppleError(f"{file.name}: has no mesh; a body needs one")
        surface = character.surface
    surface = _scaled_surface(surface, scale)
    with reading(file.name):
        mesh, covered, embedding = _fill(surface, filling, progress)
    return BodySource(mesh, shown or covered, embedding=embedding)


def _from_elements(file: Path, scale: float, shown: SurfaceMesh | None) -> BodySource:
    """Read elements, and the fixed vertices in a .bou file next to a .veg file, as in VegaFEM."""
    if file.suffix.lower() != ".veg":
        return BodySource(_scaled_mesh(read_tets(file), scale), shown)
    veg = read_any_veg(file)
    try:
        material = veg_material(veg) if veg.materials else None
    except SuppleError as error:
        raise FormatError(f"{file.name}: {error}") from None
    mesh, listed = veg.mesh, file.with_suffix(".bou")
    fixed = read_bou(listed, len(mesh.vertices)) if listed.is_file() else None
    name = "" if fixed is None else listed.name
    return BodySource(_scaled_mesh(mesh, scale), shown, material, fixed, name)


def _scaled_surface(surface: SurfaceMesh, scale: float) -> SurfaceMesh:
    if scale == 1.0:
        return surface
    return SurfaceMesh(surface.vertices * scale, surface.triangles)


def _scaled_mesh(mesh: Mesh, scale: float) -> Mesh:
    if scale == 1.0:
        return mesh
    if isinstance(mesh, TetMesh):
        return TetMesh(mesh.vertices * scale, mesh.tets, mesh.sets)
    return HexMesh(mesh.vertices * scale, mesh.hexes, mesh.sets)


# Filling of surfaces ---------------------------------------------------------------------------


def _fill(
    surface: SurfaceMesh, filling: Filling, progress: Progress
) -> tuple[Mesh, SurfaceMesh, Any]:
    """Fill a surface with one mesh, connected unless `filling` keeps all pieces.

    Returns the mesh, the part of the surface inside or near it, and the sparse weights of the
    mesh's vertices, with a row for each vertex of the given surface.
    """
    extent = float(np.ptp(surface.vertices[np.unique(surface.triangles)], axis=0).max())
    cell = None if filling.resolution is None else extent / filling.resolution
    count, every = filling.count or USUAL_ELEMENTS, filling.pieces == "all"
    mesh: Mesh
    if filling.kind == "tets":
        mesh = tetrahedralise(surface, tets=count, cell=cell, progress=progress)
        mesh = mesh if every else _largest_piece(mesh)
    else:
        mesh = voxelise(surface, elements=count, size=cell, connected=not every, progress=progress)
    count = len(mesh.tets if isinstance(mesh, TetMesh) else mesh.hexes)
    if count > MOST_ELEMENTS:
        raise SuppleError(
            f"there would be {count} elements, more than {MOST_ELEMENTS}; use a lower --resolution"
        )
    progress(1.0, "embedding the surface")
    volume = mesh.volumes().mean()
    if isinstance(mesh, TetMesh):
        weights, distance = embed(surface.vertices, mesh), locate(surface.vertices, mesh).distance
        edge = float(np.cbrt(8.5 * volume))  # of a regular tet
    else:
        weights = embed_hexes(surface.vertices, mesh)
        distance, edge = locate_hexes(surface.vertices, mesh).distance, float(np.cbrt(volume))
    return mesh, _covered_part(surface, distance, edge), weights


def _largest_piece(mesh: TetMesh) -> TetMesh:
    labels = mesh.components()
    sizes = np.bincount(labels, mesh.volumes())
    if len(sizes) == 1:
        return mesh
    keep = labels == int(sizes.argmax())
    left_out = counted(int((~keep).sum()), "tet")
    warn(
        f"the surface has several pieces; only the largest is kept: {left_out} left out; "
        "--pieces all keeps them"
    )
    used, tets = np.unique(mesh.tets[keep], return_inverse=True)
    return TetMesh(mesh.vertices[used], tets.reshape(-1, 4))


def _covered_part(surface: SurfaceMesh, distance: Floats, near: float) -> SurfaceMesh:
    """Return the triangles whose corners have a `distance` (n,) of at most `near` m from the body.

    Return the whole surface if there are none.
    """
    inside = (distance <= near)[surface.triangles].all(axis=1)
    if inside.all() or not inside.any():
        return surface
    used, triangles = np.unique(surface.triangles[inside], return_inverse=True)
    return SurfaceMesh(surface.vertices[used], triangles.reshape(-1, 3))
