"""Hard skin of a bake: which parts follow the rig without flesh, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.hard_parts import HardSkin, hard_parts, listed_parts
from supple.arrays import Bools, Floats
from supple.engines.common.flesh_fields import FleshFields
from supple.playback.bake_model import GivenAnatomy
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs
from supple.rig.stored_rigs import GIVEN, stored_rig
from supple.user_cache import Arrays, cached, content_hash, running_cache

#: Weight of fixed tet vertices from which a vertex of the skin is hard.
FIXED = 0.95
_HARD_PARTS = running_cache(".hard.npz", 100)


def hard_skin(character: Character, model: Any, anatomy: GivenAnatomy) -> HardSkin | None:
    """Return the hard skin of a model; None if neither the model nor an anatomy determines it.

    Skin is hard if its tet vertices are fixed. The anatomy gives names and reasons of parts.
    """
    fixed = _fixed_skin(model)
    parts = None if anatomy is None else _kept_parts(character, anatomy)
    if fixed is None and parts is None:
        return None
    areas = character.surface.vertex_areas()
    areas = areas / max(float(areas.sum()), 1e-300)
    if parts is None:
        assert fixed is not None
        return HardSkin(fixed, float(areas[fixed].sum()))
    of_vertex = parts["of_vertex"]
    hard = of_vertex >= 0 if fixed is None else fixed
    shares = np.bincount(of_vertex[hard] + 1, areas[hard], len(parts["names"]) + 1)
    return HardSkin(hard, float(areas[hard].sum()), tuple(listed_parts(parts, shares)))


def _fixed_skin(model: Any) -> Bools | None:
    """Return the mask (n̄,) of skin on fixed tet vertices; None for engines without them."""
    if not isinstance(model, FleshFields):
        return None
    fixed = np.zeros(len(model.mesh.vertices), bool)
    fixed[model.fixed] = True
    weights: Floats = np.abs(model.embedding_weights)
    on_bone = (weights * fixed[model.embedding_vertices]).sum(axis=1)
    mask: Bools = on_bone >= FIXED * weights.sum(axis=1)
    return mask


def _kept_parts(character: Character, anatomy: GivenAnatomy) -> Arrays | None:
    """Return `hard_parts` from the cache, or compute them; None for several skeletons."""
    if len(skinned_rigs(character.rig)) > 1:
        return None
    if isinstance(anatomy, Anatomy):
        return hard_parts(anatomy, character)
    entries = anatomy if isinstance(anatomy, Mapping) else {}
    header, arrays = stored_rig(character.rig)
    black_box = any(part["kind"] == GIVEN for part in header["parts"])
    mesh, others = character.surface, (character.labels, character.painted, dict(entries))
    content = None
    if not black_box:
        content = content_hash(mesh.vertices, mesh.triangles, header, arrays, *others)
    made: Arrays = cached(
        _HARD_PARTS,
        "parts",
        lambda: hard_parts(anatomy_of(character, entries=entries), character),
        content,
    ).value
    return made
