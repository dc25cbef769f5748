"""Pose-space subspace dynamics (Xu and Barbič 2016): build, model, simulator, crowd."""

from supple.engines.common.pose_selection import mid_poses, poses_from_frames, resolve_poses
from supple.engines.pose_space.alignment import AlignedBases, align, subspace_angles
from supple.engines.pose_space.build.aligned_poses import Assessment, assess_pose
from supple.engines.pose_space.build.build import BuildOptions, build
from supple.engines.pose_space.build.pose_basis import RegionBasis, pose_basis
from supple.engines.pose_space.crowd import Crowd
from supple.engines.pose_space.interpolation import (
    column_scales,
    frequency_ratios,
    interpolated_basis,
    mass_products,
    reduced_frequencies,
    reduced_mass,
)
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator, PoseSpaceStep
from supple.engines.pose_space.step_options import StepOptions

__all__ = [
    "AlignedBases",
    "Assessment",
    "BuildOptions",
    "Crowd",
    "PoseSpaceModel",
    "PoseSpaceSimulator",
    "PoseSpaceStep",
    "RegionBasis",
    "StepOptions",
    "align",
    "assess_pose",
    "build",
    "column_scales",
    "frequency_ratios",
    "interpolated_basis",
    "mass_products",
    "mid_poses",
    "pose_basis",
    "poses_from_frames",
    "reduced_frequencies",
    "reduced_mass",
    "resolve_poses",
    "subspace_angles",
]
