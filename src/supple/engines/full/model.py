"""The unreduced model of a character: skin, tets, rigs and material; and its build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from supple.elastic.material import Material
from supple.engines.common.fitted_flesh import (
    FittedFlesh,
    FleshOptions,
    check_character,
)
from supple.engines.common.flesh_fields import FleshFields, built_flesh
from supple.engines.common.pose_selection import Poses
from supple.linalg.blas import single_threaded
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig
from supple.rig.tets.bones import BONE_RADIUS, Bones
from supple.rig.tets.fitting import GAMMA


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FullModel(FleshFields):
    """Unreduced model of a character, with the fields of `FleshFields`."""

    engine: ClassVar[str] = "full"

    def __repr__(self) -> str:
        return f'FullModel("{self.name}", {counted(len(self.mesh.tets), "tet")})'

    @classmethod
    def make(
        cls,
        *,
        rig: Rig,
        tet_rig: Rig,
        embedding: Any,
        material: Material | Sequence[Material],
        pose_weights: PoseWeights,
        **fields: Any,
    ) -> FullModel:
        """Make a model from the results of a build, as `PoseSpaceModel.make` does.

        Parameters
        ----------
        rig, tet_rig
            Rigs of the skin and the tets. They are written and read, so that the model equals one
            from a file.
        embedding
            (n̄, n) sparse matrix.
        material
            One material, or one for each pose.
        pose_weights
            Poses, the neutral one first.
        **fields
            Other fields of `FleshFields`.
        """
        parts = {"rig": rig, "tet_rig": tet_rig, "embedding": embedding, "material": material}
        return cls(**built_flesh(**parts, pose_weights=pose_weights, **fields))

    @property
    def figures(self) -> dict[str, int]:
        """Sizes: ``tets``."""
        return {"tets": len(self.mesh.tets)}


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
    """Fill a character with tets and fit them to its rig, as a pose-space build does.

    Parameters
    ----------
    character
        A surface, its rig and its motions; see `supple.load`.
    poses, most_poses
        Poses at which tets are fitted, and how many ``"auto"`` chooses from the motions.
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
    with single_threaded():  # the same bits on every machine
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
