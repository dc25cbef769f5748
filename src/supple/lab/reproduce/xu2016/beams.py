"""Beams bent by a rig: subspace dynamics between distant poses, and xu2016 fig. 4.

A rig bends a beam of 1 × ⅙ × ⅙ m, held at one end, to and fro. Bases of twenty vectors are
computed at a few angles. Full and reduced simulations use the same step and all tets and solve
every step, so that the difference is the error of the basis.

For fig. 4 the beam is bent into a U and loaded there. The basis computed at the U agrees with the
full simulation. The straight beam's basis warped to the U does not (fig. 4a), nor does the straight
beam's motion transferred to the U (fig. 4b, as in Galoppo et al. 2009).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from supple.app.pictures.drawing import (
    FLESH,
    INK,
    draw_surface,
    plain_axes,
    save_picture,
    view_axes,
)
from supple.arrays import Floats
from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import static_equilibrium
from supple.elastic.material import Material
from supple.engines.baselines import pose_bases
from supple.engines.baselines.projected import PosedSubspace, ProjectedSimulator
from supple.engines.baselines.subspace import reduced_equilibrium
from supple.engines.full.full_body import FullBodySimulator
from supple.engines.pose_space.build.reduced_poses import OfPose, ReducedPoses
from supple.engines.pose_space.interpolation import frequency_ratios, reduced_frequencies
from supple.errors import SolverError
from supple.lab.reproduce.figures import frame_view, new_figure
from supple.progress import Progress
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.rig.deformers.bend import Bend
from supple.scenes.bodies.beam import beam as beam_mesh

RATE = 90
DAMPING: dict[str, Any] = {"alpha": 0.5, "beta": 0.01}
#: Options of reduced simulations.
PROJECTED: dict[str, Any] = {"iterations": 20, "psd": True, "gravity_mode": "none", **DAMPING}
#: Tolerance of Newton's method in full and reduced steps.
SOLVED: dict[str, Any] = {"tolerance": 1e-7}
THREE, FIVE = (0.0, -135.0, 135.0), (0.0, -135.0, 135.0, -67.5, 67.5)
#: Keys of the bending motion: seconds and degrees.
KEYS = (
    *((0.0, 0.0), (0.8, 120.0), (1.5, 60.0), (2.2, -90.0), (3.0, -130.0)),
    *((3.8, 30.0), (4.6, 135.0), (5.3, 75.0), (6.0, 0.0)),
)
#: r = 20 from 8 linear modes and their derivatives, scaled as in the paper.
COLUMNS, RECIPE = 20, {"linear": 8, "reach": None}


@dataclass(frozen=True, eq=False)
class BentBeam:
    """Beam along x, held at x = 0; one parameter bends it towards +y, in radians."""

    body: ElasticBody
    rig: Bend
    fixed: NDArray[np.int64]

    @classmethod
    def make(cls, cells: ArrayLike = (24, 4, 4), young: float = 1e7) -> BentBeam:
        """Return a beam with a number of bricks along each axis."""
        mesh = beam_mesh(cells=cells)
        middle = (0.0, 1 / 12, 1 / 12)
        return cls(
            ElasticBody(mesh, Material("stvk", young=young, poisson=0.45, density=1000)),
            Bend(mesh.vertices, middle, (1, 0, 0), (0, 1, 0), low=0, high=1),
            np.flatnonzero(mesh.vertices[:, 0] == 0),
        )

    @property
    def tip(self) -> int:
        """Vertex nearest to the middle of the free end."""
        goal = (1.0, 1 / 12, 1 / 12)
        return int(np.linalg.norm(self.body.rest - goal, axis=1).argmin())

    def reduced(self, degrees: ArrayLike, columns: int = COLUMNS) -> ReducedPoses:
        """Return bases at angles, the first of which is 0."""
        poses = np.radians(np.asarray(degrees, float))[:, None]
        material, mesh = self.body.material, self.body.mesh
        return ReducedPoses.at(
            mesh, material, self.rig, poses, modes=columns, fixed=self.fixed, recipe=RECIPE
        )

    def full(self, angles: Floats) -> Floats:
        """Simulate all tets; return displacements (t, n, 3) from the rig."""
        rests = [self.rig([angle]) for angle in angles]
        steps = full_displacements(self.body, self.fixed, rests[1:], start=rests[0], **SOLVED)
        return np.concatenate([np.zeros_like(self.body.rest)[None], steps])

    def projected(self, basis: OfPose, angles: Floats) -> Floats:
        """Simulate within a basis that depends on the pose; return displacements (t, n, 3)."""
        posed = PosedSubspace(self.body, self.rig, basis)
        simulator = ProjectedSimulator(posed, 1 / RATE, **PROJECTED, **SOLVED)
        return simulator.run(angles[:, None], what="displacements")


def full_displacements(
    body: ElasticBody,
    fixed: NDArray[np.int64],
    rests: Sequence[Floats],
    forces: Iterable[Any] | None = None,
    start: Floats | None = None,
    **options: Any,
) -> Floats:
    """Simulate all tets, with a rest shape (n, 3) and forces for each step.

    Return displacements (t, n, 3) from the rest shapes. The simulation starts at rest in `start`,
    by default the first of `rests`.
    """
    simulator = FullBodySimulator(
        body, 1 / RATE, fixed=fixed, newton=20, gravity=(0, 0, 0), **DAMPING, **options
    )
    simulator.reset(rest=rests[0] if start is None else start)
    displacements = []
    for rest, pull in zip(rests, forces or [None] * len(rests), strict=True):
        simulator.step(rest, pull)
        displacements.append(simulator.positions - rest)
    return np.array(displacements)


def projected_displacements(posed: PosedSubspace, forces: Iterable[Any], **options: Any) -> Floats:
    """Simulate in a subspace at its rest pose with forces; return displacements (t, n, 3)."""
    simulator = ProjectedSimulator(posed, 1 / RATE, **PROJECTED, **options)
    displacements = []
    for pull in forces:
        simulator.step(forces=pull)
        displacements.append(simulator.displacements)
    return np.array(displacements)


def bending(seconds: float = 6.0, speed: float = 1.0) -> Floats:
    """Return angles (t,) in radians at `RATE`, within the range of the poses."""
    times, degrees = np.array(KEYS).T
    curve = CubicSpline(times / speed, degrees, bc_type="clamped")
    span = times[-1] / speed
    at = np.arange(round(seconds * RATE) + 1) / RATE
    largest = np.abs(curve(np.linspace(0, span, 1000))).max()
    return np.radians(curve(at % span) * max(THREE) / largest)


def relative_difference(displacements: Floats, truth: Floats, mass: Floats) -> float:
    """Return the mass-weighted RMS difference over time, relative to the reference's RMS."""

    def square(field: Floats) -> float:
        return float(((field**2).sum(axis=2) @ mass).mean())

    return float(np.sqrt(square(displacements - truth) / square(truth)))


