"""Blend shapes of a stage as parameters of a rig."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.errors import FormatError
from supple.rig.skeleton.joints import unique_names

__all__ = ["BlendShapes", "level_weights"]


MOST_BYTES = 2 * 2**30


@dataclass
class BlendShapes:
    """Shapes of all meshes; those of one name, driven by one skeleton's animation, are one.

    An in-between is a shape of its own, ``smile@0.5``: a rig is linear in its blend weights.
    A motion sets the two shapes next to the animated weight, which is what USD does.
    """

    keys: list[tuple[str | None, str, tuple[float, ...]]] = field(default_factory=list)
    moved: list[tuple[int, int, Ints, Floats]] = field(default_factory=list)

    def add(self, mesh: dict[str, Any], first_vertex: int, linear: Floats) -> None:
        """Take the shapes of a mesh whose points begin at `first_vertex`."""
        for shape in mesh["shapes"]:
            order = np.argsort(shape["weights"])
            key = (mesh["driver"], shape["name"], tuple(float(w) for w in shape["weights"][order]))
            if key not in self.keys:
                self.keys.append(key)
            for level, source in enumerate(order):
                offsets = shape["offsets"][source] @ linear.T
                self.moved.append(
                    (self.keys.index(key), level, first_vertex + shape["points"], offsets)
                )

    def names(self) -> tuple[str, ...]:
        """One for each level of each shape."""
        return unique_names(
            name if weight == 1 else f"{name}@{weight:g}"
            for _, name, weights in self.keys
            for weight in weights
        )

    def deltas(self, n_vertices: int) -> Floats:
        """Displacements, (b, n, 3)."""
        counts = [len(weights) for _, _, weights in self.keys]
        if sum(counts) * n_vertices * 24 > MOST_BYTES:
            raise FormatError(
                f"has {sum(counts)} blend shapes of {n_vertices} points, more than memory is given"
                f" for; leave some out"
            )
        starts = np.cumsum([0, *counts])
        deltas = np.zeros((sum(counts), n_vertices, 3))
        for key, level, points, offsets in self.moved:
            # A point listed twice moves twice, as in USD.
            np.add.at(deltas[starts[key] + level], points, offsets)
        return deltas

    def weights(self, animations: dict[str, dict[str, Any] | None], count: int) -> Floats:
        """Weights over time, (t, b), from the animation of each skeleton."""
        columns = [np.zeros((count, 0))]
        for driver, name, levels in self.keys:
            animation = animations.get(driver) if driver is not None else None
            value = np.zeros(count)
            if animation and animation["weights"] is not None and name in animation["shapes"]:
                value = animation["weights"][:, animation["shapes"].index(name)]
            columns.append(level_weights(value, np.array(levels)))
        return np.concatenate(columns, axis=1)


def level_weights(value: Floats, levels: Floats) -> Floats:
    """How much of each level's shape, (t, l), a blend weight stands for.

    Linear between neighbouring levels, of which zero, no displacement, is one; beyond the
    outermost the last straight piece goes on.

    >>> level_weights(np.array([0.25, 0.75]), np.array([0.5, 1.0]))
    array([[0.5, 0. ],
           [0.5, 0.5]])
    """
    nodes = np.unique([0.0, *levels])
    left = np.clip(np.searchsorted(nodes, value, side="right") - 1, 0, len(nodes) - 2)
    part = (value - nodes[left]) / (nodes[left + 1] - nodes[left])
    rows = np.arange(len(value))
    weights = np.zeros((len(value), len(nodes)))
    weights[rows, left] = 1 - part
    weights[rows, left + 1] = part
    return weights[:, np.searchsorted(nodes, levels)]
