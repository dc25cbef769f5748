"""How a pose-space model is reduced and trained: by default, and as Xu and Barbič 2016 print it.

A recipe is a set of switches. `BuildOptions` has each of them as an option of its own, so that one
deviation from the paper can be measured alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from supple.checks import checked_number, shown
from supple.engines.pose_space.alignment import VARIANTS, Variant
from supple.engines.pose_space.build.pose_basis import REACH
from supple.errors import SuppleError
from supple.reduction.contact_constraints import ContactKind
from supple.reduction.cubature.accuracy import LinearForces
from supple.reduction.cubature.inertial_cubature import InertialFit
from supple.reduction.cubature.selection import Selection
from supple.reduction.regions.region_weights import EXPONENT, THRESHOLD, checked_remap

#: ``"default"``, or ``"printed"``: the method as the paper prints it.
RecipeName = Literal["default", "printed"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Switches of a build; the defaults are Supple's.

    Attributes
    ----------
    interpolation
        ``"frames"``, or ``"world"``: bases are blended in world axes (eq. 14), and alignment
        weighs all columns equally (eq. 11).
    reach
        Displacement of the softest mode, as a fraction of the size, that weighs derivatives; None
        for barbic2005's weights, in which it depends on the units, without static responses.
    independent
        Whether the basis of a region is made independent of those of earlier regions.
    linear_forces
        ``"exact"``, or ``"cubature"``: forces are those of the cubature alone (eq. 21), without
        ΔK.
    selection
        ``"exchange"``, or ``"thresholding"``: hard thresholding pursuit of one set of weights for
        all poses (eq. 17).
    train_between
        Whether cubature is also trained halfway between poses.
    inertial_fit
        ``"corrected"`` rows, ``"weights"`` at each pose, or ``"one set"`` for all poses (eq. 23).
    train_root
        Whether inertial cubature is also trained on accelerations of the whole body. The paper's
        root is part of the pose; here it is apart from it, and gravity acts by the same cubature.
    region_threshold, region_exponent
        η and κ of §7.
    contacts
        Kind of constraints of parts in contact; the paper's are ``"one-sided"`` (§6).
    """

    interpolation: Variant = "frames"
    reach: float | None = REACH
    independent: bool = True
    linear_forces: LinearForces = "exact"
    selection: Selection = "exchange"
    train_between: bool = True
    inertial_fit: InertialFit = "corrected"
    train_root: bool = True
    region_threshold: float = THRESHOLD
    region_exponent: float = EXPONENT
    contacts: ContactKind | None = "two-sided"

    def __post_init__(self) -> None:
        choices = {
            "interpolation": VARIANTS,
            "linear_forces": get_args(LinearForces),
            "selection": get_args(Selection),
            "inertial_fit": get_args(InertialFit),
        }
        for name, values in choices.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in values:
                raise SuppleError(f"{name} is {shown(value)}; use one of {', '.join(values)}")
        if self.reach is not None and not checked_number("reach", self.reach) > 0:
            raise SuppleError(f"reach is {self.reach:g}; it must be positive, or 0 for none")
        checked_remap(self.region_threshold, self.region_exponent)
        kinds = get_args(ContactKind)
        if self.contacts is not None and self.contacts not in kinds:
            raise SuppleError(f'contacts is "{self.contacts}"; use {", ".join(kinds)} or None')


RECIPES: dict[str, Recipe] = {
    "default": Recipe(),
    "printed": Recipe(
        interpolation="world",
        reach=None,
        independent=False,
        linear_forces="cubature",
        selection="thresholding",
        train_between=False,
        inertial_fit="one set",
        region_threshold=0.1,
        region_exponent=0.5,
        contacts="one-sided",
    ),
}


def recipe_of(name: Any, switches: dict[str, Any]) -> Recipe:
    """Return a recipe by name, changed by the switches that are given (not None)."""
    if not isinstance(name, str) or name not in RECIPES:
        raise SuppleError(f"recipe is {shown(name)}; use one of {', '.join(RECIPES)}")
    values = vars(RECIPES[name]) | {key: v for key, v in switches.items() if v is not None}
    if switches.get("reach") == 0:
        values["reach"] = None
    return Recipe(**values)
