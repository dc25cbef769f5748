"""Time stepping that engines share: integrators, implicit Newton, inputs, frames."""

from typing import TYPE_CHECKING

from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.dynamics.implicit import StepReport
    from supple.dynamics.integrator_registration import register_integrator
    from supple.dynamics.integrators import INTEGRATORS, Integrator, StageCoefficients
    from supple.dynamics.rigid_object import RigidObject

__all__ = [
    "INTEGRATORS",
    "Integrator",
    "RigidObject",
    "StageCoefficients",
    "StepReport",
    "register_integrator",
]

__getattr__ = lazy_imports(__name__)
