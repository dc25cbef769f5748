"""Building a pose-space model of a character: every stage, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from supple.anatomy.flesh_presets import flesh_material
from supple.anatomy.painted_material import pose_materials
from supple.checks import checked_number, shown
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.alignment import VARIANTS, Variant
from supple.engines.pose_space.build.pose_selection import Poses, resolve_poses
from supple.engines.pose_space.build.reduction_setup import (
    ReductionSetup,
    choose_regions,
    modes_per_region,
)
from supple.engines.pose_space.build.sampled_poses import SampledPoses
from supple.engines.pose_space.build.training import train_model
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.mesh.obstacles import Obstacle, check_obstacle
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted
from supple.reduction.build_log import BuildLog
from supple.reduction.contact_constraints import ContactKind
from supple.reduction.regions.handles import Handle
from supple.reduction.regions.region import Region
from supple.reduction.regions.sway import region_sways
from supple.reduction.workers import Workers
from supple.rig.character import Character
from supple.rig.tets.bones import BONE_RADIUS, Bones

__all__ = ["build"]

Regions = Literal["auto"] | Sequence[Handle] | Sequence[Region] | None


def build(
    character: Character,
    poses: Poses = "auto",
    *,
    modes: int | Sequence[int] = 100,
    regions: Regions = "auto",
    material: Material | None = None,
    young: ArrayLike | None = None,
    poisson: ArrayLike | None = None,
    tets: int | TetMesh = 12_000,
    bones: Bones | ArrayLike | None = None,
    bone_radius: float = BONE_RADIUS,
    contacts: ContactKind | None = "two-sided",
    obstacles: Sequence[Obstacle] = (),
    elastic_cubature: int | None = None,
    inertial_cubature: int | None = None,
    interpolation: Variant = "frames",
    most_poses: int = 12,
    seed: int = 0,
    executor: Executor | None = None,
    log: BuildLog | None = None,
    **fitting: Any,
) -> PoseSpaceModel:
    """Reduce a character at several poses, align their bases, and train their cubature.

    Parameters
    ----------
    character
        A surface, its rig and its motions; see `supple.load`.
    poses
        Poses to reduce at: a number of poses to choose from the motions, poses, frames such as
        ``"Run:12"``, or ``"auto"``: more and more, until interpolation between them changes
        none of the lowest frequencies by a tenth. See `resolve_poses`.
    modes
        Number of columns in all, r, or of each region.
    regions
        Regions that have a basis each (xu2016 §7): handles of bounded biharmonic weights,
        regions, None for one basis of the whole body, ``"auto"`` for handles made from bones.
    material, young, poisson
        Material of the flesh, by default `flesh_material` of the body's size; and painted
        constants in place of its own, per surface vertex or tet, in one row or one for each
        pose; see `pose_materials`.
    tets
        Number of tets to make, or tets that fill the surface.
    bones, bone_radius
        Bones that fix the flesh around them; see `supple.rig.fit_tet_body`.
    contacts
        Kind of constraints between parts that touch at a pose (xu2016 §6), None to ignore
        contact; see `contact_constraints`.
    obstacles
        Other things that the body touches at the poses, such as the ground.
    elastic_cubature, inertial_cubature
        Numbers of tets and vertices that the step evaluates; by default three tets and a vertex
        and a half for each column.
    interpolation
        "frames", or "world" as in the paper.
    most_poses
        Number of poses at which ``"auto"`` stops.
    seed
        Seed of the cubature's samples. The same seed gives the same bytes.
    executor
        Computes poses beside each other; by default as many threads as there are cores. Of
        processes, use ones that are started afresh,
        ``ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))``: OpenMP's
        threads do not survive a fork. The bytes are the same.
    log
        Told about stages and progress.
    **fitting
        ``variant``, ``gamma``, ``most_added``: fitting of the tets to the rig; see
        `Character.fit_tet_body`.

    Raises
    ------
    SuppleError
        If an option or the character cannot be; it says what to do about it.
    """
    _check_character(character)
    options = BuildOptions(
        poses=poses,
        modes=modes,
        regions=regions,
        material=material,
        young=young,
        poisson=poisson,
        tets=tets,
        bones=bones,
        bone_radius=bone_radius,
        contacts=contacts,
        obstacles=obstacles,
        elastic_cubature=elastic_cubature,
        inertial_cubature=inertial_cubature,
        interpolation=interpolation,
        most_poses=most_poses,
        seed=seed,
        executor=executor,
        fitting=fitting,
    )
    return _built(character, options, BuildLog() if log is None else log)


@dataclass(frozen=True, eq=False, kw_only=True)
class BuildOptions:
    """Options of `build`, which documents them; checked when made, before anything is computed.

    Raises
    ------
    SuppleError
        If one of them cannot be; it names the option.
    """

    poses: Poses
    modes: int | Sequence[int]
    regions: Regions
    material: Material | None
    young: ArrayLike | None
    poisson: ArrayLike | None
    tets: int | TetMesh
    bones: Bones | ArrayLike | None
    bone_radius: float
    contacts: ContactKind | None
    obstacles: Sequence[Obstacle]
    elastic_cubature: int | None
    inertial_cubature: int | None
    interpolation: Variant
    most_poses: int
    seed: int
    executor: Executor | None
    fitting: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.material is not None:
            _check_material(self.material)
        if not (isinstance(self.tets, TetMesh) or _is_whole(self.tets)):
            raise SuppleError(f"tets is {shown(self.tets)}; give how many to make, or a TetMesh")
        checked_number("bone_radius", self.bone_radius)
        if not (self.regions is None or isinstance(self.regions, str | Sequence)):
            wanted = '"auto", handles, regions or None'
            raise SuppleError(f"regions is {shown(self.regions)}; use {wanted}")
        _check_contact(self.contacts, self.obstacles)
        for name in ("elastic_cubature", "inertial_cubature"):
            if getattr(self, name) is not None:
                _check_positive(name, getattr(self, name))
        if not isinstance(self.interpolation, str) or self.interpolation not in VARIANTS:
            wanted = ", ".join(VARIANTS)
            raise SuppleError(f"interpolation is {shown(self.interpolation)}; use one of {wanted}")
        _check_positive("most_poses", self.most_poses)
        if not _is_whole(self.seed) or not 0 <= self.seed < 2**63:
            given = shown(self.seed)
            raise SuppleError(f"seed must be a whole number from 0 to 2⁶³ − 1, not {given}")
        _check_executor(self.executor)
        if "gamma" in self.fitting:
            checked_number("gamma", self.fitting["gamma"])
        if not _is_whole(self.fitting.get("most_added", 0)):
            given = shown(self.fitting["most_added"])
            raise SuppleError(f"most_added is {given}; give a whole number")

    @property
    def adaptive(self) -> bool:
        """True if poses are added where they are too few."""
        return isinstance(self.poses, str) and self.poses == "auto"

    def cubature_counts(self, r: int) -> tuple[int, int]:
        """Return numbers of elastic tets and inertial vertices for r columns."""
        tets, vertices = self.elastic_cubature, self.inertial_cubature
        return (
            3 * r if tets is None else int(tets),
            (3 * r + 1) // 2 if vertices is None else int(vertices),
        )


def _built(character: Character, options: BuildOptions, log: BuildLog) -> PoseSpaceModel:
    """Take all stages of a build."""
    material = options.material
    if material is None:
        material = flesh_material(character.surface.size)
    rows, names = resolve_poses(character, options.poses)
    if options.adaptive:  # the farthest come first
        rows, names = rows[: options.most_poses], names[: options.most_poses]
    # One thread for BLAS: the same bits on every machine, and the cores are for the poses.
    with single_threaded(), Workers(options.executor) as workers:
        with log.stage("tets"):
            flesh = character.fit_tet_body(
                rows[1:],
                names=names[1:],
                tets=options.tets,
                bones=options.bones,
                bone_radius=options.bone_radius,
                progress=log.tell,
                **options.fitting,
            )
        with log.stage("regions"):
            regions = choose_regions(character, flesh, options.regions)
            materials = pose_materials(
                material,
                flesh.mesh,
                flesh.embedding,
                len(rows),
                young=options.young,
                poisson=options.poisson,
            )
            body = ElasticBody(flesh.mesh, materials[0])
            modes = modes_per_region(
                options.modes, regions, lambda: region_sways(body, body.rest, regions)
            )
        setup = ReductionSetup(
            character, flesh, regions, modes, options.contacts, tuple(options.obstacles)
        )
        sampled = SampledPoses(setup, rows, names, materials, options.interpolation, workers, log)
        sampled.reduce()
        sampled.assess(insert_up_to=options.most_poses if options.adaptive else 0)
        counts = options.cubature_counts(int(np.sum(modes)))
        return train_model(sampled, *counts, options.seed)


def _check_character(character: Character) -> None:
    if not isinstance(character, Character):
        raise SuppleError(f"build needs a Character, not {shown(character)}; see supple.load")
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
        raise SuppleError(f"material is {shown(material)}; give a Material, such as {example}")
    if not material.isotropic:
        raise SuppleError(f"material is {material.kind}; a model needs another, such as {example}")


def _check_contact(contacts: ContactKind | None, obstacles: Sequence[Obstacle]) -> None:
    kinds = get_args(ContactKind)
    if not (contacts is None or (isinstance(contacts, str) and contacts in kinds)):
        raise SuppleError(f'no kind "{contacts}" of contact; use {", ".join(kinds)} or None')
    if not isinstance(obstacles, Sequence):
        raise SuppleError(f"obstacles is {shown(obstacles)}; give a list of them, or ()")
    for number, obstacle in enumerate(obstacles):
        check_obstacle(number, obstacle)


def _check_executor(executor: Executor | None) -> None:
    usable = callable(getattr(executor, "submit", None)) and not isinstance(executor, type)
    if executor is not None and not usable:
        raise SuppleError(
            f"executor is {shown(executor)}; give one like concurrent.futures', or None"
        )


def _check_positive(name: str, value: Any) -> None:
    if not _is_whole(value) or value < 1:
        raise SuppleError(f"{name} is {shown(value)}; give a positive whole number")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
