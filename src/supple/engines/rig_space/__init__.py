"""Rig-space dynamics (Hahn et al. 2013): physics moves the free parameters of a rig."""

from supple.engines.rig_space.build import build
from supple.engines.rig_space.crowd import RigSpaceCrowd
from supple.engines.rig_space.free_parameters import free_entries
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import (
    SOLVERS,
    RigSpaceOptions,
    RigSpaceSimulator,
    RigSpaceStep,
)
from supple.engines.rig_space.volumetric_skinning import VolumetricSkinning, volumetric_skinning

__all__ = [
    "SOLVERS",
    "RigSpaceCrowd",
    "RigSpaceModel",
    "RigSpaceOptions",
    "RigSpaceSimulator",
    "RigSpaceStep",
    "VolumetricSkinning",
    "build",
    "free_entries",
    "volumetric_skinning",
]
