"""Rig on the tets: Φ(p), the rest shape at a pose (xu2016 §4.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array
from supple.errors import SuppleError, warn
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.jacobian import Jacobian, rig_jacobian
from supple.rig.placement.placement import Placement, placement
from supple.rig.placement.pose_corrections import (
    PoseCorrections,
    combined_corrections,
    corrected_placement,
)
from supple.rig.poses.pose_weights import PoseWeights, parameter_scales, turning_scales
from supple.rig.protocol import Rig, optional_method
from supple.rig.skeleton.skinning import skinned_core
from supple.rig.stored.field_reader import SINGLE, Field
from supple.rig.stored.schema import Array, PackedRows, PartOf
from supple.rig.tets.corotated_corrections import CorotatedCorrections
from supple.rig.tets.fitting import GAMMA, PoseFit, PoseFitter, volume_ratios
from supple.rig.tets.shepard import ShepardRig, SurfaceFollower
from supple.rig.tets.skinned_tets import SkinnedTetRig
from supple.rig.tets.surface_samples import SurfaceSamples
from supple.rig.tets.vertex_frames import IDENTITY

Variant = Literal["auto", "carried", "shepard"]
VARIANTS = ("auto", "carried", "shepard")
Progress = Callable[[float, str], None]

#: Distance of tets and surface, relative to its size, above which a fit gives a warning.
POOR_FIT = 0.02
#: Poses nearer to the neutral one than this fraction of the farthest count as neutral.
SAME_POSE = 1e-8


class TetRig:
    """A rig of tet vertices: a first guess that follows the surface, and fitted corrections.

    Φ(p) = start(p) + Σ w_i(p) δ_i with the weights of pose-space deformation and
    δ_i = fitted − start at pose i. At the neutral pose it is the mesh. Over a Shepard start
    corrections rotate with the flesh; see `CorotatedCorrections`. Skinned tets rotate already.

    Parameters
    ----------
    mesh
        The tets at the neutral pose.
    start
        Rig on the tets before correction; see `start_rig`.
    weights
        Weights of the example poses, the neutral one first.
    corrections
        (m, n, 3) δ, in the frames of the neutral pose if there are rotations; zero for the neutral
        pose.
    fits
        Fits of all poses but the neutral one.
    rotations
        (m, n, 4) vertex rotations from the neutral pose to each, for a Shepard start only.

    Attributes
    ----------
    parameters, rest_pose
        Parameters of the surface's rig, and the neutral pose.
    pose_weights, poses, pose_names
        Weights, (m, s) values and names of the example poses.
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
        self._corotated: CorotatedCorrections | None = None
        self._corrected: PoseSpaceDeformation | CorotatedCorrections
        if rotations is None:
            self._corrected = PoseSpaceDeformation(start, weights.poses, corrections, weights)
        elif start.rotates:
            raise SuppleError("corrections of skinned tets have no rotations; omit them")
        else:
            self._corotated = CorotatedCorrections(start, weights, corrections, rotations)  # type: ignore[arg-type]
            self._corrected = self._corotated
        self.parameters, self.rest_pose = start.parameters, start.rest_pose
        self.n_vertices = len(mesh.vertices)
        self.pose_weights, self.poses, self.pose_names = weights, weights.poses, weights.names
        self.corrections: Floats = self._corrected.corrections
        self.rotations = None if self._corotated is None else self._corotated.rotations

    @classmethod
    def fitted(
        cls,
        mesh: TetMesh,
        start: SurfaceFollower,
        weights: PoseWeights,
        away: ArrayLike,
        fits: Sequence[PoseFit] = (),
    ) -> TetRig:
        """Make the rig from displacements `away` (m, n, 3) of the tets at the example poses.

        They are in world coordinates, and zero for the neutral pose; see the class for the others.
        """
        if start.rotates or weights.n_poses == 1:
            return cls(mesh, start, weights, away, fits)
        table = CorotatedCorrections.of(mesh, start, weights, away)  # type: ignore[arg-type]
        return cls(mesh, start, weights, table.corrections, fits, rotations=table.rotations)

    def __repr__(self) -> str:
        return f"TetRig({counted(self.n_vertices, 'vertex', 'vertices')}, {len(self.poses)} poses)"

    def away(self) -> Floats:
        """Return displacements (m, n, 3) from the start at the example poses, in the world."""
        return self.corrections if self._corotated is None else self._corotated.in_world()

    def needed_surface_vertices(self, vertices: ArrayLike | None = None) -> Ints:
        """Return the surface vertices at which the rig is evaluated to place these tet vertices."""
        return self.start.needed_surface_vertices(vertices)

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all tet vertices, or of the listed vertices."""
        return self._corrected(pose, vertices)

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed tet vertices, or of all; see `Placement`."""
        if self._corotated is not None:
            return self._corotated.placement(vertices, single=single)
        deltas = self.corrections if vertices is None else self.corrections[:, vertices]
        sets = [PoseCorrections(self.pose_weights, deltas)]
        merged = optional_method(self.start, "corrected_placement")
        if merged is not None:
            return merged(vertices, sets, single=single)
        base = placement(self.start, vertices, single=single)
        return corrected_placement(base, combined_corrections(base.n_points, sets), single)

    def shared_placement(self, rig: Rig, vertices: Ints | None) -> Placement | None:
        """Return a placement that shares surface positions with `rig`, or None.

        None if `rig` is not the surface rig that the tets follow, if tets are skinned, or if there
        are corrections that do not rotate.
        """
        share = optional_method(self.start, "shared_placement")
        if share is None:
            return None
        if self._corotated is not None:
            return self._corotated.shared_placement(rig, vertices)
        return None if np.any(self.corrections) else share(rig, vertices)

    def jacobian(self, entries: Ints, vertices: Ints | None = None) -> Jacobian | None:
        """Return the Jacobian of the start; None if there are corrections."""
        return None if np.any(self.corrections) else rig_jacobian(self.start, entries, vertices)

    #: Whether this rig can be stored even if the surface's rig cannot.
    stored_over_any_rig: ClassVar[bool] = True
    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf("mesh", TetMesh, lambda mesh: {"n": len(mesh.vertices)}),
        PartOf("start", Rig),
        PartOf("pose_weights", PoseWeights, lambda weights: {"poses": weights.n_poses}),
        PackedRows("corrections", ("poses", "n", 3)),
        Array(  # none for the neutral pose
            "rotations",
            SINGLE,
            (lambda sizes: sizes["poses"] - 1, "n", 4),
            lambda rig: None if rig.rotations is None else rig.rotations[1:],
            optional=True,
        ),
    )

    @classmethod
    def restored(
        cls,
        mesh: TetMesh,
        start: Rig,
        pose_weights: PoseWeights,
        corrections: Floats,
        rotations: Floats | None,
    ) -> TetRig:
        """Make the rig from its stored fields."""
        if not isinstance(start, SurfaceFollower):
            raise SuppleError(
                f"the rig before corrections is a {type(start).__name__}, not one of tets"
            )
        count = len(mesh.vertices)
        if start.n_vertices != count:
            raise SuppleError(
                f"the rig before corrections has {start.n_vertices:,} vertices, the mesh {count:,}"
            )
        if rotations is not None:
            rotations = np.concatenate([np.tile(IDENTITY, (1, count, 1)), rotations])
        return cls(mesh, start, pose_weights, corrections, rotations=rotations)

    def inversions(self, poses: ArrayLike, least: float = 0.0) -> list[Ints]:
        """Return the inverted tets, with at most `least` of their volume, at each pose (k, s)."""
        rows = checked_array("poses", poses, (len(np.atleast_2d(poses)), len(self.parameters)))
        return [np.flatnonzero(volume_ratios(self.mesh, self(pose)) <= least) for pose in rows]


