"""The rig on the tets: Φ(p), the current rest shape (xu2016 §4.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array
from supple.errors import SuppleError, warn
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.placement.placement import Placement, placement, places_itself
from supple.rig.placement.pose_corrections import (
    PoseCorrections,
    combined_corrections,
    corrected_placement,
)
from supple.rig.poses.pose_weights import PoseWeights, parameter_scales, turning_scales
from supple.rig.protocol import Parameter, Rig
from supple.rig.skeleton.skinning import skinned_core
from supple.rig.tets.carried_weights import CarriedRig
from supple.rig.tets.corotated_corrections import CorotatedCorrections
from supple.rig.tets.fitting import GAMMA, PoseFit, PoseFitter, volume_ratios
from supple.rig.tets.shepard import ShepardRig, SurfaceFollower
from supple.rig.tets.surface_samples import SurfaceSamples

Variant = Literal["auto", "carried", "shepard"]
VARIANTS = ("auto", "carried", "shepard")
Progress = Callable[[float, str], None]

#: Tets that follow the surface no better than this, as a part of its size, are worth a warning.
POOR_FIT = 0.02
#: Poses nearer to the neutral one than this part of the farthest are the neutral one.
SAME_POSE = 1e-8


class TetRig:
    """A rig of tet vertices: a first guess that follows the surface, and fitted corrections.

    Φ(p) = start(p) + Σ w_i(p) δ_i, the weights being those of pose-space deformation and
    δ_i = fitted − start at pose i. At the neutral pose it is the mesh. Over a Shepard start
    corrections turn with the flesh; see `CorotatedCorrections`. A carried start turns it already.

    Parameters
    ----------
    mesh
        The tets at the neutral pose.
    start
        Where tet vertices go before correction; see `start_rig`.
    weights
        Of the example poses, the neutral one first.
    corrections
        (m, n, 3) δ, in the neutral pose's frames if there are rotations; that of the neutral
        pose is zero.
    fits
        How each but the neutral pose was fitted.
    rotations
        (m, n, 4) of the vertices from the neutral pose to each, for a Shepard start only.
    """

    def __init__(
        self,
        mesh: TetMesh,
        start: SurfaceFollower,
        weights: PoseWeights,
        corrections: ArrayLike,
        fits: Sequence[PoseFit] = (),
        *,
        rotations: ArrayLike | None = None,
    ) -> None:
        self.mesh, self.start, self.fits = mesh, start, tuple(fits)
        self._corrected: PoseSpaceDeformation | CorotatedCorrections
        if rotations is None:
            self._corrected = PoseSpaceDeformation(start, weights.poses, corrections, weights)
        elif isinstance(start, ShepardRig):
            self._corrected = CorotatedCorrections(start, weights, corrections, rotations)
        else:
            raise SuppleError("corrections of a carried rig on tets have no rotations")

    @classmethod
    def fitted(
        cls,
        mesh: TetMesh,
        start: SurfaceFollower,
        weights: PoseWeights,
        away: ArrayLike,
        fits: Sequence[PoseFit] = (),
    ) -> TetRig:
        """Make the rig that is `away` (m, n, 3) from its start at the example poses.

        Parameters
        ----------
        mesh, start, weights, fits
            As above.
        away
            δ in the world; that of the neutral pose is zero.
        """
        if not isinstance(start, ShepardRig) or weights.n_poses == 1:
            return cls(mesh, start, weights, away, fits)
        turned = CorotatedCorrections.of(mesh, start, weights, away)
        return cls(mesh, start, weights, turned.corrections, fits, rotations=turned.rotations)

    def __repr__(self) -> str:
        return f"TetRig({counted(self.n_vertices, 'vertex', 'vertices')}, {len(self.poses)} poses)"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the surface's rig."""
        return self.start.parameters

    @property
    def n_vertices(self) -> int:
        """Number of tet vertices."""
        return len(self.mesh.vertices)

    @property
    def rest_pose(self) -> Floats:
        """The neutral pose."""
        return self.start.rest_pose

    @property
    def pose_weights(self) -> PoseWeights:
        """Weights of the example poses."""
        return self._corrected.pose_weights

    @property
    def poses(self) -> Floats:
        """Example poses, (m, s), the neutral one first."""
        return self.pose_weights.poses

    @property
    def pose_names(self) -> tuple[str, ...]:
        """Names of the example poses."""
        return self.pose_weights.names

    @property
    def corrections(self) -> Floats:
        """δ, (m, n, 3); in the neutral pose's frames where there are `rotations`."""
        return self._corrected.corrections

    @property
    def rotations(self) -> Floats | None:
        """Vertex rotations (m, n, 4) from the neutral pose to each, or None."""
        corrected = self._corrected
        return corrected.rotations if isinstance(corrected, CorotatedCorrections) else None

    def away(self) -> Floats:
        """Return displacements (m, n, 3) from start to tets at the example poses, in the world."""
        corrected = self._corrected
        if isinstance(corrected, CorotatedCorrections):
            return corrected.in_world()
        return corrected.corrections

    def needed_surface_vertices(self, vertices: ArrayLike | None = None) -> Ints:
        """Return the surface vertices at which the rig is evaluated to place these tet vertices."""
        return self.start.needed_surface_vertices(vertices)

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all tet vertices or of the listed ones."""
        return self._corrected(pose, vertices)

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed tet vertices, or of all; see `Placement`."""
        if isinstance(self._corrected, CorotatedCorrections):
            return self._corrected.placement(vertices, single=single)
        own = self.corrections if vertices is None else self.corrections[:, vertices]
        more = PoseCorrections(self.pose_weights, own)
        if isinstance(self.start, CarriedRig) and places_itself(self.start):
            return self.start.corrected_placement(vertices, [more], single=single)
        base = placement(self.start, vertices, single=single)
        return corrected_placement(base, combined_corrections(base.n_points, [more]), single)

    def inversions(self, poses: ArrayLike, least: float = 0.0) -> list[Ints]:
        """Return the tets inverted at each of the poses (k, s), between the example poses say.

        Parameters
        ----------
        poses
            Where to look.
        least
            Tets that keep this part of their volume, or less, count too.
        """
        rows = checked_array("poses", poses, (len(np.atleast_2d(poses)), len(self.parameters)))
        return [np.flatnonzero(volume_ratios(self.mesh, self(pose)) <= least) for pose in rows]


