"""The bent beam: subspace dynamics between distant poses, beside the full simulation.

A rig bends a beam of 1 × ⅙ × ⅙ m, held at one end, to and fro. Bases of twenty vectors are
computed at a few angles. Both simulations use the same step and all tets and solve every step, so
that the difference is the error of the basis.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from supple.app.pictures.drawing import INK, plain_axes, save_picture
from supple.arrays import Floats
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.baselines import pose_bases
from supple.engines.baselines.projected import PosedSubspace, ProjectedSimulator
from supple.engines.full.full_body import FullBodySimulator
from supple.engines.pose_space.build.reduced_poses import OfPose, ReducedPoses
from supple.lab.reproduce.figures import Tell, new_figure
from supple.rig.deformers.bend import Bend
from supple.scenes.bodies.beam import beam

RATE = 90
DAMPING: dict[str, Any] = {"alpha": 0.5, "beta": 0.01}
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
        mesh = beam(cells=cells)
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
        simulator = FullBodySimulator(
            self.body, 1 / RATE, fixed=self.fixed, newton=20, gravity=(0, 0, 0), **DAMPING, **SOLVED
        )
        simulator.reset(rest=self.rig(angles[:1]))
        displacements = [np.zeros_like(self.body.rest)]
        for angle in angles[1:]:
            simulator.step(self.rig([angle]))
            displacements.append(simulator.positions - simulator.rest)
        return np.array(displacements)

    def projected(self, basis: OfPose, angles: Floats, **options: Any) -> Floats:
        """Simulate within a basis that depends on the pose; return displacements (t, n, 3)."""
        settings: dict[str, Any] = {"iterations": 20, "psd": True, "gravity_mode": "none"}
        settings |= DAMPING | SOLVED | options
        simulator = ProjectedSimulator(
            PosedSubspace(self.body, self.rig, basis), 1 / RATE, **settings
        )
        return simulator.run(angles[:, None], what="displacements")


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


def figures(quick: bool = False, tell: Tell | None = None) -> dict[str, Any]:
    """Return the errors of all bases against the full simulation; small and short if quick."""
    report = tell if tell is not None else (lambda part, text: None)
    body = BentBeam.make((8, 2, 2) if quick else (24, 4, 4))
    angles = bending(0.6 if quick else 6.0)
    report(0.0, "full simulation")
    truth = body.full(angles)
    three, five = body.reduced(THREE), body.reduced(FIVE)
    cases = _cases(three, five)
    rows, curves = [], {"full": truth[:, body.tip]}
    mass = body.body.vertex_masses()
    for at, (name, poses, basis) in enumerate(cases):
        report((1 + at) / (4 + len(cases)), name)
        displacements = body.projected(basis, angles)
        rows.append(_row(name, poses, basis, relative_difference(displacements, truth, mass)))
        curves[name] = displacements[:, body.tip]
    report(0.85, "twice as fast")
    return {
        "vertices": body.body.n_vertices,
        "tets": body.body.n_tets,
        "seconds_of_motion": (len(angles) - 1) / RATE,
        "rms_displacement_m": float(np.sqrt((truth**2).sum(axis=2).mean())),
        "rows": rows,
        "twice_as_fast": _faster(body, three, five, angles),
        "curves": {"time": np.arange(len(angles)) / RATE, **curves},
    }


def _cases(three: ReducedPoses, five: ReducedPoses) -> list[tuple[str, int, OfPose]]:
    whole = 2 * COLUMNS
    plain: dict[str, Any] = {"frames": False, "soft_first": False}
    return [
        ("ours, 3 poses", 3, pose_bases.interpolated(three)),
        ("ours, 5 poses", 5, pose_bases.interpolated(five)),
        ("the paper's, in the world, 3 poses", 3, pose_bases.interpolated(three, "world")),
        ("the paper's, in the world, 5 poses", 5, pose_bases.interpolated(five, "world")),
        ("columns blended without alignment", 3, pose_bases.naive(three)),
        ("straight beam's basis", 1, pose_bases.neutral(three)),
        ("PCA", 3, pose_bases.pose_independent(three, COLUMNS, **plain)),
        ("PCA, twice the size", 3, pose_bases.pose_independent(three, whole, **plain)),
        ("PCA in our frames, soft first", 3, pose_bases.pose_independent(three, COLUMNS)),
        ("PCA in our frames, soft first, twice", 3, pose_bases.pose_independent(three, whole)),
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


def draw(results: dict[str, Any], folder: Path) -> None:
    """Draw the motion of the tip, and the error of each basis."""
    figure = new_figure((11, 4.2))
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1))
    curves, shown = results["curves"], ["full", "ours, 3 poses", "straight beam's basis", "PCA"]
    styles = [(INK, 2.6), ("#c8453b", 1.3), ("#8c8c96", 1.0), ("#3d7ab8", 1.0)]
    for name, (colour, width) in zip(shown, styles, strict=True):
        label = "full simulation" if name == "full" else f"{name}, r = {COLUMNS}"
        left.plot(curves["time"], 1e3 * curves[name][:, 0], color=colour, lw=width, label=label)
    left.set(xlabel="time (s)", ylabel="displacement of the tip along x (mm)")
    left.set_title("A beam bent to and fro: the tip", color=INK, fontsize=11)
    left.legend(fontsize=8, frameon=False)
    rows = results["rows"][::-1]
    colours = ["#c8453b" if row["basis"].startswith("ours") else "#a9a9b3" for row in rows]
    names = [f"{row['basis']}, r = {row['r']}" for row in rows]
    bars = right.barh(names, [row["rms"] for row in rows], color=colours)
    right.bar_label(bars, fmt="%.3f", fontsize=8, padding=2)
    right.set(xlabel="RMS difference from full, relative")
    right.set_xlim(0, 1.18 * max(row["rms"] for row in rows))
    right.tick_params(axis="y", labelsize=8)
    right.set_title("Difference from the full simulation", color=INK, fontsize=11)
    plain_axes(left, right)
    save_picture(figure, folder / "beam.png")


def run(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw beam.png and return its figures."""
    results = figures(quick, tell)
    draw(results, folder)
    shown = {key: value for key, value in results.items() if key != "curves"}
    errors = {row["basis"]: f"{100 * row['rms']:.2g} %" for row in results["rows"]}
    world = [errors[f"the paper's, in the world, {poses} poses"] for poses in (3, 5)]
    message = (
        f"Error against the full simulation with {COLUMNS} vectors: ours {errors['ours, 3 poses']} "
        f"with three poses and {errors['ours, 5 poses']} with five; blended in the world "
        f"{world[0]} and {world[1]}; one basis for all poses (PCA) {errors['PCA']}."
    )
    return {"message": message} | shown
