"""Stiffness of flesh: presets relative to a human's, and factors by joint or vertex of the skin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, checked_choice, checked_number
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs


@dataclass(frozen=True)
class Flesh:
    """Kind of flesh, independent of the body's size.

    Attributes
    ----------
    stiffness
        Young's modulus relative to `flesh_material`. Frequencies scale with its square root.
    alpha, beta
        Rayleigh damping D = αM + βK, in 1/s and s. The damping ratio at ω rad/s is
        α/(2ω) + βω/2, so that softer, slower flesh rings longer with the same β.
    roles
        Further factors on Young's modulus by role of the anatomy, such as ``"tail"``; 1 elsewhere.
    """

    stiffness: float
    alpha: float
    beta: float
    roles: Mapping[str, float] = field(default_factory=dict, hash=False)


#: From firm muscle to jelly, and by kind of body. Where normal flesh swings at 3 Hz firm, soft and
#: jelly swing at about 6, 1.9 and 1.2 Hz; damping ratios are 11 %, and 20, 8 and 6 %.
FLESH_PRESETS = {
    "firm": Flesh(4.0, 0.5, 0.01),
    "normal": Flesh(1.0, 0.5, 0.01),
    "soft": Flesh(0.4, 0.5, 0.01),
    "jelly": Flesh(0.15, 0.3, 0.01),
    # Muscle on limbs; comes to rest after one or two swings.
    "human": Flesh(1.5, 0.8, 0.016, {"limb": 1.4, "forearm": 1.4, "shin": 1.4}),
    # Firm limbs, and a loose tail and ears.
    "animal": Flesh(
        1.0, 0.5, 0.008, {"limb": 2.0, "forearm": 2.0, "shin": 2.0, "tail": 0.25, "ear": 0.25}
    ),
    # Swings about twice as far as normal, and rings.
    "cartoon": Flesh(0.4, 0.3, 0.008),
}


def checked_flesh(flesh: str | Flesh) -> Flesh:
    """Return the preset of this name; a `Flesh` is returned unchanged.

    Examples
    --------
    >>> checked_flesh("jelly").stiffness
    0.15
    """
    if isinstance(flesh, Flesh):
        return flesh
    return FLESH_PRESETS[checked_choice("flesh", flesh, FLESH_PRESETS)]


#: Young's modulus of flesh that swings at a few hertz on a body of human size: Pa, and metres.
FLESH, HUMAN = 2e4, 2.0


def flesh_material(size: float) -> Material:
    """Return flesh for a body of this size in metres, with a human's frequencies at any size.

    Frequencies scale with √(E/ρ) over the size. Many files have wrong units, and a rat of seven
    metres made of real flesh would flow.

    Examples
    --------
    >>> flesh_material(2.0).young
    20000.0
    """
    return Material("stvk", young=float(f"{FLESH * (size / HUMAN) ** 2:.3g}"), poisson=0.45)


#: In m/s², for a body of human size.
GRAVITY = 9.81


def scaled_gravity(size: float) -> float:
    """Return gravity in m/s² under which `flesh_material` sags by the same fraction of any size.

    >>> scaled_gravity(2.0)
    9.81
    """
    return GRAVITY * size / HUMAN


# Factors by joint or vertex.


Stiffness = Mapping[str, Any] | ArrayLike
#: Range of factors: beyond it flesh would be bone or a hole.
SOFTEST, STIFFEST = 1e-3, 1e3
KEYS = ("default", "joints", "vertices")


def stiffness_factors(character: Character, stiffness: Stiffness) -> Floats:
    """Return the factors of Young's modulus at the vertices of the skin, (n̄,).

    Parameters
    ----------
    character
        The character.
    stiffness
        (n̄,) factors, or a mapping with any of

        - ``"default"``: a factor for all other flesh, 1 by default;
        - ``"joints"``: names of joints, with wildcards ``*`` and ``?``, and their
          factors; the last match of a joint counts. Vertices with several joints have the mean of
          the factors' logarithms by skin weights;
        - ``"vertices"``: vertices of the skin, ``"12"`` or ``"10-20"``, and their factors.

    Examples
    --------
    ``{"joints": {"Tail*": 0.3, "Head": 5}, "default": 1}``
    """
    count = len(character.surface.vertices)
    if not isinstance(stiffness, Mapping):
        factors = checked_array("stiffness", stiffness, (count,))
        _check_range("stiffness", factors)
        return factors
    for key in stiffness:
        if key not in KEYS:
            raise SuppleError(f'stiffness: unknown key "{key}"; use {", ".join(KEYS)}')
    usual = _factor("default", stiffness.get("default", 1.0))
    factors = np.full(count, usual)
    if "joints" in stiffness:
        factors = _by_joints(character, _mapping("joints", stiffness["joints"]), usual)
    for key, value in _mapping("vertices", stiffness.get("vertices", {})).items():
        factors[_vertices(str(key), count)] = _factor(f"vertices {key}", value)
    return factors


def _by_joints(character: Character, factors: Mapping[str, Any], usual: float) -> Floats:
    skins = skinned_rigs(character.rig)
    if not skins:
        raise SuppleError(f"{character.name}: has no joints; give stiffness by vertices instead")
    skinned = skins[-1]
    names = skinned.skeleton.names
    logarithms = np.full(len(names), np.log(usual))
    for pattern, value in factors.items():
        matches = [joint for joint, name in enumerate(names) if fnmatchcase(name, str(pattern))]
        if not matches:
            near = get_close_matches(str(pattern).strip("*?"), names, 1, 0.5)
            hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(names[:6])}"
            raise SuppleError(f'{character.name}: no joint "{pattern}"; {hint}')
        logarithms[matches] = np.log(_factor(f'joint "{pattern}"', value))
    return np.exp(skinned.weight_matrix() @ logarithms)


def _mapping(what: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SuppleError(f"stiffness: {what} must map names to factors, not {value!r:.40}")
    return value


def _vertices(text: str, count: int) -> slice:
    parts = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", text)
    if parts is None:
        raise SuppleError(f'stiffness: "{text:.40}" names no vertices; use "12" or "10-20"')
    first = int(parts[1])
    last = first if parts[2] is None else int(parts[2])
    if not first <= last < count:
        raise SuppleError(f'stiffness: vertices "{text}": use a range within 0 to {count - 1}')
    return slice(first, last + 1)


def _factor(what: str, value: Any) -> float:
    if isinstance(value, bool):
        raise SuppleError(f"stiffness of {what} must be a number")
    factor = checked_number(f"stiffness of {what}", value)
    _check_range(f"stiffness of {what}", np.array([factor]))
    return factor


def _check_range(what: str, factors: Floats) -> None:
    wrong = ~((factors >= SOFTEST) & (factors <= STIFFEST))
    if wrong.any():
        bad = factors[int(np.argmax(wrong))]
        raise SuppleError(f"{what} is {bad:g}; use a factor from {SOFTEST:g} to {STIFFEST:g}")
