"""How far parts of the flesh should swing: lengths by region, as an artist gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.painted_material import painted_material
from supple.anatomy.roles import ROLES
from supple.anatomy.skin_regions import leading_joints
from supple.arrays import Bools, Floats
from supple.checks import shown
from supple.errors import SuppleError, one_line
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs

#: Peaks by region, a number, or words such as ``"3%"`` and ``"belly=4cm"``.
Swing = Mapping[str, Any] | Sequence[Any] | str | float
#: Name of all skin without a goal of its own.
ALL = "all"
#: Limits of a peak, relative to the size; simulators cut displacements at 0.3.
LEAST, MOST = 1e-5, 0.3
#: Largest factors on the stiffness, up or down: of all flesh, and of a region.
MOST_STIFFNESS, MOST_LOCAL = 64.0, 16.0
#: Metres by unit; without one a number is a part of the size.
UNITS = {"mm": 0.001, "cm": 0.01, "m": 1.0, "in": 0.0254, "ft": 0.3048}
#: Sides of a body, by their sign in `Anatomy.back`.
SIDES = {"belly": -1.0, "back": 1.0}


@dataclass(frozen=True, eq=False)
class SwingGoal:
    """Largest distance of a part of the skin from the rig.

    Attributes
    ----------
    region
        Name as given, or `ALL`.
    length
        Distance in m.
    mask
        (n̄,) vertices at which it is measured.
    weights
        (n̄,) 0 to 1, how far a vertex takes the part's stiffness; None for all flesh.
    """

    region: str
    length: float
    mask: Bools
    weights: Floats | None = None

    @property
    def most(self) -> float:
        """Largest factor on the stiffness, up or down."""
        return MOST_STIFFNESS if self.weights is None else MOST_LOCAL

    def tet_weights(self, model: Any) -> Floats | None:
        """Return the weights (T,) of the model's tets; None for all flesh."""
        if self.weights is None:
            return None
        values = np.exp(self.weights)
        return np.log(painted_material(model.mesh, model.embedding, values, on="skin"))


def swing_goals(character: Character, swing: Swing) -> tuple[SwingGoal, ...]:
    """Return the goals of a swing; the one for all skin leaves out regions with others.

    Parameters
    ----------
    character
        The character.
    swing
        A peak for all flesh, ``{"belly": "4cm", "Tail*": 0.1}``, or words ``["3%", "belly=4cm"]``.
        Numbers are parts of the size. Regions are joints with wildcards, roles of the anatomy such
        as ``"tail"``, ``"belly"`` or ``"back"``, meshes, materials or painted maps.
    """
    size, lengths = character.surface.size, _by_region(swing)
    found: list[SwingGoal] = []
    names = _Names(character)
    rest = np.ones(len(character.surface.vertices), bool)
    for region, value in lengths.items():
        if region != ALL:
            mask, weights = names.part(region)
            found.append(SwingGoal(region, _length(region, value, size), mask, weights))
            rest &= ~mask
    if ALL in lengths:
        if not rest.any():
            raise SuppleError("swing: the regions cover all of the skin; leave out the peak of all")
        found.append(SwingGoal(ALL, _length(ALL, lengths[ALL], size), rest))
    return tuple(found)


def _by_region(swing: Swing) -> dict[str, Any]:
    """Return lengths by region."""
    if isinstance(swing, Mapping):
        lengths = {str(region): value for region, value in swing.items()}
    else:
        words = list(swing) if isinstance(swing, list | tuple) else [swing]
        lengths = {}
        for word in words:
            region, _, value = word.rpartition("=") if isinstance(word, str) else (ALL, "", word)
            lengths[region.strip() or ALL] = value
    lengths = {ALL if name.lower() == ALL else name: value for name, value in lengths.items()}
    if not lengths:
        raise SuppleError('swing needs a peak such as 3%, or peaks by region such as "belly=4cm"')
    return lengths