def start_rig(
    rig: Rig,
    surface: SurfaceMesh,
    mesh: TetMesh,
    variant: Variant = "auto",
    samples: SurfaceSamples | None = None,
) -> SurfaceFollower:
    """Transfer a surface's rig to the tets, without corrections.

    Parameters
    ----------
    rig, surface, mesh
        The surface's rig, and surface and tets where it has them in its rest pose.
    variant
        ``"carried"``: tet vertices have skinning weights of their own, extended from the
        surface's. ``"shepard"``: they follow displacements of the nearest surface vertices,
        whatever the rig is. ``"auto"``: carried where the rig has weights, as bending then
        inverts far fewer tets.
    samples
        Of the surface in these tets, if there are any already.
    """
    if variant not in VARIANTS:
        raise SuppleError(f'no variant "{variant}" of a rig on tets; use {", ".join(VARIANTS)}')
    if variant == "shepard" or (variant == "auto" and skinned_core(rig) is None):
        return ShepardRig(rig, surface.vertices, mesh.vertices)
    return CarriedRig(rig, surface.vertices, mesh, samples or SurfaceSamples.of(surface, mesh))


def fit_tet_rig(
    rig: Rig,
    surface: SurfaceMesh,
    mesh: TetMesh,
    poses: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    variant: Variant = "auto",
    gamma: float = GAMMA,
    scales: ArrayLike | None = None,
    progress: Progress | None = None,
) -> TetRig:
    """Fit a rig on the tets at example poses.

    Parameters
    ----------
    rig
        The surface's rig.
    surface, mesh
        Surface and tets, where the rig has the surface in its rest pose.
    poses
        (m, s) example poses, all different; the neutral one is added if it is not among them.
    names
        Of the poses, for messages.
    variant
        How tet vertices follow the surface before fitting; see `start_rig`.
    gamma
        What elasticity counts in a fit; see `PoseFitter`.
    scales
        (s,) metric of the pose space; by default how far the parameters move the surface.
    progress
        Called with the part done, 0 to 1, and what is being done.

    Raises
    ------
    SuppleError
        If tets stay inverted at a pose; it names the pose and the place.
    """
    tell = progress or (lambda part, what: None)
    tell(0.0, "carrying the rig to the tets")
    check_rest(rig, surface)
    weights = example_weights(rig, surface, poses, names, scales)
    samples = SurfaceSamples.of(surface, mesh)
    start = start_rig(rig, surface, mesh, variant, samples)
    fitter = PoseFitter(mesh, samples, gamma) if weights.n_poses > 1 else None
    away = np.zeros((weights.n_poses, *mesh.vertices.shape))
    fits: list[PoseFit] = []
    for i in range(1, weights.n_poses):
        assert fitter is not None
        tell((i - 1) / (weights.n_poses - 1), f'fitting pose "{weights.names[i]}"')
        fit, away[i] = fit_pose(fitter, start, surface, weights.poses[i], weights.names[i])
        fits.append(fit)
    tell(1.0, f"{counted(len(fits), 'pose')} fitted")
    return TetRig.fitted(mesh, start, weights, away, fits)


