"""Time stepping that engines share: integrators, implicit Newton, inputs, frames."""

from supple.dynamics.implicit import StepReport
from supple.dynamics.integrators import INTEGRATORS, Integrator
from supple.dynamics.rigid_object import RigidObject

__all__ = ["INTEGRATORS", "Integrator", "RigidObject", "StepReport"]
