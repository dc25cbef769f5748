"""Building an unreduced model of a character: its tets, fitted to the rig, and their material."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from supple.elastic.material import Material
from supple.engines.full.model import FullModel
from supple.engines.pose_space.build.fitted_flesh import (
    FittedFlesh,
    FleshOptions,
    check_character,
)
from supple.engines.pose_space.build.pose_selection import Poses
from supple.linalg.blas import single_threaded
from supple.mesh.tets import TetMesh
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character
from supple.rig.tets.bones import BONE_RADIUS, Bones
from supple.rig.tets.fitting import GAMMA


def build(
    character: Character,
    poses: Poses = "auto",
    *,
    material: Material | None = None,
    young: ArrayLike | None = None,
    poisson: ArrayLike | None = None,
    tets: int | TetMesh = 12_000,
    bones: Bones | ArrayLike | None = None,
    bone_radius: float = BONE_RADIUS,
    most_poses: int = 12,
    variant: Any = "auto",
    gamma: float = GAMMA,
    most_added: int = 24,
    log: BuildLog | None = None,
) -> FullModel:
    """Fill a character with tets that follow its rig, as a pose-space build does, and end there.

    Parameters
    ----------
    character
        A surface, its rig and its motions; see `supple.load`.
    poses, most_poses
        Poses that tets are fitted at, and how many ``"auto"`` chooses from the motions.
    material, young, poisson, tets, bones, bone_radius, log
        As for pose-space: `supple.engines.pose_space.build`.
    variant, gamma, most_added
        Fitting of the tets to the rig; see `Character.fit_tet_body`.
    """
    check_character(character)
    options = FleshOptions(
        poses=poses,
        material=material,
        young=young,
        poisson=poisson,
        tets=tets,
        bones=bones,
        bone_radius=bone_radius,
        most_poses=most_poses,
        fitting={"variant": variant, "gamma": gamma, "most_added": most_added},
    )
    with single_threaded():  # the same bits on every machine, as all builds
        flesh = FittedFlesh.of(character, options, BuildLog() if log is None else log)
    body = flesh.body
    return FullModel.make(
        name=character.name,
        surface=character.surface,
        rig=character.rig,
        motions=character.motions,
        mesh=body.mesh,
        tet_rig=body.tet_rig,
        embedding=body.embedding,
        fixed=body.fixed,
        material=flesh.materials,
        pose_weights=flesh.pose_weights(),
    )
