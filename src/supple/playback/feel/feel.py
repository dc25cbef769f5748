"""Feel of the flesh: stiffness that a kept model takes at run time, without a build.

Bone, tets, poses and modes of a model are those of normal flesh. Its basis and its cubature come
from simulations whose loads and times scale with the stiffness, so that a factor on all flesh gives
what a build with that stiffness would give: the fox at a quarter is 0.39 from the full simulation
either way. Factors that differ from place to place are an approximation, see `LOCAL`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.flesh_firmness import region_factors
from supple.anatomy.flesh_presets import Flesh, checked_flesh, flesh_material, stiffness_factors
from supple.anatomy.named_parts import SkinParts
from supple.anatomy.painted_material import painted_material
from supple.anatomy.region_entries import (
    FEEL_STIFFNESS,
    FELT_REGIONS,
    RegionEntry,
    entries_for,
    read_feel,
)
from supple.arrays import Floats
from supple.engines.engine import Engine
from supple.errors import warn
from supple.playback.bake_model import GivenAnatomy, preset_factors
from supple.rig.character import Character

#: Largest factor, up or down, of a kept model's stiffness: of all flesh, and of a place relative to
#: the mean. The rat, 0.21 from the full simulation, is 0.32 from it with a tail 0.1 times as stiff
#: (0.23 after a build), 0.30 with 10 times (0.20), and 0.43 with 1/32.
GLOBAL, LOCAL = 250.0, 8.0
#: Options that an anatomy file replaces where they have these values; see `read_feel`.
USUAL_FEEL: dict[str, Any] = {"flesh": "normal", "damping": 1.0, "swing": None}
#: Limits of factors that simulators accept.
_LEAST, _MOST = 1e-3, 1e3


@dataclass(frozen=True, eq=False)
class LocalFeel:
    """Factors (n̄,) at the vertices of the skin on stiffness and on damping, as a file has them.

    Flesh keeps such a stiffness also in violent motions.
    """

    stiffness: Floats
    damping: Floats

    @classmethod
    def of(cls, character: Character, regions: Mapping[str, Mapping[str, float]]) -> LocalFeel:
        """Return the factors of parts of the skin; those of parts that overlap are multiplied."""
        logarithms = np.zeros((2, len(character.surface.vertices)))
        parts = SkinParts(character, "feel")
        for region, factors in regions.items():
            weights = parts.part(region)[1]
            for row, name in zip(logarithms, ("stiffness", "damping"), strict=True):
                row += weights * np.log(max(factors.get(name, 1.0), _LEAST))
        return cls(*np.exp(logarithms))


@dataclass(frozen=True, eq=False)
class Feel:
    """Stiffness of the flesh relative to its model, and damping by region.

    Attributes
    ----------
    factor
        Factor on the stiffness of all flesh.
    local
        (T,) factors on that of each tet, in addition; None if all are 1.
    damping
        (T,) factors on the damping of each tet; None if all are 1.
    fixed
        Whether flesh keeps its stiffness in violent motions.
    """

    factor: float = 1.0
    local: Floats | None = None
    damping: Floats | None = None
    fixed: bool = False

    def stiffer(self, factor: float, local: Floats | None = None) -> Feel:
        """Return this feel with further factors, of all flesh and (T,) of each tet."""
        if self.local is not None:
            local = self.local if local is None else self.local * local
        return replace(self, factor=self.factor * factor, local=local)

    def damped(self, local: Floats | None) -> Feel:
        """Return this feel with further factors (T,) on the damping of each tet."""
        if local is None:
            return self
        return replace(self, damping=local * (1.0 if self.damping is None else self.damping))

    def on_tets(self) -> Floats | None:
        """Return the factors (T,) of each tet within the limits of simulators, or None."""
        return None if self.local is None else np.clip(self.local, _LEAST, _MOST)

    def apply(self, simulator: Any, usual: float = 1.0) -> None:
        """Set the stiffness of a simulator of the model; `usual` is another factor on it."""
        factor = float(np.clip(usual * self.factor, _LEAST, _MOST))
        for requested in (usual * self.factor, *self._extremes()):
            if not _LEAST <= requested <= _MOST:
                acting = float(np.clip(requested, _LEAST, _MOST))
                warn(
                    f"flesh {requested:.3g} times as stiff as its model is beyond {_LEAST:g} to "
                    f"{_MOST:g}; it is made {acting:g} times as stiff"
                )
        damping = None if self.damping is None else np.clip(self.damping, _LEAST, _MOST)
        if damping is not None and hasattr(simulator, "set_local"):
            simulator.set_local(self.on_tets(), damping)
        else:
            if self.local is not None or getattr(simulator, "local_stiffness", None) is not None:
                simulator.local_stiffness = self.on_tets()
            if damping is not None or getattr(simulator, "local_damping", None) is not None:
                simulator.local_damping = damping
        if factor != simulator.stiffness:
            simulator.stiffness = factor

    def _extremes(self) -> tuple[float, ...]:
        """Return the least and the largest local factor; none without local factors."""
        return () if self.local is None else (float(self.local.min()), float(self.local.max()))

    @property
    def changes(self) -> bool:
        """Whether flesh is not as stiff as the model, or damped by region."""
        return self.factor != 1 or self.local is not None or self.damping is not None

    def words(self) -> str:
        """Return the feel in words; "" if flesh is as stiff as the model.

        >>> Feel(0.15).words(), Feel().words()
        ('0.15 times as stiff at run time', '')
        """
        descriptions = []
        if self.local is not None:
            low, high = self.factor * np.quantile(self.local, [0.0, 1.0])
            descriptions = [f"{low:.3g} to {high:.3g} times as stiff"]
        elif self.factor != 1:
            descriptions = [f"{self.factor:.3g} times as stiff"]
        if self.damping is not None:
            low, high = np.quantile(self.damping, [0.0, 1.0])
            descriptions.append(f"{low:.3g} to {high:.3g} times as damped")
        return f"{' and '.join(descriptions)} at run time" if descriptions else ""


#: Reason of a build that the range of factors requires.
BEYOND = "its stiffness is beyond the range of the model of normal flesh"
#: Feel of a model as it was built.
AS_BUILT = Feel()


@dataclass(frozen=True, eq=False)
class FeelRequest:
    """Options of the flesh that act at run time, and those that are left for a build.

    Attributes
    ----------
    character
        The character.
    flesh, anatomy, building
        Options of the model: normal flesh, regions that differ in bone, and the other options of
        `model_options`; as given if the engine or the range of factors requires a build. With a
        given Young's modulus the model has the usual one everywhere, thin parts included.
    factor
        Factor on the stiffness of all flesh.
    skin
        (n̄,) factors at the vertices of the skin, in addition; None if all are 1.
    beyond
        Whether the options are beyond the range of factors.
    damping
        (n̄,) factors on the damping at the vertices of the skin; None if all are 1.
    fixed
        Whether flesh keeps its stiffness in violent motions.
    """

    character: Character
    flesh: str | Flesh
    anatomy: GivenAnatomy
    building: dict[str, Any]
    factor: float = 1.0
    skin: Floats | None = None
    beyond: bool = False
    damping: Floats | None = None
    fixed: bool = False

    @classmethod
    def of(
        cls,
        character: Character,
        row: Engine,
        flesh: str | Flesh,
        anatomy: GivenAnatomy,
        building: Mapping[str, Any],
    ) -> FeelRequest:
        """Divide the options of a model; arguments are those of `model_options`."""
        given = cls.as_given(character, row, flesh, anatomy, building)
        rest, preset = dict(given.building), checked_flesh(flesh)
        factor = preset.stiffness
        if not row.feels_at_run_time:
            return given
        count = len(character.surface.vertices)
        young, stiffness = rest.pop("young", None), rest.pop("stiffness", None)
        skin = np.ones(count)
        if young is not None:
            values = np.asarray(young)
            if values.shape not in ((), (count,)) or values.dtype.kind not in "fiu":
                return given  # rows for poses, values of tets, or what the build refuses
            rest["young"] = _usual(character, rest)
            factor, skin = 1.0, skin * (values / rest["young"])
        if stiffness is not None:
            skin = skin * stiffness_factors(character, stiffness)
        built = anatomy
        if isinstance(anatomy, Mapping):
            built, feels = _normal_regions(character, anatomy)
            skin = skin * feels
        if young is None and (by_role := preset_factors(character, preset, anatomy)) is not None:
            skin = skin * by_role
        if not (np.isfinite(skin).all() and skin.min() > 0):
            return given
        middle = float(np.exp(np.log(skin).mean()))
        even = np.ptp(skin) <= 1e-9 * middle
        factor, skin = factor * middle, skin / middle
        if not _within(GLOBAL, factor) or not (even or _within(LOCAL, skin)):
            return replace(given, beyond=True)
        run_time_options: dict[str, Any] = {
            "factor": _rounded(factor),
            "skin": None if even else skin,
        }
        return replace(given, flesh="normal", anatomy=built, building=rest, **run_time_options)

    @classmethod
    def as_given(
        cls,
        character: Character,
        row: Engine,
        flesh: str | Flesh,
        anatomy: GivenAnatomy,
        building: Mapping[str, Any],
    ) -> FeelRequest:
        """Leave all options but damping by region for a build; `local_feel` becomes `stiffness`."""
        rest, damping = dict(building), None
        local: LocalFeel | None = rest.pop("local_feel", None)
        if local is not None:
            stiffness = rest.get("stiffness")
            factors = stiffness_factors(character, {} if stiffness is None else stiffness)
            if (local.stiffness != 1).any():
                rest["stiffness"] = local.stiffness * factors
            damping = local.damping if (local.damping != 1).any() else None
        if damping is not None and not row.damps_at_run_time:
            warn(f"{row.name} has no damping by region; it is left out")
            damping = None
        return cls(character, flesh, anatomy, rest, damping=damping, fixed=local is not None)

    def feel(self, model: Any) -> Feel:
        """Return the stiffness relative to a model that was built with the other options."""

        def on_tets(skin: Floats | None) -> Floats | None:
            if skin is None:
                return None
            return painted_material(model.mesh, model.embedding, skin, on="skin")

        return Feel(self.factor, on_tets(self.skin), on_tets(self.damping), self.fixed)


def _rounded(factor: float) -> float:
    """Return a factor without the errors of logarithms."""
    return float(f"{factor:.12g}")


def _within(most: float, factors: ArrayLike) -> bool:
    values = np.asarray(factors, np.float64)
    return bool(((values >= 1 / most) & (values <= most)).all())


def _usual(character: Character, building: Mapping[str, Any]) -> float:
    """Return the usual Young's modulus of a character, in Pa."""
    material = building.get("material") or flesh_material(character.surface.size)
    return float(np.asarray(material.young, np.float64).mean())


