"""Subspace dynamics without cubature: every step forms UᵀKU, UᵀMU and Uᵀf on the whole mesh.

This is the method of Hahn et al. 2014, with which xu2016 §9 compares. A step costs O(n r²);
cubature approximates it in less time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, checked_number, checked_whole_numbers
from supple.dynamics.character_inputs import Forces, vertex_forces
from supple.dynamics.implicit import StepReport
from supple.dynamics.integrators import StepStart, integrator_named
from supple.dynamics.root_frame import (
    GravityMode,
    acting_gravity,
    checked_gravity_mode,
    checked_root,
    to_world,
)
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.baselines.subspace import (
    Subspace,
    SubspaceStage,
    checked_subspace_basis,
    solve_definite,
)
from supple.engines.pose_space.build.reduced_poses import OfPose
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SolverError, SuppleError
from supple.linalg.blas import single_threaded

Carried = Literal["coordinates", "projection"]
PARTS = ("rig", "basis", "assembly", "projection", "solve")


class PosedSubspace:
    """Body, basis U (3n, r), rest shape Φ (n, 3) and skin as functions of the pose (s,).

    U is zero at fixed vertices; see `pose_bases`. `elastic` has a rest shape and basis that
    replace those of the pose for elastic forces: with the neutral ones, and a `basis` that warps
    the neutral one to the pose, this is neutral-pose dynamics (Galoppo et al. 2009; xu2016 fig.
    4b). `material` gives the material at a pose (xu2016 §8). With `surface` Φ̄ and its `embedding`
    (n̄, n), forces act on the skin.
    """

    def __init__(
        self,
        body: ElasticBody,
        rest: OfPose,
        basis: OfPose,
        *,
        rest_pose: ArrayLike | None = None,
        elastic: tuple[ArrayLike, ArrayLike] | None = None,
        material: Callable[[Floats], Material] | None = None,
        surface: OfPose | None = None,
        embedding: sp.csr_array | None = None,
    ) -> None:
        self.body, self._rest, self._basis = body, rest, basis
        self._material, self._surface, self._embedding = material, surface, embedding
        first = getattr(rest, "rest_pose", None) if rest_pose is None else rest_pose
        if first is None:
            raise SuppleError("the rest pose is unknown; give rest_pose")
        self.rest_pose = np.array(first, np.float64)
        #: Subspace for elastic forces at all poses; None for that of the pose.
        self.neutral: Subspace | None = None
        if elastic is not None:
            shape = checked_array("elastic rest shape", elastic[0], body.rest.shape)
            columns = checked_subspace_basis("elastic basis", elastic[1], body.n_vertices)
            self.neutral = Subspace(body, shape, columns)

    def evaluate(self, pose: Floats, report: StepReport) -> tuple[Floats, Floats]:
        """Return rest shape (n, 3) and basis (3n, r) at a pose."""
        with report.timed("rig"):
            rest = checked_array("rest shape", self._rest(pose), self.body.rest.shape)
        with report.timed("basis"):
            basis = checked_subspace_basis("basis", self._basis(pose), self.body.n_vertices)
        if self.neutral is not None and self.neutral.n_columns != basis.shape[1]:
            raise SuppleError(
                f"the basis has {basis.shape[1]} columns, but the elastic basis has "
                f"{self.neutral.n_columns}"
            )
        return rest, basis

    @classmethod
    def from_model(cls, model: PoseSpaceModel, basis: OfPose) -> PosedSubspace:
        """Return the flesh and skin of a model with a basis of `pose_bases`.

        A model stores its bases on the skin and at cubature points only, so they are recomputed.
        """

        def material(pose: Floats) -> Material:
            return model.material(model.pose_weights(pose))

        vertices, weights = model.embedding_vertices, model.embedding_weights.astype(np.float64)
        rows = np.repeat(np.arange(len(vertices)), vertices.shape[1])
        embedding = sp.csr_array(
            (weights.ravel(), (rows, vertices.ravel())), (len(vertices), len(model.mesh.vertices))
        )
        return cls(
            ElasticBody(model.mesh, model.material()),
            model.tet_rig,
            basis,
            material=material if model.material_varies else None,
            surface=model.rig,
            embedding=embedding,
        )

    def make_of_material(self, pose: Floats) -> None:
        """Set the body's material for a pose, if the material depends on the pose."""
        if self._material is not None:
            self.body.set_material(self._material(pose))

    def skin(self, pose: Floats, displacements: Floats) -> Floats:
        """Return the skin Φ̄(p) + A u, (n̄, 3), in the root's frame."""
        if self._surface is None or self._embedding is None:
            raise SuppleError("this body has no skin; give surface and embedding")
        return self._surface(pose) + self._embedding @ displacements

    def load(self, forces: Forces | None) -> Floats:
        """Return forces on the tet vertices, (n, 3), equivalent to `forces` in N by vertex.

        The keys are vertices of the skin, or of the tets for a body without skin.
        """
        count = self.body.n_vertices if self._embedding is None else self._embedding.shape[0]
        load = np.zeros((count, 3))
        vertices, acting = vertex_forces(forces or {}, count, "the body")
        load[vertices] = acting
        return load if self._embedding is None else self._embedding.T @ load


