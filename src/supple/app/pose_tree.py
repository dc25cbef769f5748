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

NAME_LENGTH = 20
GAP = 10  # letters between one level's boxes and the next one's
ROW = 0.3  # inches


def draw_pose_tree(axes: Axes, model: PoseSpaceModel) -> None:
    """Poses as boxes, the neutral one at the left; worst frequency ratios on the edges."""
    places = tree_places(model.parents)
    names = [label(name, NAME_LENGTH) for name in model.pose_names]
    depths = places[:, 0].astype(int)
    letters = np.zeros(depths.max() + 1)
    np.maximum.at(letters, depths, [len(name) for name in names])
    starts = np.cumsum([0, *(letters[:-1] + GAP)])
    places[:, 0] = (starts + letters / 2)[depths]
    across = starts[-1] + letters[-1] + 4
    size = float(np.clip(800 / across, 3.5, 10.5))  # so that boxes do not meet
    ratios = frequency_ratios(model)
    edge: dict[str, Any] = {"ha": "center", "va": "center", "size": 0.9 * size, "color": INK}
    edge["bbox"] = {"boxstyle": "square,pad=0.1", "fc": PAPER, "ec": "none"}
    for pose, parent in enumerate(model.parents):
        if parent < 0:
            continue
        begin, end = places[parent], places[pose]
        axes.plot(*np.stack([begin, end]).T, color="#9a9aa2", lw=1.2, zorder=1)
        if pose in ratios:
            part = (starts[depths[pose]] - 0.5 * GAP - begin[0]) / (end[0] - begin[0])
            x, y = begin + part * (end - begin)
            axes.text(x, y, f"×{ratios[pose]:.3f}", **edge)
    node = edge | {"size": size, "parse_math": False, "zorder": 3}
    for pose, name in enumerate(names):
        fill = "#ffe3a3" if pose == 0 else "#e4ebf3"
        node["bbox"] = {"boxstyle": "round,pad=0.35", "fc": fill, "ec": "#7a7a84", "lw": 0.8}
        axes.text(places[pose, 0], places[pose, 1], name, **node)
    low, high = places[:, 1].min(), places[:, 1].max()
    axes.set(xlim=(-2, across - 2), ylim=(low - 0.6, high + 0.6))


def tree_height(model: PoseSpaceModel) -> float:
    """Inches that it needs, within reason."""
    leaves = model.n_poses - len(np.unique(model.parents[1:]))
    return min(ROW * (leaves + 1), 20.0)


def tree_places(parents: NDArray[np.integer]) -> NDArray[np.float64]:
    """(m, 2) depth to the right, and a row: leaves one under another, others amid their own."""
    children: list[list[int]] = [[] for _ in parents]
    for pose in range(1, len(parents)):
        children[parents[pose]].append(pose)
    places = np.zeros((len(parents), 2))
    order, waiting = [], [0]
    while waiting:
        pose = waiting.pop()
        order.append(pose)
        for child in children[pose]:
            places[child, 0] = places[pose, 0] + 1
        waiting.extend(reversed(children[pose]))
    leaves = [pose for pose in order if not children[pose]]
    places[leaves, 1] = -np.arange(len(leaves))
    for pose in reversed(order):
        if children[pose]:
            places[pose, 1] = places[children[pose], 1].mean()
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
