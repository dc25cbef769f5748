"""The unreduced model: a character's skin, tets, rigs and material, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from supple.elastic.material import Material
from supple.engines.common.flesh_fields import FleshFields, built_flesh
from supple.mesh.topology import counted
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FullModel(FleshFields):
    """Flesh of a character without a reduction: a `PoseSpaceModel` has the same and more.

    Its fields are those of `FleshFields`; it is built in the time that tets and their fit take.
    """

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
        """Make a model of the results of a build's stages, as `PoseSpaceModel.make` does.

        Parameters
        ----------
        rig, tet_rig
            Rigs of the skin and the tets. They are stored and restored, so that they are as a
            file would hold them.
        embedding
            (n̄, n) sparse.
        material
            One, or one for each pose.
        pose_weights
            Poses, the neutral one first.
        **fields
            The others, as `FleshFields` has them.
        """
        own = {"rig": rig, "tet_rig": tet_rig, "embedding": embedding, "material": material}
        return cls(**built_flesh(**own, pose_weights=pose_weights, **fields))

    @property
    def figures(self) -> dict[str, int]:
        """Sizes: ``tets``."""
        return {"tets": len(self.mesh.tets)}
