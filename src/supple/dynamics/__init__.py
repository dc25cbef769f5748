"""Engines that step a body through time, one file each; playing and baking motions."""

from supple.dynamics.baking import bake
from supple.dynamics.crowd import Crowd
from supple.dynamics.full import FullSimulator
from supple.dynamics.playing import Player
from supple.dynamics.pose_space import Simulator, StepState
from supple.dynamics.stage import StepReport
from supple.dynamics.stvk import StvkSimulator, StvkStep

__all__ = [
    "Crowd",
    "FullSimulator",
    "Player",
    "Simulator",
    "StepReport",
    "StepState",
    "StvkSimulator",
    "StvkStep",
    "bake",
]
