"""From a character to a pose-space model: every stage, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from supple.anatomy.flesh_presets import flesh_material
from supple.anatomy.painted_material import pose_materials
from supple.checks import checked_number
from supple.elastic.material import Material
from supple.engines.pose_space.alignment import VARIANTS, Variant
from supple.engines.pose_space.build.build_parts import Body, choose_regions, modes_per_region
from supple.engines.pose_space.build.pose_family import PoseFamily
from supple.engines.pose_space.build.pose_selection import Poses, resolve_poses
from supple.engines.pose_space.build.training import finish
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.mesh.obstacles import Obstacle
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted
from supple.reduction.build_log import BuildLog
from supple.reduction.contact_constraints import ContactKind
from supple.reduction.regions.handles import Handle
from supple.reduction.regions.region import Region
from supple.reduction.workers import Workers
from supple.rig.character import Character
from supple.rig.tets.bones import BONE_RADIUS, Bones

__all__ = ["build", "check_options", "flesh_material"]


# ----------------------------------------------------------------------------
# What somebody asks of a build, looked at before anything is computed.


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
    if not material.isotropic:
        raise SuppleError(f"material is {material.kind}; a model needs another, such as {example}")


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
        What holds the flesh; see `supple.rig.fit_tet_body`.
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
        `Character.fit_tet_body`.

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
            flesh = character.fit_tet_body(
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
