"""Presets of flesh: stiffness relative to a human's, and damping."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from supple.elastic.material import Material
from supple.errors import SuppleError


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
    """

    stiffness: float
    alpha: float
    beta: float


#: From firm muscle to jelly. Where normal flesh swings at 3 Hz the others swing at about 6, 1.9 and
#: 1.2 Hz; damping ratios are 20, 11, 8 and 6 %.
FLESH_PRESETS = {
    "firm": Flesh(4.0, 0.5, 0.01),
    "normal": Flesh(1.0, 0.5, 0.01),
    "soft": Flesh(0.4, 0.5, 0.01),
    "jelly": Flesh(0.15, 0.3, 0.01),
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
    if not isinstance(flesh, str) or flesh not in FLESH_PRESETS:
        near = get_close_matches(str(flesh), FLESH_PRESETS, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(FLESH_PRESETS)}"
        raise SuppleError(f'no flesh "{flesh}"; {hint}')
    return FLESH_PRESETS[flesh]


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
    """Return gravity under which `flesh_material` sags by the same part of any size.

    >>> scaled_gravity(2.0)
    9.81
    """
    return GRAVITY * size / HUMAN
