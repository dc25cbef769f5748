"""The alignment tree of a model as a small graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from supple.app.drawing import INK, PAPER, label
from supple.reduction.model import PoseSpaceModel

__all__ = ["draw_pose_tree", "frequency_ratios", "tree_height", "tree_places"]

NAME_LENGTH = 24
STEP = 11  # letters that a level is further to the right
ROW, MOST_HEIGHT = 0.34, 20.0  # inches


def draw_pose_tree(axes: Axes, model: PoseSpaceModel) -> None:
    """Poses as boxes, parents above and to the left; worst frequency ratios on the edges."""
    places = tree_places(model.parents)
    places[:, 0] *= STEP
    names = [label(name, NAME_LENGTH) for name in model.pose_names]
    across = (places[:, 0] + [len(name) for name in names]).max() + 4
    room = tree_height(model) / (model.n_poses + 1) / ROW
    size = max(min(800 / across, 10.5, 10.5 * room), 2.0)  # so that boxes do not meet
    ratios = frequency_ratios(model)
    edge: dict[str, Any] = {"ha": "center", "va": "center", "size": 0.9 * size, "color": INK}
    edge["bbox"] = {"boxstyle": "square,pad=0.1", "fc": PAPER, "ec": "none"}
    node = edge | {"ha": "left", "size": size, "parse_math": False, "zorder": 3}
    for pose, parent in enumerate(model.parents):
        x, y = places[pose]
        node["bbox"] = {"boxstyle": "round,pad=0.35", "lw": 0.8, "ec": "#7a7a84"}
        node["bbox"]["fc"] = "#ffe3a3" if parent < 0 else "#e4ebf3"
        axes.text(x, y, names[pose], **node)
        if parent >= 0:
            stem = places[parent, 0] + 1
            axes.plot([stem, stem, x], [places[parent, 1], y, y], color="#9a9aa2", lw=1.2, zorder=1)
            if pose in ratios:
                axes.text((stem + x) / 2, y, f"×{ratios[pose]:.3f}", **edge)
    axes.set(xlim=(-1, max(across, 76) - 1), ylim=(0.3 - max(model.n_poses, 7), 0.7))


def tree_height(model: PoseSpaceModel) -> float:
    """Inches that it needs, within reason."""
    return min(ROW * (model.n_poses + 1), MOST_HEIGHT)


def tree_places(parents: NDArray[np.integer]) -> NDArray[np.float64]:
    """(m, 2) depth to the right, and rows downwards: parents first, with all below them."""
    children: list[list[int]] = [[] for _ in parents]
    for pose in range(1, len(parents)):
        children[parents[pose]].append(pose)
    places = np.zeros((len(parents), 2))
    waiting, row = [0], 0
    while waiting:
        pose = waiting.pop()
        places[pose, 1] = -row
        row += 1
        places[children[pose], 0] = places[pose, 0] + 1
        waiting.extend(reversed(children[pose]))
    return places


def frequency_ratios(model: PoseSpaceModel) -> dict[int, float]:
    """By pose, of those that the report has: a file may hold any."""
    rows = model.report.get("pose_rows")
    found = {
        row.get("name"): row.get("frequency_ratio")
        for row in (rows if isinstance(rows, (list, tuple)) else ())
        if isinstance(row, Mapping) and isinstance(row.get("name"), str)
    }
    return {
        pose: float(ratio)
        for pose, ratio in ((pose, found.get(name)) for pose, name in enumerate(model.pose_names))
        if isinstance(ratio, (int, float)) and not isinstance(ratio, bool)
    }
