"""Colours of meshes in a stage: preview surfaces, textures, display colours (in the child).

Mistakes in materials never prevent reading: a warning is given, and a simpler colour is used.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from supple.formats.usd.layers import Ar, Tf, Usd, UsdGeom, UsdShade, located, shown
from supple.formats.usd.prims import as_array

#: Most bytes of all images together.
MOST_BYTES = 512 * 2**20
#: Default colour of preview surfaces.
GREY = 0.18
WRAPS = {"clamp": "clamp", "black": "clamp", "mirror": "mirror"}
PREVIEW, TEXTURE, PLACE = "UsdPreviewSurface", "UsdUVTexture", "UsdTransform2d"
READERS = ("UsdPrimvarReader_float2", "UsdPrimvarReader_float3")
DISPLAY = "displayColor"


class Looks:
    """Materials and images of a stage, each read once.

    `materials` have name, colour (RGBA), texture, primvar of colours, alpha mode and cutoff. A
    texture has the index of its image, its wrap modes, the primvar of its coordinates, a map (2, 3)
    from these to the image, and a factor (RGB) that replaces the material's colour. `pictures` have
    name and bytes.
    """

    def __init__(self, folder: Path, notes: list[str]) -> None:
        self._folder, self._notes = folder, notes
        self.materials: list[dict[str, Any]] = []
        self.pictures: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}
        self._files: dict[str, int] = {}
        self._bytes = 0

    def of(self, prim: Any, mesh: dict[str, Any]) -> dict[str, Any]:
        """Return a mesh's material per face (-1: none), and uv and colours per corner, or None."""
        face_materials = np.full(len(mesh["counts"]), self._bound(prim))
        for subset in UsdShade.MaterialBindingAPI(prim).GetMaterialBindSubsets():
            faces = as_array(subset.GetIndicesAttr().Get(), np.int64)
            if faces is not None:
                faces = faces[(faces >= 0) & (faces < len(face_materials))]
                face_materials[faces] = self._bound(subset.GetPrim())
        look: dict[str, Any] = {"materials": face_materials, "uv": None, "colours": None}
        for number in np.unique(face_materials):
            material = self.materials[number] if number >= 0 else None
            corners = np.repeat(face_materials == number, mesh["counts"])
            texture = material["texture"] if material else None
            if texture is not None:
                uv = self._primvar(prim, texture["primvar"], 2, mesh)
                if uv is not None:
                    self._fill(look, "uv", uv, corners, 0.0)
                else:
                    face_materials[face_materials == number] = self._plain(int(number))
            # Without a colour, or with a lost texture, the display colour is used.
            colour_primvar = material["painted"] if material else DISPLAY
            if colour_primvar:
                colours = self._primvar(prim, colour_primvar, 3, mesh)
                opacity = self._primvar(prim, "displayOpacity", None, mesh)
                if colours is not None:
                    alpha = np.ones(len(colours)) if opacity is None else opacity
                    rgba = np.column_stack([colours, alpha])
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
        """Return the number of a material's copy without texture, for meshes that have no uv."""
        key = f"plain {number}"
        if key not in self._numbers:
            self._numbers[key] = len(self.materials)
            self.materials.append(self.materials[number] | {"texture": None})
        return self._numbers[key]

    def _primvar(
        self, prim: Any, name: str, width: int | None, mesh: dict[str, Any]
    ) -> np.ndarray | None:
        """Return a primvar at every corner of every face, (c, width) or (c,); None if invalid."""
        primvar = UsdGeom.PrimvarsAPI(prim).FindPrimvarWithInheritance(name)
        if not primvar or not primvar.HasValue():
            return None
        counts, corners = mesh["counts"], mesh["corners"]
        values = as_array(primvar.ComputeFlattened(Usd.TimeCode.EarliestTime()), np.float32, width)
        kind = primvar.GetInterpolation()
        expected = {
            "constant": 1,
            "uniform": len(counts),
            "vertex": len(mesh["points"]),
            "varying": len(mesh["points"]),
            "faceVarying": len(corners),
        }.get(kind)
        if values is None or len(values) != expected or not (np.abs(values) < 1e6).all():
            if values is None or len(values):
                path = prim.GetPath()
                self._notes.append(f"mesh {path} has an invalid primvar {name}; ignored")
            return None
        if kind == "constant":
            return np.repeat(values, len(corners), axis=0)
        if kind == "uniform":
            return np.repeat(values, counts, axis=0)
        return values if kind == "faceVarying" else values[corners]

    def _bound(self, prim: Any) -> int:
        """Return the number of the material of a prim, -1 without one."""
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
        """Describe a preview surface; None for other shaders, where display colours are used."""
        shader = material.ComputeSurfaceSource()[0]
        if not shader or shader.GetIdAttr().Get() != PREVIEW:
            return None
        diffuse, source = _value(shader, "diffuseColor")
        colour = _numbers(diffuse, 3, GREY)
        texture, painted = None, ""
        kind = source.GetIdAttr().Get() if source is not None else None
        if source is not None and kind == TEXTURE:
            texture = self._texture(source)
            if texture is None and diffuse is None:
                painted, colour = DISPLAY, [1.0, 1.0, 1.0]
        elif source is not None and kind in READERS:
            painted, colour = _text(_value(source, "varname")[0]), [1.0, 1.0, 1.0]
        opacity, opacity_source = _value(shader, "opacity")
        cutoff = _numbers([_value(shader, "opacityThreshold")[0]], 1, 0.0)[0]
        alpha = _numbers([opacity], 1, 1.0)[0]
        paths = [each.GetPath() for each in (source, opacity_source) if each is not None]
        shares_texture = len(paths) == 2 and paths[0] == paths[1]
        mode = "mask" if cutoff > 0 else "blend"
        return {
            "name": material.GetPrim().GetName(),
            "colour": [min(max(each, 0.0), 1.0) for each in (*colour, alpha)],
            "texture": texture,
            "painted": painted,
            "alpha": mode if alpha < 1 or (shares_texture and texture is not None) else "opaque",
            "cutoff": cutoff,
        }

    def _texture(self, shader: Any) -> dict[str, Any] | None:
        attribute = shader.GetInput("file")
        attributes = UsdShade.Utils.GetValueProducingAttributes(attribute) if attribute else []
        picture = self._picture(attributes[0]) if attributes else None
        if picture is None:
            return None
        wraps = [WRAPS.get(_text(_value(shader, f"wrap{axis}")[0]), "repeat") for axis in "ST"]
        to_st, name = np.eye(2, 3), "st"
        _, reader = _value(shader, "st")
        if reader is not None and reader.GetIdAttr().Get() == PLACE:
            to_st = _affine(reader)
            _, reader = _value(reader, "in")
        if reader is not None:
            name = _text(_value(reader, "varname")[0]) or "st"
        scale = [min(max(s, 0.0), 1.0) for s in _numbers(_value(shader, "scale")[0], 4, 1.0)]
        texture = {"picture": picture, "wrap": wraps, "primvar": name, "to_st": to_st}
        return texture | {"scale": scale[:3]}

    def _picture(self, attribute: Any) -> int | None:
        """Return the number of the image that an attribute names; None, with a note, if lost."""
        asset = attribute.Get(Usd.TimeCode.EarliestTime())
        authored = [spec for spec in attribute.GetPropertyStack() if spec.layer]
        name = getattr(asset, "path", "")
        if not name or not authored:
            return None
        reason, path = located(authored[0].layer, name, self._folder)
        if path in self._files:
            return self._files[path]
        data = b""
        if path:
            reason, data = self._bytes_of(path)
        if reason:
            self._notes.append(f'image "{shown(name)}" {reason}; a plain colour is used')
            return None
        self._files[path] = len(self.pictures)
        self.pictures.append({"name": shown(name), "data": np.frombuffer(data, np.uint8)})
        return self._files[path]

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
            return f"exceeds the total of {MOST_BYTES >> 20} MiB for images", b""
        data = bytes(opened.GetBuffer() or b"")
        return ("", data) if data else ("is empty", b"")


