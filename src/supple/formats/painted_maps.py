"""Maps that artists paint on the skin, as files carry them: how rigid, how fleshy, how stiff."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from supple.arrays import Floats, Ints

#: Names of the maps, and what their values are limited to; 0 is not painted in all of them.
#: Factors as `supple.anatomy.joint_stiffness` has them, which the process that reads USD is spared.
PAINTED = {"rigid": (0.0, 1.0), "flesh": (0.0, 1.0), "stiffness": (1e-3, 1e3)}
#: Value of skin that is not painted.
UNPAINTED = {"rigid": 0.0, "flesh": 0.0, "stiffness": 1.0}


class PaintedMaps:
    """Maps on the vertices of a surface, from those of a file's meshes.

    Parameters
    ----------
    count
        Vertices of the surface.
    note
        Called with what is wrong, in a line that ends with the consequence.
    """

    def __init__(self, count: int, note: Callable[[str], object]) -> None:
        self._count, self._note = count, note
        self._sums: dict[str, Floats] = {}
        self._uses: dict[str, Floats] = {}

    def add(self, name: str, welded: Ints, values: Floats) -> None:
        """Add values (k,) of a mesh whose vertices are these (k,) of the surface, −1 for none."""
        if len(values) != len(welded):
            self._note(f'paints "{name}" on {len(values)} of {len(welded)} vertices; left out')
            return
        low, high = PAINTED[name]
        values = np.asarray(values, np.float64)
        wrong = ~np.isfinite(values) | (values < 0) | (values > high)
        if wrong.any():
            first = int(np.argmax(wrong))
            self._note(
                f'paints "{name}" {values[first]:g} at vertex {first} and {int(wrong.sum()) - 1}'
                f" others; it goes from 0 to {high:g}, and is cut to that"
            )
        values = np.clip(np.nan_to_num(values, nan=0.0), 0.0, high)
        used = (welded >= 0) & ((values > 0) | (UNPAINTED[name] == 0))
        total = self._sums.setdefault(name, np.zeros(self._count))
        uses = self._uses.setdefault(name, np.zeros(self._count))
        np.add.at(total, welded[used], np.maximum(values[used], low))
        np.add.at(uses, welded[used], 1.0)

    def maps(self) -> dict[str, Floats]:
        """Return maps (n̄,) by name; a vertex of several meshes has the mean, and blank maps go."""
        found = {}
        for name, total in self._sums.items():
            uses, none = self._uses[name], UNPAINTED[name]
            values = np.where(uses > 0, total / np.maximum(uses, 1.0), none)
            if (values != none).any():
                found[name] = values
        return found
