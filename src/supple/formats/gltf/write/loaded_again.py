"""The glTF file that a character came from, read again before it is added to."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from supple.errors import FormatError, SuppleError, SuppleWarning
from supple.formats.gltf.kept_original import without_added
from supple.formats.gltf.read.animation import Channel
from supple.formats.gltf.read.gltf import GltfSource, read_gltf
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.skeleton.skinning import SkinnedRig


def loaded_again(character: Character, source: GltfSource, *, curves: bool = True) -> Character:
    """Load a character's file again: it must still be what was loaded.

    Its rig is the file's own, whatever has been put around the one that was moved. Without
    `curves`, those that were added to the file are left out.

    Raises
    ------
    FormatError
        If the file is gone, is damaged, or holds another character than was loaded.
    """
    name = source.path.name
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            data = source.read()
            if not curves:
                data = without_added(name, data)
            again = read_gltf(source.path, data, character.metres_per_unit)
    except SuppleError as error:
        raise FormatError(f"{error}; it was sound when it was loaded, leave it there") from error
    if not _same(character, source, again):
        raise FormatError(f"{name}: has changed since it was loaded; load it again")
    if any(primitive.node < 0 for primitive in source.primitives):
        raise FormatError(f"{name}: no node shows its mesh, so no animation can move it; add one")
    return again


def _same(character: Character, source: GltfSource, again: Character) -> bool:
    now = again.source
    if not again.has_mesh or len(source.primitives) != len(now.primitives):
        return False
    pairs: list[tuple[Any, Any]] = [(source.joint_nodes, now.joint_nodes)]
    for one, other in zip(source.primitives, now.primitives, strict=True):
        if (one.node, one.mesh, one.primitive) != (other.node, other.mesh, other.primitive):
            return False
        pairs += [(one.welded, other.welded), (one.to_bind, other.to_bind)]
    if source.clips.keys() != now.clips.keys():
        return False
    for name, clip in source.clips.items():
        if len(clip.channels) != len(now.clips[name].channels):
            return False
        for mine, its in zip(clip.channels, now.clips[name].channels, strict=True):
            if _kind(mine) != _kind(its):
                return False
            pairs += [(mine.times, its.times), (mine.values, its.values)]
    if isinstance(character.rig, SkinnedRig | BlendShapeRig):
        pairs += zip(_skin(character.rig), _skin(again.rig), strict=False)
    return all(np.array_equal(one, other) for one, other in pairs)


def _kind(channel: Channel) -> tuple[int, str, str]:
    return channel.node, channel.path, channel.interpolation


def _skin(rig: Any) -> list[Any]:
    """Return the arrays that a skinned rig is made of."""
    parts: list[Any] = []
    while isinstance(rig, BlendShapeRig):
        parts.append(rig.deltas)
        rig = rig.base
    if isinstance(rig, SkinnedRig):
        parts += [rig.vertices, rig.joints, rig.weights, rig.inverse_bind]
    return parts