def start_rig(
    rig: Rig,
    surface: SurfaceMesh,
    mesh: TetMesh,
    variant: Variant = "auto",
    samples: SurfaceSamples | None = None,
) -> SurfaceFollower:
    """Transfer a surface's rig to the tets, without corrections; surface and tets are at rest.

    The variant ``"carried"`` extends skinning weights from the surface to the tet vertices; with
    ``"shepard"`` they follow displacements of the nearest surface vertices, for any rig;
    ``"auto"`` is the first for rigs with skinning weights, as bending then inverts far fewer tets.
    `samples` of the surface in these tets are computed if None.
    """
    if variant not in VARIANTS:
        raise SuppleError(f'no variant "{variant}" of a rig on tets; use {", ".join(VARIANTS)}')
    if variant == "shepard" or (variant == "auto" and skinned_core(rig) is None):
        return ShepardRig(rig, surface.vertices, mesh.vertices)
    return SkinnedTetRig(rig, surface.vertices, mesh, samples or SurfaceSamples.of(surface, mesh))


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
        Surface and tets in the rig's rest pose.
    poses
        (m, s) example poses, all different; the neutral one is added if it is missing.
    names
        Names of the poses, for messages.
    variant
        Rig on the tets before fitting; see `start_rig`.
    gamma
        Weight of elasticity in a fit; see `PoseFitter`.
    scales
        (s,) metric of the pose space; by default the parameters' displacement of the surface.
    progress
        Called with the completed fraction, 0 to 1, and a description.

    Raises
    ------
    SuppleError
        If tets stay inverted at a pose; the message names the pose and the place.
    """
    report = progress or (lambda part, what: None)
    report(0.0, "transferring the rig to the tets")
    check_rest(rig, surface)
    weights = example_weights(rig, surface, poses, names, scales)
    samples = SurfaceSamples.of(surface, mesh)
    start = start_rig(rig, surface, mesh, variant, samples)
    fitter = PoseFitter(mesh, samples, gamma) if weights.n_poses > 1 else None
    displacements = np.zeros((weights.n_poses, *mesh.vertices.shape))
    fits: list[PoseFit] = []
    for i in range(1, weights.n_poses):
        assert fitter is not None
        report((i - 1) / (weights.n_poses - 1), f'fitting pose "{weights.names[i]}"')
        fit, displacements[i] = fit_pose(fitter, start, surface, weights.poses[i], weights.names[i])
        fits.append(fit)
    report(1.0, f"{counted(len(fits), 'pose')} fitted")
    return TetRig.fitted(mesh, start, weights, displacements, fits)


def check_rest(rig: Rig, surface: SurfaceMesh) -> None:
    """Raise an error if the surface differs from the rig's rest positions."""
    if rig.n_vertices != len(surface.vertices):
        counts = f"{rig.n_vertices} vertices, but the surface {len(surface.vertices)}"
        raise SuppleError(f"the rig has {counts}; use the surface that it moves")
    apart = float(np.abs(rig(rig.rest_pose) - surface.vertices).max())
    if apart > 1e-4 * surface.size:
        raise SuppleError(
            f"the surface is {apart:.3g} m from the rig's rest positions; give the surface at "
            "rest, or a rig that leaves the surface in place at its rest pose"
        )


