"""Springs of free parameters: what holds each to its key, and how firm, damped and heavy it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.checks import checked_number
from supple.engines.rig_space.free_parameters import values_by_parameter
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.solvers.solver_stage import Springs
from supple.errors import SuppleError

#: A number for all parameters, numbers by names and patterns, or one for each, (k,).
PerParameter = float | Mapping[str, float] | Floats
#: Frequency in Hz that springs give a joint at least: muscles and bones hold a tail, and flesh
#: alone would leave it limp. The least κ, as twists of neighbours in a line all but cancel each
#: other. And most radians that physics adds to one.
JOINT_HERTZ, LEAST_FOLLOW, ANGLE_REACH = 5.0, 0.1, 1.2


def usual_springs(model: RigSpaceModel, alpha: float, beta: float) -> Springs:
    """Return the springs of a model whose flesh is damped by αM + βK: joints follow, others not."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if checked_number(name, value) < 0:
            raise SuppleError(f"{name} is {value:g}; it must not be negative")
    angles = np.array([parameter.unit == "rad" for parameter in model.free_parameters])
    return Springs(
        float(alpha),
        float(beta),
        1.0,
        follow=np.where(angles, joint_springs(model), 0.0),
        firmness=np.ones(len(angles)),
        damping=np.ones(len(angles)),
        mass=np.ones(len(angles)),
        lower=model.lower,
        upper=model.upper,
        reach=np.where(angles, ANGLE_REACH, np.inf),
    )


def tuned_springs(
    springs: Springs, model: RigSpaceModel, told: Mapping[str, PerParameter | None]
) -> Springs:
    """Return springs of which some numbers are others.

    Parameters
    ----------
    springs, model
        As they are, and whose parameters.
    told
        Numbers by name of the field: `follow`, `firmness`, `damping` or `mass`; None for as it is.
    """
    least = {"mass": 1.0}
    changed: dict[str, Any] = {
        name: values_by_parameter(
            name, value, model.free_parameters, getattr(springs, name), least.get(name, 0.0)
        )
        for name, value in told.items()
        if value is not None
    }
    return replace(springs, **changed)


def joint_springs(model: RigSpaceModel) -> Floats:
    """κ (k,) with which each angle alone would swing at `JOINT_HERTZ` at least.

    All angles of a joint have the spring of the heaviest. With less, a husky's tail twisted by 17°
    at its end, there and back in four frames.
    """
    k = len(model.entries)
    mass, stiffness = np.diag(model.condensed.mass)[:k], np.diag(model.condensed.stiffness)[:k]
    joints = np.array([parameter.name.rpartition(".r")[0] for parameter in model.free_parameters])
    heaviest = np.array([mass[joints == joint].max() for joint in joints])
    wanted = (2 * np.pi * JOINT_HERTZ) ** 2 * heaviest
    return np.maximum(wanted / np.maximum(stiffness, 1e-300) - 1, LEAST_FOLLOW)
