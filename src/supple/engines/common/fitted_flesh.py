"""Flesh of a character: tets fitted to its rig, and their material at the poses.

This is the first stage of a pose-space build, and the whole build of an unreduced model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.anatomy.flesh_presets import Stiffness, flesh_material, stiffness_factors
from supple.anatomy.layers import layered_embedding
from supple.anatomy.painted_material import painted_material, pose_materials
from supple.arrays import Floats
from supple.checks import checked_count, checked_number, shown
from supple.elastic.material import Material
from supple.engines.common.option_record import OptionRecord
from supple.engines.common.pose_selection import Poses, motion_poses, resolve_poses
from supple.errors import SuppleError
from supple.mesh.tets import TetMesh
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.tets.bones import BONE_RADIUS, Bones
from supple.rig.tets.fitting import GAMMA
from supple.rig.tets.tet_body import TetBody


@dataclass(frozen=True, eq=False, kw_only=True)
class FleshOptions(OptionRecord):
    """Options of the flesh, checked; `supple.engines.pose_space.build` documents them."""

    poses: Poses = "auto"
    material: Material | None = None
    young: ArrayLike | None = None
    poisson: ArrayLike | None = None
    tets: int | TetMesh = 12_000
    bones: Bones | ArrayLike | None = None
    bone_radius: float = BONE_RADIUS
    most_poses: int = 12
    variant: Any = "auto"
    gamma: float = GAMMA
    most_added: int = 24
    followed: ArrayLike | None = None
    stiffness_at: Mapping[str, Stiffness] | None = None

    def __post_init__(self) -> None:
        if self.material is not None:
            _check_material(self.material)
        if not (isinstance(self.tets, TetMesh) or is_whole(self.tets)):
            raise SuppleError(f"tets is {shown(self.tets)}; give a number of tets, or a TetMesh")
        checked_number("bone_radius", self.bone_radius)
        checked_count("most_poses", self.most_poses)
        checked_number("gamma", self.gamma)
        if not isinstance(self.stiffness_at, Mapping | None):
            value = shown(self.stiffness_at)
            raise SuppleError(f"stiffness_at is {value}; give factors by pose")
        if not is_whole(self.most_added):
            raise SuppleError(f"most_added is {shown(self.most_added)}; give a whole number")

    @property
    def adaptive(self) -> bool:
        """True if poses are added where interpolation is too coarse."""
        return isinstance(self.poses, str) and self.poses == "auto"


@dataclass(frozen=True, eq=False)
class FittedFlesh:
    """Tets of a character fitted at poses (m, s), the neutral one first, and their materials."""

    body: TetBody
    poses: Floats
    names: tuple[str, ...]
    materials: tuple[Material, ...]

    @classmethod
    def of(cls, character: Character, options: FleshOptions, log: BuildLog) -> FittedFlesh:
        """Fill a character with tets and fit them at its poses."""
        rows, names = resolve_poses(character, options.poses)
        if options.adaptive:  # ordered by distance, the farthest first
            rows, names = rows[: options.most_poses], names[: options.most_poses]
        with log.stage("tets"):
            body = character.fit_tet_body(
                rows[1:],
                names=names[1:],
                tets=options.tets,
                bones=options.bones,
                bone_radius=options.bone_radius,
                progress=log.report,
                variant=options.variant,
                gamma=options.gamma,
                most_added=options.most_added,
            )
            materials = pose_materials(
                options.material or flesh_material(character.surface.size),
                body.mesh,
                body.embedding,
                len(rows),
                young=options.young,
                poisson=options.poisson,
            )
            if options.stiffness_at:
                poses = (rows, tuple(names), body.tet_rig.pose_weights.scales)
                materials = _stiffened(character, body, materials, poses, options.stiffness_at)
            embedding = layered_embedding(
                body.embedding, character.surface, body.mesh, options.followed
            )
        return cls(replace(body, embedding=embedding), rows, tuple(names), materials)

    def pose_weights(self) -> PoseWeights:
        """Return `PoseWeights` of the poses, with the scales and the kind of the tets' fit."""
        fitted = self.body.tet_rig.pose_weights
        return PoseWeights(self.poses, fitted.scales, kind=fitted.kind, names=self.names)


def _stiffened(
    character: Character,
    body: TetBody,
    materials: Sequence[Material],
    poses: tuple[Floats, tuple[str, ...], Floats],
    stiffness_at: Mapping[str, Stiffness],
) -> tuple[Material, ...]:
    """Return the materials at poses (rows, names, metric), stiffened by factors at some poses.

    The factors are blended between these poses and the neutral one, where they are 1 (xu2016
    eq. 36).
    """
    rows, names, scales = poses
    known = dict(zip(names, rows, strict=True))
    painted, maps = [rows[0]], [np.ones(len(character.surface.vertices))]
    for name, factors in stiffness_at.items():
        values = stiffness_factors(character, factors)
        pose = known[name] if name in known else resolve_poses(character, [name])[0][-1]
        if np.array_equal(pose, rows[0]):
            maps[0] = values
        else:
            painted.append(pose)
            maps.append(values)
    weights = PoseWeights(
        np.array(painted), scales, names=["neutral", *map(str, stiffness_at)][: len(painted)]
    )
    fields = painted_material(body.mesh, body.embedding, np.array(maps))
    low, high = fields.min(axis=0), fields.max(axis=0)
    return tuple(
        replace(
            material,
            young=np.asarray(material.young) * np.clip(weights(row) @ fields, low, high),
        )
        for material, row in zip(materials, rows, strict=True)
    )


def check_character(character: Character) -> None:
    """Raise an error unless this is a character with a mesh and a rig that fits its motions."""
    if not isinstance(character, Character):
        raise SuppleError(f"build needs a Character, not {shown(character)}; see supple.load")
    _ = character.surface, character.rig  # these raise an error without a mesh
    for name in character.motions:
        motion_poses(character, name)


def _check_material(material: Any) -> None:
    example = 'Material("stvk", young=2e4, poisson=0.45)'
    if not isinstance(material, Material):
        raise SuppleError(f"material is {shown(material)}; give a Material, such as {example}")
    if not material.isotropic:
        raise SuppleError(f"material {material.kind} is not isotropic; give one such as {example}")


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer, but not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
