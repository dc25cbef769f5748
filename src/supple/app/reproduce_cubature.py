"""xu2016 fig. 10: basis and cubature between two poses, interpolated beside recomputed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.app.drawing import save_picture
from supple.app.poses_between import PAPER_ERRORS, PosesBetween
from supple.app.reproduce_cubature_picture import picture
from supple.reduction import (
    ElasticCubature,
    blended_correction,
    elastic_cubature,
    force_error,
    force_samples,
    frequency_ratios,
    reduced_frequencies,
    subspace_angles,
)
from supple.reduction.agreement import Agreement
from supple.reduction.assessment import FREQUENCIES
from supple.reduction.pose_model import PoseModel

__all__ = ["fig10"]

Floats = NDArray[np.float64]
Tell = Callable[[float, str], None]

_SAMPLES = 60


def fig10(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """The X between flat and bent: subspace angles, frequencies and cubature errors."""
    tell(0.0, "reducing the X at two poses")
    case, count = PosesBetween.of_the_x(quick)
    tell(0.2, "bases between them")
    frames, world = case.agreement("frames"), case.agreement("world")
    halfway = case.recomputed(0.5)
    spaces = {
        name: _space_figures(case, agreement, halfway)
        for name, agreement in (("ours", frames), ("paper_variant", world))
    }
    tell(0.4, "cubature at the poses")
    trained = {
        "paper_variant": (world, _trained(case, world, count, exact=False)),
        "ours": (frames, _trained(case, frames, count, exact=True)),
    }
    parts = np.linspace(0, 1, 5 if quick else 9)
    tell(0.7, "cubature between them")
    curves = {
        name: [_error(case, agreement, found, part) for part in parts]
        for name, (agreement, found) in trained.items()
    }
    again = {
        name: _recomputed_error(case, halfway, count, exact=name == "ours") for name in trained
    }
    tell(0.9, "drawing")
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
        "note": "Relative error of reduced forces on fresh samples. Paper's variant: bases blended "
        "in the world, weights fitted at the two poses alone (eq. 14, 17–20). Ours: bases blended "
        "in frames, the pose halfway among the samples, linear part exact.",
    }


def _message(curves: dict[str, list[float]], again: dict[str, float]) -> str:
    middle = len(curves["ours"]) // 2
    ours, theirs = (
        f"{100 * curves[kind][middle]:.2g} % off interpolated and {100 * again[kind]:.2g} % "
        "recomputed"
        for kind in ("ours", "paper_variant")
    )
    printed = [f"{100 * PAPER_ERRORS[at]:.2g}" for at in ("interpolated", "recomputed")]
    return (
        f"Halfway, forces of our cubature are {ours}; the paper's variant is {theirs} "
        f"(printed: {printed[0]} % and {printed[1]} %, of another body)."
    )


def _space_figures(
    case: PosesBetween, agreement: Agreement, halfway: PoseModel
) -> dict[str, Floats]:
    """Angles between the two spaces, in degrees, and the ratios of their frequencies."""
    rest, mass = halfway.rest, case.mass
    shares = case.weights(case.pose(0.5))
    blended = agreement.basis(shares, len(rest))
    there = case.spread(halfway)
    stiffness = case.elastic.stiffness(rest, rest, out=case.elastic.pattern.zeros())
    ours = reduced_frequencies(blended, stiffness, agreement.mass(shares))
    theirs = reduced_frequencies(there.reshape(len(blended), -1), stiffness, np.eye(there.shape[2]))
    angles = subspace_angles(blended.reshape(there.shape), there, mass)
    return {
        "angles": np.degrees(angles),
        "ratios": frequency_ratios(ours, theirs, FREQUENCIES),
    }


def _summary(space: dict[str, Floats]) -> dict[str, float]:
    angles, ratios = space["angles"], space["ratios"]
    return {
        "median_angle_degrees": float(np.median(angles)),
        "largest_angle_degrees": float(angles.max()),
        "worst_frequency_ratio": float(np.maximum(ratios, 1 / ratios).max()),
    }


def _trained(
    case: PosesBetween, agreement: Agreement, count: int, *, exact: bool
) -> ElasticCubature:
    return elastic_cubature(
        case.elastic,
        [model.rest for model in case.models],
        [agreement.world_bases(pose) for pose in range(2)],
        case.body.regions,
        count,
        between=[case.blend(agreement, 0.5)] if exact else [],
        linear="exact" if exact else "cubature",
    )


def _error(case: PosesBetween, agreement: Agreement, found: ElasticCubature, part: float) -> float:
    """Of interpolated weights, on samples that no stage has seen."""
    at, regions = case.blend(agreement, part), case.body.regions
    samples = force_samples(at.body, at.rest, at.basis, regions, _SAMPLES, seed=1)
    weights = np.maximum(np.asarray(at.shares) @ found.weights, 0.0)
    correction = None
    if found.corrections is not None:
        correction = blended_correction(found.corrections, found.ends, at.shares, at.scales)
    return force_error(
        at.body, at.rest, at.basis, regions, found.tets, weights, samples, correction=correction
    )


def _recomputed_error(case: PosesBetween, halfway: PoseModel, count: int, *, exact: bool) -> float:
    """Of cubature that is trained halfway and nowhere else, with the basis computed there."""
    found = elastic_cubature(
        case.elastic,
        [halfway.rest],
        [halfway.bases],
        case.body.regions,
        count,
        linear="exact" if exact else "cubature",
    )
    return found.held_out_error


def _error_rows(
    curves: dict[str, list[float]], again: dict[str, float]
) -> list[dict[str, float | str]]:
    middle = len(curves["ours"]) // 2
    rows: list[dict[str, float | str]] = []
    for at, name in ((0, "pose1"), (-1, "pose2"), (middle, "interpolated"), (None, "recomputed")):
        row: dict[str, float | str] = {"at": name}
        for kind in ("ours", "paper_variant"):
            row[kind] = again[kind] if at is None else curves[kind][at]
        rows.append(row | {"paper": PAPER_ERRORS[name]})
    return rows
