"""Sources of Saint Venant–Kirchhoff bodies: a file of any mesh, or a scene by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supple.app.bodies.body_options import Filling
from supple.app.bodies.surface_filling import filled
from supple.arrays import Ints
from supple.elastic.material import Material
from supple.engines.engine import BODY_MODEL
from supple.errors import FormatError, SuppleError
from supple.formats.file_bytes import reading
from supple.formats.load import load
from supple.formats.meshes.read_mesh import read_surface, read_tets
from supple.formats.meshes.veg import VegFile, read_any_veg, read_bou
from supple.formats.registry import CHARACTERS, SURFACES, TETS
from supple.formats.vega.vega_model import veg_material as material_of
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.playback.character_sources import source_kind
from supple.scenes.bodies.elastic_scene import STVK_SCENES, stvk_scene

Mesh = TetMesh | HexMesh


@dataclass(frozen=True, eq=False)
class BodySource:
    """Mesh of a body, and what is known about it.

    Attributes
    ----------
    mesh
        Elements.
    surface
        What is seen; None for the elements' own.
    material
        What the file or the scene says; None for nothing.
    fixed, fixed_by
        Vertices that a scene, or a list of the mesh's name beside it, holds, and which of them it
        is; None for nothing.
    modes
        A scene's own number.
    listed
        Sparse, a row for each vertex of the file: the mesh's vertices that carry it, where the file
        is a surface; None where its vertices are the mesh's.
    """

    mesh: Mesh
    surface: SurfaceMesh | None = None
    material: Material | None = None
    fixed: Ints | None = None
    fixed_by: str = ""
    modes: int | None = None
    listed: Any = None


def _surface_suffixes() -> tuple[str, ...]:
    """Return the suffixes of files, characters included, whose surface can be filled."""
    characters = [suffix for row in CHARACTERS.rows if row.body for suffix in row.suffixes]
    return (*SURFACES.suffixes(), *characters)


def read_body_source(
    given: str,
    filling: Filling,
    *,
    scale: float = 1.0,
    seen: Path | None = None,
    tell: Callable[[float, str], None] | None = None,
) -> BodySource:
    """Read the mesh of a file or a scene; surfaces are filled.

    Parameters
    ----------
    given
        A surface, a character, a mesh of tets or hexahedra, or one of `STVK_SCENES`.
    filling
        How to fill a surface.
    scale
        Metres a unit of the file.
    seen
        A surface to show instead, in the same units.
    tell
        Called with the part done, 0 to 1, and what is being done.
    """
    file, say = Path(given), tell or (lambda part, what: None)
    suffix = file.suffix.lower()
    if source_kind(given) in ("body scene", "scene"):
        if scale != 1.0 or seen is not None:
            raise SuppleError(f"{given} has a size and a surface; leave out --scale and --surface")
        return _of_scene(given, filling)
    shown = None if seen is None else _scaled_surface(read_surface(seen), scale)
    if suffix in _surface_suffixes():
        return _of_surface(file, filling, scale, shown, say)
    if suffix == BODY_MODEL:
        raise SuppleError(f"{file.name}: is a body already; supple view shows it")
    if TETS.find(file) is None:
        known = ", ".join((*_surface_suffixes(), *TETS.suffixes()))
        raise FormatError(
            f'{file.name or given!r}: bodies are not made from "{file.suffix}" files; use one of '
            f"{known}, or {', '.join(STVK_SCENES)}"
        )
    if filling.asked:
        raise SuppleError(
            f"{file.name}: is a mesh of elements already; leave out --elements, --count and "
            "--resolution"
        )
    return _of_elements(file, scale, shown)


def _of_scene(name: str, filling: Filling) -> BodySource:
    shown = stvk_scene(name)  # where there is none, an error that knows their names
    if filling.count is not None or filling.resolution is not None:
        raise SuppleError(f"{name} has cubes of its own; leave out --count and --resolution")
    mesh: Mesh = shown.tets if filling.kind == "tets" else shown.mesh
    return BodySource(mesh, shown.surface, shown.material, shown.fixed, name, shown.modes)


def _of_surface(
    file: Path,
    filling: Filling,
    scale: float,
    shown: SurfaceMesh | None,
    say: Callable[[float, str], None],
) -> BodySource:
    say(0.0, f"reading {file.name}")
    if SURFACES.find(file) is not None:
        surface = read_surface(file)
    else:
        character = load(file)
        if not character.has_mesh:
            raise SuppleError(f"{file.name}: has no mesh to make a body of")
        surface = character.surface
    surface = _scaled_surface(surface, scale)
    with reading(file.name):
        mesh, kept, carried = filled(surface, filling, say)
    return BodySource(mesh, shown or kept, listed=carried)


def _of_elements(file: Path, scale: float, shown: SurfaceMesh | None) -> BodySource:
    material, fixed = None, None
    if file.suffix.lower() == ".veg":
        veg = read_any_veg(file)
        mesh: Mesh = veg.mesh
        material = _veg_material(file.name, veg)
        beside = file.with_suffix(".bou")  # where VegaFEM's users have what is held
        fixed = read_bou(beside, len(mesh.vertices)) if beside.is_file() else None
    else:
        mesh = read_tets(file)
    if scale != 1.0:
        mesh = _scaled_mesh(mesh, scale)
    by = "" if fixed is None else beside.name
    return BodySource(mesh, shown, material, fixed, by)


def _veg_material(name: str, veg: VegFile[TetMesh] | VegFile[HexMesh]) -> Material | None:
    if not veg.materials:
        return None
    try:
        return material_of(veg)
    except SuppleError as error:
        raise FormatError(f"{name}: {error}") from None


def _scaled_surface(surface: SurfaceMesh, scale: float) -> SurfaceMesh:
    if scale == 1.0:
        return surface
    return SurfaceMesh(surface.vertices * scale, surface.triangles)


def _scaled_mesh(mesh: Mesh, scale: float) -> Mesh:
    if isinstance(mesh, TetMesh):
        return TetMesh(mesh.vertices * scale, mesh.tets, mesh.sets)
    return HexMesh(mesh.vertices * scale, mesh.hexes, mesh.sets)
