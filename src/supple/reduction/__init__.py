"""Model reduction that engines share: modes, derivatives, mass-PCA, regions, cubature."""

from typing import TYPE_CHECKING

from supple.lazy_imports import lazy_imports
from supple.reduction.contact_constraints import contact_constraints
from supple.reduction.mass_pca import mass_pca, scaled_candidates
from supple.reduction.null_space import NullSpace, null_space

if TYPE_CHECKING:
    from supple.reduction.build_log import BuildLog
    from supple.reduction.compliance import inertial_displacements
    from supple.reduction.cubature.accuracy import blended_correction, fit_weights, force_error
    from supple.reduction.cubature.elastic_cubature import (
        Between,
        ElasticCubature,
        elastic_cubature,
    )
    from supple.reduction.cubature.inertial_cubature import (
        InertialCubature,
        inertial_cubature,
        inertial_error,
    )
    from supple.reduction.cubature.samples import force_samples
    from supple.reduction.derivatives import modal_derivatives
    from supple.reduction.modes import Modes, linear_modes
    from supple.reduction.regions.handles import Handle, handles_from_bones
    from supple.reduction.regions.region import Region
    from supple.reduction.regions.region_weights import (
        border_jump,
        handle_weights,
        region_weights,
        regions_of,
        stored_fraction,
    )

__all__ = [
    "Between",
    "BuildLog",
    "ElasticCubature",
    "Handle",
    "InertialCubature",
    "Modes",
    "NullSpace",
    "Region",
    "blended_correction",
    "border_jump",
    "contact_constraints",
    "elastic_cubature",
    "fit_weights",
    "force_error",
    "force_samples",
    "handle_weights",
    "handles_from_bones",
    "inertial_cubature",
    "inertial_displacements",
    "inertial_error",
    "linear_modes",
    "mass_pca",
    "modal_derivatives",
    "null_space",
    "region_weights",
    "regions_of",
    "scaled_candidates",
    "stored_fraction",
]

__getattr__ = lazy_imports(__name__)
