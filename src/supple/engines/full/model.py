"""Unreduced model of a character: skin, tets, rigs and material; and its build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from supple.engines.common.fitted_flesh import FittedFlesh, FleshOptions, check_character
from supple.engines.common.flesh_fields import FleshFields, built_flesh
from supple.engines.common.option_record import takes_options
from supple.engines.common.pose_selection import Poses
from supple.linalg.blas import single_threaded
from supple.mesh.topology import counted
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FullModel(FleshFields):
    """Unreduced model of a character, with the fields of `FleshFields`."""

    engine: ClassVar[str] = "full"

    def __repr__(self) -> str:
        return f'FullModel("{self.name}", {counted(len(self.mesh.tets), "tet")})'

    @classmethod
    def make(cls, **results: Any) -> FullModel:
        """Make a model from the results of a build, the arguments of `built_flesh`."""
        return cls(**built_flesh(**results))

    @property
    def figures(self) -> dict[str, int]:
        """Sizes of the model by name: ``tets`` only."""
        return {"tets": len(self.mesh.tets)}


@takes_options(FleshOptions, closed=True)
def build(
    character: Character,
    poses: Poses = "auto",
    *,
    options: FleshOptions | None = None,
    log: BuildLog | None = None,
    **keywords: Any,
) -> FullModel:
    """Fill a character with tets and fit them to its rig, as a pose-space build does.

    Parameters
    ----------
    character
        A surface, its rig and its motions; see `supple.load`.
    options, **keywords
        Options as one record, `FleshOptions`, or by keyword; keywords replace its fields.
    poses, most_poses
        Poses at which tets are fitted, and how many ``"auto"`` chooses from the motions.
    material, young, poisson, tets, bones, bone_radius, followed, log
        As for pose-space: `supple.engines.pose_space.build`.
    variant, gamma, most_added
        Fitting of the tets to the rig; see `Character.fit_tet_body`.
    """
    check_character(character)
    if options is None or not isinstance(poses, str) or poses != "auto":
        keywords["poses"] = poses
    chosen = FleshOptions.of("the engine full", options, keywords)
    with single_threaded():  # the same bits on every machine
        flesh = FittedFlesh.of(character, chosen, BuildLog() if log is None else log)
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
