"""VegaFEM meshes: ``.veg`` files of tets or hexes with named sets, materials and regions.

Also ``.bou`` files of fixed vertices, counted from 1 and separated by commas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_path, plain_array
from supple.errors import FormatError
from supple.formats.file_bytes import (
    as_floats,
    as_integers,
    as_text,
    checked_count,
    read_bytes,
    read_text,
    reading,
)
from supple.formats.meshes.read_mesh import usable_mesh
from supple.mesh.hexes import HexMesh
from supple.mesh.tets import TetMesh
from supple.saving import write_whole

#: The predefined set of all elements.
ALL = "allElements"
Mesh = TypeVar("Mesh", TetMesh, HexMesh, covariant=True)
Elements = TypeVar("Elements", TetMesh, HexMesh)
#: Keyword and number of corners of the elements of a mesh.
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
        All numbers after the kind; the first is the density.
    """

    kind: str
    parameters: tuple[float, ...]

    @property
    def density(self) -> float:
        """Density in kilograms per cubic metre."""
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
    """Content of a ``.veg`` file.

    Attributes
    ----------
    mesh : TetMesh or HexMesh
        With the file's sets, without ``allElements``.
    materials : dict of str to VegMaterial
    regions : list of (str, str)
        Set and material names in the file's order; a later region overrides an earlier.
    """

    mesh: Mesh
    materials: dict[str, VegMaterial] = field(default_factory=dict)
    regions: list[tuple[str, str]] = field(default_factory=list)


def read_veg(path: str | Path) -> VegFile[TetMesh]:
    """Read a VegaFEM mesh of tetrahedra.

    Included files must be in the folder of the ``.veg`` file or below. Raises FormatError or
    MeshError when the file is damaged or has hexahedra; `read_veg_hexes` reads those.
    """
    return _read(Path(path), TetMesh)


def read_veg_hexes(path: str | Path) -> VegFile[HexMesh]:
    """Read a VegaFEM mesh of hexahedra (``CUBIC``), otherwise like `read_veg`."""
    return _read(Path(path), HexMesh)


def _read(path: Path, mesh_type: type[Elements]) -> VegFile[Elements]:
    with reading(path.name):
        vertices, elements, sets, materials, regions = _parts(path, _sections(path), mesh_type)
        mesh = usable_mesh(path.name, mesh_type(vertices, elements, sets))
        return VegFile(mesh, materials, regions)


def read_any_veg(path: Path) -> VegFile[TetMesh] | VegFile[HexMesh]:
    """Read a VegaFEM mesh of tetrahedra or hexahedra."""
    with reading(path.name):
        rows = _only(path.name, _sections(path), "ELEMENTS").rows
    if rows and rows[0][0].upper() == "CUBIC":
        return read_veg_hexes(path)
    return read_veg(path)


def parse_veg_tets(
    path: Path, data: bytes
) -> tuple[np.ndarray, np.ndarray, list[str], dict[str, np.ndarray]]:
    """Return vertices (n, 3), tets (m, 4), no other cells, and named sets of tets."""
    vertices, tets, sets, _, _ = _parts(path, _sections(path, data), TetMesh)
    return vertices, tets, [], sets


def write_veg(path: str | Path, veg: VegFile[TetMesh] | VegFile[HexMesh]) -> None:
    """Write a VegaFEM mesh; no file is left half written.

    Parameters
    ----------
    path : str or Path
        Replaced if it exists.
    veg : VegFile
        Numbers are written with all digits.
    """
    path = Path(path)
    _check_names(path.name, veg)
    mesh = veg.mesh
    lines = ["# Vega mesh file.", "", "*VERTICES", f"{len(mesh.vertices)} 3 0 0"]
    for i, (x, y, z) in enumerate(mesh.vertices.tolist(), 1):
        lines.append(f"{i} {x!r} {y!r} {z!r}")
    kind, corners = _KINDS[mesh.noun]
    lines += ["", "*ELEMENTS", kind, f"{len(mesh.elements)} {corners} 0"]
    for i, row in enumerate((mesh.elements + 1).tolist(), 1):
        lines.append(f"{i} {' '.join(map(str, row))}")
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
    """Raise FormatError for names that cannot be read back, and for regions of unknown names."""
    for name in (*veg.mesh.sets, *veg.materials):
        if not name or name == ALL or any(c.isspace() or c in "#,*" for c in name):
            raise FormatError(f'{file}: "{name}" is not a valid name; use one plain word')
    for of, material in veg.regions:
        if of not in {*veg.mesh.sets, ALL} or material not in veg.materials:
            raise FormatError(f'{file}: region "{of}, {material}" has an unknown set or material')


# Sections of a file.


_Parts = tuple[
    np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, VegMaterial], list[tuple[str, str]]
]


