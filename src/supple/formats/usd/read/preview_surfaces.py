"""Colours of meshes in a stage: preview surfaces, their pictures, display colours (in the child).

Nothing about looks is worth refusing a file for: what is wrong is noted, and a simpler colour used.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from supple.formats.usd.layers import Ar, Tf, Usd, UsdGeom, UsdShade, located, shown
from supple.formats.usd.prims import as_array

#: Bytes of all pictures together.
MOST_BYTES = 512 * 2**20
#: Preview surfaces are so grey where nothing else is said.
GREY = 0.18
WRAPS = {"clamp": "clamp", "black": "clamp", "mirror": "mirror"}
PREVIEW, TEXTURE, PLACE = "UsdPreviewSurface", "UsdUVTexture", "UsdTransform2d"
READERS = ("UsdPrimvarReader_float2", "UsdPrimvarReader_float3")
DISPLAY = "displayColor"


class Looks:
    """Materials and pictures of a stage, each read once.

    Attributes
    ----------
    materials
        Name, colour (of four), texture, alpha mode and cutoff of each. A texture has the number
        of its picture, how it wraps, the primvar of its coordinates and a map (2, 3) from these,
        and what its colours are multiplied by, in place of the material's own.
    pictures
        Name and bytes of each.
    """

    def __init__(self, folder: Path, notes: list[str]) -> None:
        self._folder, self._notes = folder, notes
        self.materials: list[dict[str, Any]] = []
        self.pictures: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}
        self._files: dict[str, int] = {}
        self._bytes = 0

    def of(self, prim: Any, mesh: dict[str, Any]) -> dict[str, Any]:
        """Return a material of each face (-1: none), coordinates and colours of each corner."""
        which = np.full(len(mesh["counts"]), self._bound(prim))
        for subset in UsdShade.MaterialBindingAPI(prim).GetMaterialBindSubsets():
            faces = as_array(subset.GetIndicesAttr().Get(), np.int64)
            if faces is not None:
                faces = faces[(faces >= 0) & (faces < len(which))]
                which[faces] = self._bound(subset.GetPrim())
        look: dict[str, Any] = {"materials": which, "uv": None, "colours": None}
        for number in np.unique(which):
            material = self.materials[number] if number >= 0 else None
            corners = np.repeat(which == number, mesh["counts"])
            texture = material["texture"] if material else None
            if texture is not None:
                uv = self._primvar(prim, texture["primvar"], 2, mesh)
                if uv is not None:
                    self._fill(look, "uv", uv, corners, 0.0)
                else:
                    which[which == number] = self._plain(int(number))
            # What has no colour of its own, or has lost it, shows the one for display.
            painted = material["painted"] if material else DISPLAY
            if painted:
                colours = self._primvar(prim, painted, 3, mesh)
                opacity = self._primvar(prim, "displayOpacity", None, mesh)
                if colours is not None:
                    through = np.ones(len(colours)) if opacity is None else opacity
                    rgba = np.column_stack([colours, through])
                    self._fill(look, "colours", rgba, corners, 1.0)
        return look

    @staticmethod
    def _fill(
        look: dict[str, Any], name: str, values: np.ndarray, corners: np.ndarray, usual: float
    ) -> None:
        if look[name] is None:
            look[name] = np.full(values.shape, usual, np.float32)
        look[name][corners] = values[corners]

    def _plain(self, number: int) -> int:
        """Return a material like this one without its texture: the mesh has no coordinates."""
        key = f"plain {number}"
        if key not in self._numbers:
            self._numbers[key] = len(self.materials)
            self.materials.append(self.materials[number] | {"texture": None})
        return self._numbers[key]

    def _primvar(
        self, prim: Any, name: str, width: int | None, mesh: dict[str, Any]
    ) -> np.ndarray | None:
        """Return a primvar's value at every corner of every face, (c, width) or (c,)."""
        primvar = UsdGeom.PrimvarsAPI(prim).FindPrimvarWithInheritance(name)
        if not primvar or not primvar.HasValue():
            return None
        counts, corners = mesh["counts"], mesh["corners"]
        values = as_array(primvar.ComputeFlattened(Usd.TimeCode.EarliestTime()), np.float32, width)
        kind = primvar.GetInterpolation()
        wanted = {
            "constant": 1,
            "uniform": len(counts),
            "vertex": len(mesh["points"]),
            "varying": len(mesh["points"]),
            "faceVarying": len(corners),
        }.get(kind)
        if values is None or len(values) != wanted or not (np.abs(values) < 1e6).all():
            if values is None or len(values):
                path = prim.GetPath()
                self._notes.append(f"mesh {path} has primvar {name} that does not fit; left out")
            return None
        if kind == "constant":
            return np.repeat(values, len(corners), axis=0)
        if kind == "uniform":
            return np.repeat(values, counts, axis=0)
        return values if kind == "faceVarying" else values[corners]

    def _bound(self, prim: Any) -> int:
        """Return the number of the material that a prim is bound to, -1 without one."""
        try:
            material = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0]
        except Tf.ErrorException:
            return -1
        if not material:
            return -1
        path = str(material.GetPath())
        if path not in self._numbers:
            described = self._material(material)
            self._numbers[path] = len(self.materials) if described else -1
            self.materials += [described] if described else []
        return self._numbers[path]

    def _material(self, material: Any) -> dict[str, Any] | None:
        """Describe a preview surface; None for other shaders: display colours stand for them."""
        shader = material.ComputeSurfaceSource()[0]
        if not shader or shader.GetIdAttr().Get() != PREVIEW:
            return None
        diffuse, source = _value(shader, "diffuseColor")
        colour = _numbers(diffuse, 3, GREY)
        texture, painted = None, ""
        if source is not None and source.GetIdAttr().Get() == TEXTURE:
            texture = self._texture(source)
            if texture is None and diffuse is None:
                painted, colour = DISPLAY, [1.0, 1.0, 1.0]
        elif source is not None and source.GetIdAttr().Get() in READERS:
            painted, colour = _text(_value(source, "varname")[0]), [1.0, 1.0, 1.0]
        opacity, through = _value(shader, "opacity")
        cutoff = _numbers([_value(shader, "opacityThreshold")[0]], 1, 0.0)[0]
        alpha = _numbers([opacity], 1, 1.0)[0]
        cut = through is not None and source is not None and through.GetPath() == source.GetPath()
        mode = "mask" if cutoff > 0 else "blend"
        return {
            "name": material.GetPrim().GetName(),
            "colour": [min(max(each, 0.0), 1.0) for each in (*colour, alpha)],
            "texture": texture,
            "painted": painted,
            "alpha": mode if alpha < 1 or (cut and texture is not None) else "opaque",
            "cutoff": cutoff,
        }

    def _texture(self, shader: Any) -> dict[str, Any] | None:
        attribute = shader.GetInput("file")
        found = UsdShade.Utils.GetValueProducingAttributes(attribute) if attribute else []
        picture = self._picture(found[0]) if found else None
        if picture is None:
            return None
        wraps = [WRAPS.get(_text(_value(shader, f"wrap{way}")[0]), "repeat") for way in "ST"]
        to_st, name = np.eye(2, 3), "st"
        _, reader = _value(shader, "st")
        if reader is not None and reader.GetIdAttr().Get() == PLACE:
            to_st = _affine(reader)
            _, reader = _value(reader, "in")
        if reader is not None:
            name = _text(_value(reader, "varname")[0]) or "st"
        scale = [min(max(s, 0.0), 1.0) for s in _numbers(_value(shader, "scale")[0], 4, 1.0)]
        return {
            "picture": picture,
            "wrap": wraps,
            "primvar": name,
            "to_st": to_st,
            "scale": scale[:3],
        }

    def _picture(self, attribute: Any) -> int | None:
        """Return the number of the picture that an attribute names; None, with a note, if lost."""
        asset = attribute.Get(Usd.TimeCode.EarliestTime())
        authored = [spec for spec in attribute.GetPropertyStack() if spec.layer]
        name = getattr(asset, "path", "")
        if not name or not authored:
            return None
        why, where = located(authored[0].layer, name, self._folder)
        if where in self._files:
            return self._files[where]
        data = b""
        if where:
            why, data = self._bytes_of(where)
        if why:
            self._notes.append(f'picture "{shown(name)}" {why}; a plain colour is shown')
            return None
        self._files[where] = len(self.pictures)
        self.pictures.append({"name": shown(name), "data": np.frombuffer(data, np.uint8)})
        return self._files[where]

    def _bytes_of(self, where: str) -> tuple[str, bytes]:
        resolver = Ar.GetResolver()
        try:
            opened = resolver.OpenAsset(resolver.Resolve(where))
        except Tf.ErrorException:
            return "cannot be read", b""
        if not opened:
            return "cannot be read", b""
        self._bytes += opened.GetSize()
        if self._bytes > MOST_BYTES:
            return f"comes after {MOST_BYTES >> 20} MiB of others", b""
        data = bytes(opened.GetBuffer() or b"")
        return ("", data) if data else ("is empty", b"")


