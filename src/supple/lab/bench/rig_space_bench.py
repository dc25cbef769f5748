"""`supple bench rig-space`: times of a step of free parameters, compared with rig-space physics.

A step includes the rig, all sub-steps of 1/90 s and the skin, on one core. Rig-space physics (RSP,
Hahn et al. 2012) is timed with Jacobians by finite differences in every iteration, as in the
paper, and with analytic Jacobians. Cases are scenes with free parameters, and generated characters:
a trunk (on a wire) or a belly (joint and blend shapes) has any number of parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.engines.engine import engine_of
from supple.engines.factory import build, load_model
from supple.errors import SuppleError
from supple.lab.bench.case_runner import (
    Cells,
    check_model,
    check_steps,
    finished_row,
    measure_cases,
    print_columns,
)
from supple.lab.bench.timing import BREAKS, RATE, back_and_forth, motion_of, time_steps
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.wire import Wire
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.joint_pose import PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.scenes.bodies.beam import beam
from supple.scenes.characters.character_scene import PAPERS, scene
from supple.scenes.modelling.scene_data import unknown_name

STEPS = 1_000
#: Number of timed steps of rig-space physics, by solver.
SLOW_STEPS = {"rsp": 8, "rsp-differences": 4}
#: Time in the motion at which rig-space physics is timed, when all parts swing.
SWINGING = 1.5
#: First keys of a row.
KEYS = (
    "case", "free", "tets", "modes", "cubature", "surface_vertices", "step_ms", "p99_over_median",
    "dgemm256_ms", "step_in_dgemm", "limited_steps", "build_s", "model_mb", "rsp_ms",
    "rsp_differences_ms", "speedup_over_rsp", "speedup_over_differences", "paper_ms",
    "paper_speedup",
)  # fmt: skip


def measure(
    cases: Sequence[str] = (), *, model: Path | None = None, steps: int = STEPS, quiet: bool = False
) -> list[dict[str, Any]]:
    """Return a row for each case, or for a model file with free parameters.

    Cases are names of `CASES`, scenes with free parameters or ``scene:group``; by default `CASES`
    and the paper's.
    """
    check_steps(steps)
    names = [model.stem] if model is not None else checked_cases(cases)
    check_model(cases, model)
    if model is not None and "free" not in engine_of(load_model(model)).build_options:
        raise SuppleError(f"{model}: has no free parameters; build it with --engine rig-space")
    rows = measure_cases(names, model, _built, partial(_one_core, steps=steps), quiet=quiet)
    return [_finished(row, PAPER.get(row["case"])) for row in rows]


def _built(name: str, path: Path) -> float:
    """Build the model of a case into a file; return the seconds."""
    case = prepared_case(name)
    return timed_build(case.character, case.options, path)


def timed_build(character: Any, options: dict[str, Any], path: Path) -> float:
    """Build a model into a file; return the seconds, without compilation."""
    small = made_belly(3, 200)  # compiles all kernels
    build(small.character, engine="rig-space", **small.options)
    began = perf_counter()
    model = build(character, engine="rig-space", **options)
    seconds = perf_counter() - began
    model.save(path)
    return seconds


def _one_core(path: Path, name: str, steps: int) -> dict[str, Any]:
    del name  # the model has its motion
    model: Any = load_model(path)
    row = dict(model.figures) | {"surface_vertices": len(model.surface.vertices)}
    row |= {"model_mb": path.stat().st_size / 1e6} | step_figures(model, steps)
    for solver, count in SLOW_STEPS.items():
        row[f"{solver.replace('-', '_')}_ms"] = 1e3 * _slow_step(model, solver, count)
    return row


def step_figures(model: Any, steps: int) -> dict[str, Any]:
    """Return times of steps in a model's first motion, in ms and relative to a 256³ product."""
    poses, roots = back_and_forth(motion_of(model), steps + BREAKS)
    simulator = engine_of(model).simulate(model, 1 / RATE)
    times = time_steps(simulator, poses, roots)
    median, dense = float(np.median(times.whole)), float(np.median(times.products))
    return {
        "step_ms": 1e3 * median,
        "p99_over_median": float(np.percentile(times.whole, 99)) / median,
        "dgemm256_ms": 1e3 * dense,
        "step_in_dgemm": median / dense,
        "limited_steps": times.limited,
        "steps": steps,
    }


def _slow_step(model: Any, solver: str, count: int) -> float:
    """Return the median seconds of `count` steps of another solver from `SWINGING` on."""
    first = round(SWINGING * RATE)
    poses, roots = back_and_forth(motion_of(model), first + count + 1)
    simulator = engine_of(model).simulate(model, 1 / RATE, solver=solver)
    at = first - 1
    simulator.reset(poses[at], roots[at], before=(poses[at - 1], roots[at - 1]))
    simulator.step(poses[first], roots[first])  # the first step analyses the matrix
    out, seconds = np.array(simulator.surface()), []
    for pose, root in zip(poses[first + 1 :], roots[first + 1 :], strict=True):
        began = perf_counter()
        simulator.step(pose, root)
        simulator.surface(out)
        seconds.append(perf_counter() - began)
    return float(np.median(seconds))