def _length(region: str, value: Any, size: float) -> float:
    """Return a peak in m, from a number or text with a unit."""
    match = re.fullmatch(r"\s*([0-9.]+(?:e-?\d+)?)\s*(%|[a-z]*)\s*", str(value).lower())
    number, unit = match.groups() if match is not None else ("", "")
    try:
        metres = float(number) * {"": size, "%": size / 100, **UNITS}[unit]
    except (ValueError, KeyError):
        known = ", ".join(UNITS)
        raise SuppleError(
            f"swing of {_short(region)} is {shown(value, 30)}; use a part of the size such as 3% "
            f"or 0.03, or a length in {known}, such as 4cm"
        ) from None
    if not LEAST * size <= metres <= MOST * size:
        raise SuppleError(
            f"swing of {_short(region)} is {100 * metres / size:.3g} % of the size; use "
            f"{100 * LEAST:g} to {100 * MOST:g} %"
        )
    return metres


def _short(name: str) -> str:
    """Return a name for a message, printable and not too long."""
    return one_line(name) if len(name) <= 40 else f"{one_line(name[:40])} …"


class _Names:
    """Parts of a skin by name."""

    def __init__(self, character: Character) -> None:
        self._character = character
        self._anatomy: Anatomy | None = None
        skinned = skinned_rigs(character.rig)
        single = len(skinned) == 1 and skinned[0].n_vertices == len(character.surface.vertices)
        self._rig = skinned[0] if single else None
        self._joints = tuple(self._rig.skeleton.names) if self._rig is not None else ()

    def part(self, name: str) -> tuple[Bools, Floats]:
        """Return the mask (n̄,) and the weights (n̄,) of a part; SuppleError for unknown names."""
        for found in (self._of_joints, self._of_anatomy, self._of_labels, self._of_maps):
            weights = found(name.lower())
            if weights is not None and weights.max(initial=0.0) > 0:
                return self._mask(weights), weights
        known = [*self._joints, *ROLES, *SIDES, *self._labels(), *self._character.painted]
        near = get_close_matches(name.strip("*?"), known, 1, 0.5)
        listed = ", ".join(map(_short, known[:8]))
        hint = f'did you mean "{_short(near[0])}"?' if near else f"there are {listed}"
        whose = _short(self._character.name)
        raise SuppleError(f'swing: {whose} has no "{_short(name)}"; {hint}')

    def _mask(self, weights: Floats) -> Bools:
        mask: Bools = weights > 0.5 * weights.max()
        return mask

    def _of_joints(self, name: str) -> Floats | None:
        matches = [k for k, each in enumerate(self._joints) if fnmatchcase(each.lower(), name)]
        if self._rig is None or not matches:
            return None
        weights = self._rig.weight_matrix()
        if not np.isin(leading_joints(weights)[0], matches).any():
            return None
        return np.clip(np.asarray(weights[:, matches].sum(axis=1)).ravel(), 0.0, 1.0)

    def _of_anatomy(self, name: str) -> Floats | None:
        if name not in ROLES and name not in SIDES:
            return None
        if self._anatomy is None:
            self._anatomy = anatomy_of(self._character)
        if name in ROLES:
            return (np.array(self._anatomy.role) == name).astype(np.float64)
        return np.clip(SIDES[name] * self._anatomy.back, 0.0, 1.0)

    def _labels(self) -> dict[str, Any]:
        return {label.partition(":")[2]: each for label, each in self._character.labels.items()}

    def _of_labels(self, name: str) -> Floats | None:
        weights = np.zeros(len(self._character.surface.vertices))
        for label, vertices in self._labels().items():
            if fnmatchcase(label.lower(), name):
                weights[vertices] = 1.0
        return weights

    def _of_maps(self, name: str) -> Floats | None:
        values = self._character.painted.get(name)
        return None if values is None else values / max(float(values.max()), 1e-300)
