"""All tets of a soft skeleton's flesh, stepped without reduction."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from supple.engines.full.full_body import FullBodySimulator
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer, flesh_layer
from supple.lab.bench.timing import RATE, processor_time, timed
from supple.rig.character import Character

#: Steps that are timed, after one that analyses the matrix.
STEPS = 4


def layer_of(character: Character, options: dict[str, Any]) -> FleshLayer:
    """Return the tets that `supple.build` makes with these options."""
    chosen = options.get("anatomy", "auto")
    return flesh_layer(
        character,
        RigBones(character.rig),
        options.get("tets", 12_000),
        None if isinstance(chosen, str) else chosen,
        options.get("material"),
        options.get("skeleton"),
    )


def full_figures(layer: FleshLayer, steps: int = STEPS) -> dict[str, float]:
    """Time backward Euler with one Newton iteration on all tets, bone held, under gravity.

    There are neither bones that move nor skin nor contact: it is less than a reduced step does.
    Milliseconds of the processor: force, Hessian, solution, all; and the number of unknowns.
    """
    simulator = FullBodySimulator(
        layer.body, 1 / RATE, fixed=layer.held, alpha=0.5, beta=0.01, psd=True
    )
    simulator.step()
    rows = []
    for _ in range(steps):
        began, used = perf_counter(), processor_time()
        report = simulator.step()
        passed, whole = perf_counter() - began, processor_time() - used
        at = simulator.positions
        force = timed(lambda at=at: layer.body.force(at), processor_time)  # type: ignore[misc]
        # Parts are known by the wall's clock, which goes on where others use the processor.
        solved = whole * (report.seconds["factorise"] + report.seconds["solve"]) / passed
        rows.append((force, max(whole - solved - force, 0.0), solved, whole))
    force, hessian, solve, whole = 1e3 * np.median(rows, axis=0)
    return {
        "full_force_ms": force,
        "full_hessian_ms": hessian,
        "full_solve_ms": solve,
        "full_step_ms": whole,
        "full_coordinates": 3 * len(layer.free),
    }
