"""VegaFEM ``.veg`` files: tets or hexes, named sets, materials and where they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from supple.errors import FormatError
from supple.formats.repair import usable_tets
from supple.formats.source import as_floats, as_integers, reading
from supple.formats.veg_hexes import usable_hexes
from supple.formats.veg_sections import (
    Section,
    expanded_lines,
    first_number,
    numbered_table,
    only_section,
    split_sections,
)
from supple.mesh import TetMesh
from supple.mesh.hexes import HexMesh
from supple.saving import write_whole

__all__ = ["VegFile", "VegMaterial", "read_veg", "read_veg_hexes", "write_veg"]

ALL = "allElements"
Mesh = TypeVar("Mesh", TetMesh, HexMesh, covariant=True)
#: What the file calls the elements of a mesh, and how many corners they have.
_KINDS = {"tet": ("TET", 4), "hex": ("CUBIC", 8)}


@dataclass(frozen=True)
class VegMaterial:
    """A material as the file gives it.

    Attributes
    ----------
    kind : str
        ``ENU`` (density, Young's modulus, Poisson's ratio), ``MOONEYRIVLIN``,
        ``ORTHOTROPIC`` or a variant of it.
    parameters : tuple of float
        All the numbers after the kind; the first is the density.
    """

    kind: str
    parameters: tuple[float, ...]

    @property
    def density(self) -> float:
        """Kilograms per cubic metre."""
        return self.parameters[0]

    @property
    def young(self) -> float | None:
        """Young's modulus in pascals; None unless the kind is ENU."""
        return self.parameters[1] if self.kind == "ENU" else None

    @property
    def poisson(self) -> float | None:
        """Poisson's ratio; None unless the kind is ENU."""
        return self.parameters[2] if self.kind == "ENU" else None


@dataclass(frozen=True, eq=False)
class VegFile(Generic[Mesh]):
    """What a ``.veg`` file holds.

    Attributes
    ----------
    mesh : TetMesh or HexMesh
        With the file's sets; ``allElements`` is not among them.
    materials : dict of str to VegMaterial
    regions : list of (str, str)
        Set and material names in the file's order; a later region overrides an earlier.
    """

    mesh: Mesh
    materials: dict[str, VegMaterial] = field(default_factory=dict)
    regions: list[tuple[str, str]] = field(default_factory=list)


def read_veg(path: str | Path) -> VegFile[TetMesh]:
    """Read a VegaFEM mesh of tetrahedra.

    Parameters
    ----------
    path : str or Path
        The ``.veg`` file; files it includes must lie in its folder or below.

    Returns
    -------
    VegFile

    Raises
    ------
    FormatError, MeshError
        When the file is damaged or has hexahedra; `read_veg_hexes` reads those.
    """
    path = Path(path)
    with reading(path.name):
        vertices, tets, sets, materials, regions = _parts(path, "tet")
        return VegFile(usable_tets(path.name, vertices, tets, sets), materials, regions)


def read_veg_hexes(path: str | Path) -> VegFile[HexMesh]:
    """Read a VegaFEM mesh of hexahedra (``CUBIC``); otherwise as `read_veg`."""
    path = Path(path)
    with reading(path.name):
        vertices, hexes, sets, materials, regions = _parts(path, "hex")
        return VegFile(usable_hexes(path.name, vertices, hexes, sets), materials, regions)


def _parts(
    path: Path, noun: str
) -> tuple[
    np.ndarray,
    np.ndarray,
    dict[str, np.ndarray],
    dict[str, VegMaterial],
    list[tuple[str, str]],
]:
    """Vertices, elements, sets, materials and regions of a file of these elements."""
    name = path.name
    sections = split_sections(name, expanded_lines(path, path.parent.resolve(), set()))
    vertices, first_vertex = _vertices(name, only_section(name, sections, "VERTICES"))
    section = only_section(name, sections, "ELEMENTS")
    elements, first_element = _elements(name, section, first_vertex, noun)
    sets = _sets(name, sections, first_element, len(elements), noun)
    materials = _materials(name, sections)
    return vertices, elements, sets, materials, _regions(name, sections, sets, materials)


def _vertices(name: str, section: Section) -> tuple[np.ndarray, int]:
    table = numbered_table(name, section.rows, "vertices", 3)
    return table[:, 1:], first_number(name, table, "vertices")


def _elements(name: str, section: Section, first_vertex: int, noun: str) -> tuple[np.ndarray, int]:
    kind = section.rows[0][0].upper() if section.rows else ""
    kind = "TET" if kind == "TETS" else kind
    wanted, corners = _KINDS[noun]
    if kind == "CUBIC" != wanted:
        raise FormatError(
            f"{name}: has hexahedra (CUBIC), which are not read yet as tets;"
            f" use supple.formats.read_veg_hexes"
        )
    if kind == "TET" != wanted:
        raise FormatError(f"{name}: has tetrahedra (TET), not hexahedra; use read_veg")
    if kind != wanted:
        raise FormatError(
            f'{name}: has elements "{kind[:40]}"; tetrahedra (TET) and hexahedra (CUBIC) are read'
        )
    plural = "tets" if noun == "tet" else "hexes"
    table = numbered_table(name, section.rows[1:], plural, corners)
    return as_integers(name, table[:, 1:], plural) - first_vertex, first_number(name, table, plural)