def _parts(path: Path, sections: list[_Section], of: type[TetMesh | HexMesh]) -> _Parts:
    """Return vertices, elements, sets, materials and regions; elements must be of class `of`."""
    name = path.name
    table = _numbered_table(name, _only(name, sections, "VERTICES").rows, "vertices", 3)
    first_vertex = _first_number(name, table, "vertices")
    section = _only(name, sections, "ELEMENTS")
    elements, first_element = _elements(name, section, first_vertex, of)
    sets = _sets(name, sections, first_element, len(elements), of)
    materials = _materials(name, sections)
    return table[:, 1:], elements, sets, materials, _regions(name, sections, sets, materials)


def _elements(
    name: str, section: _Section, first_vertex: int, of: type[TetMesh | HexMesh]
) -> tuple[np.ndarray, int]:
    kind = section.rows[0][0].upper() if section.rows else ""
    kind = "TET" if kind == "TETS" else kind
    keyword, corners = _KINDS[of.noun]
    if kind == "CUBIC" != keyword:
        raise FormatError(
            f"{name}: has hexahedra (CUBIC), not tetrahedra; use supple.formats.read_veg_hexes"
        )
    if kind == "TET" != keyword:
        raise FormatError(f"{name}: has tetrahedra (TET), not hexahedra; use read_veg")
    if kind != keyword:
        raise FormatError(
            f'{name}: has elements "{kind[:40]}"; use tetrahedra (TET) or hexahedra (CUBIC)'
        )
    table = _numbered_table(name, section.rows[1:], of.plural, corners)
    elements = as_integers(name, table[:, 1:], of.plural) - first_vertex
    return elements, _first_number(name, table, of.plural)


def _sets(
    name: str, sections: list[_Section], first: int, count: int, of: type[TetMesh | HexMesh]
) -> dict[str, np.ndarray]:
    sets: dict[str, np.ndarray] = {}
    for section in _titled(sections, "SET"):
        _check_new(name, "set", section.argument, sets.keys() | {ALL})
        words = [word for row in section.rows for word in row]
        where = f'set "{section.argument}"'
        members = as_integers(name, as_floats(name, words, where), where)
        wrong = members[(members < first) | (members >= count + first)]
        if len(wrong):
            known = f"{of.plural} are {first} to {count - 1 + first}"
            raise FormatError(f"{name}: {where} has {of.noun} {wrong[0]}; {known}")
        sets[section.argument] = members - first
    return sets


def _check_new(name: str, noun: str, new: str, used: set[str]) -> None:
    if not new or new in used:
        raise FormatError(f'{name}: has a {noun} with the empty or repeated name "{new}"')


def _materials(name: str, sections: list[_Section]) -> dict[str, VegMaterial]:
    materials: dict[str, VegMaterial] = {}
    for section in _titled(sections, "MATERIAL"):
        _check_new(name, "material", section.argument, set(materials))
        words = [word for row in section.rows for word in row]
        where = f'material "{section.argument}"'
        numbers = as_floats(name, words[1:], where)
        if len(numbers) < 1 or not np.isfinite(numbers).all():
            raise FormatError(f"{name}: {where} has no density and parameters")
        kind = words[0].upper()
        if kind == "ENU" and len(numbers) != 3:
            raise FormatError(f"{name}: {where} does not have density, Young and Poisson")
        materials[section.argument] = VegMaterial(kind, tuple(numbers.tolist()))
    return materials


def _regions(
    name: str,
    sections: list[_Section],
    sets: dict[str, np.ndarray],
    materials: dict[str, VegMaterial],
) -> list[tuple[str, str]]:
    regions = []
    for section in _titled(sections, "REGION"):
        for row in section.rows:
            if len(row) != 2 or row[0] not in sets.keys() | {ALL} or row[1] not in materials:
                raise FormatError(
                    f'{name}: region "{", ".join(row)[:60]}" has an unknown set or material'
                )
            regions.append((row[0], row[1]))
    return regions


# Parsing of sections and their tables.


@dataclass
class _Section:
    """A title, its argument on the same line, and the words of the lines below."""

    title: str
    argument: str
    rows: list[list[str]] = field(default_factory=list)


def _sections(path: Path, data: bytes | None = None) -> list[_Section]:
    """Return the sections of a file and of the files that it includes.

    `data` is the content of the file, which is read if that is None.
    """
    data = read_bytes(path, (".veg",)) if data is None else data
    text = as_text(path.name, data)
    return _split(path.name, _expanded_lines(path, text, path.parent.resolve(), set()))


def _expanded_lines(path: Path, text: str, folder: Path, seen: set[Path]) -> list[str]:
    """Return the lines of a text without comments and blanks, with included files inserted.

    Included files must be in `folder`. `seen` has the files so far: a repeated one would be a
    cycle, or repeat a section.
    """
    seen.add(path.resolve())
    lines: list[str] = []
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        if line.upper().startswith("*INCLUDE"):
            target = line[len("*INCLUDE") :].strip()
            file = _included(path, target, folder, seen)
            more = read_text(file, (file.suffix.lower(),))
            lines += _expanded_lines(file, more, folder, seen)
        elif line:
            lines.append(line)
    return lines


