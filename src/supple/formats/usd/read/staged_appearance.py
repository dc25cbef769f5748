"""Appearance of a character from what the child process found in its stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.arrays import Ints, Singles
from supple.errors import FormatError
from supple.mesh.appearance import Appearance, SurfaceMaterial, Texture


def staged_appearance(
    name: str, stage: dict[str, Any], corners: list[Ints], notes: list[str]
) -> Appearance | None:
    """Return colours of all triangles; None for a stage that says nothing about them.

    Parameters
    ----------
    name
        Of the file, for messages.
    stage
        As `read_child` sends it.
    corners
        For each mesh (m, 3), which of all corners of its faces its triangles have.
    notes
        Gets a line for each picture that cannot be shown.
    """
    looks = [mesh["look"] for mesh in stage["meshes"]]
    if all((look["materials"] < 0).all() and look["colours"] is None for look in looks):
        return None
    textures = _textures(name, stage, notes)
    known = [_material(each, textures.get(k)) for k, each in enumerate(stage["materials"])]
    # The last are for what is only painted: opaque, or with opacity.
    known += [SurfaceMaterial(), SurfaceMaterial(alpha="blend")]
    which, uv, tints = [], [], []
    for mesh, look, own in zip(stage["meshes"], looks, corners, strict=True):
        face = np.repeat(np.arange(len(mesh["counts"])), mesh["counts"])[own[:, 0]]
        painted = look["colours"]
        through = painted is not None and bool((painted[:, 3] < 1).any())
        material = look["materials"][face]
        which.append(np.where(material < 0, len(known) - (1 if through else 2), material))
        uv.append(_placed(look["uv"], stage["materials"], material, own))
        white = np.ones((*own.shape, 4), np.float32)
        tints.append(white if painted is None else np.clip(painted[own], 0.0, 1.0))
    used, which_used = np.unique(np.concatenate(which), return_inverse=True)
    coloured = any(look["colours"] is not None for look in looks)
    return Appearance(
        tuple(known[k] for k in used),
        which_used.astype(np.int64),
        np.concatenate(uv) if any(look["uv"] is not None for look in looks) else None,
        np.concatenate(tints).astype(np.float32) if coloured else None,
    )


def _textures(name: str, stage: dict[str, Any], notes: list[str]) -> dict[int, Texture]:
    """Return textures of materials by their numbers, without those that are no pictures."""
    data = [each["data"].tobytes() for each in stage["pictures"]]
    found = {}
    for number, material in enumerate(stage["materials"]):
        described = material["texture"]
        if described is None:
            continue
        picture = stage["pictures"][described["picture"]]["name"]
        wrap = described["wrap"]
        texture = Texture(f'{name}: picture "{picture}"', data[described["picture"]], tuple(wrap))
        try:
            texture.check()
        except FormatError as error:
            notes.append(f'picture "{picture}" {error}; a plain colour is shown')
            continue
        found[number] = texture
    return found


def _material(described: dict[str, Any], texture: Texture | None) -> SurfaceMaterial:
    red, green, blue, alpha = described["colour"]
    if texture is not None:
        red, green, blue = described["texture"]["scale"]
    return SurfaceMaterial(
        described["name"],
        (red, green, blue, alpha),
        texture,
        described["alpha"],
        described["cutoff"],
    )


def _placed(uv: Singles | None, materials: list[Any], which: Ints, corners: Ints) -> Singles:
    """Return coordinates on the textures, (m, 3, 2), with v downwards."""
    found = np.zeros((*corners.shape, 2), np.float32)
    if uv is None:
        return found
    for number in np.unique(which[which >= 0]):
        if materials[number]["texture"] is None:
            continue
        chosen = which == number
        to_st = materials[number]["texture"]["to_st"]
        placed = uv[corners[chosen]] @ to_st[:, :2].T + to_st[:, 2]
        found[chosen] = np.stack([placed[..., 0], 1 - placed[..., 1]], axis=-1)
    return np.where(np.isfinite(found), found, 0.0).astype(np.float32)
