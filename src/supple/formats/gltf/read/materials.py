"""Materials of a glTF file: base colours and their textures.

Mistakes in materials never prevent reading: a warning is given, and the base colour is used.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supple.arrays import Floats, Singles
from supple.errors import FormatError
from supple.formats.gltf.container import DATA_URI, SCHEME, file_below, quoted
from supple.formats.gltf.document import Document
from supple.mesh.appearance import MOST_BYTES, Alpha, SurfaceMaterial, Texture, Wrap

TRANSFORM, GLOSSINESS = "KHR_texture_transform", "KHR_materials_pbrSpecularGlossiness"
WEBP = "EXT_texture_webp"
WRAPS: dict[Any, Wrap] = {10497: "repeat", 33071: "clamp", 33648: "mirror"}
NEAREST = 9728
ALPHAS: dict[Any, Alpha] = {"OPAQUE": "opaque", "MASK": "mask", "BLEND": "blend"}
#: Most bytes of all images together.
MOST_IN_ALL = 4 * MOST_BYTES


@dataclass(frozen=True, eq=False)
class GltfMaterial:
    """A material, and the coordinates of its texture.

    `uv_set` is the number of the coordinates, ``TEXCOORD_n``, or -1 without texture; `to_uv` an
    affine map (2, 3) from these to coordinates on the texture.
    """

    material: SurfaceMaterial = field(default_factory=SurfaceMaterial)
    uv_set: int = -1
    to_uv: Floats = field(default_factory=lambda: np.eye(2, 3))

    def texture_coordinates(self, uv: Floats) -> Singles | None:
        """Return coordinates on the texture, (n, 2), from the file's; None if too large."""
        with np.errstate(all="ignore"):
            coordinates = (uv @ self.to_uv[:, :2].T + self.to_uv[:, 2]).astype(np.float32)
        return coordinates if (np.abs(coordinates) < 1e6).all() else None