def _finished(row: dict[str, Any], paper: PaperTimes | None) -> dict[str, Any]:
    """Return a row with speed-ups, `KEYS` first and rounded."""
    row["speedup_over_rsp"] = row["rsp_ms"] / row["step_ms"]
    row["speedup_over_differences"] = row["rsp_differences_ms"] / row["step_ms"]
    row["paper_ms"] = None if paper is None else 1e3 * paper.seconds
    row["paper_speedup"] = None if paper is None else paper.speed_up
    return finished_row(row, KEYS)


def table(rows: list[dict[str, Any]]) -> None:
    """Print a column for each case: times, times of rig-space physics, and sizes."""
    print_columns(
        rows,
        _SECTIONS,
        "Rig-space: a whole step with its skin on one core, milliseconds",
        "dgemm: a 256³ product of float64 on the same core in the same run. RSP: rig-space "
        "physics (Hahn et al. 2012) with the same rig and tets, by finite differences as in the "
        "paper and with analytic Jacobians. The paper's: its fastest solver, four 2.8 GHz cores.",
    )


_SECTIONS: tuple[Cells, ...] = (
    {
        "step, median": ("step_ms", ".3f"),
        "  99th percentile to median": ("p99_over_median", ".2f"),
        "dgemm": ("dgemm256_ms", ".3f"),
        "step in dgemm": ("step_in_dgemm", ".2f"),
        "steps in which a limit acted": ("limited_steps", ""),
    },
    {
        "RSP, analytic": ("rsp_ms", ",.0f"),
        "RSP, finite differences": ("rsp_differences_ms", ",.0f"),
        "speed-up over analytic": ("speedup_over_rsp", ",.0f"),
        "speed-up over differences": ("speedup_over_differences", ",.0f"),
        "  paper's": ("paper_speedup", ",.0f"),
        "  paper's step": ("paper_ms", ",.0f"),
    },
    {
        "build, s": ("build_s", ".1f"),
        "free parameters": ("free", ","),
        "modes": ("modes", ","),
        "cubature tets": ("cubature", ","),
        "tets": ("tets", ","),
        "surface vertices": ("surface_vertices", ","),
        "model, MB": ("model_mb", ".1f"),
    },
)


# Cases


class Case(NamedTuple):
    """Character, and options of `supple.build` with engine "rig-space"."""

    character: Character
    options: dict[str, Any]


class PaperTimes(NamedTuple):
    """Seconds a frame of the fastest solver in hahn2013, Table 1, and its speed-up over RSP."""

    seconds: float
    speed_up: float | None


#: Generated characters by name: kind of deformer, free parameters, tets.
CASES = {
    "trunk": ("wire", 13, 2_400),
    "belly": ("shapes", 36, 2_400),
    "shapes": ("shapes", 174, 2_400),
}
#: Rows of Table 1 by scene, or by scene and group of free parameters.
PAPER = {
    "elephant:trunk": PaperTimes(0.12, 56),
    "elephant:belly": PaperTimes(0.13, 348),
    "sumo": PaperTimes(0.58, None),
}
#: Scenes with free parameters.
FREE_SCENES = PAPERS["hahn2013"]
#: Frames per second of motions, and their duration in s.
_RATE, _SECONDS = 30, 3.0
#: Displacement of the skin at weight 1 of a shape in m, and factor of its radius.
FAR, WIDE = 0.1, 1.1


def checked_cases(names: Sequence[str]) -> list[str]:
    """Return the names without duplicates; by default generated cases and the paper's."""
    names_of_cases = [*CASES, *FREE_SCENES, *(name for name in PAPER if name not in FREE_SCENES)]
    for name in names:
        base, _, group = name.partition(":")
        # Sculpting a scene takes seconds, so that its groups are looked up only if named.
        if name in names_of_cases or (base in FREE_SCENES and group in scene(base).free):
            continue
        raise SuppleError(unknown_name("case with free parameters", name, names_of_cases))
    return list(dict.fromkeys(names)) or [*CASES, *PAPER]


def prepared_case(name: str) -> Case:
    """Return the character of a case, and the options of its build."""
    if name in CASES:
        kind, free, tets = CASES[name]
        return made_trunk(free, tets) if kind == "wire" else made_belly(free, tets)
    base, _, group = name.partition(":")
    shown = scene(base)
    options = shown.recipe("rig-space")
    if group:
        options |= {"free": list(shown.free[group])}
    return Case(shown.character, options)