def _value(shader: Any, name: str) -> tuple[Any, Any]:
    """Return an input's value or None, and the shader that defines it or None."""
    shader_input = shader.GetInput(name)
    if not shader_input:
        return None, None
    constant = shader_input.GetAttr().Get(Usd.TimeCode.EarliestTime())
    attributes = UsdShade.Utils.GetValueProducingAttributes(shader_input)
    if not attributes:
        return constant, None
    if attributes[0].GetName().startswith("outputs:"):
        source = UsdShade.Shader(attributes[0].GetPrim())
        return constant, source if source else None
    return attributes[0].Get(Usd.TimeCode.EarliestTime()), None


def _numbers(value: Any, count: int, usual: float) -> list[float]:
    """Return `count` finite numbers; `usual` in place of invalid numbers."""
    try:
        numbers = [float(each) for each in value]
    except (TypeError, ValueError):
        numbers = []
    numbers = numbers if len(numbers) == count else [usual] * count
    return [each if math.isfinite(each) else usual for each in numbers]


def _text(value: Any) -> str:
    return str(value) if value is not None else ""


def _affine(shader: Any) -> np.ndarray:
    """Return translation · rotation · scale of a UsdTransform2d, (2, 3)."""
    (angle,) = _numbers([_value(shader, "rotation")[0]], 1, 0.0)
    scale = _numbers(_value(shader, "scale")[0], 2, 1.0)
    translation = _numbers(_value(shader, "translation")[0], 2, 0.0)
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return np.column_stack([np.array([[c, -s], [s, c]]) * scale, translation])
