"""Claims of xu2016 §9 about speed: fewer modes, tets refitted at each frame, rig-space physics."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.pictures.drawing import INK, save_picture
from supple.app.processes import with_cores
from supple.arrays import Floats, Singles
from supple.elastic.body import ElasticBody
from supple.engines.engine import CharacterEngine
from supple.engines.full.full_character import FullCharacterSimulator
from supple.engines.pose_space.crowd import Crowd
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.step_options import PAPERS_INTEGRATOR
from supple.lab.bench.scaling_bench import PAPER_FPS, scaled_modes
from supple.lab.bench.timing import RATE, back_and_forth, motion_of
from supple.lab.fidelity.truth import rig_surface
from supple.lab.reproduce.figures import label_chart, new_figure
from supple.playback.character_models import scene_model, scene_model_file
from supple.playback.final_take import rms_difference
from supple.progress import Progress
from supple.rig.jacobian import rig_jacobian
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig
from supple.rig.tets.fitting import PoseFitter
from supple.rig.tets.surface_samples import SurfaceSamples
from supple.rig.tets.tet_rig import start_rig
from supple.scenes.characters.character_scene import scene

# Fewer modes


#: Frames per second in the paper by number of modes: on one core, and on eight threads.
PAPER_TRADE: dict[str, dict[int, tuple[int | None, int]]] = {
    "gorilla": {
        100: (PAPER_FPS[100], 750),
        50: (PAPER_FPS[50], 1550),
        25: (PAPER_FPS[25], 2200),
        10: (PAPER_FPS[10], 2350),
    },
    "bear": {100: (None, 700), 50: (None, 1250), 25: (None, 1800)},
}
#: Seconds of motion whose error is measured, timed steps of a round, rounds, and a crowd's size.
_SECONDS, _STEPS, _ROUNDS, _CROWD = 1.5, 150, 4, 8


def tradeoff(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Measure speed and error of the gorilla and the bear with fewer and fewer modes."""
    rows: list[dict[str, Any]] = []
    for at, (name, paper) in enumerate(PAPER_TRADE.items()):
        if quick and name == "bear":
            continue
        progress(0.5 * at, f"models of the {name}")
        rows += _trade_rows(name, dict(list(paper.items())[-1:] if quick else paper), quick)
    save_picture(_trade_picture(rows), folder / "tradeoff.png")
    return {
        "title": "§9: fewer modes are faster",
        "message": "; ".join(
            f"{row['scene']}, {row['modes']} modes: {row['fps_one_core']['ours']:.0f} frames/s, "
            f"error {100 * row['error']:.0f} %"
            for row in rows
        )
        + ".",
        "rows": rows,
        "note": "One core: whole steps with the skin. All cores: characters per second of a crowd "
        f"of {_CROWD} on {os.cpu_count()} cores, as a character's step uses one thread; the "
        "paper: one character on eight threads. Error: RMS distance of the skin from the full "
        "simulation with the same steps, relative to its motion away from the rig.",
    }


