"""xu2016 fig. 4: rotated modes of a straight beam differ from those of the bent beam.

A cantilever is bent into a U and loaded there. The basis computed at the U agrees with the full
simulation. The straight beam's basis warped to the U does not (fig. 4a), nor does the straight
beam's motion transferred to the U (fig. 4b, as in Galoppo et al. 2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.app.pictures.drawing import FLESH, INK, draw_surface, save_picture, view_axes
from supple.arrays import Floats
from supple.elastic.equilibrium import static_equilibrium
from supple.engines.baselines import pose_bases
from supple.engines.baselines.projected import PosedSubspace, ProjectedSimulator
from supple.engines.baselines.subspace import reduced_equilibrium
from supple.engines.full.full_body import FullBodySimulator
from supple.engines.pose_space.interpolation import frequency_ratios, reduced_frequencies
from supple.errors import SolverError
from supple.lab.reproduce.figures import Tell, frame_view, new_figure
from supple.lab.reproduce.xu2016.bent_beam import (
    COLUMNS,
    DAMPING,
    RATE,
    BentBeam,
    relative_difference,
)
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space

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


def figures(quick: bool = False, tell: Tell | None = None) -> dict[str, Any]:
    """Return errors of shapes, motions and frequencies of each method against the full body."""
    report = tell if tell is not None else (lambda part, text: None)
    report(0.0, "bases")
    case = _Case.make((8, 2, 2) if quick else (24, 4, 4))
    shapes: dict[str, dict[str, Floats]] = {}
    still, moving = [], []
    for at, load in enumerate(LOADS):
        report(0.1 + 0.4 * at, f'at rest, "{load}"')
        shapes[load] = _loaded(case, load)
        still.append({"load": load, "force_N": LOADS[load], **_differences(case, shapes[load])})
        report(0.3 + 0.4 * at, f'released, "{load}"')
        moving.append({"load": load, **_released(case, load, 0.5 if quick else LENGTH)})
    return {
        "vertices": case.beam.body.n_vertices,
        "r": COLUMNS,
        "bend_degrees": U_SHAPE,
        "paper": "warped modes and neutral-pose dynamics are visibly wrong; no numbers",
        "static_rms": still,
        "dynamic_rms": moving,
        "frequency_ratios": _ratios(case),
        "shapes": {
            "rest": case.rest,
            "triangles": case.beam.body.mesh.boundary(),
            "edges": _long_edges(case.beam.body.rest),
            **shapes,
        },
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
        raise SolverError(f'no equilibrium of the full body under the load "{load}"')
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
    full = FullBodySimulator(
        body, 1 / RATE, fixed=case.beam.fixed, newton=20, gravity=(0, 0, 0), **DAMPING
    )
    full.reset(rest=case.rest)
    truth = []
    for at in range(count):
        full.step(case.rest, pushed if at < held else None)
        truth.append(full.positions - case.rest)
    errors = {}
    for method, basis in case.bases.items():
        posed = PosedSubspace(
            body,
            case.beam.rig,
            lambda pose, basis=basis: basis,  # type: ignore[misc]
            rest_pose=case.pose,
            elastic=case.elastic(method),
        )
        simulator = ProjectedSimulator(
            posed,
            1 / RATE,
            iterations=20,
            psd=True,
            gravity_mode="none",
            **DAMPING,
        )
        displacements = []
        for at in range(count):
            simulator.step(forces=pushed if at < held else None)
            displacements.append(simulator.displacements)
        mass = body.vertex_masses()
        errors[method] = relative_difference(np.array(displacements), np.array(truth), mass)
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


def draw(results: dict[str, Any], folder: Path) -> Path:
    """Draw loaded shapes, with a row for each load and a column for each method."""
    shapes, names = results["shapes"], ("full", *METHODS)
    view = view_axes(-35.0, 22.0)
    figure = new_figure(
        (10, 6.2),
        "A beam bent into a U, and loaded at its free end, full and in three bases.\n"
        "Dotted: unloaded. Lines: the full simulation.",
    )
    flat = np.concatenate([shapes[load][name] @ view[:2].T for load in LOADS for name in names])
    low, high = flat.min(axis=0) - 0.03, flat.max(axis=0) + 0.03
    grid = figure.subplots(len(LOADS), len(names))
    for load, row, errors in zip(LOADS, grid, results["static_rms"], strict=True):
        for name, axes in zip(names, row, strict=True):
            colour = np.array([0.62, 0.64, 0.7]) if name == "full" else FLESH
            draw_surface(axes, shapes[load][name], shapes["triangles"], colour=colour, view=view)
            for edge in shapes["edges"]:
                axes.plot(*(shapes["rest"][edge] @ view[:2].T).T, ":", color=INK, lw=0.7)
                axes.plot(*(shapes[load]["full"][edge] @ view[:2].T).T, color=INK, lw=1.1)
            frame_view(axes, low, high)
            if name == "full":
                text = f"full simulation\n{load}, {np.linalg.norm(errors['force_N']):.0f} N"
            else:
                text = f"{name}, r = {results['r']}\n{100 * errors[name]:.1f} % error"
            axes.set_title(text, color=INK, fontsize=9)
    path = folder / "fig4.png"
    save_picture(figure, path)
    return path


def run(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw fig4.png and return its figures."""
    results = figures(quick, tell)
    draw(results, folder)
    shown = {key: value for key, value in results.items() if key != "shapes"}
    worst = {
        method: max(row[method] for row in results["static_rms"] + results["dynamic_rms"])
        for method in METHODS
    }
    errors = ", ".join(f"{method} {100 * value:.3g} %" for method, value in worst.items())
    return {"message": f"Largest errors against the full simulation of the U: {errors}."} | shown
