"""Rigs: functions from a pose to a surface, and their parts."""

from typing import TYPE_CHECKING

from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.rig.baked_motion import BakedMotion
    from supple.rig.character import Character
    from supple.rig.deformers.bend import Bend
    from supple.rig.deformers.blend_shapes import BlendShapeRig
    from supple.rig.deformers.chain import RigChain
    from supple.rig.deformers.free_form import Lattice
    from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
    from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
    from supple.rig.deformers.twist import Twist
    from supple.rig.deformers.wire import Wire
    from supple.rig.motion.cuts import detect_cuts
    from supple.rig.motion.joint_names import match_joints
    from supple.rig.motion.motion import Motion
    from supple.rig.motion.pose_stream import PoseStream
    from supple.rig.motion.retarget import retarget
    from supple.rig.motion.root_motion import extract_root, split_root
    from supple.rig.poses.example_poses import alignment_tree, farthest_poses
    from supple.rig.poses.pose_weights import PoseWeights, parameter_scales
    from supple.rig.protocol import Deformer, FunctionRig, Parameter, Rig
    from supple.rig.skeleton.inverse_kinematics import ChainSolution, HandleRig, InverseKinematics
    from supple.rig.skeleton.joint_pose import JointPose
    from supple.rig.skeleton.joints import Skeleton, unique_names
    from supple.rig.skeleton.skinning import SkinnedRig
    from supple.rig.stored_rigs import register_deformer
    from supple.rig.tets.bones import Bones, held_tets
    from supple.rig.tets.tet_body import TetBody, fit_tet_body, with_poses_between
    from supple.rig.tets.tet_rig import TetRig, fit_tet_rig
    from supple.rig.tets.vertex_frames import edge_rotations, pose_rotations

__all__ = [
    "BakedMotion",
    "Bend",
    "BlendShapeRig",
    "Bones",
    "ChainSolution",
    "Character",
    "Deformer",
    "FunctionRig",
    "HandleRig",
    "InverseKinematics",
    "JointPose",
    "Lattice",
    "Motion",
    "Parameter",
    "PoseBlendShapeRig",
    "PoseSpaceDeformation",
    "PoseStream",
    "PoseWeights",
    "Rig",
    "RigChain",
    "Skeleton",
    "SkinnedRig",
    "TetBody",
    "TetRig",
    "Twist",
    "Wire",
    "alignment_tree",
    "detect_cuts",
    "edge_rotations",
    "extract_root",
    "farthest_poses",
    "fit_tet_body",
    "fit_tet_rig",
    "held_tets",
    "match_joints",
    "parameter_scales",
    "pose_rotations",
    "register_deformer",
    "retarget",
    "split_root",
    "unique_names",
    "with_poses_between",
]

__getattr__ = lazy_imports(__name__)