def _trade_rows(name: str, paper: dict[int, Any], quick: bool) -> list[dict[str, Any]]:
    shown = scene(name)
    with ExitStack() as stack:
        paths = []
        for count in paper:
            counts = {"elastic_cubature": 3 * count, "inertial_cubature": 3 * count // 2}
            changes: dict[str, Any] = {"modes": scaled_modes(shown.modes, count)} | counts
            if count == sum(shown.modes):
                changes = {}
            if quick:
                changes |= {"tets": 2_000}
            paths.append(stack.enter_context(scene_model_file(name, **changes)))
        steps = 10 if quick else _STEPS
        times = with_cores(1, _step_seconds, paths, steps)
        crowds = with_cores(None, _crowd_seconds, paths, max(steps // _CROWD, 3))
        models = [PoseSpaceModel.load(path) for path in paths]
    errors = _errors(models, 0.2 if quick else _SECONDS)
    return [
        {
            "scene": name,
            "modes": count,
            "fps_one_core": {"ours": 1 / one, "paper": printed[0]},
            "fps_all_cores": {"ours": 1 / every, "paper": printed[1]},
            "error": error,
        }
        for (count, printed), one, every, error in zip(
            paper.items(), times, crowds, errors, strict=True
        )
    ]


def _step_seconds(paths: Sequence[Path], steps: int) -> list[float]:
    """Return the median seconds of a step with the skin of each model, alternating."""
    models = [PoseSpaceModel.load(path) for path in paths]
    simulators = [PoseSpaceSimulator(model, 1 / RATE) for model in models]
    skins = [np.array(simulator.surface()) for simulator in simulators]
    poses, roots = back_and_forth(motion_of(models[0]), steps * _ROUNDS)
    seconds: list[list[float]] = [[] for _ in models]
    for k in range(_ROUNDS):
        for simulator, skin, taken in zip(simulators, skins, seconds, strict=True):
            for at in range(k * steps, (k + 1) * steps):
                began = perf_counter()
                simulator.step(poses[at], roots[at])
                simulator.surface(skin)
                taken.append(perf_counter() - began)
    return [float(np.median(taken)) for taken in seconds]


def _crowd_seconds(paths: Sequence[Path], rounds: int) -> list[float]:
    """Return the median seconds of a character's step in a crowd on all cores."""
    results = []
    for path in paths:
        model = PoseSpaceModel.load(path)
        crowd = Crowd(model, _CROWD, 1 / RATE)
        skins = np.empty((_CROWD, *model.surface.vertices.shape), np.float32)
        poses, roots = back_and_forth(motion_of(model), rounds + 2 + 10 * _CROWD)
        apart, taken = 10 * np.arange(_CROWD), []
        crowd.reset(poses[apart], roots[apart])
        for k in range(rounds + 2):
            began = perf_counter()
            crowd.step(poses[k + apart], roots[k + apart], surfaces=skins)
            taken.append(perf_counter() - began)
        results.append(float(np.median(taken[2:])) / _CROWD)
    return results


def _errors(models: Sequence[PoseSpaceModel], seconds: float) -> list[float]:
    """Return each model's error against the full simulation of the first one's body."""
    clip = motion_of(models[0])
    motion = clip.slice(clip.times[0], clip.times[0] + seconds)
    rig = rig_surface(models[0], motion, RATE)
    true = _played(FullCharacterSimulator(models[0], 1 / RATE), motion)
    frames = [
        _played(PoseSpaceSimulator(model, 1 / RATE, integrator=PAPERS_INTEGRATOR), motion)
        for model in models
    ]
    return [rms_difference(each, true, rig) for each in frames]


def _played(simulator: CharacterEngine, motion: Motion) -> Singles:
    keys = motion.smooth.resample(RATE)
    simulator.reset(keys.poses[0], keys.roots[0])
    frames = [simulator.surface().copy()]
    for pose, root in zip(keys.poses[1:], keys.roots[1:], strict=True):
        simulator.step(pose, root)
        frames.append(simulator.surface().copy())
    return np.stack(frames)


def _trade_picture(rows: list[dict[str, Any]]) -> Any:
    figure = new_figure((8.0, 4.6), "Speed and error with fewer modes, one core")
    axes = figure.subplots()
    for name, colour in (("gorilla", "#2f6f8f"), ("bear", "#b5483a")):
        own = [row for row in rows if row["scene"] == name]
        fps, errors = ([row["fps_one_core"]["ours"] for row in own], [row["error"] for row in own])
        axes.plot(fps, 100 * np.array(errors), "o-", color=colour, label=name)
        for row, x, y in zip(own, fps, errors, strict=True):
            place: dict[str, Any] = {"textcoords": "offset points", "xytext": (5, 5)}
            axes.annotate(f"{row['modes']}", (x, 100 * y), color=INK, **place)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    label_chart(axes, "frames per second", "error against the full simulation, %")
    return figure


# Tets that are refitted at each frame, and rig-space physics


#: Times slower: full simulation with tets refitted at each frame, and rig-space assembly.
PAPER_REFITTED, PAPER_RIG_SPACE = 2_000.0, 240.0


def refitting(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Time full simulation with tets fitted anew at each frame, relative to our step."""
    name, frames = ("x", 2) if quick else ("gorilla", 5)
    progress(0.0, f"the model of the {name}")
    with scene_model_file(name) as path:
        times = with_cores(1, _refit_seconds, path, frames)
    total = times["fit_ms"] + times["full_step_ms"]
    return {
        "title": "§9: a full simulation whose tets are fitted anew at each frame",
        "message": f"Fitting the tets of the {name} at each frame and a full step take "
        f"{total / times['step_ms']:.0f} times as long as our step with its skin; in the paper "
        f"{PAPER_REFITTED:.0f} times.",
        **times,
        "times_our_step": {"ours": total / times["step_ms"], "paper": PAPER_REFITTED},
        "full_with_fast_fitting_times_our_step": times["full_step_ms"] / times["step_ms"],
        "note": "One core. Fits: eq. 3 from the skinned tets, at frames of the motion.",
    }


def _refit_seconds(path: Path, frames: int) -> dict[str, float]:
    model = PoseSpaceModel.load(path)
    keys = motion_of(model).resample(RATE)
    chosen = np.linspace(10, len(keys.poses) - 2, frames).astype(int)
    samples = SurfaceSamples.of(model.surface, model.mesh)
    start = start_rig(model.rig, model.surface, model.mesh, "auto", samples)
    fitter = PoseFitter(model.mesh, samples)
    ours = PoseSpaceSimulator(model, 1 / RATE, integrator=PAPERS_INTEGRATOR)
    full = FullCharacterSimulator(model, 1 / RATE)
    skin, rest = np.array(ours.surface()), start.rest_pose
    taken: dict[str, list[float]] = {"fit_ms": [], "full_step_ms": [], "step_ms": []}
    for frame in chosen:
        pose, root = keys.poses[frame], keys.roots[frame]
        began = perf_counter()
        fitter.fit(start.rig(pose), start(pose), path=_path(start.rig, rest, pose))
        taken["fit_ms"].append(perf_counter() - began)
        for simulator in (ours, full):
            simulator.reset(pose, root)
            simulator.step(pose, root)
        for key, simulator, count in (("full_step_ms", full, 2), ("step_ms", ours, 60)):
            for _ in range(count):
                began = perf_counter()
                simulator.step(keys.poses[frame + 1], keys.roots[frame + 1])
                simulator.surface(skin)
                taken[key].append(perf_counter() - began)
    return {key: 1000 * float(np.median(each)) for key, each in taken.items()}


def _path(rig: Rig, rest: Floats, pose: Floats) -> Callable[[float], Floats]:
    """Return the skin as a function of the fraction of the way from rest to a pose."""
    return lambda part: rig(rest + part * (pose - rest))


def rig_space(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Time what fast rig-space physics assembles at each step, relative to our whole step."""
    name = "x" if quick else "gorilla"
    progress(0.0, f"the model of the {name}")
    times = with_cores(1, _rig_space_seconds, name, 5 if quick else 20)
    ratio = times["assembly_ms"] / times["step_ms"]
    return {
        "title": "§2: assembly of fast rig-space physics (hahn2013)",
        "message": f"Assembling JᵀKJ, JᵀMJ and Jᵀf of the {name}'s {times['parameters']:.0f} "
        f"rig parameters takes {ratio:.0f} times as long as our whole step with its skin; in the "
        f"paper at least {PAPER_RIG_SPACE:.0f} times its step.",
        **times,
        "times_our_step": {"ours": ratio, "paper": PAPER_RIG_SPACE},
        "note": "One core, alternating. J: derivatives of all tet vertices by the rig's "
        "parameters, at each step; K and f of all tets.",
    }


def _rig_space_seconds(name: str, steps: int) -> dict[str, float]:
    model = scene_model(name)
    body = ElasticBody(model.mesh, model.material())
    masses = np.repeat(body.vertex_masses(), 3)[:, None]
    entries = np.arange(len(model.rig.parameters))
    jacobian = rig_jacobian(model.tet_rig, entries)
    derivative = np.empty((body.n_vertices, 3, len(entries)))
    ours = PoseSpaceSimulator(model, 1 / RATE, integrator=PAPERS_INTEGRATOR)
    skin, matrix = np.array(ours.surface()), body.pattern.zeros()
    poses, roots = back_and_forth(motion_of(model), 10 * steps + 20)
    taken: dict[str, list[float]] = {"jacobian_ms": [], "assembly_ms": [], "step_ms": []}
    for k in range(steps + 2):
        pose = poses[10 * k]
        began = perf_counter()
        jacobian.evaluate(pose, derivative)
        middle = perf_counter()
        _assembled(body, model.tet_rig(pose), derivative, masses, matrix)
        taken["jacobian_ms"].append(middle - began)
        taken["assembly_ms"].append(perf_counter() - began)
        for at in range(10 * k, 10 * k + 10):
            began = perf_counter()
            ours.step(poses[at], roots[at])
            ours.surface(skin)
            taken["step_ms"].append(perf_counter() - began)
    result = {key: 1000 * float(np.median(each[2:])) for key, each in taken.items()}
    return result | {"parameters": float(len(entries))}


def _assembled(
    body: ElasticBody, rest: Floats, derivative: Floats, masses: Floats, matrix: Any
) -> tuple[Floats, Floats, Floats]:
    """Return JᵀKJ, JᵀMJ and Jᵀf at a shape 1 % away from the undeformed body."""
    columns = derivative.reshape(3 * body.n_vertices, -1)
    shape = 1.01 * rest
    stiffness = body.stiffness(shape, rest, out=matrix)
    forces = body.force(shape, rest).ravel()
    return columns.T @ (stiffness @ columns), columns.T @ (masses * columns), columns.T @ forces
