"""Rigs: black boxes from a pose to a surface, and what they are made of."""

from supple.rig.joint_pose import JointPose
from supple.rig.protocol import Deformer, FunctionRig, Parameter, Rig
from supple.rig.skeleton import Skeleton, unique_names
from supple.rig.skinning import SkinnedRig

__all__ = [
    "Deformer",
    "FunctionRig",
    "JointPose",
    "Parameter",
    "Rig",
    "Skeleton",
    "SkinnedRig",
    "unique_names",
]
