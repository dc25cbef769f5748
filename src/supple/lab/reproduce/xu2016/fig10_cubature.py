"""xu2016 fig. 10: basis and cubature between two poses, interpolated and recomputed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, draw_surface, save_picture, view_axes
from supple.arrays import Floats
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.alignment import subspace_angles
from supple.engines.pose_space.build.aligned_poses import (
    FREQUENCIES,
    AlignedPoses,
    align_poses,
    split_basis,
)
from supple.engines.pose_space.build.pose_basis import PoseModel, reduce_pose
from supple.engines.pose_space.build.recipe import RECIPES
from supple.engines.pose_space.build.reduction_setup import ReductionSetup, choose_regions
from supple.engines.pose_space.interpolation import (
    column_scales,
    frequency_ratios,
    reduced_frequencies,
)
from supple.lab.reproduce.figures import frame_view, label_chart, new_figure
from supple.progress import Progress
from supple.reduction.cubature.accuracy import blended_correction, force_error
from supple.reduction.cubature.elastic_cubature import Between, ElasticCubature, elastic_cubature
from supple.reduction.cubature.samples import dense_basis, force_samples
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.tets.tet_body import fit_tet_body
from supple.scenes.characters.character_scene import scene

POSES = ("flat", "bent forth")
#: Errors of cubature in the paper's figure, at its two poses and halfway.
PAPER_ERRORS = {"pose1": 0.011, "pose2": 0.019, "interpolated": 0.015, "recomputed": 0.013}


@dataclass(frozen=True)
class PosesBetween:
    """The scene "x" at two poses: their bases, pose weights, and the elastic body."""

    body: ReductionSetup
    elastic: ElasticBody
    poses: Floats
    models: list[PoseModel]
    weights: PoseWeights
    material: Material

    @classmethod
    def of_the_x(cls, quick: bool, recipe_name: str) -> tuple[PosesBetween, int]:
        """Return the X at two of its poses by a recipe, and the paper's number of cubature tets.

        If quick, both are small.
        """
        shown = scene("x")
        recipe, method = shown.printed_recipe(), RECIPES[recipe_name]
        ends = np.array([shown.pose(name) for name in POSES])
        flesh = fit_tet_body(
            shown.character.surface,
            shown.character.rig,
            ends[1:],
            names=POSES[1:],
            tets=2_500 if quick else recipe["tets"],
            bones=recipe["bones"],
        )
        modes = (12,) if quick else tuple(shown.modes)
        regions = choose_regions(shown.character, flesh, shown.handles, recipe=method)
        body = ReductionSetup(
            shown.character, flesh, regions, modes, method.contacts, (), recipe=method
        )
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
        """Masses of the vertices."""
        return self.elastic.vertex_masses()

    def aligned(self, variant: Any) -> AlignedPoses:
        """Return the two aligned bases, for blending in frames or in the world."""
        return align_poses(
            self.body.flesh.mesh,
            self.models,
            self.weights,
            self.body.regions,
            self.mass,
            variant=variant,
        )

    def pose(self, part: float) -> Floats:
        """Return the pose at a fraction of the path from the first pose to the second."""
        return (1 - part) * self.poses[0] + part * self.poses[1]

    def recomputed(self, part: float) -> PoseModel:
        """Return the basis computed at a pose between the two."""
        return reduce_pose(self.body.task("between", self.pose(part), self.material))

    def spread(self, model: PoseModel) -> Floats:
        """Return the basis of a pose on all vertices, (n, 3, r)."""
        return dense_basis(model.bases, self.body.regions, len(model.rest)).reshape(
            len(model.rest), 3, -1
        )

    def blend(self, aligned: AlignedPoses, part: float) -> Between:
        """Return the interpolated basis and its weights, for cubature."""
        shares = self.weights(self.pose(part))
        rest = self.body.flesh.tet_rig(self.pose(part))
        basis = split_basis(aligned.basis(shares, len(rest)), self.body.regions, self.body.modes)
        scales = column_scales(aligned.products, shares)
        return Between(self.elastic, rest, basis, (0, 1), shares, scales)


#: Names, colours and markers of curves.
_STYLES = {"ours": ("ours", "#2f6f8f", "o"), "printed": ("as printed", "#b5483a", "s")}
#: Largest displacement of a column in pictures, relative to the body's size.
_SHOWN = 0.12


def picture(
    case: PosesBetween,
    aligned: AlignedPoses,
    halfway: PoseModel,
    spaces: dict[str, dict[str, Floats]],
    errors: tuple[Floats, dict[str, list[float]], dict[str, float]],
) -> Figure:
    """Draw the softest column at four shapes, angles between spaces, and errors between poses."""
    figure = new_figure(
        (12.5, 6.6), "Basis and cubature between two poses, interpolated and recomputed", 13
    )
    parts: Any = figure.subfigures(2, 1, height_ratios=(1, 1.15))
    top, bottom = parts
    for axes, (caption, part, column) in zip(
        top.subplots(1, 4), _columns(case, aligned, halfway), strict=True
    ):
        _draw_column(axes, case, part, column)
        axes.set_title(caption, color=INK, fontsize=10)
    left, right = bottom.subplots(1, 2)
    _angles_chart(left, spaces)
    _errors_chart(right, *errors)
    return figure


def _columns(
    case: PosesBetween, aligned: AlignedPoses, halfway: PoseModel
) -> list[tuple[str, float, Floats]]:
    """Return the softest column at the poses and halfway, and its projection when recomputed."""
    n, which = len(halfway.rest), 0
    ends = [aligned.basis(np.eye(2)[at], n)[:, which] for at in range(2)]
    blended = aligned.basis(case.weights(case.pose(0.5)), n)[:, which]
    flat = case.spread(halfway).reshape(3 * n, -1)
    nearest = flat @ (flat.T @ (np.repeat(case.mass, 3) * blended))
    return [
        (f"pose 1, {POSES[0]}", 0.0, ends[0]),
        ("halfway, interpolated", 0.5, blended),
        ("halfway, nearest in recomputed", 0.5, nearest),
        (f"pose 2, {POSES[1]}", 1.0, ends[1]),
    ]


def _draw_column(axes: Axes, case: PosesBetween, part: float, column: Floats) -> None:
    view = view_axes(25.0, 35.0)
    character, flesh = case.body.character, case.body.flesh
    displacements = flesh.embedding @ column.reshape(-1, 3)
    displacements *= _SHOWN * character.surface.size / np.linalg.norm(displacements, axis=1).max()
    points = character.rig(case.pose(part)) + displacements
    size = np.linalg.norm(displacements, axis=1)[character.surface.triangles].mean(axis=1)
    share = (size / size.max())[:, None]
    colours = (1 - share) * np.array([0.62, 0.74, 0.82]) + share * np.array([0.85, 0.40, 0.32])
    draw_surface(axes, points, character.surface.triangles, colour=colours, view=view)
    flat = points @ view[:2].T
    low, high = flat.min(axis=0), flat.max(axis=0)
    middle, reach = (low + high) / 2, 0.55 * (high - low).max()
    corner = np.array([1.25 * reach, reach])
    frame_view(axes, middle - corner, middle + corner)


def _angles_chart(axes: Axes, spaces: dict[str, dict[str, Floats]]) -> None:
    for key, (_, colour, mark) in _STYLES.items():
        angles = spaces[key]["angles"]
        axes.plot(np.arange(1, len(angles) + 1), angles, mark + "-", ms=4, color=colour)
    axes.legend(["blended in frames", "as printed"], frameon=False)
    angle = "angle to the recomputed space, degrees"
    label_chart(axes, "principal direction", angle, "Basis halfway")


def _errors_chart(
    axes: Axes, parts: Floats, curves: dict[str, list[float]], again: dict[str, float]
) -> None:
    for key, (name, colour, mark) in _STYLES.items():
        axes.plot(parts, 100 * np.array(curves[key]), mark + "-", ms=4, color=colour, label=name)
        axes.plot(
            [0.5], [100 * again[key]], "*", ms=13, color=colour, label=f"{name}, recomputed there"
        )
    axes.plot(
        [0, 0.5, 1],
        [100 * PAPER_ERRORS[key] for key in ("pose1", "interpolated", "pose2")],
        "x--",
        color="#6b6b66",
        label="printed in the paper (another body)",
    )
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    below = f"path from {POSES[0]} to {POSES[1]}"
    label_chart(axes, below, "error of cubature forces, %", "Interpolated cubature weights")


_SAMPLES = 60


def fig10(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Measure subspace angles, frequencies and cubature errors of the X between two poses."""
    progress(0.0, "reducing the X at two poses")
    case, count = PosesBetween.of_the_x(quick, "default")
    printed, _ = PosesBetween.of_the_x(quick, "printed")
    progress(0.2, "bases between them")
    frames, world = case.aligned("frames"), printed.aligned("world")
    halfway, again_printed = case.recomputed(0.5), printed.recomputed(0.5)
    spaces = {
        "ours": _space_figures(case, frames, halfway),
        "printed": _space_figures(printed, world, again_printed),
    }
    progress(0.4, "cubature at the poses")
    trained = {
        "printed": (printed, world, _trained(printed, world, count)),
        "ours": (case, frames, _trained(case, frames, count)),
    }
    parts = np.linspace(0, 1, 5 if quick else 9)
    progress(0.7, "cubature between them")
    curves = {name: [_error(*each, part) for part in parts] for name, each in trained.items()}
    again = {
        "printed": _recomputed_error(printed, again_printed, count),
        "ours": _recomputed_error(case, halfway, count),
    }
    progress(0.9, "drawing")
    figure = picture(case, frames, halfway, spaces, (parts, curves, again))
    save_picture(figure, folder / "fig10.png")
    return {
        "title": "Fig. 10: basis and cubature halfway between two poses of the X",
        "message": _message(curves, again),
        "cubature_error": _error_rows(curves, again),
        "basis_halfway": {name: _summary(space) for name, space in spaces.items()},
        "modes": sum(case.body.modes),
        "cubature_tets": count,
        "along_the_way": [
            {"part": float(part), **{name: curve[at] for name, curve in curves.items()}}
            for at, part in enumerate(parts)
        ],
        "note": "Relative error of reduced forces on new samples. As printed: bases blended in "
        "the world, weights fitted at the two poses alone (eq. 14, 17–20). Ours: bases blended in "
        "frames, the pose halfway among the samples, linear part exact. Both at the paper's number "
        "of tets.",
    }


