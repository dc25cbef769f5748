"""Shape coefficients β of a body model from a scan, which may be partial (tapia2021 §5.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import igl
import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from supple.arrays import Floats, Ints
from supple.errors import SuppleError
from supple.formats.smpl.body_model import LARGEST_BETA, BodyModel
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.progress import Progress, unreported

#: Most points of the scan that are compared, and fewest.
SAMPLES, FEWEST = 2_000, 100
#: Iterations of each stage: rigid, with the pose, with the shape.
RIGID, BENT, SHAPED = 10, 10, 25
#: Weight of β² and of squared angles relative to squared distances in 1 % of the size.
SHAPE_PRIOR, POSE_PRIOR = 1e-4, 3e-3
#: Largest median distance of a fit relative to the size, least ratio of sizes, and least part of
#: the body's area that the scan covers.
FARTHEST, SMALLEST, LEAST_COVERED = 0.015, 0.25, 0.1
#: Distances that count half, relative to the size, at the begin and the end of the stages: with
#: small ones from the begin, a leg of another length stays an outlier.
SPREADS = (0.2, 0.1, 0.003)
#: Part of a distance that counts along the surface; the rest counts along its normal.
SLIDING = 0.1


@dataclass(frozen=True, eq=False)
class ShapeFit:
    """Body model in the shape and the pose of a scan.

    Attributes
    ----------
    body
        The body model with the scan's shape as its template, and without shape directions.
    betas, pose, translation
        (b,) shape coefficients, (3 K,) rotations of the joints, and (3,) translation of the root
        that put the model onto the scan.
    same_vertices
        Whether the scan has the model's vertices, in the same order.
    median, largest
        Median and 95th percentile of the distances of the scan from the model, in m.
    covered
        Part of the model's area that the scan covers.
    """

    body: BodyModel
    betas: Floats
    pose: Floats
    translation: Floats
    same_vertices: bool
    median: float
    largest: float
    covered: float


def posed_body(
    body: BodyModel, betas: Floats, pose: Floats, translation: Floats, joints: Floats | None = None
) -> Floats:
    """Return vertices W(T + S β + P vec(R − 1), J(β), θ) + t, (n, 3).

    `joints` are J(β), by default by the regressor.
    """
    count = body.n_joints
    points = body.template + body.shape_directions[:, :, : len(betas)] @ betas
    joints = body.regressor @ points if joints is None else joints
    places = np.empty((count, 3))
    rotations = Rotation.from_rotvec(pose.reshape(-1, 3)).as_matrix()
    if body.pose_directions.shape[2]:
        features = (rotations[1:] - np.eye(3)).reshape(-1)
        points = points + body.pose_directions @ features
    world = np.empty((count, 3, 3))
    for joint, parent in enumerate(body.parents.tolist()):
        if parent < 0:
            world[joint], places[joint] = rotations[joint], joints[joint]
        else:
            world[joint] = world[parent] @ rotations[joint]
            places[joint] = places[parent] + world[parent] @ (joints[joint] - joints[parent])
    shifts = places - np.einsum("kij,kj->ki", world, joints)
    blend = (body.weights @ world.reshape(count, 9)).reshape(-1, 3, 3)
    turned: Floats = np.einsum("nij,nj->ni", blend, points) + body.weights @ shifts + translation
    return turned


def fit_shape(body: BodyModel, scan: SurfaceMesh, progress: Progress = unreported) -> ShapeFit:
    """Find shape, pose and place of a body model so that it matches a scan.

    A scan with the model's vertices is compared vertex by vertex. Otherwise points of the scan are
    pulled to the nearest points of the model, iteratively, outliers with little weight; so a scan
    may have any vertices, holes, and missing parts.

    Raises
    ------
    SuppleError
        If the model has no shape directions, or the scan is too small, of another size, too far
        from every shape of the model, or covers too little of it.
    """
    _check(body, scan)
    return _Fit(body, scan).result(progress)


def _check(body: BodyModel, scan: SurfaceMesh) -> None:
    if not body.n_betas:
        raise SuppleError("the body has no shape directions; there is nothing to fit")
    if len(scan.vertices) < FEWEST:
        raise SuppleError(f"the scan has {len(scan.vertices)} vertices; use at least {FEWEST}")
    ratio = scan.size / float(np.linalg.norm(np.ptp(body.template, axis=0)))
    if ratio > 1 / SMALLEST:
        raise SuppleError(
            f"the scan is {ratio:.3g} times as large as the body; give its unit, such as --unit mm"
        )
    if ratio < SMALLEST:
        raise SuppleError(
            f"the scan is {ratio:.3g} times as large as the body: it is too small a part of it, or "
            "its unit is another; give the unit, such as --unit m"
        )


class _Fit:
    """Parameters (β, θ, t) of a body model during a fit."""

    def __init__(self, body: BodyModel, scan: SurfaceMesh) -> None:
        self.body, self.b, self.spread = body, body.n_betas, SPREADS[0]
        self.joints = body.regressor @ body.template
        self.joint_directions = np.einsum(
            "kn,ncb->kcb", body.regressor, body.shape_directions[:, :, : self.b]
        )
        self.size = float(np.linalg.norm(np.ptp(body.template, axis=0)))
        self.same = len(scan.vertices) == len(body.template) and np.array_equal(
            np.sort(scan.triangles, axis=1), np.sort(body.triangles, axis=1)
        )
        normals = vertex_normals(scan.vertices, scan.triangles)
        chosen = np.arange(len(scan.vertices))
        if not self.same and len(chosen) > SAMPLES:
            chosen = np.sort(np.random.default_rng(0).choice(len(chosen), SAMPLES, replace=False))
        self.points, self.normals = scan.vertices[chosen], normals[chosen]
        self.values = np.zeros(self.b + 3 * body.n_joints + 3)
        self.values[-3:] = self.points.mean(axis=0) - body.template.mean(axis=0)

    def placed(self, values: Floats, part: BodyModel | None = None) -> Floats:
        """Return the vertices (n, 3) of the model, or of a part of it, at parameters."""
        betas = values[: self.b]
        joints = self.joints + self.joint_directions @ betas
        part = self.body if part is None else part
        return posed_body(part, betas, values[self.b : -3], values[-3:], joints)

    def _part(self, vertices: Ints) -> BodyModel:
        """Return a body with some of the vertices, whose joints must be given."""
        body = self.body
        return replace(
            body,
            template=body.template[vertices],
            weights=body.weights[vertices],
            shape_directions=body.shape_directions[vertices],
            pose_directions=body.pose_directions[vertices],
        )

    def result(self, progress: Progress) -> ShapeFit:
        """Return the fit; refuse a bad one."""
        joints = self.body.n_joints
        root = np.arange(self.b, self.b + 3)
        place = np.arange(self.b + 3 * joints, self.b + 3 * joints + 3)
        everything = np.arange(len(self.values))
        progress(0.0, "placing")
        self._place(np.concatenate([root, place]))
        for stage, (count, free) in enumerate(((BENT, everything[self.b :]), (SHAPED, everything))):
            for k in range(count):
                progress(0.2 + 0.4 * stage + 0.4 * k / count, "fitting")
                self.spread = SPREADS[stage] * (SPREADS[stage + 1] / SPREADS[stage]) ** (k / count)
                if self._improve(free) < (1e-7 if self.same else 1e-5) * self.size:
                    break
        return self._checked()

    def _place(self, rigid: Ints) -> None:
        """Choose the best of initial rotations: none, and those that align principal axes."""
        if self.same:
            for _ in range(RIGID):
                self._improve(rigid)
            return
        start, best, least = self.values.copy(), self.values.copy(), np.inf
        for turn in _rotations(self.body.template, self.points):
            self.values = start.copy()
            self.values[self.b : self.b + 3] = Rotation.from_matrix(turn).as_rotvec()
            self.values[-3:] += self.points.mean(axis=0) - self.placed(self.values).mean(axis=0)
            for _ in range(RIGID):
                self._improve(rigid)
            distance = float(np.median(self._distances()))
            if distance < 0.8 * least or not np.isfinite(least):  # the first is the file's own
                best, least = self.values.copy(), distance
        self.values = best

    def _improve(self, free: Ints) -> float:
        """Take one Gauss–Newton step in some parameters; return the largest motion in m."""
        skin = self.placed(self.values)
        corners, shares, weights = self._nearest(skin)
        offsets = np.einsum("sk,skc->sc", shares, skin[corners]) - self.points
        directions = self.normals
        used, rows_of = np.unique(corners, return_inverse=True)
        part, skin_part = self._part(used), skin[used]
        columns = []
        small = 1e-5
        for k in free:
            moved = self.values.copy()
            moved[k] += small
            change = (self.placed(moved, part) - skin_part) / small
            columns.append(np.einsum("sk,skc->sc", shares, change[rows_of.reshape(corners.shape)]))
        jacobian = np.stack(columns, axis=2)  # (s, 3, p)
        unit = 0.01 * self.size
        rows, errors = jacobian / unit, offsets / unit
        if not self.same:
            along = np.einsum("sc,scp->sp", directions, rows)
            away = np.einsum("sc,sc->s", directions, errors)
            rows = np.concatenate([np.sqrt(SLIDING) * rows, along[:, None]], axis=1)
            errors = np.concatenate([np.sqrt(SLIDING) * errors, away[:, None]], axis=1)
        weighted = rows * (weights / weights.sum())[:, None, None]
        gram = np.einsum("scp,scq->pq", weighted, rows)
        right = np.einsum("scp,sc->p", weighted, errors)
        is_shape = free < self.b
        is_angle = (free >= self.b + 3) & (free < len(self.values) - 3)
        prior = SHAPE_PRIOR * is_shape + POSE_PRIOR * is_angle * (0.01 if self.same else 1.0)
        if self.same:
            prior = prior * 1e-4
        right = right + prior * self.values[free]
        change = np.linalg.solve(gram + np.diag(prior + 1e-12), right)
        largest_angle = np.abs(change[~is_shape & (free < len(self.values) - 3)]).max(initial=0.0)
        change *= min(1.0, 0.5 / max(largest_angle, 1e-300))
        self.values[free] -= change
        self.values[: self.b] = np.clip(self.values[: self.b], -LARGEST_BETA, LARGEST_BETA)
        return float(np.abs(self.placed(self.values) - skin).max())

    def _nearest(self, skin: Floats) -> tuple[Ints, Floats, Floats]:
        """Return corners (s, 3) and barycentric coordinates of points on the model, and weights."""
        if self.same:
            own = np.arange(len(skin))
            return own[:, None], np.ones((len(skin), 1)), np.ones(len(skin))
        skin = np.ascontiguousarray(skin)
        squared, triangle, there = igl.point_mesh_squared_distance(
            self.points, skin, self.body.triangles
        )
        corners = self.body.triangles[triangle]
        a, b, c = (np.ascontiguousarray(skin[corners[:, k]]) for k in range(3))
        shares = np.clip(
            np.nan_to_num(igl.barycentric_coordinates(there, a, b, c), nan=1 / 3), 0, 1
        )
        facing = np.einsum("sc,sc->s", np.cross(b - a, c - a), self.normals) > 0
        spread = max(2.0 * float(np.median(np.sqrt(squared))), self.spread * self.size)
        weights = facing / (1.0 + squared / spread**2) ** 2
        return corners, shares, np.maximum(weights, 1e-9)

    def _distances(self) -> Floats:
        skin = np.ascontiguousarray(self.placed(self.values))
        if self.same:
            return np.linalg.norm(skin - self.points, axis=1)
        found = igl.point_mesh_squared_distance(self.points, skin, self.body.triangles)[0]
        distances: Floats = np.sqrt(found)
        return distances

    def _checked(self) -> ShapeFit:
        distances, skin = self._distances(), self.placed(self.values)
        median, largest = float(np.median(distances)), float(np.quantile(distances, 0.95))
        areas = SurfaceMesh(skin, self.body.triangles).vertex_areas()
        spacing = 4 * float(np.sqrt(areas.sum() / len(self.points)))
        near = cKDTree(self.points).query(skin)[0] < max(spacing, 3 * median)
        covered = float(areas[near].sum() / areas.sum())
        if not median < FARTHEST * self.size:  # nor NaN
            raise SuppleError(
                f"the scan is {median:.3g} m from the nearest shape of the body (half of its "
                "points are farther); is it of this kind of body, in this unit, and upright?"
            )
        if covered < LEAST_COVERED:
            raise SuppleError(
                f"the scan covers {covered:.0%} of the body; its shape needs {LEAST_COVERED:.0%}"
            )
        betas = self.values[: self.b].copy()
        shaped: dict[str, Any] = {"template": self.body.shaped(betas), "n_betas": 0}
        directions = self.body.shape_directions[:, :, :0]
        return ShapeFit(
            replace(self.body, **shaped, shape_directions=directions),
            betas,
            self.values[self.b : -3].copy(),
            self.values[-3:].copy(),
            self.same,
            median,
            largest,
            covered,
        )


def _rotations(template: Floats, points: ArrayLike) -> list[Floats]:
    """Return rotations to begin with: none, and those between principal axes of the two."""
    axes = []
    for each in (template, np.asarray(points)):
        centred = each - each.mean(axis=0)
        _, vectors = np.linalg.eigh(centred.T @ centred)
        axes.append(vectors * [1, 1, np.linalg.det(vectors)])
    flips = [np.diag([a, b, a * b]) for a in (1, -1) for b in (1, -1)]
    return [np.eye(3), *(axes[1] @ flip @ axes[0].T for flip in flips)]
