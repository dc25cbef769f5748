"""The X at two poses and what lies between them, for fig. 10."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.elastic import ElasticBody, Material
from supple.reduction import Between, column_scales
from supple.reduction.agreement import Agreement, agree
from supple.reduction.assessment import split_basis
from supple.reduction.build_parts import Body, choose_regions
from supple.reduction.pose_model import PoseModel, reduce_pose
from supple.reduction.samples import dense_basis
from supple.rig.flesh import flesh_out
from supple.rig.pose_weights import PoseWeights
from supple.scenes import scene

__all__ = ["PAPER_ERRORS", "POSES", "PosesBetween"]

Floats = NDArray[np.float64]

POSES = ("flat", "bent forth")
#: Errors of cubature in the paper's figure: at its two poses, and halfway between them.
PAPER_ERRORS = {"pose1": 0.011, "pose2": 0.019, "interpolated": 0.015, "recomputed": 0.013}


@dataclass(frozen=True)
class PosesBetween:
    """The X at two poses, and what can be asked of it between them.

    Attributes
    ----------
    body, elastic, material
        Tets with their rig and regions, and what they are made of.
    poses, models, weights
        The two poses, their bases, and how much each counts between them.
    """

    body: Body
    elastic: ElasticBody
    poses: Floats
    models: list[PoseModel]
    weights: PoseWeights
    material: Material

    @classmethod
    def of_the_x(cls, quick: bool) -> tuple[PosesBetween, int]:
        """The X at two of its poses, and how many cubature tets it has; a coarse one if quick."""
        shown = scene("x")
        recipe = shown.recipe()
        ends = np.array([shown.pose(name) for name in POSES])
        flesh = flesh_out(
            shown.character.surface,
            shown.character.rig,
            ends[1:],
            names=POSES[1:],
            tets=2_500 if quick else recipe["tets"],
            bones=recipe["bones"],
        )
        modes = (12,) if quick else tuple(shown.modes)
        regions = choose_regions(shown.character, flesh, shown.handles)
        body = Body(shown.character, flesh, regions, modes, "two-sided", ())
        fitted = flesh.tet_rig.pose_weights
        weights = PoseWeights(ends, fitted.scales, kind=fitted.kind, names=POSES)
        models = [
            reduce_pose(body.task(name, pose, shown.material))
            for name, pose in zip(POSES, ends, strict=True)
        ]
        elastic = ElasticBody(flesh.mesh, shown.material)
        count = 50 if quick else int(recipe["elastic_cubature"])
        return cls(body, elastic, ends, models, weights, shown.material), count

    @property
    def mass(self) -> Floats:
        """Of the vertices."""
        return self.elastic.vertex_masses()

    def agreement(self, variant: Any) -> Agreement:
        """The two bases aligned, to be blended in frames or in the world."""
        return agree(
            self.body.flesh.mesh,
            self.models,
            self.weights,
            self.body.regions,
            self.mass,
            variant=variant,
        )

    def pose(self, part: float) -> Floats:
        """So far from the first to the second."""
        return (1 - part) * self.poses[0] + part * self.poses[1]

    def recomputed(self, part: float) -> PoseModel:
        """The basis computed at the pose between."""
        return reduce_pose(self.body.task("between", self.pose(part), self.material))

    def spread(self, model: PoseModel) -> Floats:
        """Its basis on all vertices, (n, 3, r)."""
        return dense_basis(model.bases, self.body.regions, len(model.rest)).reshape(
            len(model.rest), 3, -1
        )

    def blend(self, agreement: Agreement, part: float) -> Between:
        """The interpolated basis and what cubature needs to know about it."""
        shares = self.weights(self.pose(part))
        rest = self.body.flesh.tet_rig(self.pose(part))
        basis = split_basis(agreement.basis(shares, len(rest)), self.body.regions, self.body.modes)
        scales = column_scales(agreement.products, shares)
        return Between(self.elastic, rest, basis, (0, 1), shares, scales)
