"""Tables of file formats: characters in, motions and curves out, surfaces and tets in.

A format is one file that reads or writes it, and one row here. A row names its function as
``"module:function"``; the module is imported when the function is first used, so that optional
libraries are loaded only if needed. All lists of suffixes in other modules come from these tables.

>>> CHARACTERS.find("rat.GLB").name
'glTF 2.0'
>>> SURFACES.suffixes()
('.obj', '.ply', '.stl', '.off')
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from supple.errors import FormatError

#: Names of Supple's additions in files, and in messages.
CURVES, FLESH = "supple_curves", "supple_flesh"
ADDED = {CURVES: "curves", FLESH: "flesh"}

GLTF_SUFFIXES = (".glb", ".gltf", ".vrm")
BLENDER_SUFFIXES = (".blend", ".fbx")
USD_SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
#: Modal matrices of VegaFEM; in no table, since only `read_modal_matrix` reads them.
MODAL_MATRIX_SUFFIXES = (".u", ".float", ".ulin", ".unonlin", ".urendering")


def imported(function: str) -> Callable[..., Any]:
    """Return the function that ``"module:function"`` names; the module is imported."""
    module, _, name = function.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(module), name)
    return loaded


@dataclass(frozen=True)
class CharacterFormat:
    """Format from which characters are read.

    Attributes
    ----------
    name : str
        As ``supple info`` shows it.
    suffixes : tuple of str
        In lower case, with the dot.
    reader : str
        ``"module:function"`` of a function from a `Path` to a `Character`; with a parameter
        ``metres_per_unit`` if the unit can be given.
    baked_suffix : str
        Default suffix of the result of ``supple bake``; "" for the suffix of the file.
    body : bool
        Whether ``supple stvk`` can fill the character's surface.
    """

    name: str
    suffixes: tuple[str, ...]
    reader: str
    baked_suffix: str = ".glb"
    body: bool = True


@dataclass(frozen=True)
class CurveFormat:
    """Format in which free curves are written.

    Attributes
    ----------
    suffixes : tuple of str
        In lower case, with the dot.
    writer : str
        ``"module:function"`` of a function that takes the path, the `FreeCurves` and keyword-only
        options, and returns results as a dict.
    remover : str
        ``"module:function"`` of a function of a path and a file with additions that writes the
        original; "" if a file holds only the motion.
    library, extra : str
        Module of the optional library that the format needs, and Supple's extra that installs it;
        "" for none.
    """

    suffixes: tuple[str, ...]
    writer: str
    remover: str = ""
    library: str = ""
    extra: str = ""

    def options(self) -> frozenset[str]:
        """Return the names of the writer's keyword-only parameters."""
        parameters = inspect.signature(imported(self.writer)).parameters.values()
        return frozenset(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


@dataclass(frozen=True)
class BakedMotionFormat(CurveFormat):
    """Format in which baked motions are written.

    The writer takes a `BakedMotion` in place of curves. The options ``error`` and ``normals`` are
    always passed to a writer that has them; any other option is an error unless the writer has it.
    A format that extends the character's own file uses ``baked.character.source``, and writes a new
    file if the character came from another format.

    Attributes
    ----------
    mesh_beside : str
        ``"module:function"`` from the path to the path of a mesh written beside it; "" for
        none.
    several : bool or str
        Whether one file holds several motions, or ``"module:function"`` of a function of the
        character and the writer's options that returns this. The writer then takes a list.
    target_check : str
        ``"module:function"`` of a function of path, character and names of motions that raises an
        error for a target before the simulation; "" if every path is valid.
    flesh_check : str
        ``"module:function"`` of a function of a path that returns whether `remover` applies.
    """

    mesh_beside: str = ""
    several: bool | str = False
    target_check: str = ""
    flesh_check: str = ""


@dataclass(frozen=True)
class MeshFormat:
    """Format from which surfaces or tets are read.

    Attributes
    ----------
    suffixes : tuple of str
        Suffixes in lower case, with the dot.
    parser : str
        ``"module:function"`` of a function of the path and the file's bytes. For surfaces it
        returns vertices (n, 3) and triangles (m, 3); for tets vertices (n, 3), tets (m, 4), the
        names of volume cells other than tets, and named sets of tets.
    loose : bool
        Whether triangles share no vertices in the file; equal corners are then merged.
    """

    suffixes: tuple[str, ...]
    parser: str
    loose: bool = False


Row = TypeVar("Row", CharacterFormat, BakedMotionFormat, CurveFormat, MeshFormat)


class FormatTable(Generic[Row]):
    """Formats of one kind, found by suffix; messages list suffixes in the order of `rows`."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: list[Row] = list(rows)

    def suffixes(self) -> tuple[str, ...]:
        """Return the suffixes of all rows, in lower case."""
        return tuple(suffix for row in self.rows for suffix in row.suffixes)

    def find(self, path: str | Path) -> Row | None:
        """Return the row of the path's suffix, None if there is none."""
        suffix = Path(path).suffix.lower()
        return next((row for row in self.rows if suffix in row.suffixes), None)

    def required(self, path: Path, action: str) -> Row:
        """Return the row of the path's suffix; FormatError, which names `action`, without one."""
        row = self.find(path)
        if row is None:
            suffix, listed = path.suffix.lower(), ", ".join(self.suffixes())
            raise FormatError(f'{path.name}: cannot {action} "{suffix}" files; use one of {listed}')
        return row


CHARACTERS = FormatTable(
    [
        CharacterFormat("glTF 2.0", (".glb", ".gltf"), "supple.formats.gltf.read.gltf:load_gltf"),
        CharacterFormat(
            "VRM", (".vrm",), "supple.formats.gltf.read.gltf:load_gltf", baked_suffix=""
        ),
        CharacterFormat(
            "through Blender",
            BLENDER_SUFFIXES,
            "supple.formats.blender.blend_file:load_blend",
            baked_suffix="",
        ),
        CharacterFormat(
            "USD", USD_SUFFIXES, "supple.formats.usd.read.usd:load_usd", baked_suffix=""
        ),
        CharacterFormat(
            "research example (JSON)",
            (".json",),
            "supple.formats.research:load_json_example",
            body=False,
        ),
        CharacterFormat(
            "body model", (".npz", ".pkl", ".smpl"), "supple.formats.smpl.load_body:load_body"
        ),
    ]
)

BAKED_MOTIONS = FormatTable(
    [
        BakedMotionFormat(
            GLTF_SUFFIXES,
            "supple.formats.gltf.write.gltf_motion:write_gltf",
            several=True,
            target_check="supple.formats.gltf.write.vrm_extension:check_vrm_target",
            remover="supple.formats.gltf.write.source_file:remove_gltf_flesh",
            flesh_check="supple.formats.gltf.write.source_file:holds_gltf_flesh",
        ),
        BakedMotionFormat(
            BLENDER_SUFFIXES,
            "supple.formats.blender.blend_file:write_blend",
            several=True,
            target_check="supple.formats.blender.blend_file:check_blend_target",
        ),
        BakedMotionFormat(
            USD_SUFFIXES,
            "supple.formats.usd.write.usd_motion:write_usd",
            library="pxr",
            extra="usd",
            several="supple.formats.usd.write.usd_motion:holds_several",
            target_check="supple.formats.usd.write.layer_plan:check_layer_target",
            remover="supple.formats.usd.originals:remove_usd_flesh",
            flesh_check="supple.formats.usd.originals:holds_usd_flesh",
        ),
        BakedMotionFormat(
            (".pc2", ".mdd"),
            "supple.formats.point_cache:write_point_cache",
            mesh_beside="supple.formats.point_cache:mesh_beside",
        ),
        BakedMotionFormat((".npz",), "supple.formats.point_cache:write_npz"),
        BakedMotionFormat(
            (".abc",), "supple.formats.point_cache:write_abc", library="alembic3d", extra="alembic"
        ),
    ]
)

FREE_CURVES = FormatTable(
    [
        CurveFormat(
            GLTF_SUFFIXES,
            "supple.formats.gltf.write.animation_curves:write_gltf_curves",
            remover="supple.formats.gltf.write.source_file:remove_gltf_curves",
        ),
        CurveFormat(
            BLENDER_SUFFIXES,
            "supple.formats.blender.blend_file:write_blend_curves",
            remover="supple.formats.blender.blend_file:remove_blend_curves",
        ),
        CurveFormat(
            USD_SUFFIXES,
            "supple.formats.usd.write.animation_layer:write_usd_curves",
            remover="supple.formats.usd.originals:remove_usd_curves",
            library="pxr",
            extra="usd",
        ),
        CurveFormat((".bvh",), "supple.formats.bvh_curves:write_bvh_curves"),
        CurveFormat((".csv",), "supple.formats.curve_keys:write_csv_curves"),
        CurveFormat((".json",), "supple.formats.curve_keys:write_json_curves"),
    ]
)

SURFACES = FormatTable(
    [
        MeshFormat((".obj",), "supple.formats.meshes.obj:parse_obj"),
        MeshFormat((".ply",), "supple.formats.meshes.ply:parse_ply"),
        MeshFormat((".stl",), "supple.formats.meshes.stl:parse_stl", loose=True),
        MeshFormat((".off",), "supple.formats.meshes.off:parse_off"),
    ]
)

TETS = FormatTable(
    [
        MeshFormat((".veg",), "supple.formats.meshes.veg:parse_veg_tets"),
        MeshFormat((".msh",), "supple.formats.meshes.msh:parse_msh"),
        MeshFormat((".mesh",), "supple.formats.meshes.medit:parse_medit"),
        MeshFormat((".vtk",), "supple.formats.meshes.vtk:parse_vtk"),
    ]
)
