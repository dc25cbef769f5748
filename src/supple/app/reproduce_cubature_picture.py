"""How fig. 10 is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from supple.app.drawing import INK, PAPER, draw_surface, view_axes
from supple.app.poses_between import PAPER_ERRORS, POSES, PosesBetween
from supple.reduction.agreement import Agreement
from supple.reduction.pose_model import PoseModel

__all__ = ["picture"]

Floats = NDArray[np.float64]

_PAPERS, _OURS, _PRINTED = "#b5483a", "#2f6f8f", "#6b6b66"
#: How far a picture of a column moves its farthest vertex, as a part of the body's size.
_SHOWN = 0.12


def picture(
    case: PosesBetween,
    agreement: Agreement,
    halfway: PoseModel,
    spaces: dict[str, dict[str, Floats]],
    errors: tuple[Floats, dict[str, list[float]], dict[str, float]],
) -> Figure:
    """The softest column at four shapes, angles between spaces, and errors along the way."""
    figure = Figure(figsize=(12.5, 6.6), facecolor=PAPER, layout="constrained")
    figure.suptitle(
        "Basis and cubature between two poses, interpolated beside recomputed",
        color=INK,
        fontsize=13,
    )
    parts: Any = figure.subfigures(2, 1, height_ratios=(1, 1.15))
    top, bottom = parts
    for axes, (caption, part, column) in zip(
        top.subplots(1, 4), _columns(case, agreement, halfway), strict=True
    ):
        _draw_column(axes, case, part, column)
        axes.set_title(caption, color=INK, fontsize=10)
    left, right = bottom.subplots(1, 2)
    _angles_chart(left, spaces)
    _errors_chart(right, *errors)
    return figure


def _columns(
    case: PosesBetween, agreement: Agreement, halfway: PoseModel
) -> list[tuple[str, float, Floats]]:
    """The softest column at the poses and halfway, and what the recomputed space has of it."""
    n, which = len(halfway.rest), 0
    ends = [agreement.basis(np.eye(2)[at], n)[:, which] for at in range(2)]
    blended = agreement.basis(case.weights(case.pose(0.5)), n)[:, which]
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
    moved = flesh.embedding @ column.reshape(-1, 3)
    moved *= _SHOWN * character.surface.size / np.linalg.norm(moved, axis=1).max()
    points = character.rig(case.pose(part)) + moved
    size = np.linalg.norm(moved, axis=1)[character.surface.triangles].mean(axis=1)
    share = (size / size.max())[:, None]
    colours = (1 - share) * np.array([0.62, 0.74, 0.82]) + share * np.array([0.85, 0.40, 0.32])
    draw_surface(axes, points, character.surface.triangles, colour=colours, view=view)
    flat = points @ view[:2].T
    low, high = flat.min(axis=0), flat.max(axis=0)
    middle, reach = (low + high) / 2, 0.55 * (high - low).max()
    axes.set(
        xlim=(middle[0] - 1.25 * reach, middle[0] + 1.25 * reach),
        ylim=(middle[1] - reach, middle[1] + reach),
        aspect="equal",
    )
    axes.set_axis_off()


def _angles_chart(axes: Axes, spaces: dict[str, dict[str, Floats]]) -> None:
    names = {
        "ours": ("blended in frames", _OURS, "o"),
        "paper_variant": ("paper's variant", _PAPERS, "s"),
    }
    for key, (name, colour, mark) in names.items():
        angles = spaces[key]["angles"]
        axes.plot(np.arange(1, len(angles) + 1), angles, mark + "-", ms=4, color=colour, label=name)
    axes.set_xlabel("principal direction", color=INK)
    axes.set_ylabel("angle to the recomputed space, degrees", color=INK)
    axes.set_title("Basis halfway", color=INK, fontsize=10)
    axes.legend(frameon=False)
    axes.grid(alpha=0.25)
    axes.set_facecolor(PAPER)


def _errors_chart(
    axes: Axes, parts: Floats, curves: dict[str, list[float]], again: dict[str, float]
) -> None:
    names = {"ours": ("ours", _OURS, "o"), "paper_variant": ("paper's variant", _PAPERS, "s")}
    for key, (name, colour, mark) in names.items():
        axes.plot(parts, 100 * np.array(curves[key]), mark + "-", ms=4, color=colour, label=name)
        axes.plot(
            [0.5], [100 * again[key]], "*", ms=13, color=colour, label=f"{name}, recomputed there"
        )
    axes.plot(
        [0, 0.5, 1],
        [100 * PAPER_ERRORS[key] for key in ("pose1", "interpolated", "pose2")],
        "x--",
        color=_PRINTED,
        label="printed in the paper (another body)",
    )
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"way from {POSES[0]} to {POSES[1]}", color=INK)
    axes.set_ylabel("error of cubature forces, %", color=INK)
    axes.set_title("Cubature weights, interpolated", color=INK, fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    axes.grid(alpha=0.25)
    axes.set_facecolor(PAPER)
