"""Digests of all data blocks of a file, to see what changed."""

from __future__ import annotations

import hashlib
from typing import Any

import bpy
import numpy as np

#: Said anew by every session or evaluation, or made of other properties.
RUNTIME = {
    "bl_rna",
    "bound_box",
    "children",
    "channels",
    "children_recursive",
    "color_attributes",
    "corner_normals",
    "depsgraph",
    "dimensions",
    "edges",
    "id_data",
    "is_updated",
    "is_updated_data",
    "loop_triangle_polygons",
    "loop_triangles",
    "loops",
    "original",
    "points",
    "polygon_normals",
    "polygons",
    "rna_type",
    "keying_sets",
    "keying_sets_all",
    "session_uid",
    "skin_vertices",
    "tool_settings",  # reading all of it crashes a Blender without windows
    "uv_layer_clone",
    "uv_layer_stencil",
    "uv_layers",
    "vertex_colors",
    "vertex_normals",
    "vertices",
    "view_layers",
}
OWNERS = (
    "actions",
    "armatures",
    "collections",
    "lattices",
    "materials",
    "meshes",
    "objects",
    "scenes",
    "shape_keys",
)


def digests() -> dict[str, str]:
    """Digest of each data block, by kind and name."""
    found = {}
    for kind in OWNERS:
        for block in getattr(bpy.data, kind):
            text = repr(_struct(block, 0))
            found[f"{kind}/{block.name}"] = hashlib.sha256(text.encode()).hexdigest()
    return found


def changes(before: dict[str, str]) -> list[str]:
    """Data blocks that are new, gone or different."""
    after = digests()
    return sorted(key for key in before | after if before.get(key) != after.get(key))


def _struct(struct: Any, depth: int) -> Any:
    if depth > 8:
        return "deep"
    found: dict[str, Any] = {}
    for prop in struct.bl_rna.properties:
        name = prop.identifier
        if name in RUNTIME:
            continue
        try:
            value = getattr(struct, name)
        except (AttributeError, RuntimeError, TypeError):
            continue
        if prop.type == "POINTER":
            found[name] = _pointed(value, depth)
        elif prop.type == "COLLECTION":
            found[name] = _collected(name, value, depth)
        elif getattr(prop, "is_array", False):
            found[name] = repr([*_flat(value)])
        else:
            found[name] = repr(value)
    if isinstance(struct, bpy.types.ID):
        custom = {key: struct[key] for key in struct.keys()}  # noqa: SIM118 - no mapping
        plain = {k: v.to_dict() if hasattr(v, "to_dict") else repr(v) for k, v in custom.items()}
        # Groups of registered properties are made when somebody looks for them.
        found["custom"] = {key: value for key, value in plain.items() if value != {}}
    if isinstance(struct, bpy.types.Mesh):
        found["attributes"] = {each.name: _bytes(each) for each in struct.attributes}
        found["groups"] = [[(g.group, g.weight) for g in v.groups] for v in struct.vertices]
    return found


def _pointed(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bpy.types.ID):
        return None if value is None else value.name_full
    if hasattr(value, "name"):  # it is in a collection, too
        return value.name
    return _struct(value, depth + 1)


def _collected(name: str, value: Any, depth: int) -> Any:
    if name == "attributes" or not len(value):
        return len(value)
    if isinstance(value[0], bpy.types.ID):
        return [each.name_full if each else None for each in value]
    if name == "data" and hasattr(value[0], "co"):  # of shape keys
        flat = np.empty(3 * len(value), np.float32)
        value.foreach_get("co", flat)
        return hashlib.sha256(flat.tobytes()).hexdigest()
    if name == "keyframe_points":
        flat = np.empty(2 * len(value), np.float32)
        parts = []
        for field in ("co", "handle_left", "handle_right"):
            value.foreach_get(field, flat)
            parts.append(flat.tobytes())
        return hashlib.sha256(b"".join(parts)).hexdigest()
    return [_struct(each, depth + 1) for each in value]


def _flat(value: Any) -> Any:
    for each in value:
        if hasattr(each, "__len__") and not isinstance(each, str):
            yield from _flat(each)
        else:
            yield each


def _bytes(attribute: Any) -> str:
    field, width, kind = {
        "FLOAT_VECTOR": ("vector", 3, np.float32),
        "FLOAT": ("value", 1, np.float32),
        "INT": ("value", 1, np.int32),
        "BOOLEAN": ("value", 1, bool),
        "INT32_2D": ("value", 2, np.int32),
        "FLOAT2": ("vector", 2, np.float32),
        "FLOAT_COLOR": ("color", 4, np.float32),
    }.get(attribute.data_type, ("", 0, None))
    if not width:
        return attribute.data_type
    flat = np.empty(width * len(attribute.data), kind)
    attribute.data.foreach_get(field, flat)
    return hashlib.sha256(flat.tobytes()).hexdigest()