def _message(curves: dict[str, list[float]], again: dict[str, float]) -> str:
    middle = len(curves["ours"]) // 2
    ours, theirs = (
        f"{100 * curves[kind][middle]:.2g} % interpolated and {100 * again[kind]:.2g} % recomputed"
        for kind in ("ours", "printed")
    )
    printed = [f"{100 * PAPER_ERRORS[at]:.2g}" for at in ("interpolated", "recomputed")]
    return (
        f"Error of cubature forces halfway: ours {ours}; as printed {theirs} "
        f"(in the paper {printed[0]} % and {printed[1]} %, for another body)."
    )


def _space_figures(
    case: PosesBetween, aligned: AlignedPoses, halfway: PoseModel
) -> dict[str, Floats]:
    """Return angles in degrees and frequency ratios of blended and recomputed basis, halfway."""
    rest, mass = halfway.rest, case.mass
    shares = case.weights(case.pose(0.5))
    blended = aligned.basis(shares, len(rest))
    recomputed = case.spread(halfway)
    stiffness = case.elastic.stiffness(rest, rest, out=case.elastic.pattern.zeros())
    ours = reduced_frequencies(blended, stiffness, aligned.mass(shares))
    theirs = reduced_frequencies(
        recomputed.reshape(len(blended), -1), stiffness, np.eye(recomputed.shape[2])
    )
    angles = subspace_angles(blended.reshape(recomputed.shape), recomputed, mass)
    return {"angles": np.degrees(angles), "ratios": frequency_ratios(ours, theirs, FREQUENCIES)}


