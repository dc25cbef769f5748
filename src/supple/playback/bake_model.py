"""Options of a model for bakes, and checks of a given model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.body_plan import BodyPlan, anatomical_material, plan_body
from supple.anatomy.flesh_firmness import region_factors
from supple.anatomy.flesh_presets import (
    Flesh,
    Stiffness,
    checked_flesh,
    flesh_material,
    stiffness_factors,
)
from supple.anatomy.hard_parts import hard_warning
from supple.anatomy.region_entries import RegionEntry
from supple.anatomy.thickness import slender_factors
from supple.arrays import Floats
from supple.checks import checked_number, shown
from supple.elastic.material import Material
from supple.engines.engine import CharacterModel, Engine, engine_named, engine_of
from supple.errors import SuppleError, warn
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs

#: Anatomy option: detected, an `Anatomy`, entries by joint that override detected ones, or none.
GivenAnatomy = Anatomy | Mapping[str, RegionEntry] | Literal["auto"] | None
#: Default anatomy; with one, gravity scales with the size.
ANATOMY: Literal["auto"] | None = "auto"
SCALED_LOADS = ANATOMY is not None
#: Default number of tets of a build.
TETS = 12_000
#: Largest distance of vertices of equal rigs, relative to the size: files round.
SAME_RIG = 1e-3


def model_options(
    character: Character,
    flesh: str | Flesh = "normal",
    engine: str = "pose-space",
    *,
    young: ArrayLike | None = None,
    poisson: ArrayLike | None = None,
    stiffness: Stiffness | None = None,
    painted: ArrayLike | None = None,
    anatomy: GivenAnatomy = ANATOMY,
    kind: str | None = None,
    defaults: Mapping[str, Any] | None = None,
    **building: Any,
) -> dict[str, Any]:
    """Return the builder's options for a character with this flesh.

    Without a given stiffness, thin parts are stiffer: those far from any bone (`slender_factors`),
    or, with an anatomy, flesh thinner than a cell (`plan_body`).

    Parameters
    ----------
    character
        The character; its size determines the default stiffness.
    flesh, engine, young, poisson, stiffness
        As for `supple.bake`.
    painted
        Map of Young's modulus of normal flesh in Pa; `young` overrides it.
    anatomy
        Bone, flesh, hard and separate parts: see `body_plan_of`.
    kind
        Kind of the material, in place of the default kind.
    defaults
        Defaults of the builder's options; by default the engine's `bake_options`.
    **building
        Options of the engine's builder, which are returned unchanged.
    """
    preset, row = checked_flesh(flesh), engine_named(engine, "character")
    usual = dict(row.bake_options if defaults is None else defaults)
    printed = building.get("recipe") == "printed"
    if printed or building.get("regions") is not None or np.ndim(building.get("modes", 0)):
        usual.pop("basis", None)  # regions, modes of each and the printed recipe need modes
    options = {**usual, **building}
    undetermined = young is None and painted is None and options.get("material") is None
    plan, prepared = None, row.prepared(character, options)
    if options.get("bones") is None and prepared is not None:
        plan = body_plan_of(prepared, anatomy, options.get("tets", TETS))
    if plan is not None:
        options |= {"tets": plan.mesh, "bones": plan.held}
        if plan.anatomy.followed is not None:
            options["followed"] = plan.anatomy.followed
        if "bones" not in row.build_options:  # the builder derives bones from the anatomy
            options["anatomy"] = plan.anatomy
    material = options.get("material") or usual_material(character, plan, row)
    material = material if kind is None else replace(material, kind=kind)
    if young is None:
        material = replace(material, young=preset.stiffness * np.asarray(material.young))
        painted = None if painted is None else preset.stiffness * np.asarray(painted)
    elif np.ndim(young) == 0:
        material, painted = replace(material, young=checked_number("young", young)), None
    else:
        painted = young
    if poisson is not None and np.ndim(poisson) == 0:
        material = replace(material, poisson=checked_number("poisson", poisson))
    elif poisson is not None:
        options["poisson"] = poisson
    local = []
    if undetermined and prepared is not None:
        local.append(slender_factors(character) if plan is None else plan.factors)
    if young is None:
        roles_of = anatomy if plan is None else plan.anatomy
        local.append(preset_factors(character, preset, roles_of))
    factors = _skin_factors(character, local, stiffness)
    if factors is not None:
        painted = factors * np.asarray(material.young if painted is None else painted)
    options["material"] = replace(material, young=_plain(material.young))
    if painted is not None:
        options["young"] = painted
    # Derived options that the builder does not have are dropped; given ones stay and are refused.
    constants = {"young": young, "poisson": poisson}
    given = {*building, *(name for name, value in constants.items() if value is not None)}
    return {name: value for name, value in options.items() if name in {*row.build_options, *given}}


def _skin_factors(
    character: Character, local: Sequence[Floats | None], stiffness: Stiffness | None
) -> Floats | None:
    """Return the product (n̄,) of given, painted and local factors; None if there are none."""
    factors = [each for each in local if each is not None]
    if "stiffness" in character.painted:
        factors.append(character.painted["stiffness"])
    if stiffness is not None:
        factors.append(stiffness_factors(character, stiffness))
    if not factors:
        return None
    product: Floats = np.prod([np.ones(len(character.surface.vertices)), *factors], axis=0)
    return product


def preset_factors(
    character: Character, flesh: str | Flesh, anatomy: GivenAnatomy = ANATOMY
) -> Floats | None:
    """Return the factors (n̄,) of a preset by role at the vertices of the skin, None without any."""
    roles = checked_flesh(flesh).roles
    if not roles:
        return None
    if not isinstance(anatomy, Anatomy):
        entries = anatomy if isinstance(anatomy, Mapping) else None
        anatomy = anatomy_of(character, entries=entries)
    return region_factors(
        anatomy.follows, [roles.get(each.role, 1.0) for each in anatomy.entries.values()]
    )


def usual_material(character: Character, plan: BodyPlan | None, row: Engine) -> Material:
    """Return the default material of a character's flesh, at least as stiff as an engine needs."""
    material = flesh_material(character.surface.size)
    if plan is not None:
        material = anatomical_material(plan.anatomy)
    too_soft = float(np.min(material.young)) < row.softest
    return replace(material, young=row.softest) if too_soft else material