def _normal_regions(
    character: Character, entries: Mapping[str, RegionEntry]
) -> tuple[GivenAnatomy, Floats]:
    """Return regions with the same bone and normal feel, and factors (n̄,) for their feels.

    Regions that are as detected are left out; "auto" without others.
    """
    detected = anatomy_of(character)
    built: dict[str, RegionEntry] = {}
    for joint, entry in entries.items():
        normal = replace(entry, reasons=())
        if entry.feel in ("firm", "soft") and joint in detected.entries:
            normal = replace(normal, feel="normal", share=entry.acting_share)
        usual = detected.entries.get(joint, detected.layers.get(joint))
        if usual is None or not normal.alike(usual):
            built[joint] = normal
    feels = [entries[each].feel if each in entries else "normal" for each in detected.joints]
    factors = region_factors(detected.follows, [FEEL_STIFFNESS[each] for each in feels])
    ones = np.ones(len(character.surface.vertices))
    return built or "auto", ones if factors is None else factors


def with_preset(
    feel: Feel,
    presets: tuple[str | Flesh, str | Flesh],
    character: Character,
    model: Any,
    anatomy: GivenAnatomy = None,
) -> Feel:
    """Return a feel with the second of two presets in place of the first.

    `anatomy` has the roles of the preset's factors; without one they are detected.
    """
    before, after = (checked_flesh(each) for each in presets)
    given = [preset_factors(character, each, anatomy) for each in (before, after)]
    local = None
    if any(each is not None for each in given):
        old, new = (np.ones(1) if each is None else each for each in given)
        local = painted_material(model.mesh, model.embedding, new / old, on="skin")
    return feel.stiffer(after.stiffness / before.stiffness, local)


