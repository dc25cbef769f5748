"""From a character to a pose-space model: every stage, in order."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic import Material
from supple.linalg.fortran import single_threaded
from supple.mesh import TetMesh
from supple.mesh.obstacles import Obstacle
from supple.reduction.alignment import Variant
from supple.reduction.build_options import check_options
from supple.reduction.build_parts import Body, choose_regions, modes_per_region
from supple.reduction.contact_constraints import ContactKind
from supple.reduction.handles import Handle
from supple.reduction.log import BuildLog
from supple.reduction.materials import pose_materials
from supple.reduction.model import PoseSpaceModel
from supple.reduction.pose_family import PoseFamily
from supple.reduction.pose_selection import Poses, resolve_poses
from supple.reduction.region import Region
from supple.reduction.training import finish
from supple.reduction.workers import Workers
from supple.rig.bones import BONE_RADIUS, Bones
from supple.rig.character import Character

__all__ = ["build", "flesh_material"]

#: Young's modulus of flesh that swings at a few hertz on a body of human size: Pa, and metres.
FLESH, HUMAN = 2e4, 2.0


def flesh_material(size: float) -> Material:
    """Flesh for a body of this size in metres: it swings as a human's does, however large.

    Frequencies go with √(E/ρ) over the size. Files often mistake their units, and a rat of seven
    metres made of real flesh would flow.

    Examples
    --------
    >>> flesh_material(2.0).young
    20000.0
    """
    return Material("stvk", young=float(f"{FLESH * (size / HUMAN) ** 2:.3g}"), poisson=0.45)


def build(
    character: Character,
    poses: Poses = "auto",
    *,
    modes: int | Sequence[int] = 100,
    regions: Literal["auto"] | Sequence[Handle] | Sequence[Region] | None = "auto",
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
    """Reduce a character at several poses, make the models agree, and train their cubature.

    Parameters
    ----------
    character
        A surface, its rig and its motions; see `supple.load`.
    poses
        Where to reduce: a number of poses to choose from the motions, poses, frames such as
        ``"Run:12"``, or ``"auto"``: more and more, until interpolation between them changes
        none of the lowest frequencies by a tenth. See `resolve_poses`.
    modes
        r, columns in all, or of each region.
    regions
        Where bases live (xu2016 §7): handles of bounded biharmonic weights, regions, None for
        one basis of the whole body, ``"auto"`` for handles made from bones.
    material, young, poisson
        What the flesh is made of, by default `flesh_material` of the body's size; and painted
        constants in place of its own, per surface vertex or tet, in one row or one for each
        pose; see `pose_materials`.
    tets
        How many to make, or tets that fill the surface.
    bones, bone_radius
        What holds the flesh; see `supple.rig.flesh_out`.
    contacts
        How parts that touch at a pose bind each other there (xu2016 §6), None to ignore it; see
        `contact_constraints`.
    obstacles
        What else the body touches at the poses, such as the ground.
    elastic_cubature, inertial_cubature
        How many tets and vertices the step evaluates; by default three tets and a vertex and a
        half for each column.
    interpolation
        "frames", or "world" as in the paper.
    most_poses
        Where ``"auto"`` stops.
    seed
        Of the cubature's samples. The same seed gives the same bytes.
    executor
        What poses are computed by, beside each other; by default as many threads as there are
        cores. Of processes, ones that are started afresh,
        ``ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))``: OpenMP's
        threads do not survive a fork. The bytes are the same.
    log
        Told about stages and progress.
    **fitting
        ``variant``, ``gamma``, ``most_added``: how tets follow the rig; see
        `Character.flesh_out`.

    Raises
    ------
    SuppleError
        What is wrong, and what to do about it.
    """
    check_options(
        character,
        regions=regions,
        material=material,
        tets=tets,
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
    log = BuildLog() if log is None else log
    material = flesh_material(character.surface.size) if material is None else material
    rows, names = resolve_poses(character, poses)
    if _is_auto(poses):  # the farthest come first
        rows, names = rows[:most_poses], names[:most_poses]
    # One thread for BLAS: the same bits on every machine, and the cores are for the poses.
    with single_threaded(), Workers(executor) as workers:
        with log.stage("tets"):
            flesh = character.flesh_out(
                rows[1:],
                names=names[1:],
                tets=tets,
                bones=bones,
                bone_radius=bone_radius,
                progress=log.tell,
                **fitting,
            )
        with log.stage("regions"):
            chosen = choose_regions(character, flesh, regions)
            counts = modes_per_region(modes, chosen)
            materials = pose_materials(
                material, flesh.mesh, flesh.embedding, len(rows), young=young, poisson=poisson
            )
        body = Body(character, flesh, chosen, counts, contacts, tuple(obstacles))
        family = PoseFamily(body, rows, names, materials, interpolation, workers, log)
        family.reduce()
        family.assess(insert_up_to=most_poses if _is_auto(poses) else 0)
        r = int(np.sum(counts))
        return finish(
            family,
            3 * r if elastic_cubature is None else int(elastic_cubature),
            (3 * r + 1) // 2 if inertial_cubature is None else int(inertial_cubature),
            seed,
        )


def _is_auto(poses: Poses) -> bool:
    return isinstance(poses, str) and poses == "auto"
