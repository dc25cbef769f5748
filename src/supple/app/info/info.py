"""`supple info`: contents of a file, its defects, and their consequences."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from supple.app.info.model_files import (
    STVK_FILES,
    describe_model,
    describe_stvk_file,
    engine_lines,
    materials_of,
    model_lines,
    printable,
    rounded,
    stvk_lines,
)
from supple.app.options import body_options
from supple.arrays import Floats
from supple.engines.engine import CHARACTER_MODEL
from supple.errors import FormatError, SuppleError, SuppleWarning, warn
from supple.formats.length_units import metres_in, unit_name
from supple.formats.registry import CHARACTERS, SURFACES, TETS
from supple.mesh.topology import counted

#: Reader of body models, whose motions have the same suffixes.
BODY_READER = "supple.formats.smpl.load_body:load_body"
#: Suffix of anatomy files; `supple.anatomy.region_entries` takes long to import.
ENTRIES_SUFFIX = ".anatomy.json"
#: Fewest pieces of a jointed figure, as of `supple.anatomy.loose_parts.MACHINE_JOINTS`.
FEWEST_PIECES = 4

if TYPE_CHECKING:
    from supple.mesh.hexes import HexMesh
    from supple.mesh.surface import SurfaceMesh
    from supple.mesh.tets import TetMesh
    from supple.rig.character import Character
    from supple.rig.motion.motion import Motion

CODE = re.compile(r" \(([A-Z][A-Z_0-9]+)(?:, and (\d+) more)?\)$")
#: Consequences of defects.
CONSEQUENCES = {
    "degenerate triangles": "they have no area and are ignored",
    "duplicate triangles": "inside and outside may be confused near them",
    "unreferenced vertices": "they are not simulated",
    "open edges": "the surface has holes; the tet mesh closes them",
    "non-manifold edges": "the sheets are joined there",
    "inconsistent edges": "inside and outside may be confused near them",
    "inside-out components": "they are treated as cavities, or flipped",
    "inverted tets": "they were flipped",
    "degenerate tets": "they have no volume",
    "duplicate tets": "their stiffness and mass count twice",
    "non-manifold faces": "tets overlap there",
    "components": "disconnected parts move independently",
    "inverted hexes": "they were flipped",
    "tangled hexes": "they cannot be simulated",
    "degenerate hexes": "they have no volume",
    "duplicate hexes": "their stiffness and mass count twice",
}


def split_warning(name: str, message: str) -> dict[str, Any]:
    """Return the parts of a warning "name: what; consequence (CODE, and 3 more)" as a dict."""
    text = message.removeprefix(f"{name}: ")
    coded = CODE.search(text)
    entries: dict[str, Any] = {}
    if coded:
        text = text[: coded.start()]
        entries = {"code": coded[1], "count": int(coded[2] or 0) + 1}
    what, separator, consequence = text.rpartition("; ")
    if not separator:
        what, consequence = text, "none for Supple"
    return {"what": what, "consequence": consequence, **entries}


def with_consequences(defects: list[Any]) -> list[dict[str, str]]:
    """Return defects of a mesh with their consequences, as plain values."""
    return [
        {"what": defect.message, "consequence": CONSEQUENCES.get(defect.kind, "none for Supple")}
        for defect in defects
    ]


def describe(
    path: str | Path,
    anatomy: Sequence[Path] | None = None,
    unit: str | None = None,
    *,
    motion: str | None = None,
    betas: str | None = None,
    armature: str | None = None,
    regions: Path | None = None,
) -> dict[str, Any]:
    """Describe a file by plain values, for JSON.

    The file is a character, a motion (BVH, AMASS), a surface, a mesh of tets or hexahedra, a model,
    an elastic body, or a VegaFEM file. With `anatomy`, a character's anatomy is detected and
    written to these files; regions of the anatomy file `regions` take precedence over what is
    detected. `unit` is read by `metres_in`, the other options by `body_options`.

    Returns
    -------
    dict
        ``file``, ``format``, ``bytes``, ``metres_per_unit``, ``unit_told`` (whether `unit` set it),
        ``size`` in m, ``meshes``, ``surface``, ``joints``, ``parameters``, ``clips``, ``tets``, and
        ``defects`` with their consequences. A model also has ``model``, ``poses``, ``regions``,
        ``motions``, ``bytes_by_part`` and its ``report``; a character ``painted`` maps and its
        ``anatomy`` on request; a body ``body``, ``hexes``, ``frequencies_hz`` and ``materials``.
    """
    path = Path(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SuppleWarning)
        body = body_options(motion, betas, armature)
        if motion is not None and "motion" not in body:
            raise SuppleError(f"--motion {motion}: use a motion file of a body model (.npz)")
        contents = _read(path, None if unit is None else metres_in(unit), body)
        jointed = contents.pop("jointed", None)
        if anatomy is not None or regions is not None:
            chosen = body | {"regions": regions}
            contents["anatomy"] = _anatomy(path, contents["format"], anatomy or (), unit, chosen)
        elif jointed is not None:
            warn(jointed)
    messages = [str(w.message) for w in caught if issubclass(w.category, SuppleWarning)]
    defects = contents.pop("defects", [])
    listed = tuple(defect["what"] for defect in defects)
    for message in dict.fromkeys([*contents.pop("warnings", ()), *messages]):
        defect = split_warning(path.name, message)
        if not (listed and defect["what"].startswith(listed)):
            defects.append(defect)
    return {"file": path.name, "bytes": path.stat().st_size, **contents, "defects": defects}


def _anatomy(
    path: Path, kind: str, targets: Sequence[Path], unit: str | None, body: dict[str, Any]
) -> dict[str, Any]:
    from supple.app.info.anatomy_table import describe_anatomy

    if CHARACTERS.find(path) is None or kind == "anatomy":
        raise SuppleError(f"{path.name}: is not a character; leave out --anatomy")
    return describe_anatomy(path, targets, unit, **body)


def _read(path: Path, metres: float | None, body: dict[str, Any]) -> dict[str, Any]:
    from supple.formats.meshes.read_mesh import read_surface, read_tets

    suffix = path.suffix.lower()
    if path.name.endswith(ENTRIES_SUFFIX):
        from supple.app.info.anatomy_table import describe_entries

        return describe_entries(path)
    row = CHARACTERS.find(path)
    if row is not None and row.reader == BODY_READER and not body:
        from supple.formats.smpl.load_body import is_motion

        if is_motion(path):
            return _body_motion(path)
    if row is not None:
        return {"format": row.name, **_character(path, metres, body)}
    if "armature" in body:
        raise SuppleError(f"{path.name}: is not a .blend or .fbx file; leave out --armature")
    if body:
        raise SuppleError(f"{path.name}: is not a body model; leave out --motion and --betas")
    if suffix == ".bvh":
        return _bvh(path, metres)
    if metres is not None:
        raise SuppleError(f"{path.name}: is read in metres; leave out --unit")
    if SURFACES.find(path) is not None:
        return {"format": suffix[1:].upper(), **_of_surface(read_surface(path))}
    if suffix == ".veg":
        return {"format": "VEG", **_veg(path)}
    if TETS.find(path) is not None:
        return {"format": suffix[1:].upper(), **_of_elements(read_tets(path), "tets")}
    if suffix == CHARACTER_MODEL:
        return describe_model(path)
    if suffix in STVK_FILES:
        return describe_stvk_file(path)
    read = (*CHARACTERS.suffixes(), ".bvh", *SURFACES.suffixes(), *TETS.suffixes())
    suffixes = ", ".join((*read, CHARACTER_MODEL, *STVK_FILES))
    raise FormatError(f'{path.name}: "{path.suffix}" files are unknown; use one of {suffixes}')


def _character(path: Path, metres: float | None, body: dict[str, Any]) -> dict[str, Any]:
    from supple.formats.load import load

    character = load(path, metres_per_unit=metres, **body)
    contents: dict[str, Any] = {
        "metres_per_unit": character.metres_per_unit,
        "unit_told": metres is not None,
        "warnings": character.warnings,
        "meshes": _meshes(character),
        "clips": [_clip(motion) for motion in character.motions.values()],
    }
    joint_pose = getattr(character.source, "joint_pose", None)
    if character.has_mesh:
        contents |= _of_surface(character.surface)
        contents["jointed"] = _jointed(character, contents["surface"]["components"])
        rig: Any = character.rig
        contents["parameters"] = _parameters(rig.parameters)
        rig = getattr(rig, "base", rig)
        joint_pose = joint_pose or getattr(rig, "joint_pose", None)
    if character.painted:
        contents["painted"] = list(character.painted)
    if joint_pose is not None:
        contents["joints"] = list(joint_pose.skeleton.names)
    return contents


def _meshes(character: Character) -> list[dict[str, Any]]:
    """Return meshes of the file by name, with their numbers of stored vertices."""
    meshes: dict[str, dict[str, Any]] = {}
    source = character.source
    for primitive in getattr(source, "primitives", ()):
        name = source.mesh_names[primitive.mesh]
        mesh = meshes.setdefault(name, {"name": name, "primitives": 0, "vertices": 0})
        mesh["primitives"] += 1
        mesh["vertices"] += len(primitive.welded)
    for usd in getattr(source, "meshes", ()):
        meshes[usd.path] = {"name": usd.path, "primitives": 1, "vertices": len(usd.welded)}
    return list(meshes.values())


def _parameters(parameters: Any) -> dict[str, int]:
    units = [parameter.unit for parameter in parameters]
    return {"angles": units.count("rad"), "lengths": units.count("m"), "numbers": units.count("1")}


def _clip(motion: Motion) -> dict[str, Any]:
    return _clip_values(motion.name, motion.duration, motion.rate, motion.roots[:, :3, 3])


def _clip_values(name: str, duration: float, rate: float, roots: Floats) -> dict[str, Any]:
    """Return the description of a clip with these positions (n, 3) of the root."""
    travel = np.linalg.norm(np.diff(roots, axis=0), axis=1).sum()
    return {
        "name": name,
        "seconds": round(duration, 4),
        "keys": len(roots),
        "keys_per_second": round(rate, 2),
        "root_travels_metres": round(float(travel), 4),
    }


def _bvh(path: Path, metres: float | None) -> dict[str, Any]:
    from supple.formats.bvh import read_bvh

    file = read_bvh(path, metres_per_unit=metres)
    places = file.skeleton.rest_world()[:, :3, 3]
    return {
        "format": "BVH",
        "metres_per_unit": file.metres_per_unit,
        "unit_told": metres is not None,
        "size": rounded(np.ptp(places, axis=0)),
        "joints": list(file.skeleton.names),
        "clips": [_clip(file.motion)],
    }


def _body_motion(path: Path) -> dict[str, Any]:
    from supple.formats.smpl.body_motion import read_body_motion

    file = read_body_motion(path)
    duration = (len(file.poses) - 1) / file.rate
    clip = _clip_values(file.name, duration, file.rate, file.translations)
    return {
        "format": f"motion of a body model ({file.layout.kind or 'other'}, {file.up} up)",
        "joints": list(file.layout.names),
        "clips": [clip],
    }


def _jointed(character: Character, n_components: int) -> str | None:
    """Return the warning about a jointed figure; the anatomy takes long to import."""
    if n_components < FEWEST_PIECES:
        return None
    from supple.anatomy.hard_parts import jointed_warning

    return jointed_warning(character)


def _of_surface(surface: SurfaceMesh) -> dict[str, Any]:
    defects = surface.defects()
    low, high = surface.bounds
    kinds = {defect.kind for defect in defects}
    open_kinds = {"open edges", "non-manifold edges", "inconsistent edges"}
    return {
        "size": rounded(high - low),
        "surface": {
            "vertices": len(surface.vertices),
            "triangles": len(surface.triangles),
            "components": int(surface.components().max()) + 1,
            "closed": not kinds & open_kinds,
        },
        "defects": with_consequences(defects),
    }


def _veg(path: Path) -> dict[str, Any]:
    from supple.formats.meshes.veg import read_any_veg
    from supple.mesh.tets import TetMesh

    veg = read_any_veg(path)
    kind = "tets" if isinstance(veg.mesh, TetMesh) else "hexes"
    return _of_elements(veg.mesh, kind) | {"materials": materials_of(veg)}


def _of_elements(mesh: TetMesh | HexMesh, kind: str) -> dict[str, Any]:
    """Describe a mesh of ``"tets"`` or ``"hexes"``."""
    return {
        "size": rounded(np.ptp(mesh.bounds, axis=0)),
        kind: {
            "vertices": len(mesh.vertices),
            kind: len(getattr(mesh, kind)),
            "cubic_metres": float(mesh.volumes().sum()),
        },
        "defects": with_consequences(mesh.defects()),
    }


def print_info(contents: dict[str, Any], console: Console | None = None) -> None:
    """Print the result of `describe`."""
    console = console or Console(highlight=False)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for title, text in _lines(contents):
        table.add_row(title, escape(printable(text)))
    console.print(table)
    if "anatomy" in contents:
        from supple.app.info.anatomy_table import anatomy_table

        anatomy_table(contents["anatomy"], console)
    if not contents["defects"]:
        console.print("no defects")
        return
    console.print("[bold]defects[/bold]")
    for defect in contents["defects"]:
        code = f" ({defect['code']})" if "code" in defect else ""
        console.print(f"  {escape(printable(defect['what']))}{code}", soft_wrap=True)
        console.print(f"    → {escape(printable(defect['consequence']))}", soft_wrap=True)


def _lines(contents: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [
        ("file", f"{contents['file']}, {contents['format']}, {contents['bytes'] / 1024:.4g} KB")
    ]
    if "size" in contents:
        lines.append(("size", " × ".join(f"{v:.4g}" for v in contents["size"]) + " m"))
    if "figures" in contents and "engine" in contents:
        return [*lines, *engine_lines(contents)]
    if "model" in contents:
        return [*lines, *model_lines(contents)]
    unit = contents.get("metres_per_unit")
    if unit is not None:
        each = "" if unit_name(unit).endswith("each") or unit == 1 else f", {unit:g} m each"
        source = ", by --unit" if contents.get("unit_told") else ""
        lines.append(("units", f"{unit_name(unit)}{each}{source}"))
    if "surface" in contents:
        s = contents["surface"]
        closed = "closed" if s["closed"] else "not closed"
        parts = counted(s["components"], "component")
        counts = f"{s['vertices']:,} vertices, {s['triangles']:,} triangles"
        lines.append(("surface", f"{counts}, {parts}, {closed}"))
    for kind in ("tets", "hexes"):
        if kind in contents:
            mesh = contents[kind]
            counts = f"{mesh[kind]:,} {kind}, {mesh['vertices']:,} vertices"
            lines.append((kind, f"{counts}, {mesh['cubic_metres']:.4g} m³"))
    lines += stvk_lines(contents)
    for mesh in contents.get("meshes", []):
        number = counted(mesh["primitives"], "primitive")
        stored = f"{mesh['vertices']:,} stored vertices"
        lines.append(("mesh", f"{mesh['name']}: {number}, {stored}"))
    if "joints" in contents:
        first = ", ".join(contents["joints"][:6])
        more = ", …" if len(contents["joints"]) > 6 else ""
        lines.append(("joints", f"{len(contents['joints'])}: {first}{more}"))
    if "parameters" in contents:
        p = contents["parameters"]
        lines.append(
            ("pose", f"{p['angles']} angles, {p['lengths']} lengths, {p['numbers']} numbers")
        )
    if "painted" in contents:
        lines.append(("painted", ", ".join(contents["painted"])))
    for clip in contents.get("clips", []):
        text = f"{clip['name']}: {clip['seconds']:.3g} s, {clip['keys']} keys"
        if clip["root_travels_metres"]:
            text += f", root travels {clip['root_travels_metres']:.3g} m"
        lines.append(("clip", text))
    return lines
