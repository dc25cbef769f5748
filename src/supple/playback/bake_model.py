"""Models to bake with: options to build one, and checks of one that is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.body_plan import BodyPlan, anatomical_material, plan_body
from supple.anatomy.flesh_presets import Flesh, checked_flesh, flesh_material
from supple.anatomy.joint_stiffness import Stiffness, stiffness_factors
from supple.anatomy.region_entries import RegionEntry
from supple.anatomy.thickness import slender_factors
from supple.checks import checked_number, shown
from supple.elastic.material import Material
from supple.engines.engine import CharacterModel, Engine, engine_named, engine_of
from supple.errors import SuppleError, warn
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs

#: Anatomy as it is given: found, known, entries by joint in place of what is found, or none.
GivenAnatomy = Anatomy | Mapping[str, RegionEntry] | Literal["auto"] | None
#: Anatomy where nobody says which: "auto", or None for bones alone; gravity then goes with the
#: size, too.
ANATOMY: Literal["auto"] | None = "auto"
SCALED_LOADS = ANATOMY is not None
#: Tets of a build that is not told how many.
TETS = 12_000
#: Rigs whose vertices are this near, as part of the size, are the same: files round.
SAME_RIG = 1e-3


def usual_building(row: Engine, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine's own options for bakes, and before them those that are told.

    Regions, or numbers of modes for each, are of a basis of modes.
    """
    usual = dict(row.bake_options)
    if told.get("regions") is not None or np.ndim(told.get("modes", 0)):
        usual.pop("basis", None)
    return {**usual, **told}


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
    **building: Any,
) -> dict[str, Any]:
    """Return options of `supple.build` for a character with this flesh.

    Where nobody says how stiff it is, thin parts far from any bone are stiffer (`slender_factors`),
    or with an anatomy flesh that is thinner than a cell (`plan_body`).

    Parameters
    ----------
    character
        Character, whose size says what is stiff.
    flesh, engine, young, poisson, stiffness
        As for `supple.bake`.
    painted
        A map of Young's modulus that belongs to normal flesh; `young` goes before it.
    anatomy
        Bone, flesh, hard and separate parts: see `body_plan_of`.
    **building
        Options of `supple.build`; they are kept.
    """
    kind, row = checked_flesh(flesh), engine_named(engine, "character")
    told = {"young": young, "poisson": poisson}
    options = usual_building(row, building)
    unsaid = young is None and painted is None and options.get("material") is None
    plan, prepared = None, row.prepared(character, options)
    if options.get("bones") is None and prepared is not None:
        plan = body_plan_of(prepared, anatomy, options.get("tets", TETS))
    if plan is not None:
        options |= {"tets": plan.mesh, "bones": plan.held}
        if "bones" not in row.build_options:  # which follow from it
            options["anatomy"] = plan.anatomy
    material = options.get("material") or usual_material(character, plan, row)
    if young is None:
        material = replace(material, young=kind.stiffness * np.asarray(material.young))
        painted = None if painted is None else kind.stiffness * np.asarray(painted)
    elif np.ndim(young) == 0:
        material, painted = replace(material, young=checked_number("young", young)), None
    else:
        painted = young
    if poisson is not None and np.ndim(poisson) == 0:
        material = replace(material, poisson=checked_number("poisson", poisson))
    elif poisson is not None:
        options["poisson"] = poisson
    thin = None
    if unsaid and prepared is not None:
        thin = slender_factors(character) if plan is None else plan.factors
    if stiffness is not None or thin is not None or "stiffness" in character.painted:
        factors = np.ones(len(character.surface.vertices)) if thin is None else thin
        factors = factors * character.painted.get("stiffness", 1.0)
        if stiffness is not None:
            factors = factors * stiffness_factors(character, stiffness)
        painted = factors * np.asarray(material.young if painted is None else painted)
    options["material"] = replace(material, young=_plain(material.young))
    if painted is not None:
        options["young"] = painted
    # An engine without a material has none to be told of; an option that was asked for is passed on
    # all the same, and refused by the builder if it has none.
    asked = {*building, *(name for name, value in told.items() if value is not None)}
    return {name: value for name, value in options.items() if name in {*row.build_options, *asked}}