def beam(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Measure the errors of all bases against the full simulation; small and short if quick."""
    body = BentBeam.make((8, 2, 2) if quick else (24, 4, 4))
    angles = bending(0.6 if quick else 6.0)
    progress(0.0, "full simulation")
    truth = body.full(angles)
    three, five = body.reduced(THREE), body.reduced(FIVE)
    cases = _cases(three, five)
    rows, curves = [], {"full": truth[:, body.tip]}
    mass = body.body.vertex_masses()
    for at, (name, poses, basis) in enumerate(cases):
        progress((1 + at) / (4 + len(cases)), name)
        displacements = body.projected(basis, angles)
        rows.append(_row(name, poses, basis, relative_difference(displacements, truth, mass)))
        curves[name] = displacements[:, body.tip]
    progress(0.85, "twice as fast")
    faster = _faster(body, three, five, angles)
    save_picture(_tip_picture(curves, rows), folder / "beam.png")
    errors = {row["basis"]: f"{100 * row['rms']:.2g} %" for row in rows}
    world = [errors[f"the paper's, in the world, {poses} poses"] for poses in (3, 5)]
    return {
        "message": f"Error against the full simulation with {COLUMNS} vectors: ours "
        f"{errors['ours, 3 poses']} with three poses and {errors['ours, 5 poses']} with five; "
        f"blended in the world {world[0]} and {world[1]}; one basis for all poses (PCA) "
        f"{errors['PCA']}.",
        "vertices": body.body.n_vertices,
        "tets": body.body.n_tets,
        "seconds_of_motion": (len(angles) - 1) / RATE,
        "rms_displacement_m": float(np.sqrt((truth**2).sum(axis=2).mean())),
        "rows": rows,
        "twice_as_fast": faster,
    }


def _cases(three: ReducedPoses, five: ReducedPoses) -> list[tuple[str, int, OfPose]]:
    twice = 2 * COLUMNS
    plain: dict[str, Any] = {"frames": False, "soft_first": False}
    return [
        ("ours, 3 poses", 3, pose_bases.interpolated(three)),
        ("ours, 5 poses", 5, pose_bases.interpolated(five)),
        ("the paper's, in the world, 3 poses", 3, pose_bases.interpolated(three, "world")),
        ("the paper's, in the world, 5 poses", 5, pose_bases.interpolated(five, "world")),
        ("columns blended without alignment", 3, pose_bases.naive(three)),
        ("straight beam's basis", 1, pose_bases.neutral(three)),
        ("PCA", 3, pose_bases.pose_independent(three, COLUMNS, **plain)),
        ("PCA, twice the size", 3, pose_bases.pose_independent(three, twice, **plain)),
        ("PCA in our frames, soft first", 3, pose_bases.pose_independent(three, COLUMNS)),
        ("PCA in our frames, soft first, twice", 3, pose_bases.pose_independent(three, twice)),
    ]


def _row(name: str, poses: int, basis: OfPose, error: float) -> dict[str, Any]:
    goal = {"ours, 3 poses": 0.20, "ours, 5 poses": 0.08}.get(name)
    columns = basis(np.zeros(1)).shape[1]
    return {"basis": name, "poses": poses, "r": columns, "rms": error, "goal": goal, "paper": None}


def _faster(
    body: BentBeam, three: ReducedPoses, five: ReducedPoses, angles: Floats
) -> dict[str, float]:
    """Return errors of a motion twice as fast, with displacements four times as large."""
    quicker = bending((len(angles) - 1) / RATE / 2, speed=2.0)
    truth, mass = body.full(quicker), body.body.vertex_masses()
    return {
        "rms_displacement_m": float(np.sqrt((truth**2).sum(axis=2).mean())),
        **{
            name: relative_difference(
                body.projected(pose_bases.interpolated(poses), quicker), truth, mass
            )
            for name, poses in (("ours, 3 poses", three), ("ours, 5 poses", five))
        },
    }


def _tip_picture(curves: dict[str, Floats], rows: list[dict[str, Any]]) -> Figure:
    """Draw the motion of the tip, and the error of each basis."""
    figure = new_figure((11, 4.2))
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1))
    shown = ["full", "ours, 3 poses", "straight beam's basis", "PCA"]
    styles = [(INK, 2.6), ("#c8453b", 1.3), ("#8c8c96", 1.0), ("#3d7ab8", 1.0)]
    time = np.arange(len(curves["full"])) / RATE
    for name, (colour, width) in zip(shown, styles, strict=True):
        label = "full simulation" if name == "full" else f"{name}, r = {COLUMNS}"
        left.plot(time, 1e3 * curves[name][:, 0], color=colour, lw=width, label=label)
    left.set(xlabel="time (s)", ylabel="displacement of the tip along x (mm)")
    left.set_title("A beam bent to and fro: the tip", color=INK, fontsize=11)
    left.legend(fontsize=8, frameon=False)
    rows = rows[::-1]
    colours = ["#c8453b" if row["basis"].startswith("ours") else "#a9a9b3" for row in rows]
    names = [f"{row['basis']}, r = {row['r']}" for row in rows]
    bars = right.barh(names, [row["rms"] for row in rows], color=colours)
    right.bar_label(bars, fmt="%.3f", fontsize=8, padding=2)
    right.set(xlabel="RMS difference from full, relative")
    right.set_xlim(0, 1.18 * max(row["rms"] for row in rows))
    right.tick_params(axis="y", labelsize=8)
    right.set_title("Difference from the full simulation", color=INK, fontsize=11)
    plain_axes(left, right)
    return figure


# Fig. 4: the U


U_SHAPE = 180.0
#: Forces on the free end in N.
LOADS = {"pulled up": (0.0, 2500.0, 0.0), "pulled aside": (0.0, 0.0, 1000.0)}
METHODS = ("basis of the U", "straight basis, warped", "straight dynamics")
#: Duration of the load in the dynamic case, and total duration, in s.
HELD, LENGTH = 0.25, 1.5


@dataclass(frozen=True, eq=False)
class _Case:
    """Beam at a pose, and the basis of each method."""

    beam: BentBeam
    pose: Floats
    rest: Floats
    bases: dict[str, Floats]
    #: The straight rest shape and its basis.
    straight: tuple[Floats, Floats]

    @classmethod
    def make(cls, cells: tuple[int, int, int]) -> _Case:
        beam = BentBeam.make(cells)
        reduced = beam.reduced((0.0, U_SHAPE))
        pose = np.radians([U_SHAPE])
        turned = pose_bases.warped(reduced)(pose)
        bases = dict(zip(METHODS, (reduced.basis(1), turned, turned), strict=True))
        return cls(beam, pose, beam.rig(pose), bases, (beam.body.rest, reduced.basis(0)))

    def elastic(self, method: str) -> tuple[Floats, Floats] | None:
        return self.straight if method == METHODS[2] else None

    def forces(self, load: str) -> Floats:
        """Return the forces of a load, distributed over the free end."""
        end = np.flatnonzero(self.beam.body.rest[:, 0] > 1 - 1e-9)
        field = np.zeros_like(self.rest)
        field[end] = np.array(LOADS[load]) / len(end)
        return field


def fig4(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Measure errors of shapes, motions and frequencies of each method against the full body."""
    progress(0.0, "bases")
    case = _Case.make((8, 2, 2) if quick else (24, 4, 4))
    shapes: dict[str, dict[str, Floats]] = {}
    still: list[dict[str, Any]] = []
    moving: list[dict[str, Any]] = []
    for at, load in enumerate(LOADS):
        progress(0.1 + 0.4 * at, f'at rest, "{load}"')
        shapes[load] = _loaded(case, load)
        still.append({"load": load, "force_N": LOADS[load], **_differences(case, shapes[load])})
        progress(0.3 + 0.4 * at, f'released, "{load}"')
        moving.append({"load": load, **_released(case, load, 0.5 if quick else LENGTH)})
    save_picture(_u_picture(case, shapes, still), folder / "fig4.png")
    worst = {method: max(row[method] for row in still + moving) for method in METHODS}
    errors = ", ".join(f"{method} {100 * value:.3g} %" for method, value in worst.items())
    return {
        "message": f"Largest errors against the full simulation of the U: {errors}.",
        "vertices": case.beam.body.n_vertices,
        "r": COLUMNS,
        "bend_degrees": U_SHAPE,
        "paper": "warped modes and neutral-pose dynamics are visibly wrong; no numbers",
        "static_rms": still,
        "dynamic_rms": moving,
        "frequency_ratios": _ratios(case),
    }


def _long_edges(rest: Floats) -> list[NDArray[np.int64]]:
    """Return vertices along the four long edges of the straight beam."""
    low, high = rest.min(axis=0), rest.max(axis=0)
    lines = []
    for y in (low[1], high[1]):
        for z in (low[2], high[2]):
            edge = np.flatnonzero((rest[:, 1] == y) & (rest[:, 2] == z))
            lines.append(edge[np.argsort(rest[edge, 0])])
    return lines


def _loaded(case: _Case, load: str) -> dict[str, Floats]:
    """Return equilibria under a load, of the full body and of each method."""
    forces, body = case.forces(load), case.beam.body
    exact = static_equilibrium(body, fixed=case.beam.fixed, forces=forces, rest=case.rest)
    if not exact.converged:
        raise SolverError(f'no equilibrium of the full body under "{load}"; use a smaller load')
    shapes = {"full": exact.positions}
    for method, basis in case.bases.items():
        shapes[method] = reduced_equilibrium(
            body, basis, forces, rest=case.rest, elastic=case.elastic(method)
        ).positions
    return shapes


def _differences(case: _Case, shapes: dict[str, Floats]) -> dict[str, float]:
    mass, truth = case.beam.body.vertex_masses(), (shapes["full"] - case.rest)[None]
    return {
        method: relative_difference((shapes[method] - case.rest)[None], truth, mass)
        for method in METHODS
    }


def _released(case: _Case, load: str, seconds: float) -> dict[str, float]:
    """Return RMS errors of the motion under a load that acts for a while and is released."""
    body, forces, count = case.beam.body, case.forces(load), round(seconds * RATE)
    pushed = {int(v): forces[v] for v in np.flatnonzero(forces.any(axis=1))}
    held = round(HELD * RATE)
    pulls = [pushed if at < held else None for at in range(count)]
    truth = full_displacements(body, case.beam.fixed, count * [case.rest], pulls)
    errors = {}
    for method, basis in case.bases.items():
        posed = PosedSubspace(
            body,
            case.beam.rig,
            lambda pose, basis=basis: basis,  # type: ignore[misc]
            rest_pose=case.pose,
            elastic=case.elastic(method),
        )
        displacements = projected_displacements(posed, pulls)
        errors[method] = relative_difference(displacements, truth, body.vertex_masses())
    return errors


def _ratios(case: _Case) -> dict[str, list[float]]:
    """Return the six lowest frequencies of each method relative to the full body's at the U."""
    body = case.beam.body
    mass = np.repeat(body.vertex_masses(), 3)
    free = np.setdiff1d(np.arange(body.n_vertices), case.beam.fixed)
    stiffness = body.stiffness(case.rest, case.rest).copy()
    held = null_space(None, body.n_vertices, free=free)
    modes = linear_modes(stiffness, body.vertex_masses(), 6, null_space=held)
    exact = np.sqrt(modes.eigenvalues) / (2 * np.pi)
    ratios = {}
    for method, basis in case.bases.items():
        K, U = stiffness, basis
        if case.elastic(method) is not None:  # the straight beam's at every pose
            K, U = body.stiffness(body.rest).copy(), case.straight[1]
        ours = reduced_frequencies(U, K, U.T @ (mass[:, None] * U))
        ratios[method] = frequency_ratios(ours, exact).tolist()
    return ratios


def _u_picture(
    case: _Case, shapes: dict[str, dict[str, Floats]], rows: list[dict[str, Any]]
) -> Figure:
    """Draw loaded shapes, with a row for each load and a column for each method."""
    names, triangles = ("full", *METHODS), case.beam.body.mesh.boundary()
    edges = _long_edges(case.beam.body.rest)
    view = view_axes(-35.0, 22.0)
    figure = new_figure(
        (10, 6.2),
        "A beam bent into a U, and loaded at its free end, full and in three bases.\n"
        "Dotted: unloaded. Lines: the full simulation.",
    )
    flat = np.concatenate([shapes[load][name] @ view[:2].T for load in LOADS for name in names])
    low, high = flat.min(axis=0) - 0.03, flat.max(axis=0) + 0.03
    grid = figure.subplots(len(LOADS), len(names))
    for load, row, errors in zip(LOADS, grid, rows, strict=True):
        for name, axes in zip(names, row, strict=True):
            colour = np.array([0.62, 0.64, 0.7]) if name == "full" else FLESH
            draw_surface(axes, shapes[load][name], triangles, colour=colour, view=view)
            for edge in edges:
                axes.plot(*(case.rest[edge] @ view[:2].T).T, ":", color=INK, lw=0.7)
                axes.plot(*(shapes[load]["full"][edge] @ view[:2].T).T, color=INK, lw=1.1)
            frame_view(axes, low, high)
            if name == "full":
                text = f"full simulation\n{load}, {np.linalg.norm(errors['force_N']):.0f} N"
            else:
                text = f"{name}, r = {COLUMNS}\n{100 * errors[name]:.1f} % error"
            axes.set_title(text, color=INK, fontsize=9)
    return figure