class Materials:
    """Materials of a document, each read when it is first used."""

    def __init__(self, document: Document) -> None:
        self._document, self._notes = document, document.notes
        self._read: dict[int | None, GltfMaterial] = {None: GltfMaterial()}
        self._images: dict[int, bytes | None] = {}
        self._textures: dict[int, Texture | None] = {}
        self._bytes = 0

    def __getitem__(self, index: int | None) -> GltfMaterial:
        if index not in self._read:
            assert index is not None
            self._read[index] = self._material(index)
        return self._read[index]

    def _material(self, index: int) -> GltfMaterial:
        described = _mapping(self._document.part("materials")[index])
        surface = _mapping(described.get("pbrMetallicRoughness"))
        colour, info = surface.get("baseColorFactor"), surface.get("baseColorTexture")
        other = _mapping(_mapping(described.get("extensions")).get(GLOSSINESS))
        if colour is None and info is None and other:
            colour, info = other.get("diffuseFactor"), other.get("diffuseTexture")
        factor = tuple(min(max(each, 0.0), 1.0) for each in _numbers(colour, 4, 1.0))
        info = _mapping(info)
        texture = self._texture(info["index"]) if "index" in info else None
        transform = _mapping(_mapping(info.get("extensions")).get(TRANSFORM))
        uv_set = transform.get("texCoord", info.get("texCoord", 0))
        name = described.get("name")
        material = SurfaceMaterial(
            name if isinstance(name, str) else "",
            factor,  # type: ignore[arg-type]
            texture,
            ALPHAS.get(_key(described.get("alphaMode")), "opaque"),
            _numbers([described.get("alphaCutoff", 0.5)], 1, 0.5)[0],
        )
        if texture is None or not _is_index(uv_set, 2**15):
            return GltfMaterial(material)
        return GltfMaterial(material, uv_set, _affine(transform))

    def _texture(self, index: Any) -> Texture | None:
        textures = self._document.part("textures")
        if not _is_index(index, len(textures)):
            self._lost(f"texture {quoted(index)}", "does not exist")
            return None
        if index not in self._textures:
            self._textures[index] = self._new_texture(index, _mapping(textures[index]))
        return self._textures[index]

    def _new_texture(self, index: int, described: dict[str, Any]) -> Texture | None:
        webp = _mapping(_mapping(described.get("extensions")).get(WEBP))
        sources = [each["source"] for each in (described, webp) if "source" in each]
        images = self._document.part("images")
        if not sources or not _is_index(sources[0], len(images)):
            self._lost(f"texture {index}", "has no image of a supported kind")
            return None
        image = sources[0]
        if image not in self._images:
            self._images[image] = self._image(image, _mapping(images[image]))
        data = self._images[image]
        if data is None:
            return None
        sampler = described.get("sampler")
        samplers = self._document.part("samplers")
        sampler_json = _mapping(samplers[sampler]) if _is_index(sampler, len(samplers)) else {}  # type: ignore[index]
        across, down = (WRAPS.get(_key(sampler_json.get(f"wrap{axis}")), "repeat") for axis in "ST")
        name = f"{self._notes.name}: image {image}"
        texture = Texture(name, data, (across, down), sampler_json.get("magFilter") != NEAREST)
        try:
            texture.check()
        except FormatError as error:
            self._lost(f"image {image}", str(error))
            return None
        return texture

    def _image(self, index: int, described: dict[str, Any]) -> bytes | None:
        """Return the bytes of an image, in the file or beside it; None, with a note, if lost."""
        try:
            data = self._bytes_of(described)
        except FormatError as error:
            self._lost(f"image {index}", str(error))
            return None
        except (OSError, ValueError, RuntimeError) as error:
            self._lost(f"image {index}", f"cannot be opened ({error})")
            return None
        self._bytes += len(data)
        if self._bytes > MOST_IN_ALL:
            self._lost(f"image {index}", f"exceeds the total of {MOST_IN_ALL >> 20} MiB for images")
            return None
        return data

    def _bytes_of(self, described: dict[str, Any]) -> bytes:
        view, uri = described.get("bufferView"), described.get("uri")
        if view is not None:
            views = self._document.part("bufferViews")
            if not _is_index(view, len(views)):
                raise FormatError(f"is in buffer view {quoted(view)}, which does not exist")
            place, buffers = views[view], self._document.buffers
            if not buffers.present(place["buffer"]):
                raise FormatError("is in a buffer without data")
            start = place.get("byteOffset", 0)
            if place["byteLength"] > MOST_BYTES:
                raise FormatError("is too large")
            return bytes(buffers[place["buffer"]][start : start + place["byteLength"]])
        if not isinstance(uri, str):
            raise FormatError("has neither a buffer view nor a URI")
        begin = DATA_URI.match(uri)
        if begin is not None and begin["base64"] and len(uri) < 2 * MOST_BYTES:
            return base64.b64decode(uri[begin.end() :], validate=True)
        if SCHEME.match(uri) or uri.startswith((":", "/", "\\")) or not uri:
            raise FormatError(f"is {quoted(uri)}; only files beside the glTF file are opened")
        file = file_below(self._document.path.parent, uri)
        if file is None:
            raise FormatError(f"is {quoted(uri)}, outside its folder")
        if not file.is_file():
            raise FormatError(f"is {quoted(uri)}, which does not exist")
        if file.stat().st_size > MOST_BYTES:
            raise FormatError(f"is {quoted(uri)}, which is too large")
        return file.read_bytes()

    def _lost(self, what: str, why: str) -> None:
        self._notes.warn("IMAGE_NOT_SHOWN", f"{what} {why}; the base colour is used")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _key(value: Any) -> Any:
    """Return a value that can be a dictionary key, None for lists and the like."""
    return value if isinstance(value, (str, int)) else None


def _is_index(value: Any, count: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count


def _numbers(values: Any, count: int, usual: float) -> list[float]:
    """Return `count` finite numbers; `usual` in place of invalid numbers."""
    listed = values if isinstance(values, list) and len(values) == count else [usual] * count
    return [float(value) if _is_number(value) else usual for value in listed]


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and bool(abs(value) < 1e300)


def _affine(transform: dict[str, Any]) -> Floats:
    """Return translation · rotation · scale of KHR_texture_transform, (2, 3).

    The rotation is counterclockwise, with v downwards.
    """
    offset, scale = _numbers(transform.get("offset"), 2, 0.0), transform.get("scale")
    (angle,) = _numbers([transform.get("rotation", 0.0)], 1, 0.0)
    c, s = math.cos(angle), math.sin(angle)
    linear = np.array([[c, s], [-s, c]]) * _numbers(scale, 2, 1.0)
    return np.column_stack([linear, offset])
