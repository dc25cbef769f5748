"""Maps that artists paint on the skin: rigid, flesh and stiffness."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from supple.arrays import Floats, Ints

#: Names of the maps, and limits of their values; 0 is unpainted in all of them. Stiffness factors
#: are limited as in `supple.anatomy.flesh_presets`, which the USD process does not import.
PAINTED = {"rigid": (0.0, 1.0), "flesh": (0.0, 1.0), "stiffness": (1e-3, 1e3)}
#: Value of skin that is not painted.
UNPAINTED = {"rigid": 0.0, "flesh": 0.0, "stiffness": 1.0}


class PaintedMaps:
    """Maps on the `count` vertices of a surface, collected from the maps of a file's meshes.

    `note` is called with a line for each mistake, which ends with the consequence.
    """

    def __init__(self, count: int, note: Callable[[str], object]) -> None:
        self._count, self._note = count, note
        self._sums: dict[str, Floats] = {}
        self._uses: dict[str, Floats] = {}

    def add(self, name: str, welded: Ints, values: Floats) -> None:
        """Add values (k,) of a mesh with vertices `welded`, (k,), of the surface; -1 for none."""
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
                f" others; clamped to 0 to {high:g}"
            )
        values = np.clip(np.nan_to_num(values, nan=0.0), 0.0, high)
        used = (welded >= 0) & ((values > 0) | (UNPAINTED[name] == 0))
        total = self._sums.setdefault(name, np.zeros(self._count))
        uses = self._uses.setdefault(name, np.zeros(self._count))
        np.add.at(total, welded[used], np.maximum(values[used], low))
        np.add.at(uses, welded[used], 1.0)

    def maps(self) -> dict[str, Floats]:
        """Return maps (n̄,) by name: means over meshes that share a vertex; unpainted maps are
        omitted.
        """
        result = {}
        for name, total in self._sums.items():
            uses, unpainted = self._uses[name], UNPAINTED[name]
            values = np.where(uses > 0, total / np.maximum(uses, 1.0), unpainted)
            if (values != unpainted).any():
                result[name] = values
        return result