def example_weights(
    rig: Rig,
    surface: SurfaceMesh,
    poses: ArrayLike,
    names: Sequence[str] | None,
    scales: ArrayLike | None,
) -> PoseWeights:
    """Return weights of the neutral pose and of the example poses that differ from it."""
    count, width = len(np.asarray(poses, dtype=object)), len(rig.parameters)
    examples = np.asarray(poses, np.float64).reshape(-1, width) if count == 0 else poses
    examples = checked_array("poses", examples, (count, width))
    labels = [str(i) for i in range(count)] if names is None else [str(name) for name in names]
    if len(labels) != count:
        raise SuppleError(f"{len(labels)} names for {count} poses; give one per pose")
    if scales is None:
        areas = surface.vertex_areas()
        masses = areas if areas.sum() > 0 else np.ones_like(areas)
        scales = turning_scales(rig, parameter_scales(rig, masses=masses), examples)
    metric = checked_array("pose scales", scales, (width,))
    far = np.linalg.norm((examples - rig.rest_pose) * metric, axis=1)
    other = np.flatnonzero(far > SAME_POSE * max(far.max(initial=0.0), np.finfo(float).tiny))
    rows = np.vstack([rig.rest_pose[None], examples[other]])
    return PoseWeights(rows, metric, names=["neutral", *(labels[i] for i in other)])


def fit_pose(
    fitter: PoseFitter, start: SurfaceFollower, surface: SurfaceMesh, pose: Floats, name: str
) -> tuple[PoseFit, Floats]:
    """Fit the tets at one pose; return the fit and its displacement δ (n, 3) from the start.

    Raise an error if tets stay inverted.
    """
    first = start(pose)
    rest = start.rest_pose
    fit = fitter.fit(
        start.rig(pose), first, path=lambda part: start.rig(rest + part * (pose - rest))
    )
    if len(fit.inverted):
        raise SuppleError(_inversion_message(name, fitter.mesh, fit.inverted, start.rig))
    if fit.surface_error > POOR_FIT * surface.size:
        part = 100 * fit.surface_error / surface.size
        warn(f'pose "{name}": tets are off the surface by {part:.1f} % of its size')
    return fit, fit.positions - first


def _inversion_message(pose: str, mesh: TetMesh, inverted: Ints, rig: Rig) -> str:
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
