"""xu2016 Tables 1, 2 and 3, our numbers beside the paper's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.processes import with_cores
from supple.lab.bench.timing import RATE, WARM_UP, back_and_forth, motion_of
from supple.lab.reproduce.figures import Tell

#: Table 1: unknowns, contact rows, and seconds free, with thresholded and with exact constraints.
PAPER_MODES = {
    "arm": (7092, 54, 0.9, 1.2, 2.6),
    "bear": (12054, 73, 1.9, 2.2, 7.3),
    "gorilla": (11313, 114, 1.7, 2.4, 6.2),
}
#: Caption of Table 1: seconds of the gorilla's modes in contact, by number.
PAPER_SCALING = {10: 5.4, 20: 6.2, 50: 11.7, 100: 18.7}
#: Table 2: milliseconds and megabytes of the parts of the gorilla's step, and orders of growth of
#: the parts of ours.
PAPER_PARTS = {
    "pose-space deformation": (0.07, 0.4, "n̄"),
    "tet mesh fitting": (0.12, 3.0, "d"),
    "basis interpolation": (0.2, 4.3, "d r + r²"),
    "internal forces": (0.48, 0.01, "d r²"),
    "inertial forces": (0.11, 0.01, "d r"),
    "integration": (0.24, 0.0, "r³"),
    "surface displacement": (0.1, 0.2, "n r + n̄"),
}
#: Table 3: shares of a step: rest shapes and bases, dynamics, and the surface.
PAPER_SPLIT = {
    "arm": (0.36, 0.58, 0.06),
    "x": (0.26, 0.65, 0.09),
    "bear": (0.29, 0.66, 0.05),
    "gorilla": (0.29, 0.63, 0.08),
}


def table1(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Time 20 modes of three characters in self-contact, with constraints and without."""
    from supple.lab.bench.scaling_bench import CONTACT_POSES, contact_mode_times

    rows = []
    names = ["arm"] if quick else list(CONTACT_POSES)
    for at, name in enumerate(names):
        tell(0.7 * at / len(names), f"modes of the {name}")
        results = with_cores(None, contact_mode_times, name, (20,), 2 if quick else 5)
        unknowns, contacts, free, cut, exact = PAPER_MODES[name]
        (times,) = results["times"]
        rows.append(
            {
                "scene": name,
                "pose": results["pose"],
                "unknowns": {"ours": results["unknowns"], "paper": unknowns},
                "rows": {"ours": results["rows"], "paper": contacts},
                "free_s": {"ours": times["free_s"], "paper": free},
                "bound_s": {"ours": times["bound_s"], "paper": exact},
                "paper_threshold_s": cut,
                "bound_to_free": {
                    "ours": times["bound_s"] / times["free_s"],
                    "paper": exact / free,
                },
            }
        )
    figures: dict[str, Any] = {
        "title": "Table 1: modes with contact constraints and without",
        "message": f"With contact constraints, 20 modes take {_span(rows, 'ours')} times as "
        f"long as without; in the paper {_span(rows, 'paper')} times.",
        "rows": rows,
        "note": "Seconds for 20 modes, the best of alternating runs. Ours: exact sparse null "
        "space; the paper's: null space by LU, solved by CG, or with small entries dropped "
        "(threshold).",
    }
    if not quick:
        tell(0.75, "more modes of the gorilla")
        counts = tuple(PAPER_SCALING)
        results = with_cores(None, contact_mode_times, "gorilla", counts, 2)
        figures["modes_of_the_gorilla"] = [
            {
                "modes": times["modes"],
                "bound_s": {"ours": times["bound_s"], "paper": PAPER_SCALING[times["modes"]]},
            }
            for times in results["times"]
        ]
    return figures