def body_plan_of(
    character: Character, anatomy: GivenAnatomy, tets: int | TetMesh
) -> BodyPlan | None:
    """Return the plan of a character's body; None without an anatomy or with several skeletons.

    `tets` is the number of tets to make, or tets that fill the surface.

    Warns
    -----
    SuppleWarning
        If more than half of the skin is hard, with reasons and a remedy.
    """
    if anatomy is None or len(skinned_rigs(character.rig)) > 1:
        if character.painted.keys() & {"rigid", "flesh"}:
            warn(
                f"{character.name}: painted rigid and flesh maps need an anatomy; they are ignored"
            )
        return None
    if anatomy == "auto" or isinstance(anatomy, Mapping):
        anatomy = anatomy_of(character, entries=None if anatomy == "auto" else anatomy)
    if not isinstance(anatomy, Anatomy):
        raise SuppleError(f'anatomy is {shown(anatomy)}; give "auto", an Anatomy or None')
    mostly_hard = hard_warning(anatomy, character)
    if mostly_hard is not None:  # before tets and models, which take long
        warn(mostly_hard)
    return plan_body(character, tets, anatomy)


def check_model(character: Character, model: CharacterModel, **options: Any) -> None:
    """Refuse a model of another character, and options of flesh, which the model determines."""
    if engine_of(model).moves != "character":
        raise SuppleError(f"{shown(model)} is not a model of a character")
    if options.pop("flesh", "normal") not in ("normal", checked_flesh("normal")):
        options["flesh"] = True
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise SuppleError(f"the model determines the flesh; leave out {', '.join(given)}")
    skin, other = character.surface.vertices, model.surface.vertices
    same = skin.shape == other.shape and len(character.rig.parameters) == len(model.rig.parameters)
    size = character.surface.size
    if not same or np.abs(skin - other).max() > 1e-4 * size:
        ratio = model.surface.size / size
        if same and np.abs(skin - other / ratio).max() <= 1e-4 * size:
            raise SuppleError(
                f"the model is {ratio:.4g} times as large as {character.name}: it was built with"
                f" another unit; load the file with that unit"
            )
        raise SuppleError(
            f"the model is for another character ({model.name}, {len(other):,} vertices) than "
            f"{character.name} ({len(skin):,} vertices); build it again"
        )
    if not _same_rig(character, model):
        raise SuppleError(
            f"the model has another rig ({model.name}) than {character.name}: they move the same"
            f" skin differently; build it again"
        )


def _same_rig(character: Character, model: CharacterModel) -> bool:
    """Return whether both rigs have the same parameters and the same skin at a few poses."""
    rig, other = character.rig, model.rig
    if [each.name for each in rig.parameters] != [each.name for each in other.parameters]:
        return False
    within = SAME_RIG * character.surface.size
    return all(np.abs(rig(pose) - other(pose)).max() <= within for pose in _test_poses(character))


def _test_poses(character: Character) -> list[NDArray[np.float64]]:
    """Return poses at which rigs are compared: rest, and poses of motions or one near rest."""
    rest = character.rig.rest_pose
    poses = [rest]
    for motion in list(character.motions.values())[:4]:
        frames = np.linspace(0, len(motion.poses) - 1, 5).astype(int)
        poses += [motion.poses[frame] for frame in frames]
    return poses if len(poses) > 1 else [rest, rest + 0.1 * np.cos(np.arange(len(rest)))]


def _plain(young: ArrayLike) -> ArrayLike:
    return float(f"{float(np.asarray(young)):.6g}") if np.ndim(young) == 0 else young
