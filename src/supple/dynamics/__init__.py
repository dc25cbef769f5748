"""Engines that step a body through time, one file each."""

from supple.dynamics.crowd import Crowd
from supple.dynamics.full import FullSimulator
from supple.dynamics.pose_space import Simulator, StepState
from supple.dynamics.stage import StepReport

__all__ = ["Crowd", "FullSimulator", "Simulator", "StepReport", "StepState"]
