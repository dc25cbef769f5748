"""Build of a pose-space model of a character: all stages in their order."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from supple.checks import checked_count, shown
from supple.elastic.body import ElasticBody
from supple.engines.common.fitted_flesh import FittedFlesh, FleshOptions, check_character, is_whole
from supple.engines.common.option_record import takes_options
from supple.engines.common.pose_selection import Poses
from supple.engines.pose_space.alignment import Variant
from supple.engines.pose_space.build.recipe import Recipe, RecipeName, recipe_of
from supple.engines.pose_space.build.reduction_setup import (
    Basis,
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
from supple.reduction.build_log import BuildLog
from supple.reduction.contact_constraints import ContactKind
from supple.reduction.cubature.accuracy import LinearForces
from supple.reduction.cubature.inertial_cubature import InertialFit
from supple.reduction.cubature.selection import Selection
from supple.reduction.regions.handles import Handle
from supple.reduction.regions.region import Region
from supple.reduction.regions.region_weights import region_sways
from supple.reduction.workers import Workers
from supple.rig.character import Character

Regions = Literal["auto"] | Sequence[Handle] | Sequence[Region] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class BuildOptions(FleshOptions):
    """Checked options of `build`, which documents them.

    Raises
    ------
    SuppleError
        For an invalid option; the message names it.
    """

    modes: int | Sequence[int] = 100
    regions: Regions = "auto"
    basis: Basis = "modes"
    contacts: ContactKind | Literal["auto"] | None = "auto"
    obstacles: Sequence[Obstacle] = ()
    elastic_cubature: int | None = None
    inertial_cubature: int | None = None
    seed: int = 0
    executor: Executor | None = None
    recipe: RecipeName = "default"
    interpolation: Variant | None = None
    reach: float | None = None
    independent: bool | None = None
    linear_forces: LinearForces | None = None
    selection: Selection | None = None
    train_between: bool | None = None
    inertial_fit: InertialFit | None = None
    train_root: bool | None = None
    region_threshold: float | None = None
    region_exponent: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.regions is None or isinstance(self.regions, str | Sequence)):
            kinds = '"auto", handles, regions or None'
            raise SuppleError(f"regions is {shown(self.regions)}; use {kinds}")
        if not isinstance(self.basis, str) or self.basis not in get_args(Basis):
            raise SuppleError(f"basis is {shown(self.basis)}; use {' or '.join(get_args(Basis))}")
        if self.basis == "shaken" and self.recipe == "printed":
            raise SuppleError('the printed recipe has modes; leave out basis="shaken"')
        _ = self.switches
        _check_obstacles(self.obstacles)
        for name in ("elastic_cubature", "inertial_cubature"):
            if getattr(self, name) is not None:
                checked_count(name, getattr(self, name))
        if not is_whole(self.seed) or not 0 <= self.seed < 2**63:
            given = shown(self.seed)
            raise SuppleError(f"seed must be a whole number from 0 to 2⁶³ − 1, not {given}")
        _check_executor(self.executor)

    @cached_property
    def switches(self) -> Recipe:
        """The recipe, changed by the switches that are given."""
        names = [each.name for each in fields(Recipe) if each.name != "contacts"]
        switches = {name: getattr(self, name) for name in names}
        recipe = recipe_of(self.recipe, switches)
        return recipe if self.contacts == "auto" else replace(recipe, contacts=self.contacts)

    def cubature_counts(self, r: int, moving: int, free: int) -> tuple[int, int]:
        """Return numbers of elastic tets and inertial vertices for r columns.

        Default numbers are at most the numbers of moving tets and of free vertices.
        """
        tets, vertices = self.elastic_cubature, self.inertial_cubature
        return (
            min(3 * r, moving) if tets is None else int(tets),
            min((3 * r + 1) // 2, free) if vertices is None else int(vertices),
        )


@takes_options(BuildOptions, closed=True)
def build(
    character: Character,
    poses: Poses = "auto",
    *,
    options: BuildOptions | None = None,
    log: BuildLog | None = None,
    **keywords: Any,
) -> PoseSpaceModel:
    """Reduce a character at several poses, align their bases, and train their cubature.

    Parameters
    ----------
    character
        A surface, its rig and its motions; see `supple.load`.
    poses
        Poses of the reduction: a number of poses to choose from the motions, poses, frames such as
        ``"Run:12"``, or ``"auto"``: poses are added until interpolation between them changes no
        low frequency by a tenth. See `resolve_poses`.
    options, **keywords
        Options as one record, `BuildOptions`, or by keyword; keywords replace its fields.
    modes
        Total number of columns r, distributed by each region's static displacement, or one number
        per region.
    regions
        Regions with a basis each (xu2016 §7): handles of bounded biharmonic weights,
        regions, None for one basis of the whole body, ``"auto"`` for handles made from bones.
    basis
        ``"modes"``: modes and derivatives of each region at every pose (xu2016). ``"shaken"``: one
        snapshot basis of the whole body, shaken at the poses, with forces fitted to the same
        motions: more accurate in fast motion, and slower in a step.
    material, young, poisson
        Material of the flesh, by default `flesh_material` of the body's size; and painted
        constants that replace its own, per surface vertex or tet, in one row or one for each pose;
        see `pose_materials`.
    stiffness_at
        Factors of Young's modulus at some poses, by a pose's name or frame, such as ``"Run:12"``:
        (n̄,) numbers, or a mapping as for `supple.bake`. They are blended between these poses and
        the neutral one, where they are 1; ``"auto"`` poses can be painted, too.
    tets
        Number of tets to make, or a `TetMesh` that fills the surface.
    bones, bone_radius
        Bones that fix the flesh around them; see `supple.rig.fit_tet_body`.
    followed
        (n̄, 3) points whose displacement the vertices of the skin take, by default their own.
    contacts
        Kind of constraints between parts that touch at a pose (xu2016 §6), by default that of the
        recipe; None to ignore contact; see `contact_constraints`.
    obstacles
        Obstacles that the body touches at the poses, such as the ground.
    elastic_cubature, inertial_cubature
        Numbers of cubature tets and vertices; by default 3 tets and 1.5 vertices per column.
    recipe
        ``"default"``, or ``"printed"`` for the method as Xu and Barbič 2016 print it.
    interpolation, reach, independent, linear_forces, selection, train_between, inertial_fit, \
