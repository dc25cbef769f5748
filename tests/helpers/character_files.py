"""Character files for tests: what `sample_bodies` makes, with maps painted on its skin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from helpers.gltf_builder import Builder, turn
from supple.rig.character import Character
from supple.rig.skeleton.skinning import SkinnedRig


def save_character(character: Character, path: Path, swings: str = "", **painted: Any) -> Path:
    """Write a skinned character as .glb; `painted` are attributes, `swings` a joint that moves."""
    rig = character.rig
    assert isinstance(rig, SkinnedRig)
    b, skeleton = Builder(), rig.skeleton
    weights = np.asarray(rig.weight_matrix().todense())
    weights = np.pad(weights, ((0, 0), (0, max(0, 4 - weights.shape[1]))))
    order = np.argsort(-weights, axis=1)[:, :4]
    much = np.take_along_axis(weights, order, axis=1)
    attributes = {
        "POSITION": b.accessor(character.surface.vertices),
        "JOINTS_0": b.accessor(np.where(much > 0, order, 0), "B"),
        "WEIGHTS_0": b.accessor(much / much.sum(axis=1, keepdims=True)),
    }
    for name, values in painted.items():
        attributes[name] = b.accessor(values)
        for bound in ("min", "max"):  # which cannot be what they should where values are not finite
            b.json["accessors"][-1].pop(bound, None)
    indices = b.accessor(character.surface.triangles.ravel(), "H")
    b.add(
        "meshes", {"name": "skin", "primitives": [{"attributes": attributes, "indices": indices}]}
    )
    for joint, name in enumerate(skeleton.names):
        below = [int(k) for k in np.flatnonzero(np.asarray(skeleton.parents) == joint)]
        node = {"name": name, "translation": skeleton.translations[joint].tolist()}
        b.add("nodes", node | ({"children": below} if below else {}))
    places = skeleton.rest_world()
    inverse = np.linalg.inv(places).transpose(0, 2, 1).reshape(-1, 16)
    bind = b.accessor(inverse)
    b.add("skins", {"joints": list(range(len(places))), "inverseBindMatrices": bind})
    shown = b.add("nodes", {"name": "shown", "mesh": 0, "skin": 0})
    tops = [int(k) for k in np.flatnonzero(np.asarray(skeleton.parents) < 0)]
    b.json["scenes"] = [{"nodes": [shown, *tops]}]
    if swings:
        times = np.linspace(0, 0.5, 13)
        angles = [turn(2, 0.5 * np.sin(2 * np.pi * time / 0.5)) for time in times]
        b.animate(skeleton.names.index(swings), "rotation", times, angles)
    return b.save_glb(path)