def made_trunk(free: int, tets: int) -> Case:
    """Return a soft bar on a wire, shaken at its clamped end.

    The `free` parameters are coordinates of the last control points; `tets` is approximate.
    """
    across = max(2, round((tets / 6 / 3.5) ** (1 / 3)))
    mesh = beam((1.0, 0.25, 0.25), (max(2, round(tets / 6 / across**2)), across, across))
    surface, _ = mesh.surface()
    controls = 2 + -(-free // 3)
    line = np.column_stack([np.linspace(0, 1, controls), *np.full((2, controls), 0.125)])
    rig = Wire(surface.vertices, line)
    names = [each.name for each in rig.parameters][-free:]
    held = np.flatnonzero(mesh.vertices[:, 0] < 1e-9)
    roots, times = _shaken()
    rest = np.tile(rig.rest_pose, (len(times), 1))
    motion = Motion(times, rest, roots, name="shaken")
    soft = Material("neo-hookean", young=1e5, poisson=0.45)
    options = {"free": names, "tets": mesh, "bones": held, "material": soft}
    return Case(Character(f"trunk{free}", surface, rig, {"shaken": motion}), options)


def made_belly(free: int, tets: int) -> Case:
    """Return a barrel that one joint bends, with `free` shapes of its skin.

    The shapes move the skin out, round and along. The radius of a shape depends on `free`, so that
    about as many shapes act on each vertex.
    """
    half = max(2, round((tets / 8) ** (1 / 3) / 2))
    mesh = _barrel(beam((1.0, 1.0, 1.0), (max(3, round(tets / 24 / half**2)), 2 * half, 2 * half)))
    surface, _ = mesh.surface()
    rig = _shape_rig(surface.vertices, free)
    roots, times = _shaken(0.03)
    poses = np.zeros((len(times), 1 + free))
    poses[:, 0] = 0.5 * np.sin(2 * np.pi * times) * np.minimum(times, 1.0)
    motion = Motion(times, poses, roots, name="bent")
    spine = np.flatnonzero(np.linalg.norm(mesh.vertices[:, 1:], axis=1) < 1e-6)
    soft = Material("neo-hookean", young=1.5e4, poisson=0.45)
    options = {"free": "bump*", "tets": mesh, "bones": spine, "material": soft}
    options |= {"bounds": (-5.0, 5.0)}
    return Case(Character(f"belly{free}", surface, rig, {"bent": motion}), options)


def _barrel(mesh: TetMesh) -> TetMesh:
    """Return a box deformed to a barrel of 1 m, thickest in the middle."""
    across = 2 * mesh.vertices[:, 1:] - 1
    radius, square = np.linalg.norm(across, axis=1), np.abs(across).max(axis=1)
    scale = 0.35 * square / np.maximum(radius, 1e-9)
    scale *= 0.6 + 0.4 * np.sin(np.pi * mesh.vertices[:, 0])
    return TetMesh(np.column_stack([mesh.vertices[:, :1], across * scale[:, None]]), mesh.tets)


def _shape_rig(points: Floats, count: int) -> BlendShapeRig:
    skeleton = Skeleton(["low", "high"], [-1, 0], [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    share = np.clip(0.5 + (points[:, 0] - 0.5) / 0.6, 0, 1)
    weights = np.column_stack([1 - share, share])
    base = SkinnedRig(
        PartialJointPose(skeleton, ["high.rz"]),
        points,
        np.tile([0, 1], (len(points), 1)),
        weights,
        np.linalg.inv(skeleton.rest_world()),
    )
    out = points * [0.0, 1.0, 1.0]
    out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)
    along = np.tile([1.0, 0.0, 0.0], (len(points), 1))
    directions = (out, np.cross(along, out), along)
    centres = -(-count // 3)
    reach = WIDE * np.sqrt(2 * np.pi * 0.3 / centres)
    deltas = []
    for k in range(count):
        spot, angle = k // 3, 2.399963 * (k // 3)  # the golden angle spreads them evenly
        x = 0.08 + 0.84 * (spot + 0.5) / centres
        radius = 0.35 * (0.6 + 0.4 * np.sin(np.pi * x))
        centre = np.array([x, radius * np.cos(angle), radius * np.sin(angle)])
        centre = points[np.argmin(np.linalg.norm(points - centre, axis=1))]
        distances = np.linalg.norm(points - centre, axis=1) / reach
        bump = FAR * np.maximum(1 - distances**2, 0.0) ** 2
        deltas.append(bump[:, None] * directions[k % 3])
    return BlendShapeRig(base, np.array(deltas), [f"bump{k}" for k in range(count)])


def _shaken(far: float = 0.06) -> tuple[Floats, Floats]:
    """Return roots (f, 4, 4) that move up, down and sideways by `far` metres, and times (f,)."""
    times = np.arange(round(_RATE * _SECONDS) + 1) / _RATE
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    eased = np.minimum(times, 1.0)
    roots[:, 1, 3] = far * eased * np.sin(2 * np.pi * 1.7 * times)
    roots[:, 2, 3] = far * eased * np.sin(2 * np.pi * 1.1 * times)
    return roots, times