def file_feel(anatomy: Any) -> dict[str, Any]:
    """Return the feel in the anatomy file that an option `anatomy` names; none without a file."""
    named = isinstance(anatomy, str | Path) and str(anatomy).endswith(".json")
    return read_feel(anatomy) if named else {}


def with_file_feel(
    character: Character,
    options: Mapping[str, Any],
    names: Sequence[str] = (*USUAL_FEEL,),
    entries: Mapping[str, RegionEntry] | None = None,
) -> dict[str, Any]:
    """Return options with the regions and the feel of the anatomy file that `anatomy` names.

    Options that differ from their defaults take precedence over the file's, except `stiffness`,
    which multiplies it. Options without a file are returned unchanged. `names` are the options of
    `USUAL_FEEL` that a function has, `entries` the regions if they were read before.
    """
    result, path = dict(options), options.get("anatomy")
    if not (isinstance(path, str | Path) and str(path).endswith(".json")):
        return result
    result["anatomy"] = entries_for(character, path) if entries is None else entries
    feel = file_feel(path)
    for name in names:
        if name in feel and result.get(name, USUAL_FEEL[name]) == USUAL_FEEL[name]:
            result[name] = feel[name]
    if FELT_REGIONS in feel:
        result["local_feel"] = LocalFeel.of(character, feel[FELT_REGIONS])
    if (factor := feel.get("stiffness", 1.0)) != 1:
        given = result.get("stiffness")
        result["stiffness"] = factor * stiffness_factors(character, {} if given is None else given)
    return result
