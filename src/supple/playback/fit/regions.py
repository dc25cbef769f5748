"""Regions of a fit: parts of the skin with a stiffness and a damping of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.named_parts import ALL, SkinPart, SkinParts
from supple.anatomy.roles import HARD, ROLES
from supple.checks import shown
from supple.errors import SuppleError
from supple.playback.fit.target import FitTarget
from supple.rig.character import Character

#: Automatic regions: their number, and the least share of the squared displacements and of the
#: skin.
MOST_REGIONS, LEAST_SHARE, LEAST_SKIN = 3, 0.08, 0.01
#: Largest number of given regions.
MOST_GIVEN = 16


def fitted_parts(
    character: Character, target: FitTarget, regions: Sequence[str] | str | None
) -> list[SkinPart]:
    """Return all flesh, measured on the skin without a region of its own, and the regions."""
    names = SkinParts(character, "regions")
    if regions is None:
        chosen = _liveliest_roles(character, target)
    else:
        chosen = [regions] if isinstance(regions, str) else _texts(regions)
    distinct = {name.lower(): name for name in reversed(chosen)}
    distinct.pop(ALL, None)
    if len(distinct) > MOST_GIVEN:
        raise SuppleError(f"a fit has at most {MOST_GIVEN} regions, not {len(distinct)}")
    parts = [SkinPart(name, *names.part(name)) for name in reversed(distinct.values())]
    rest = np.ones(len(character.surface.vertices), bool)
    for part in parts:
        rest &= ~part.mask
    return [SkinPart(ALL, rest if rest.any() else ~rest, None), *parts]


def _texts(regions: Any) -> list[str]:
    """Return names of regions as a list; SuppleError for anything else."""
    listed = list(regions) if isinstance(regions, Iterable) else None
    if listed is None or not all(isinstance(name, str) for name in listed):
        raise SuppleError(f'regions is {shown(regions)}; give names such as ["belly", "Tail*"]')
    return listed


def _liveliest_roles(character: Character, target: FitTarget) -> list[str]:
    """Return the roles of flesh that have the largest shares of the target's displacements."""
    roles = np.array(anatomy_of(character).role)
    squares = np.einsum("tni,tni->n", target.offsets, target.offsets, dtype=np.float64)
    shares = {
        role: float(squares[roles == role].sum() / max(squares.sum(), 1e-300))
        for role, share in ROLES.items()
        if share >= HARD and (roles == role).mean() >= LEAST_SKIN
    }
    lively = [role for role in sorted(shares, key=lambda each: -shares[each])][:MOST_REGIONS]
    return [role for role in lively if shares[role] >= LEAST_SHARE]
