"""Small characters with free parameters: a bar that bends, a trunk on a wire, a belly of shapes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from helpers.build_samples import WIDTH, bar_mesh, held_end, motion_of
from supple.elastic.material import Material
from supple.rig.character import Character
from supple.rig.deformers.bend import Bend

Cells = tuple[int, int, int]
SOFT = Material("neo-hookean", young=2e4, poisson=0.45)


@cache
def rising_bar(cells: Cells = (6, 2, 2)) -> Character:
    """Bends upwards by its one parameter, which is keyed and free."""
    surface, _ = bar_mesh(cells).surface()
    middle = (0, WIDTH / 2, WIDTH / 2)
    rig = Bend(surface.vertices, middle, (1, 0, 0), (0, 1, 0), low=0, high=1)
    sweep = np.radians(np.linspace(-40, 40, 21))[:, None]
    return Character("bar", surface, rig, {"sweep": motion_of(sweep)})


def rig_space_options(cells: Cells = (6, 2, 2), **changed: Any) -> dict[str, Any]:
    """What makes a bar build in a second."""
    mesh = bar_mesh(cells)
    options: dict[str, Any] = {
        "free": "*",
        "tets": mesh,
        "bones": held_end(mesh),
        "material": SOFT,
        "modes": 4,
        "cubature": 60,
    }
    return options | changed