def check_rest(rig: Rig, surface: SurfaceMesh) -> None:
    """Refuse a surface that is not where the rig has it at rest."""
    if rig.n_vertices != len(surface.vertices):
        counts = f"{rig.n_vertices} vertices, and the surface {len(surface.vertices)}"
        raise SuppleError(f"the rig has {counts}; they must be the same ones")
    apart = float(np.abs(rig(rig.rest_pose) - surface.vertices).max())
    if apart > 1e-4 * surface.size:
        raise SuppleError(
            f"the surface is {apart:.3g} m away from where the rig has it at rest; use that"
        )


def example_weights(
    rig: Rig,
    surface: SurfaceMesh,
    poses: ArrayLike,
    names: Sequence[str] | None,
    scales: ArrayLike | None,
) -> PoseWeights:
    """Return weights of the neutral pose and of those given that differ from it."""
    count, width = len(np.asarray(poses, dtype=object)), len(rig.parameters)
    given = np.asarray(poses, np.float64).reshape(-1, width) if count == 0 else poses
    given = checked_array("poses", given, (count, width))
    called = [str(i) for i in range(count)] if names is None else [str(name) for name in names]
    if len(called) != count:
        raise SuppleError(f"{len(called)} names for {count} poses")
    if scales is None:
        areas = surface.vertex_areas()
        masses = areas if areas.sum() > 0 else np.ones_like(areas)
        scales = turning_scales(rig, parameter_scales(rig, masses=masses), given)
    metric = checked_array("pose scales", scales, (width,))
    far = np.linalg.norm((given - rig.rest_pose) * metric, axis=1)
    other = np.flatnonzero(far > SAME_POSE * max(far.max(initial=0.0), np.finfo(float).tiny))
    rows = np.vstack([rig.rest_pose[None], given[other]])
    return PoseWeights(rows, metric, names=["neutral", *(called[i] for i in other)])


def fit_pose(
    fitter: PoseFitter,
    start: SurfaceFollower,
    surface: SurfaceMesh,
    pose: Floats,
    name: str,
) -> tuple[PoseFit, Floats]:
    """Fit the tets at one pose; return the fit and its displacement δ (n, 3) from the start.

    Raises
    ------
    SuppleError
        If tets stay inverted.
    """
    first = start(pose)
    rest = start.rest_pose
    fit = fitter.fit(
        start.rig(pose), first, way=lambda part: start.rig(rest + part * (pose - rest))
    )
    if len(fit.inverted):
        raise SuppleError(_refusal(name, fitter.mesh, fit.inverted, start.rig))
    if fit.surface_error > POOR_FIT * surface.size:
        part = 100 * fit.surface_error / surface.size
        warn(f'pose "{name}": tets follow the surface to {part:.1f} % of its size')
    return fit, fit.positions - first


def _refusal(pose: str, mesh: TetMesh, inverted: Ints, rig: Rig) -> str:
    middle = mesh.vertices[mesh.tets[inverted]].mean(axis=(0, 1))
    core = skinned_core(rig)
    if core is None:
        place = f"({', '.join(f'{c:.3g}' for c in middle)})"
    else:
        joints = core.rig.skeleton.rest_world()[:, :3, 3]
        nearest = int(np.argmin(np.linalg.norm(joints - middle, axis=1)))
        place = f'joint "{core.rig.skeleton.names[nearest]}"'
    number = counted(len(inverted), "tet")
    return f'pose "{pose}" inverts {number} near {place}; add a pose between, or raise --fit'