def usual_material(character: Character, plan: BodyPlan | None, row: Engine) -> Material:
    """Return the flesh of a character where nobody says which, as an engine takes it."""
    usual = flesh_material(character.surface.size)
    if plan is not None:
        usual = anatomical_material(plan.anatomy)
    soft = float(np.min(usual.young)) < row.softest
    return replace(usual, young=row.softest) if soft else usual


def body_plan_of(
    character: Character, anatomy: GivenAnatomy, tets: int | TetMesh
) -> BodyPlan | None:
    """Plan the body of a character with one skeleton or none; None without an anatomy.

    Parameters
    ----------
    character
        Whose flesh.
    anatomy
        An `Anatomy`, ``"auto"`` to find it, entries by joint in place of what is found, None for
        bones alone.
    tets
        How many to make, or tets that fill the surface.
    """
    if anatomy is None or len(skinned_rigs(character.rig)) > 1:
        if character.painted.keys() & {"rigid", "flesh"}:
            warn(f"{character.name}: what is painted rigid or flesh counts with an anatomy only")
        return None
    if isinstance(anatomy, Mapping):
        anatomy = anatomy_of(character, entries=anatomy)
    if not (anatomy == "auto" or isinstance(anatomy, Anatomy)):
        raise SuppleError(f'anatomy is {shown(anatomy)}; give "auto", an Anatomy or None')
    return plan_body(character, tets, None if anatomy == "auto" else anatomy)


def check_model(character: Character, model: CharacterModel, **told: Any) -> None:
    """Refuse a model of another character, and flesh that differs from the model's own."""
    if engine_of(model).moves != "character":
        raise SuppleError(f"{shown(model)} is no model of a character")
    if told.pop("flesh", "normal") not in ("normal", checked_flesh("normal")):
        told["flesh"] = True
    asked = [name for name, value in told.items() if value is not None]
    if asked:
        raise SuppleError(f"the model has its flesh already; leave out {', '.join(asked)}")
    own, other = character.surface.vertices, model.surface.vertices
    same = own.shape == other.shape and len(character.rig.parameters) == len(model.rig.parameters)
    size = character.surface.size
    if not same or np.abs(own - other).max() > 1e-4 * size:
        ratio = model.surface.size / size
        if same and np.abs(own - other / ratio).max() <= 1e-4 * size:
            raise SuppleError(
                f"the model is {ratio:.4g} times as large as {character.name}: it was built with"
                f" another unit; load the file with that one"
            )
        raise SuppleError(
            f"the model is of another character ({model.name}, {len(other):,} vertices) than "
            f"{character.name} with {len(own):,}; build it again"
        )
    if not _same_rig(character, model):
        raise SuppleError(
            f"the model has another rig ({model.name}) than {character.name}: they move the same"
            f" skin differently; build it again"
        )


def _same_rig(character: Character, model: CharacterModel) -> bool:
    """Return whether both rigs have the same parameters and do the same at a few poses."""
    mine, its = character.rig, model.rig
    if [each.name for each in mine.parameters] != [each.name for each in its.parameters]:
        return False
    within = SAME_RIG * character.surface.size
    return all(np.abs(mine(pose) - its(pose)).max() <= within for pose in _telling_poses(character))


def _telling_poses(character: Character) -> list[NDArray[np.float64]]:
    """Return poses that tell rigs apart: some of the motions', or one that changes everything."""
    rest = character.rig.rest_pose
    tried = [rest]
    for motion in list(character.motions.values())[:4]:
        places = np.linspace(0, len(motion.poses) - 1, 5).astype(int)
        tried += [motion.poses[place] for place in places]
    return tried if len(tried) > 1 else [rest, rest + 0.1 * np.cos(np.arange(len(rest)))]


def _plain(young: ArrayLike) -> ArrayLike:
    return float(f"{float(np.asarray(young)):.6g}") if np.ndim(young) == 0 else young
