"""How long modes take that respect contact, beside modes that do not (xu2016 Table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

__all__ = ["CONTACT_POSES", "contact_mode_times"]

#: A pose of each scene in which it touches itself, and the paper's Table 1: seconds for 20 modes
#: without constraints and with them.
CONTACT_POSES = {
    "arm": ("flexed", 0.9, 2.6),
    "bear": ("hug", 1.9, 7.3),
    "gorilla": ("chest beat", 1.7, 6.2),
}


def contact_mode_times(name: str, counts: Sequence[int], repeats: int) -> dict[str, Any]:
    """Seconds for so many modes of a scene where it touches itself, best of alternating runs.

    Parameters
    ----------
    name
        One of `CONTACT_POSES`.
    counts
        Numbers of modes.
    repeats
        How often each is tried.
    """
    from supple.elastic import ElasticBody
    from supple.mesh import find_contacts
    from supple.reduction import contact_constraints, linear_modes, null_space
    from supple.rig import flesh_out
    from supple.scenes import scene

    shown, pose = scene(name), CONTACT_POSES[name][0]
    recipe = shown.recipe()
    flesh = flesh_out(
        shown.character.surface,
        shown.character.rig,
        [shown.pose(pose)],
        tets=recipe["tets"],
        bones=recipe["bones"],
    )
    rest = flesh.tet_rig(shown.pose(pose))
    body = ElasticBody(flesh.mesh, shown.material)
    stiffness, mass, n = body.stiffness(rest, rest), body.vertex_masses(), len(rest)
    free = np.setdiff1d(np.arange(n), flesh.fixed)
    rows = contact_constraints(find_contacts(flesh.mesh, None, rest), n)
    times = []
    for count in counts:
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(repeats):
            for bound in (False, True):
                began = perf_counter()
                space = null_space(rows if bound else None, n, free=free)
                linear_modes(stiffness, mass, count, null_space=space)
                seconds[bound].append(perf_counter() - began)
        times.append({"modes": count, "free_s": min(seconds[False]), "bound_s": min(seconds[True])})
    return {"pose": pose, "unknowns": 3 * len(free), "rows": rows.shape[0], "times": times}
