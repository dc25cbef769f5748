"""Engines that step a body through time, one file each; playing and baking motions."""

from supple.dynamics.baking import bake
from supple.dynamics.crowd import Crowd
from supple.dynamics.full import FullSimulator
from supple.dynamics.haptics import HapticBall, HapticRun, HapticStep
from supple.dynamics.playing import Player
from supple.dynamics.pose_space import Simulator, StepState
from supple.dynamics.sphere_tree import Contacts, SphereTree
from supple.dynamics.stage import StepReport
from supple.dynamics.stvk import StvkSimulator, StvkStep
from supple.dynamics.stvk_free import FreeStvkRun, FreeStvkSimulator

__all__ = [
    "Contacts",
    "Crowd",
    "FreeStvkRun",
    "FreeStvkSimulator",
    "FullSimulator",
    "HapticBall",
    "HapticRun",
    "HapticStep",
    "Player",
    "Simulator",
    "SphereTree",
    "StepReport",
    "StepState",
    "StvkSimulator",
    "StvkStep",
    "bake",
]
