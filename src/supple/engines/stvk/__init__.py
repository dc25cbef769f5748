"""Reduced Saint Venant–Kirchhoff bodies (Barbič and James 2005)."""

from supple.engines.stvk.bases import (
    body_derivatives,
    body_modes,
    derivative_basis,
    mode_basis,
    motion_basis,
)
from supple.engines.stvk.body_simulator import StvkStep
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.free.simulator import FreeStvkRun, FreeStvkSimulator
from supple.engines.stvk.haptics.haptic_ball import HapticBall, HapticRun, HapticStep
from supple.engines.stvk.haptics.sphere_tree import Contacts, SphereTree
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.engines.stvk.sketch import sketch_basis

__all__ = [
    "Contacts",
    "CubicModel",
    "FreeStvkRun",
    "FreeStvkSimulator",
    "HapticBall",
    "HapticRun",
    "HapticStep",
    "SphereTree",
    "StvkModel",
    "StvkSimulator",
    "StvkStep",
    "body_derivatives",
    "body_modes",
    "derivative_basis",
    "mode_basis",
    "motion_basis",
    "sketch_basis",
]