def table2(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Return time and memory of the parts of the gorilla's step."""
    from supple.engines.pose_space.model.model import PoseSpaceModel
    from supple.playback.character_models import scene_model_file

    name = "x" if quick else "gorilla"
    tell(0.0, f"the model of the {name}")
    with scene_model_file(name) as path:
        tell(0.5, "stepping")
        times = with_cores(1, part_times, path, 200 if quick else 2_000)
        memory = part_megabytes(PoseSpaceModel.load(path))
    rows = []
    for part, (*printed, order) in PAPER_PARTS.items():
        theirs = (None, None) if quick else printed
        rows.append(
            {
                "part": part,
                "order": order,
                "ms": {"ours": times[part], "paper": theirs[0]},
                "mb": {"ours": memory[part], "paper": theirs[1]},
            }
        )
    rows.append({"part": "checks and calls", "ms": {"ours": times["checks and calls"]}})
    whole = None if quick else sum(ms for ms, _, _ in PAPER_PARTS.values())
    rows.append({"part": "whole step", "ms": {"ours": times["whole step"], "paper": whole}})
    return {
        "title": f"Table 2: the parts of a step of the {name}",
        "message": "Only the surface grows with the mesh: bases are blended at cubature vertices "
        "alone, and the surface never needs U(p).",
        "rows": rows,
        "note": "Ours: medians on one core; the paper: eight threads, and bases blended on the "
        "whole mesh. Order, ours: n̄ surface vertices, n tet vertices that carry the surface, "
        "d cubature vertices, r modes.",
    }


def table3(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Return sizes, step times and speed-ups of the four characters."""
    from supple.lab.bench.step_bench import STEPS, measure
    from supple.scenes.characters.character_scene import PAPERS, scene

    names = ("x",) if quick else PAPERS["xu2016"]
    rows = []
    for at, name in enumerate(names):
        tell(at / len(names), f"stepping the {name}")
        (row,) = measure([name], steps=300 if quick else STEPS, quiet=True)
        rows.append(row)
    return {
        "title": "Table 3: four characters in real time",
        "message": _table3_message(rows),
        "sizes": [_size_row(row, scene(row["scene"]).paper) for row in rows],
        "times": [_time_row(row) for row in rows],
        "benchmark": rows,
        "note": "Ours: one core, median of the steps of the scene's motion; speed-up over our "
        "unreduced step on one core too. The paper: eight threads at 2.9 GHz. dgemm: a 256³ "
        "product of float64 on the same core in the same run.",
    }


def _span(rows: list[dict[str, Any]], key: str) -> str:
    ratios = [row["bound_to_free"][key] for row in rows]
    return f"{min(ratios):.2g} to {max(ratios):.2g}" if len(ratios) > 1 else f"{ratios[0]:.2g}"


def _table3_message(rows: list[dict[str, Any]]) -> str:
    parts = [
        f"{row['scene']} {row['step_ms']['median'] / row['paper_ms']:.2f}"
        for row in rows
        if row["paper_ms"]
    ]
    return (
        "Time of a step with its surface on one core, relative to the paper's on eight threads: "
        f"{', '.join(parts)}."
    )


def _size_row(row: dict[str, Any], paper: Any) -> dict[str, Any]:
    pairs = {
        "tet_vertices": paper.tet_vertices,
        "tets": paper.tets,
        "surface_vertices": paper.surface_vertices,
        "modes": paper.modes,
        "regions": paper.regions,
        "poses": paper.poses,
        "cubature_elastic": paper.elastic_cubature,
        "cubature_inertial": paper.inertial_cubature,
        "model_mb": paper.megabytes,
    }
    beside = {key: {"ours": row[key], "paper": theirs} for key, theirs in pairs.items()}
    return {"scene": row["scene"]} | beside


def _time_row(row: dict[str, Any]) -> dict[str, Any]:
    split, whole = row["split_ms"], row["step_ms"]["median"]
    parts = zip(("core", "dynamics", "surface"), PAPER_SPLIT[row["scene"]], strict=True)
    shares = {
        f"{name} %": {
            "ours": None if split[name] is None else round(100 * split[name] / whole),
            "paper": round(100 * theirs),
        }
        for name, theirs in parts
    }
    return {
        "scene": row["scene"],
        "step_ms": {"ours": whole, "paper": row["paper_ms"]},
        **shares,
        "fps": {"ours": round(1e3 / whole), "paper": round(1e3 / row["paper_ms"])},
        "in_dgemm": row["step_in_dgemm"],
        "speedup": {"ours": row["speedup"], "paper": row["paper_speedup"]},
    }


# Time and memory of each part of a reduced step (Table 2)


class _Watch:
    """Clock of parts; it wraps functions to add up their times."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def watched(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            began = perf_counter()
            result = function(*arguments)
            self.seconds[part] += perf_counter() - began
            return result

        return call


class _WatchedPlacement:
    """Placement with a clock on its two halves."""

    def __init__(self, watch: _Watch, placement: Any) -> None:
        self.place_tets = watch.watched("tet mesh fitting", placement.place_tets)
        self.place_surface = watch.watched("pose-space deformation", placement.place_surface)


def part_times(path: Path, steps: int) -> dict[str, float]:
    """Return median milliseconds of the parts of a step; called in a separate process.

    The stage of the solution includes the forces; these are timed once more alone and subtracted.
    """
    from supple.engines.pose_space import stepper
    from supple.engines.pose_space.model.model import PoseSpaceModel
    from supple.engines.pose_space.simulator import PoseSpaceSimulator
    from supple.engines.pose_space.step_options import PAPERS_INTEGRATOR

    model = PoseSpaceModel.load(path)
    poses, roots = back_and_forth(motion_of(model), steps + WARM_UP)
    watch = _Watch()
    simulator = PoseSpaceSimulator(model, 1 / RATE, integrator=PAPERS_INTEGRATOR)
    inner: Any = simulator._stepper
    inner._placement = _WatchedPlacement(watch, inner._placement)
    vars(stepper)["take_steps"] = _by_stages(watch, stepper.take_steps)
    simulator.reset(poses[0], roots[0])
    out, rows = simulator.surface(), []
    for pose, root in zip(poses, roots, strict=True):
        watch.seconds.clear()
        began = perf_counter()
        simulator.step(pose, root)
        stepped = perf_counter()
        simulator.surface(out)
        ended = perf_counter()
        rows.append(_parts(dict(watch.seconds), stepped - began, ended - stepped))
    rows = rows[WARM_UP:]
    return {part: 1e3 * float(np.median([row[part] for row in rows])) for part in rows[0]}


def _by_stages(watch: _Watch, take_steps: Callable[..., int]) -> Callable[..., int]:
    """Return `take_steps` with a clock on each stage."""
    from supple.engines.pose_space.step import BLEND, INERTIA, REMEMBER, SOLVE

    parts = {
        BLEND: "basis interpolation",
        INERTIA: "inertial forces",
        SOLVE: "integration",
        REMEMBER: "inertial forces",  # displacements for the next step's inertial forces
    }

    def call(stages: int, *arguments: Any) -> int:
        taken = 1
        for stage, part in parts.items():
            if stages & stage:
                forces = _force_seconds(*arguments) if stage == SOLVE else 0.0
                began = perf_counter()
                taken = take_steps(stage, *arguments)
                watch.seconds[part] += perf_counter() - began - forces
                if stage == SOLVE:
                    watch.seconds["internal forces"] += forces
                    watch.seconds["twice"] += forces
        return taken

    return call


def _force_seconds(first: int, _count: int, bound: Any, states: Any) -> float:
    """Return the seconds of elastic forces and stiffness of a state."""
    from supple.engines.pose_space.elastic_force import add_elastic

    arguments = bound.content
    blend, system, scratch = arguments.work[:3]
    began = perf_counter()
    system.stiffness[:] = 0
    system.force[:] = 0
    np.multiply(blend.column_scale, states.content.q[first], out=system.z)
    add_elastic(
        arguments.tables.elastic,
        arguments.tables.kind,
        False,
        blend.weights,
        arguments.targets.points[0],
        blend.frames,
        blend.basis,
        system.z,
        scratch,
        system.stiffness,
        system.force,
    )
    return perf_counter() - began


def _parts(seconds: dict[str, float], step: float, surface: float) -> dict[str, float]:
    """Return the parts of a step, without the forces that were evaluated twice."""
    twice, skin = seconds.pop("twice"), seconds["pose-space deformation"]
    inside = sum(value for part, value in seconds.items() if part != "pose-space deformation")
    return seconds | {
        "surface displacement": surface - skin,
        "checks and calls": step - twice - inside,
        "whole step": step - twice + surface,
    }


def part_megabytes(model: Any) -> dict[str, float]:
    """Return megabytes of the parts, from the model file and the arrays of cubature."""
    sizes = model.sizes()
    elastic = (model.elastic_tets, model.elastic_weights, model.stiffness_corrections)
    inertial = (model.inertial_vertices, model.inertial_weights, model.inertial_corrections)
    sizes_of_parts = {
        "pose-space deformation": sizes["rig"],
        "tet mesh fitting": sizes["tet rig"],
        "basis interpolation": sizes["bases"]
        + sizes.get("rotations", 0)
        + sizes.get("mass products", 0),
        "internal forces": sum(array.nbytes for array in elastic if array is not None),
        "inertial forces": sum(array.nbytes for array in inertial if array is not None),
        "integration": 0,
        "surface displacement": sizes["embedding"],
    }
    return {part: count / 1e6 for part, count in sizes_of_parts.items()}
