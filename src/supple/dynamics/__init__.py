"""Engines that step a body through time, one file each."""

from supple.dynamics.full import FullSimulator
from supple.dynamics.stage import StepReport

__all__ = ["FullSimulator", "StepReport"]
