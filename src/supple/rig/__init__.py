"""Rigs: black boxes from a pose to a surface, and what they are made of."""

from supple.rig.baked_motion import BakedMotion
from supple.rig.bend import Bend
from supple.rig.blend_shapes import BlendShapeRig
from supple.rig.bones import Bones, held_tets
from supple.rig.chain import RigChain
from supple.rig.character import Character
from supple.rig.cuts import detect_cuts
from supple.rig.flesh import Flesh, flesh_out
from supple.rig.handle_rig import HandleRig
from supple.rig.inverse_kinematics import ChainSolution, InverseKinematics
from supple.rig.joint_names import match_joints
from supple.rig.joint_pose import JointPose
from supple.rig.lattice import Lattice
from supple.rig.motion import Motion
from supple.rig.pose_choice import farthest_poses
from supple.rig.pose_insertion import with_poses_between
from supple.rig.pose_space import PoseSpaceDeformation
from supple.rig.pose_tree import alignment_tree
from supple.rig.pose_weights import PoseWeights, parameter_scales
from supple.rig.protocol import Deformer, FunctionRig, Parameter, Rig
from supple.rig.retargeting import retarget
from supple.rig.root_motion import extract_root, split_root
from supple.rig.skeleton import Skeleton, unique_names
from supple.rig.skinning import SkinnedRig
from supple.rig.tet_rig import TetRig, fit_tet_rig
from supple.rig.twist import Twist
from supple.rig.vertex_frames import edge_rotations, pose_rotations
from supple.rig.wire import Wire

__all__ = [
    "BakedMotion",
    "Bend",
    "BlendShapeRig",
    "Bones",
    "ChainSolution",
    "Character",
    "Deformer",
    "Flesh",
    "FunctionRig",
    "HandleRig",
    "InverseKinematics",
    "JointPose",
    "Lattice",
    "Motion",
    "Parameter",
    "PoseSpaceDeformation",
    "PoseWeights",
    "Rig",
    "RigChain",
    "Skeleton",
    "SkinnedRig",
    "TetRig",
    "Twist",
    "Wire",
    "alignment_tree",
    "detect_cuts",
    "edge_rotations",
    "extract_root",
    "farthest_poses",
    "fit_tet_rig",
    "flesh_out",
    "held_tets",
    "match_joints",
    "parameter_scales",
    "pose_rotations",
    "retarget",
    "split_root",
    "unique_names",
    "with_poses_between",
]