train_root, region_threshold, region_exponent
        Switches of the recipe, each of which replaces its value; see `Recipe`. A `reach` of 0 is
        that of the printed recipe.
    most_poses
        Number of poses at which ``"auto"`` stops.
    seed
        Seed of the cubature's samples. The same seed gives the same bytes.
    executor
        Executor that computes poses in parallel; by default a thread for each core. Processes must
        be spawned, ``ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))``,
        because OpenMP's threads do not survive a fork. The result has the same bytes.
    log
        Log of stages and progress.
    variant, gamma, most_added
        Fitting of the tets to the rig; see `Character.fit_tet_body`.

    Raises
    ------
    SuppleError
        For an invalid option or character; the message says what to do.
    """
    check_character(character)
    if options is None or not isinstance(poses, str) or poses != "auto":
        keywords["poses"] = poses
    chosen = BuildOptions.of("the engine pose-space", options, keywords)
    return _built(character, chosen, BuildLog() if log is None else log)


def _built(character: Character, options: BuildOptions, log: BuildLog) -> PoseSpaceModel:
    """Run all stages of a build."""
    recipe = options.switches
    # One thread for BLAS, for the same bits on every machine; poses use the cores.
    with single_threaded(), Workers(options.executor) as workers:
        flesh = FittedFlesh.of(character, options, log)
        with log.stage("regions"):
            regions = choose_regions(character, flesh.body, options.regions, options.basis, recipe)
            elastic = ElasticBody(flesh.body.mesh, flesh.materials[0])
            modes = modes_per_region(
                options.modes, regions, lambda: region_sways(elastic, elastic.rest, regions)
            )
        touching = recipe.contacts, tuple(options.obstacles)
        setup = ReductionSetup(
            character, flesh.body, regions, modes, *touching, options.basis, recipe
        )
        free = np.unique(np.concatenate([region.vertices for region in regions]))
        moving = int(np.isin(flesh.body.mesh.tets, free).any(axis=1).sum())
        counts = options.cubature_counts(int(np.sum(modes)), moving, len(free))
        at = flesh.poses, flesh.names, flesh.materials

        def trained(setup: ReductionSetup) -> PoseSpaceModel | None:
            sampled = SampledPoses(setup, *at, recipe.interpolation, workers, log)
            sampled.reduce()
            sampled.assess(insert_up_to=options.most_poses if options.adaptive else 0)
            return train_model(sampled, *counts, options.seed)

        # Snapshot bases with badly fitted forces do not settle into a cycle: after 12 cycles a worm
        # with 8 columns still changed by 3.6 % of its size, with modes by 0.1 %.
        model = trained(setup) or trained(replace(setup, basis="modes"))
        assert model is not None  # modes always give a model
        return model


def _check_obstacles(obstacles: Sequence[Obstacle]) -> None:
    if not isinstance(obstacles, Sequence):
        raise SuppleError(f"obstacles is {shown(obstacles)}; give a list of obstacles, or ()")
    for number, obstacle in enumerate(obstacles):
        check_obstacle(number, obstacle)


def _check_executor(executor: Executor | None) -> None:
    usable = callable(getattr(executor, "submit", None)) and not isinstance(executor, type)
    if executor is not None and not usable:
        raise SuppleError(
            f"executor is {shown(executor)}; give a concurrent.futures.Executor or None"
        )
