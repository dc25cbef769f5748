"""Parts of a character's skin by name: joints, roles, sides, meshes, materials and painted maps."""

from __future__ import annotations

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
from supple.errors import SuppleError, one_line
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs

#: Sides of a body, by their sign in `Anatomy.back`.
SIDES = {"belly": -1.0, "back": 1.0}
#: Name of all skin.
ALL = "all"


@dataclass(frozen=True, eq=False)
class SkinPart:
    """Part of the skin.

    Attributes
    ----------
    region
        Name as given, or `ALL`.
    mask
        (n̄,) vertices at which it is measured.
    weights
        (n̄,) weight of the part's factors at each vertex, 0 to 1; None for all flesh.
    """

    region: str
    mask: Bools
    weights: Floats | None

    def tet_weights(self, model: Any) -> Floats | None:
        """Return the weights (T,) of the model's tets; None for all flesh."""
        if self.weights is None:
            return None
        values = np.exp(self.weights)
        return np.log(painted_material(model.mesh, model.embedding, values, on="skin"))


class SkinParts:
    """Parts of a character's skin by name; `option` begins the message for an unknown name."""

    def __init__(self, character: Character, option: str) -> None:
        self._character, self._option = character, option
        self._anatomy: Anatomy | None = None
        skinned = skinned_rigs(character.rig)
        single = len(skinned) == 1 and skinned[0].n_vertices == len(character.surface.vertices)
        self._rig = skinned[0] if single else None
        self._joints = tuple(self._rig.skeleton.names) if self._rig is not None else ()

    def part(self, name: str) -> tuple[Bools, Floats]:
        """Return the mask (n̄,) and the weights (n̄,) of a part; SuppleError for unknown names.

        Names are joints with wildcards, roles of the anatomy such as ``"tail"``, the sides
        ``"belly"`` and ``"back"``, meshes, materials, and painted maps.
        """
        for found in (self._of_joints, self._of_anatomy, self._of_labels, self._of_maps):
            weights = found(name.lower())
            if weights is not None and weights.max(initial=0.0) > 0:
                return self._mask(weights), weights
        whose, hint = short_name(self._character.name), self._suggestion(name)
        raise SuppleError(f'{self._option}: {whose} has no "{short_name(name)}"; {hint}')

    def _suggestion(self, name: str) -> str:
        """Return parts that the character has, for the message about one that it does not have."""
        anatomy = self._detected()
        roles = [*dict.fromkeys(anatomy.role)]
        if name.lower() in SIDES and "trunk" in roles:  # as of a body that stands upright
            joints = [each for each, entry in anatomy.entries.items() if entry.role == "trunk"]
            listed = ", ".join(map(short_name, joints[:6]))
            return f"its shape shows no belly and back; use trunk, or joints of it: {listed}"
        known = [*roles, *self._joints, *self._labels(), *self._character.painted]
        near = get_close_matches(name.strip("*?"), known, 1, 0.5)
        if near:
            return f'did you mean "{short_name(near[0])}"?'
        return f"there are {', '.join(map(short_name, known[: len(roles) + 8]))}"

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
        anatomy = self._detected()
        if name in ROLES:
            return (np.array(anatomy.role) == name).astype(np.float64)
        return np.clip(SIDES[name] * anatomy.back, 0.0, 1.0)

    def _detected(self) -> Anatomy:
        if self._anatomy is None:
            self._anatomy = anatomy_of(self._character)
        return self._anatomy

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


def short_name(name: str) -> str:
    """Return a name for a message, printable and not too long."""
    return one_line(name) if len(name) <= 40 else f"{one_line(name[:40])} …"
