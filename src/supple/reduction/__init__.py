"""Reduction: models with few unknowns, made at several poses and made to agree."""

from supple.reduction.alignment import AlignedBases, align, subspace_angles
from supple.reduction.assessment import Assessment, assess_pose
from supple.reduction.build import build
from supple.reduction.contact_constraints import contact_constraints
from supple.reduction.cubature_accuracy import fit_weights, force_error
from supple.reduction.cubic_model import CubicModel
from supple.reduction.derivatives import modal_derivatives
from supple.reduction.elastic_cubature import Between, ElasticCubature, elastic_cubature
from supple.reduction.handles import Handle, handles_from_bones
from supple.reduction.inertial_cubature import (
    InertialCubature,
    inertial_cubature,
    inertial_error,
)
from supple.reduction.interpolation import (
    column_scales,
    frequency_ratios,
    interpolated_basis,
    mass_products,
    reduced_frequencies,
    reduced_mass,
)
from supple.reduction.linear_correction import blended_correction
from supple.reduction.log import BuildLog
from supple.reduction.mass_pca import mass_pca, scaled_candidates
from supple.reduction.materials import interpolated_material, painted_material, pose_materials
from supple.reduction.model import PoseSpaceModel
from supple.reduction.modes import Modes, linear_modes
from supple.reduction.null_space import NullSpace, null_space
from supple.reduction.pose_basis import RegionBasis, pose_basis
from supple.reduction.pose_selection import mid_poses, poses_from_frames, resolve_poses
from supple.reduction.region import Region
from supple.reduction.regions import (
    border_jump,
    handle_weights,
    region_weights,
    regions_of,
    stored_fraction,
)
from supple.reduction.responses import inertial_responses
from supple.reduction.samples import force_samples
from supple.reduction.sketch import sketch_basis
from supple.reduction.stvk_bases import derivative_basis, mode_basis, motion_basis
from supple.reduction.stvk_model import StvkModel

__all__ = [
    "AlignedBases",
    "Assessment",
    "Between",
    "BuildLog",
    "CubicModel",
    "ElasticCubature",
    "Handle",
    "InertialCubature",
    "Modes",
    "NullSpace",
    "PoseSpaceModel",
    "Region",
    "RegionBasis",
    "StvkModel",
    "align",
    "assess_pose",
    "blended_correction",
    "border_jump",
    "build",
    "column_scales",
    "contact_constraints",
    "derivative_basis",
    "elastic_cubature",
    "fit_weights",
    "force_error",
    "force_samples",
    "frequency_ratios",
    "handle_weights",
    "handles_from_bones",
    "inertial_cubature",
    "inertial_error",
    "inertial_responses",
    "interpolated_basis",
    "interpolated_material",
    "linear_modes",
    "mass_pca",
    "mass_products",
    "mid_poses",
    "modal_derivatives",
    "mode_basis",
    "motion_basis",
    "null_space",
    "painted_material",
    "pose_basis",
    "pose_materials",
    "poses_from_frames",
    "reduced_frequencies",
    "reduced_mass",
    "region_weights",
    "regions_of",
    "resolve_poses",
    "scaled_candidates",
    "sketch_basis",
    "stored_fraction",
    "subspace_angles",
]