def _included(path: Path, target: str, folder: Path, seen: set[Path]) -> Path:
    included = (path.parent / target).resolve()
    if not target or not included.is_relative_to(folder):
        raise FormatError(
            f'{path.name}: includes "{target}", outside its folder; move it into the folder'
        )
    if included in seen:
        raise FormatError(f'{path.name}: includes "{target}" a second time; remove one')
    return included


def _split(name: str, lines: list[str]) -> list[_Section]:
    """Return the sections in the file's order."""
    sections: list[_Section] = []
    for line in lines:
        if line.startswith("*"):
            title, _, argument = line[1:].strip().partition(" ")
            sections.append(_Section(title.upper(), argument.strip()))
        elif sections:
            sections[-1].rows.append(line.replace(",", " ").split())
        else:
            raise FormatError(f'{name}: begins with "{line[:40]}", not with a section')
    return sections


def _titled(sections: list[_Section], title: str) -> list[_Section]:
    return [section for section in sections if section.title == title]


def _only(name: str, sections: list[_Section], title: str) -> _Section:
    """Return the only section of this title."""
    matches = _titled(sections, title)
    if len(matches) != 1:
        raise FormatError(f"{name}: has {len(matches)} sections *{title}; it needs one")
    return matches[0]


def _numbered_table(name: str, rows: list[list[str]], what: str, columns: int) -> np.ndarray:
    """Return the rows (n, 1 + columns) after a section's counts: index, then numbers."""
    declared = rows[0] if rows else []
    if len(declared) < 2 or declared[1] != str(columns):
        text = " ".join(declared)[:40]
        raise FormatError(f'{name}: declares its {what} as "{text}", not as "count {columns} 0"')
    count = checked_count(name, declared[0], what, 0, 0)
    if count != len(rows) - 1:
        raise FormatError(
            f"{name}: declares {count} {what} but has {len(rows) - 1}; it is damaged or cut off"
        )
    if count == 0:
        raise FormatError(f"{name}: has no {what}")
    for index, row in enumerate(rows[1:]):
        if len(row) != 1 + columns:
            raise FormatError(
                f"{name}: row {index} of {what} has {len(row)} numbers, not {1 + columns}"
            )
    words = [word for row in rows[1:] for word in row]
    return as_floats(name, words, what).reshape(count, 1 + columns)


def _first_number(name: str, table: np.ndarray, what: str) -> int:
    """Return the first index of a table, 0 or 1; FormatError unless indices are consecutive."""
    first = int(table[0, 0]) if np.isfinite(table[0, 0]) else -1
    if first not in (0, 1) or (table[:, 0] != first + np.arange(len(table))).any():
        raise FormatError(f"{name}: its {what} are not numbered consecutively from 0 or 1")
    return first


# Fixed vertices.


_PER_LINE = 8


def read_bou(path: str | Path, n_vertices: int | None = None) -> NDArray[np.int64]:
    """Return the vertices that a file lists, counted from 0, ascending, without duplicates.

    Parameters
    ----------
    path : str or Path
        The ``.bou`` file.
    n_vertices : int, optional
        Number of vertices of the mesh; the file, which counts from 1, may not exceed it.
    """
    path = checked_path("a .bou file", path)
    data = read_bytes(path, (".bou",))
    with reading(path.name):
        lines = [line.partition("#")[0] for line in as_text(path.name, data).splitlines()]
        words = " ".join(lines).replace(",", " ").split()
        listed = as_integers(path.name, as_floats(path.name, words, "vertices"), "vertices")
        end = np.iinfo(np.int32).max if n_vertices is None else n_vertices
        wrong = listed[(listed < 1) | (listed > end)]
        if len(wrong):
            raise FormatError(f"{path.name}: has vertex {wrong[0]}; vertices are 1 to {end}")
        return np.unique(listed - 1)


def write_bou(path: str | Path, vertices: ArrayLike) -> None:
    """Write vertices, counted from 0; the file counts from 1. No file is left half written."""
    path = checked_path("a .bou file", path)
    listed = np.atleast_1d(plain_array(f"{path.name}: a list of vertices", vertices))
    if listed.ndim != 1 or listed.size == 0 or listed.dtype.kind not in "iu" or listed.min() < 0:
        raise FormatError(f"{path.name}: needs a list of at least one vertex, counted from 0")
    numbers = [str(number + 1) for number in np.unique(listed).tolist()]
    lines = [numbers[i : i + _PER_LINE] for i in range(0, len(numbers), _PER_LINE)]
    write_whole(path, "".join(",".join(line) + ",\n" for line in lines).encode())