class ProjectedSimulator:
    """Simulator of a body within a basis that depends on the pose, without cubature.

    M̃ q̈ + D̃ q̇ + Uᵀf(Φ(p) + U q) = Uᵀ(f_ext − M Φ̈), with U = U(p) (xu2016 eq. 9). Options are as for
    `FullBodySimulator`, without ``"midpoint"``. `carried` selects the transfer of the state when U
    changes: ``"coordinates"`` keeps q (xu2016 §5.2), ``"projection"`` projects displacements and
    velocities to the new basis (Hahn et al.).

    Examples
    --------
    >>> from supple.elastic import ElasticBody
    >>> from supple.scenes import beam
    >>> body = ElasticBody(beam(cells=(4, 1, 1)))
    >>> lifted = np.zeros((60, 1))
    >>> lifted[1::3, 0] = body.rest[:, 0] ** 2  # one shape, held at x = 0
    >>> posed = PosedSubspace(body, lambda pose: body.rest, lambda pose: lifted, rest_pose=[])
    >>> simulator = ProjectedSimulator(posed, gravity_mode="absolute")
    >>> simulator.step().iterations
    1
    >>> bool(simulator.q[0] < 0)  # it falls
    True
    """

    def __init__(
        self,
        posed: PosedSubspace,
        dt: float = 1 / 90,
        *,
        integrator: str = "backward-euler",
        iterations: int = 1,
        tolerance: float = 1e-9,
        alpha: float = 0.5,
        beta: float = 0.01,
        gravity: ArrayLike = (0.0, -9.81, 0.0),
        gravity_mode: GravityMode = "relative",
        psd: bool = False,
        carried: Carried = "coordinates",
    ) -> None:
        # Forces within the step would need a basis there.
        self._method = integrator_named(integrator, lambda row: row.forces_at == 1)
        if carried not in ("coordinates", "projection"):
            raise SuppleError(f'`carried` is {carried!r}; use "coordinates" or "projection"')
        self._posed, self.body = posed, posed.body
        self.dt = _positive("dt", dt, 1e-12)
        self.alpha, self.beta = _positive("alpha", alpha), _positive("beta", beta)
        self.tolerance = _positive("tolerance", tolerance) * self.body.mesh.size
        (self.iterations,) = checked_whole_numbers("iterations", [iterations])
        if self.iterations < 1:
            raise SuppleError(f"iterations must be at least 1, not {iterations}")
        self.psd, self.carried = bool(psd), carried
        self.gravity = checked_array("gravity", gravity, (3,))
        self.gravity_mode = checked_gravity_mode(gravity_mode)
        self.reset()

    def reset(self, pose: ArrayLike | None = None, root: ArrayLike | None = None) -> None:
        """Restart at rest, at a pose (s,) and a rigid root (4, 4)."""
        chosen = self._pose(self._posed.rest_pose if pose is None else pose)
        place = checked_root(root)
        report = _report()
        rest, basis = self._posed.evaluate(chosen, report)
        self._posed.make_of_material(chosen)
        self.body.energy(rest, rest)  # refuses a rest shape with inverted tets
        space = Subspace(self.body, rest, basis)
        self.pose, self.root, self._space = chosen, place, space
        self._mass = space.mass()
        self._world = self._world_before = to_world(place, rest)
        self.q, self.velocity = np.zeros((2, space.n_columns))
        self._acceleration: Floats = np.zeros(space.n_columns)
        self._before: tuple[Floats, Floats] | None = None
        if self._method.uses_acceleration:
            pull = space.weigh(np.broadcast_to(self._gravity(place) @ place[:3, :3], rest.shape))
            self._acceleration = _solved(self._mass, pull)
        self.time, self.unconverged_steps = 0.0, 0

    @property
    def displacements(self) -> Floats:
        """Displacements U q in the root's frame, (n, 3)."""
        return self._space.displacement(self.q)

    @property
    def positions(self) -> Floats:
        """Positions of the tet vertices in the world, (n, 3)."""
        return to_world(self.root, self._space.rest + self.displacements)

    def surface(self) -> Floats:
        """Return the skin in the world, R(Φ̄(p) + A u) + t, (n̄, 3)."""
        return to_world(self.root, self._posed.skin(self.pose, self.displacements))

    def step(
        self,
        pose: ArrayLike | None = None,
        root: ArrayLike | None = None,
        forces: Forces | None = None,
    ) -> StepReport:
        """Advance by one time step to a pose and root; by default both stay.

        `forces` maps vertices, of the skin if there is one and else of the tets, to forces in N in
        the world. After an error the state is unchanged.
        """
        target = self.pose if pose is None else self._pose(pose)
        place = self.root if root is None else checked_root(root)
        load = self._posed.load(forces) @ place[:3, :3]  # Rᵀ f, row by row
        report = _report()
        rest, basis = self._posed.evaluate(target, report)
        old = self._space.rest, self._space.basis
        if basis.shape != old[1].shape:
            raise SuppleError(f"the basis changes its shape from {old[1].shape} to {basis.shape}")
        self._posed.make_of_material(target)
        world = to_world(place, rest)
        jolt = (world - 2 * self._world + self._world_before) / self.dt**2
        self._space.at(rest, basis)
        try:
            with single_threaded():
                begun, state, mass = self._advanced(
                    load, (self._gravity(place) - jolt) @ place[:3, :3], old[1], report
                )
        except SuppleError:
            self._space.at(*old)
            self._posed.make_of_material(self.pose)
            raise
        self.q, self.velocity, self._acceleration = state
        self._before, self._mass = begun, mass
        self.pose, self.root = target, place
        self._world_before, self._world = self._world, world
        self.unconverged_steps += not report.converged
        self.time += self.dt
        return report

    def _advanced(
        self, load: Floats, pull: Floats, basis_before: Floats, report: StepReport
    ) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats, Floats], Floats]:
        """Return (q, q̇) at the start of the step, (q, q̇, q̈) at its end, and M̃."""
        space = self._space
        with report.timed("projection"):
            mass = space.mass()
            external = space.project(load) + space.weigh(pull)
        begun, earlier = (self.q, self.velocity), self._before
        if self.carried == "projection":
            begun = self._reprojected(mass, basis_before, begun)
            if earlier is not None:
                earlier = self._reprojected(mass, basis_before, earlier)
        stage = SubspaceStage(
            elastic=space if self._posed.neutral is None else self._posed.neutral,
            moving=space,
            mass=mass,
            external=external,
            alpha=self.alpha,
            beta=self.beta,
            iterations=self.iterations,
            tolerance=self.tolerance,
            psd=self.psd,
            report=report,
        )

        def solve(q: Floats, v: Floats, tau: float) -> tuple[Floats, Floats]:
            # As in `FullBodySimulator`: one iteration from the last positions is the papers' step;
            # several iterations need fewer from an extrapolated velocity.
            guess = begun[1] + tau * self._acceleration
            return stage.solve(q, v, tau, (begun[0] - q) / tau if self.iterations == 1 else guess)

        start = StepStart(*begun, self._acceleration, earlier)
        state = self._method.step(solve, start, self.dt)
        if not all(np.isfinite(each).all() for each in state):
            raise SolverError(
                f"the simulation diverges at {self.time:.3f} s; use a smaller dt, smaller forces "
                "or more iterations"
            )
        return begun, state, mass

    def run(
        self,
        poses: ArrayLike,
        roots: Iterable[ArrayLike] | None = None,
        *,
        what: Literal["displacements", "positions", "surface"] = "positions",
    ) -> Floats:
        """Reset at the first pose and root, step to the rest; return `what` at each, (t, n, 3)."""
        rows = checked_array(
            "poses", poses, (len(np.atleast_2d(poses)), len(self._posed.rest_pose))
        )
        places = [None] * len(rows) if roots is None else list(roots)
        if len(places) != len(rows):
            raise SuppleError(f"{len(places)} roots for {len(rows)} poses; give one per pose")
        frames = []
        for k, (pose, root) in enumerate(zip(rows, places, strict=True)):
            (self.step if k else self.reset)(pose, root)
            frames.append(self.surface() if what == "surface" else getattr(self, what))
        return np.array(frames)

    def _pose(self, pose: ArrayLike) -> Floats:
        return checked_array("pose", pose, self._posed.rest_pose.shape).copy()

    def _reprojected(
        self, mass: Floats, basis_before: Floats, pair: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """Return q and q̇ in this basis nearest, in the mass norm, to `pair` in the last basis."""
        fields = (basis_before @ np.stack(pair, axis=1)).reshape(-1, 3, 2)
        right = np.stack([self._space.weigh(fields[:, :, at]) for at in (0, 1)], axis=1)
        coordinates = _solved(mass, right)
        return coordinates[:, 0].copy(), coordinates[:, 1].copy()

    def _gravity(self, place: Floats) -> Floats:
        return acting_gravity(self.gravity_mode, self.gravity, place)


def _solved(mass: Floats, right: Floats) -> Floats:
    """Return M⁻¹ b of a mass matrix (r, r); least squares if columns of the basis are dependent."""
    solution = solve_definite(mass, right)
    if solution is not None:
        return solution
    return np.asarray(np.linalg.lstsq(mass, right, rcond=None)[0], np.float64)


def _report() -> StepReport:
    return StepReport(seconds=dict.fromkeys(PARTS, 0.0))


def _positive(name: str, value: float, least: float = 0.0) -> float:
    number = checked_number(name, value)
    if not least <= number <= 1e9:
        raise SuppleError(f"{name} must be between {least:g} and 1e9, not {value}")
    return number
