"""What somebody asks of a build, looked at before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, get_args

import numpy as np

from supple.checks import checked_number
from supple.elastic import Material
from supple.errors import SuppleError
from supple.mesh import TetMesh
from supple.mesh.obstacles import Obstacle
from supple.mesh.topology import counted
from supple.reduction.alignment import VARIANTS
from supple.reduction.contact_constraints import ContactKind
from supple.rig.character import Character

__all__ = ["check_options"]


def check_options(
    character: Character,
    *,
    regions: Any,
    material: Material | None,
    tets: int | TetMesh,
    bone_radius: float,
    contacts: ContactKind | None,
    obstacles: Sequence[Obstacle],
    elastic_cubature: int | None,
    inertial_cubature: int | None,
    interpolation: str,
    most_poses: int,
    seed: int,
    executor: Executor | None,
    fitting: Mapping[str, Any],
) -> None:
    """Refuse options of `build` that are none, by name."""
    _check_character(character)
    if material is not None:
        _check_material(material)
    if not (isinstance(tets, TetMesh) or _is_whole(tets)):
        raise SuppleError(f"tets is {_shown(tets)}; give how many to make, or a TetMesh")
    checked_number("bone_radius", bone_radius)
    if not (regions is None or isinstance(regions, str | Sequence)):
        raise SuppleError(f'regions is {_shown(regions)}; use "auto", handles, regions or None')
    _check_contact(contacts, obstacles)
    for name, points in (
        ("elastic_cubature", elastic_cubature),
        ("inertial_cubature", inertial_cubature),
    ):
        if points is not None:
            _check_positive(name, points)
    if not isinstance(interpolation, str) or interpolation not in VARIANTS:
        wanted = ", ".join(VARIANTS)
        raise SuppleError(f"interpolation is {_shown(interpolation)}; use one of {wanted}")
    _check_positive("most_poses", most_poses)
    if not _is_whole(seed) or not 0 <= seed < 2**63:
        raise SuppleError(f"seed must be a whole number from 0 to 2⁶³ − 1, not {_shown(seed)}")
    usable = callable(getattr(executor, "submit", None)) and not isinstance(executor, type)
    if executor is not None and not usable:
        raise SuppleError(
            f"executor is {_shown(executor)}; give one like concurrent.futures', or None"
        )
    if "gamma" in fitting:
        checked_number("gamma", fitting["gamma"])
    if not _is_whole(fitting.get("most_added", 0)):
        raise SuppleError(f"most_added is {_shown(fitting['most_added'])}; give a whole number")


def _check_character(character: Character) -> None:
    if not isinstance(character, Character):
        raise SuppleError(f"build needs a Character, not {_shown(character)}; see supple.load")
    _ = character.surface, character.rig  # which say that there is no mesh
    wanted = len(character.rig.parameters)
    for name, motion in character.motions.items():
        if motion.poses.shape[1] != wanted:
            raise SuppleError(
                f'{character.name}: poses of motion "{name}" have {motion.poses.shape[1]} '
                f"entries, and the rig {counted(wanted, 'parameter')}; retarget it to this rig"
            )


def _check_material(material: Material) -> None:
    example = 'Material("stvk", young=2e4, poisson=0.45)'
    if not isinstance(material, Material):
        raise SuppleError(f"material is {_shown(material)}; give a Material, such as {example}")
    if material.kind == "orthotropic":
        raise SuppleError(f"material is orthotropic; a model needs another, such as {example}")


def _check_contact(contacts: ContactKind | None, obstacles: Sequence[Obstacle]) -> None:
    kinds = get_args(ContactKind)
    if not (contacts is None or (isinstance(contacts, str) and contacts in kinds)):
        raise SuppleError(f'no kind "{contacts}" of contact; use {", ".join(kinds)} or None')
    if not isinstance(obstacles, Sequence):
        raise SuppleError(f"obstacles is {_shown(obstacles)}; give a list of them, or ()")
    for number, obstacle in enumerate(obstacles):
        # A class has the method too, and is no obstacle.
        if not isinstance(obstacle, Obstacle) or isinstance(obstacle, type):
            raise SuppleError(
                f"obstacle {number} is a {type(obstacle).__name__}; use a Plane, a Sphere or a "
                "Capsule"
            )


def _check_positive(name: str, value: Any) -> None:
    if not _is_whole(value) or value < 1:
        raise SuppleError(f"{name} is {_shown(value)}; give a positive whole number")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    """What somebody gave, in one line that is not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