def _sets(
    name: str, sections: list[Section], first: int, count: int, noun: str
) -> dict[str, np.ndarray]:
    sets: dict[str, np.ndarray] = {}
    for section in sections:
        if section.title != "SET":
            continue
        _check_new(name, "set", section.argument, sets.keys() | {ALL})
        words = [word for row in section.rows for word in row]
        where = f'set "{section.argument}"'
        members = as_integers(name, as_floats(name, words, where), where)
        wrong = members[(members < first) | (members >= count + first)]
        if len(wrong):
            plural = "tets" if noun == "tet" else "hexes"
            raise FormatError(
                f"{name}: {where} has {noun} {wrong[0]}, but there are {plural} {first} to"
                f" {count - 1 + first}"
            )
        sets[section.argument] = members - first
    return sets


def _check_new(name: str, noun: str, new: str, known: set[str]) -> None:
    if not new or new in known:
        raise FormatError(f'{name}: has a {noun} named "{new}" where a new name is needed')


def _materials(name: str, sections: list[Section]) -> dict[str, VegMaterial]:
    materials: dict[str, VegMaterial] = {}
    for section in sections:
        if section.title != "MATERIAL":
            continue
        _check_new(name, "material", section.argument, set(materials))
        words = [word for row in section.rows for word in row]
        where = f'material "{section.argument}"'
        numbers = as_floats(name, words[1:], where)
        if len(numbers) < 1 or not np.isfinite(numbers).all():
            raise FormatError(f"{name}: {where} lacks its density and parameters")
        kind = words[0].upper()
        if kind == "ENU" and len(numbers) != 3:
            raise FormatError(f"{name}: {where} is not ENU, density, Young, Poisson")
        materials[section.argument] = VegMaterial(kind, tuple(numbers.tolist()))
    return materials


def _regions(
    name: str,
    sections: list[Section],
    sets: dict[str, np.ndarray],
    materials: dict[str, VegMaterial],
) -> list[tuple[str, str]]:
    regions = []
    for section in sections:
        for row in section.rows if section.title == "REGION" else []:
            if len(row) != 2 or row[0] not in sets.keys() | {ALL} or row[1] not in materials:
                raise FormatError(
                    f'{name}: region "{", ".join(row)[:60]}" is not of a set and a material it has'
                )
            regions.append((row[0], row[1]))
    return regions


def write_veg(path: str | Path, veg: VegFile[TetMesh] | VegFile[HexMesh]) -> None:
    """Write a VegaFEM mesh; the file is whole or not there.

    Parameters
    ----------
    path : str or Path
        Replaced when it is there already.
    veg : VegFile
        Numbers are written so that reading gives the same ones back.
    """
    path = Path(path)
    _check_names(path.name, veg)
    mesh = veg.mesh
    lines = ["# Vega mesh file.", "", "*VERTICES", f"{len(mesh.vertices)} 3 0 0"]
    for i, (x, y, z) in enumerate(mesh.vertices.tolist(), 1):
        lines.append(f"{i} {x!r} {y!r} {z!r}")
    kind, corners = _KINDS["tet" if isinstance(mesh, TetMesh) else "hex"]
    elements = mesh.tets if isinstance(mesh, TetMesh) else mesh.hexes
    lines += ["", "*ELEMENTS", kind, f"{len(elements)} {corners} 0"]
    lines += [f"{i} {' '.join(map(str, row))}" for i, row in enumerate((elements + 1).tolist(), 1)]
    for name, material in veg.materials.items():
        parameters = ", ".join(repr(float(value)) for value in material.parameters)
        lines += ["", f"*MATERIAL {name}", f"{material.kind}, {parameters}"]
    for name, members in mesh.sets.items():
        lines += ["", f"*SET {name}"]
        lines += [", ".join(map(str, members[i : i + 8] + 1)) for i in range(0, len(members), 8)]
    if veg.regions:
        lines += ["", "*REGION", *(f"{of}, {material}" for of, material in veg.regions)]
    write_whole(path, ("\n".join(lines) + "\n").encode())


def _check_names(file: str, veg: VegFile[TetMesh] | VegFile[HexMesh]) -> None:
    """Refuse what could be written but not read back."""
    for name in (*veg.mesh.sets, *veg.materials):
        if not name or name == ALL or any(c.isspace() or c in "#,*" for c in name):
            raise FormatError(f'{file}: "{name}" cannot be a name there; use one plain word')
    for of, material in veg.regions:
        if of not in {*veg.mesh.sets, ALL} or material not in veg.materials:
            raise FormatError(f'{file}: region "{of}, {material}" names no set and material')
