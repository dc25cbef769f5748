"""Time stepping that engines share: integrators, implicit Newton, inputs, frames."""

from supple.dynamics.implicit import StepReport

__all__ = ["StepReport"]