def _value(shader: Any, name: str) -> tuple[Any, Any]:
    """Return an input's value, None if it has none, and the shader it comes from, if any does."""
    given = shader.GetInput(name)
    if not given:
        return None, None
    own = given.GetAttr().Get(Usd.TimeCode.EarliestTime())
    found = UsdShade.Utils.GetValueProducingAttributes(given)
    if not found:
        return own, None
    if found[0].GetName().startswith("outputs:"):
        source = UsdShade.Shader(found[0].GetPrim())
        return own, source if source else None
    return found[0].Get(Usd.TimeCode.EarliestTime()), None


def _numbers(value: Any, count: int, usual: float) -> list[float]:
    """Return so many finite numbers, the usual one in place of what is none."""
    try:
        given = [float(each) for each in value]
    except (TypeError, ValueError):
        given = []
    given = given if len(given) == count else [usual] * count
    return [each if math.isfinite(each) else usual for each in given]


def _text(value: Any) -> str:
    return str(value) if value is not None else ""


def _affine(shader: Any) -> np.ndarray:
    """Return translation · rotation · scale of a UsdTransform2d, (2, 3)."""
    (turn,) = _numbers([_value(shader, "rotation")[0]], 1, 0.0)
    scale = _numbers(_value(shader, "scale")[0], 2, 1.0)
    move = _numbers(_value(shader, "translation")[0], 2, 0.0)
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    return np.column_stack([np.array([[c, -s], [s, c]]) * scale, move])
