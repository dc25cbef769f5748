"""How large a mesh of any kind is."""

from __future__ import annotations

import numpy as np

from supple.mesh.topology import bounding_box

__all__ = ["Bounded"]


class Bounded:
    """Has vertices, and thereby a bounding box."""

    vertices: np.ndarray

    @property
    def bounds(self) -> np.ndarray:
        """Lowest and highest corner of the bounding box, (2, 3)."""
        return bounding_box(self.vertices)

    @property
    def size(self) -> float:
        """Diagonal of the bounding box."""
        low, high = self.bounds
        return float(np.linalg.norm(high - low))