def _summary(space: dict[str, Floats]) -> dict[str, float]:
    angles, ratios = space["angles"], space["ratios"]
    return {
        "median_angle_degrees": float(np.median(angles)),
        "largest_angle_degrees": float(angles.max()),
        "worst_frequency_ratio": float(np.maximum(ratios, 1 / ratios).max()),
    }


def _trained(case: PosesBetween, aligned: AlignedPoses, count: int) -> ElasticCubature:
    recipe = case.body.recipe
    return elastic_cubature(
        case.elastic,
        [model.rest for model in case.models],
        [aligned.world_bases(pose) for pose in range(2)],
        case.body.regions,
        count,
        between=[case.blend(aligned, 0.5)] if recipe.train_between else [],
        linear=recipe.linear_forces,
        selection=recipe.selection,
    )


def _error(
    case: PosesBetween, aligned: AlignedPoses, cubature: ElasticCubature, part: float
) -> float:
    """Return the error of interpolated weights on samples that are not in the training."""
    at, regions = case.blend(aligned, part), case.body.regions
    samples = force_samples(at.body, at.rest, at.basis, regions, _SAMPLES, seed=1)
    weights = np.maximum(np.asarray(at.shares) @ cubature.weights, 0.0)
    correction = None
    if cubature.corrections is not None:
        correction = blended_correction(cubature.corrections, cubature.ends, at.shares, at.scales)
    return force_error(
        at.body, at.rest, at.basis, regions, cubature.tets, weights, samples, correction=correction
    )


def _recomputed_error(case: PosesBetween, halfway: PoseModel, count: int) -> float:
    """Return the error of cubature trained at the pose halfway, with the basis at that pose."""
    cubature = elastic_cubature(
        case.elastic,
        [halfway.rest],
        [halfway.bases],
        case.body.regions,
        count,
        linear=case.body.recipe.linear_forces,
        selection=case.body.recipe.selection,
    )
    return cubature.held_out_error


def _error_rows(
    curves: dict[str, list[float]], again: dict[str, float]
) -> list[dict[str, float | str]]:
    middle = len(curves["ours"]) // 2
    rows: list[dict[str, float | str]] = []
    for at, name in ((0, "pose1"), (-1, "pose2"), (middle, "interpolated"), (None, "recomputed")):
        row: dict[str, float | str] = {"at": name}
        for kind in ("ours", "printed"):
            row[kind] = again[kind] if at is None else curves[kind][at]
        rows.append(row | {"paper": PAPER_ERRORS[name]})
    return rows
