"""Appearance of a character, from the materials that the child process read."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.arrays import Ints, Singles
from supple.errors import FormatError
from supple.mesh.appearance import Appearance, SurfaceMaterial, Texture


def staged_appearance(
    name: str, stage: dict[str, Any], corners: list[Ints], notes: list[str]
) -> Appearance | None:
    """Return colours of all triangles; None for a stage without any.

    `corners` has, for each mesh (m, 3), the corners of the file's faces of each triangle. `notes`
    gets a line for each image that cannot be used.
    """
    looks = [mesh["look"] for mesh in stage["meshes"]]
    if all((look["materials"] < 0).all() and look["colours"] is None for look in looks):
        return None
    textures = _textures(name, stage, notes)
    materials = [_material(each, textures.get(k)) for k, each in enumerate(stage["materials"])]
    # The last two are for vertex colours without a material: opaque, or with opacity.
    materials += [SurfaceMaterial(), SurfaceMaterial(alpha="blend")]
    material_of_triangle, uv, tints = [], [], []
    for mesh, look, mesh_corners in zip(stage["meshes"], looks, corners, strict=True):
        face = np.repeat(np.arange(len(mesh["counts"])), mesh["counts"])[mesh_corners[:, 0]]
        painted = look["colours"]
        has_alpha = painted is not None and bool((painted[:, 3] < 1).any())
        material = look["materials"][face]
        material_of_triangle.append(
            np.where(material < 0, len(materials) - (1 if has_alpha else 2), material)
        )
        uv.append(_placed(look["uv"], stage["materials"], material, mesh_corners))
        white = np.ones((*mesh_corners.shape, 4), np.float32)
        tints.append(white if painted is None else np.clip(painted[mesh_corners], 0.0, 1.0))
    used, new_index = np.unique(np.concatenate(material_of_triangle), return_inverse=True)
    coloured = any(look["colours"] is not None for look in looks)
    return Appearance(
        tuple(materials[k] for k in used),
        new_index.astype(np.int64),
        np.concatenate(uv) if any(look["uv"] is not None for look in looks) else None,
        np.concatenate(tints).astype(np.float32) if coloured else None,
    )


def _textures(name: str, stage: dict[str, Any], notes: list[str]) -> dict[int, Texture]:
    """Return textures of materials by their numbers, without invalid images."""
    data = [each["data"].tobytes() for each in stage["pictures"]]
    textures = {}
    for number, material in enumerate(stage["materials"]):
        described = material["texture"]
        if described is None:
            continue
        picture = stage["pictures"][described["picture"]]["name"]
        wrap = described["wrap"]
        texture = Texture(f'{name}: image "{picture}"', data[described["picture"]], tuple(wrap))
        try:
            texture.check()
        except FormatError as error:
            notes.append(f'image "{picture}" {error}; a plain colour is used')
            continue
        textures[number] = texture
    return textures


def _material(described: dict[str, Any], texture: Texture | None) -> SurfaceMaterial:
    red, green, blue, alpha = described["colour"]
    if texture is not None:
        red, green, blue = described["texture"]["scale"]
    colour, mode = (red, green, blue, alpha), described["alpha"]
    return SurfaceMaterial(described["name"], colour, texture, mode, described["cutoff"])


def _placed(uv: Singles | None, materials: list[Any], which: Ints, corners: Ints) -> Singles:
    """Return coordinates on the textures, (m, 3, 2), with v downwards."""
    coordinates = np.zeros((*corners.shape, 2), np.float32)
    if uv is None:
        return coordinates
    for number in np.unique(which[which >= 0]):
        if materials[number]["texture"] is None:
            continue
        chosen = which == number
        to_st = materials[number]["texture"]["to_st"]
        placed = uv[corners[chosen]] @ to_st[:, :2].T + to_st[:, 2]
        coordinates[chosen] = np.stack([placed[..., 0], 1 - placed[..., 1]], axis=-1)
    return np.where(np.isfinite(coordinates), coordinates, 0.0).astype(np.float32)
