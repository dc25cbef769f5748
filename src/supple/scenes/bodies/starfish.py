"""A plump starfish: the body of the first demonstration."""

from __future__ import annotations

import numpy as np

from supple.mesh.surface import SurfaceMesh
from supple.scenes.modelling.solids import Solid, ball, polygonise, smooth_union, tapered_limb

ARM_LENGTH = 0.3


def starfish(spacing: float = 0.0095) -> SurfaceMesh:
    """Return five arms of 0.3 m around the z axis, the first along −x, with warts in front."""
    solids: list[Solid] = [ball((0, 0, 0), 0.085), ball((0, 0, 0.07), 0.03)]
    for arm in range(5):
        angle = np.pi + 2 * np.pi * arm / 5
        along = np.array([np.cos(angle), np.sin(angle), 0.0])
        solids.append(tapered_limb(0.05 * along, ARM_LENGTH * along, 0.072, 0.026))
        for step in (0.1, 0.16, 0.22):
            raised = 0.072 - 0.046 * (step - 0.05) / 0.25
            solids.append(ball(step * along + [0, 0, raised], 0.02 - 0.03 * step))
    reach = ARM_LENGTH + 0.08
    bounds = [(-reach, -reach, -0.14), (reach, reach, 0.16)]
    return polygonise(smooth_union(solids, 0.045), bounds, spacing)
