"""Where a page looks from when it opens."""

from __future__ import annotations

import numpy as np
import viser
from numpy.typing import NDArray

__all__ = ["look_at"]


def look_at(server: viser.ViserServer, skin: NDArray[np.float32], size: float) -> None:
    """See a skin (n̄, 3) of this size whole, from the front, a little from the right and above."""
    centre = (skin.min(axis=0) + skin.max(axis=0)) / 2
    camera = server.initial_camera
    camera.look_at = centre.astype(np.float64)
    where = centre + 1.05 * size * np.array([0.45, 0.25, 1.0])
    camera.position = where.astype(np.float64)
    camera.near, camera.far = min(camera.near, 0.005 * size), max(camera.far, 50 * size)
    server.scene.configure_default_lights(cast_shadow=True)
