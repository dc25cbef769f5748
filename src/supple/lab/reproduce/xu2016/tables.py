"""xu2016 Tables 2 and 3 and costs of §9, our numbers and the paper's."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.processes import with_cores
from supple.compiled.jit import at_most_threads
from supple.engines.baselines.projected import PosedSubspace, ProjectedSimulator
from supple.engines.pose_space.build.reduced_poses import stand_in_basis
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.step_options import PAPERS_INTEGRATOR
from supple.errors import SuppleError
from supple.lab.bench import step_bench
from supple.lab.bench.step_parts import timed_parts
from supple.lab.bench.timing import RATE, WARM_UP, back_and_forth, motion_of
from supple.linalg.blas import single_threaded
from supple.playback.character_models import scene_model, scene_model_file
from supple.progress import Progress
from supple.scenes.characters.character_scene import PAPERS, scene

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
#: Corrections below this many metres are rounding.
_ROUNDING = 1e-9
#: Steps of each character in Table 3.
_STEPS = 2_000
#: Table 3: shares of a step: rest shapes and bases, dynamics, and the surface.
PAPER_SPLIT = {
    "arm": (0.36, 0.58, 0.06),
    "x": (0.26, 0.65, 0.09),
    "bear": (0.29, 0.66, 0.05),
    "gorilla": (0.29, 0.63, 0.08),
}


def table2(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Return time and memory of the parts of the gorilla's step."""
    name = "x" if quick else "gorilla"
    progress(0.0, f"the model of the {name}")
    with scene_model_file(name) as path:
        progress(0.5, "stepping")
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
    total = None if quick else sum(ms for ms, _, _ in PAPER_PARTS.values())
    rows.append({"part": "whole step", "ms": {"ours": times["whole step"], "paper": total}})
    return {
        "title": f"Table 2: the parts of a step of the {name}",
        "message": "Only the surface grows with the mesh: bases are blended at cubature vertices "
        "alone, and the surface never needs U(p).",
        "rows": rows,
        "note": "Ours: medians on one core; the paper: eight threads, and bases blended on the "
        "whole mesh. Order, ours: n̄ surface vertices, n tet vertices that carry the surface, "
        "d cubature vertices, r modes.",
    }


def table3(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Return sizes, step times and speed-ups of the four characters."""
    names = ("x",) if quick else PAPERS["xu2016"]
    rows = []
    for at, name in enumerate(names):
        progress(at / len(names), f"stepping the {name}")
        with scene_model_file(name, **scene(name).printed_counts()) as path:
            steps = 300 if quick else _STEPS
            (row,) = step_bench.measure(model=path, steps=steps, quiet=True)
            rows.append(row | {"scene": name, "memory_mb": with_cores(1, memory_megabytes, path)})
    return {
        "title": "Table 3: four characters in real time",
        "message": _table3_message(rows),
        "sizes": [_size_row(row, scene(row["scene"]).paper) for row in rows],
        "times": [_time_row(row) for row in rows],
        "benchmark": rows,
        "note": "Ours: one core, median of the steps of the scene's motion, with the paper's "
        "numbers of cubature tets and vertices; speed-up over our unreduced step on one core too. "
        "The paper: eight threads at 2.9 GHz. dgemm: a 256³ product of float64 on the same core "
        "in the same run. PSD: poses with sculpted corrections. Memory: of a loaded model with its "
        "simulator; the file is smaller, as bases are stored in 16 bits.",
    }


def memory_megabytes(path: Path) -> float:
    """Return the memory of a loaded model with its simulator; called in a separate process."""
    warm = PoseSpaceSimulator(PoseSpaceModel.load(path))
    warm.step()
    warm.surface()
    tracemalloc.start()
    model = PoseSpaceModel.load(path)
    simulator = PoseSpaceSimulator(model)
    simulator.step()
    simulator.surface()
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / 1e6


def sculpted_poses(name: str) -> int:
    """Return the number of poses of a scene with sculpted corrections."""
    rig: Any = scene(name).character.rig
    while not hasattr(rig, "corrections"):
        rig = getattr(rig, "base", None)
        if rig is None:
            return 0
    return int((np.abs(np.asarray(rig.corrections)).max(axis=(1, 2)) > _ROUNDING).sum())


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
        "memory_mb": paper.megabytes,
    }
    beside = {key: {"ours": row[key], "paper": theirs} for key, theirs in pairs.items()}
    psd = {"ours": sculpted_poses(row["scene"]), "paper": paper.psd_poses}
    return {"scene": row["scene"]} | beside | {"psd_poses": psd, "file_mb": row["model_mb"]}


def _time_row(row: dict[str, Any]) -> dict[str, Any]:
    split, median = row["split_ms"], row["step_ms"]["median"]
    parts = zip(("core", "dynamics", "surface"), PAPER_SPLIT[row["scene"]], strict=True)
    shares = {
        f"{name} %": {
            "ours": None if split[name] is None else round(100 * split[name] / median),
            "paper": round(100 * theirs),
        }
        for name, theirs in parts
    }
    return {
        "scene": row["scene"],
        "step_ms": {"ours": median, "paper": row["paper_ms"]},
        **shares,
        "fps": {"ours": round(1e3 / median), "paper": round(1e3 / row["paper_ms"])},
        "in_dgemm": row["step_in_dgemm"],
        "speedup": {"ours": row["speedup"], "paper": row["paper_speedup"]},
    }


# Time and memory of each part of a reduced step (Table 2)


#: Parts of `step_parts` in each part of Table 2.
_PARTS = {
    "pose-space deformation": ("rig_skin",),
    "tet mesh fitting": ("rig_tets",),
    "basis interpolation": ("frames", "bases", "mass"),
    "internal forces": ("elastic",),
    "inertial forces": ("inertia", "memory"),
    "integration": ("solution",),
    "surface displacement": ("skin_bases", "skin_turns", "skin"),
}


def part_times(path: Path, steps: int) -> dict[str, float]:
    """Return median milliseconds of the parts of a step; called in a separate process."""
    model = PoseSpaceModel.load(path)
    first, twin = (
        PoseSpaceSimulator(model, 1 / RATE, integrator=PAPERS_INTEGRATOR) for _ in range(2)
    )
    motion = back_and_forth(motion_of(model), steps + WARM_UP)
    seconds, _ = timed_parts(first, *motion, twin)
    times = {part: 1e3 * sum(seconds[name] for name in names) for part, names in _PARTS.items()}
    total = 1e3 * seconds["whole"]
    return times | {"checks and calls": total - sum(times.values()), "whole step": total}


def part_megabytes(model: Any) -> dict[str, float]:
    """Return the size of each part of a model in MB, from the model file and cubature arrays."""
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


# Assembly of a reduced system on the full mesh (xu2016 §9, compared with Hahn et al. 2014)


#: Milliseconds to assemble the reduced system in the paper, by cubature and in full.
PAPER_ASSEMBLY = {"arm": (0.4, 38.0), "bear": (0.95, 82.0), "gorilla": (1.0, 320.0)}
#: Parts of a projected step that belong to assembly.
ASSEMBLY = ("assembly", "projection")


def projection_times(model: PoseSpaceModel, steps: int = 40) -> dict[str, Any]:
    """Return median milliseconds of steps with assembly on the whole mesh and with cubature.

    Every step of `ProjectedSimulator` forms UᵀKU, UᵀMU and Uᵀf on the whole mesh; the real-time
    step uses cubature. Both alternate on one core. At vertices without stored bases arbitrary
    numbers replace them, which does not change the time.
    """
    if steps < 1:
        raise SuppleError(f"steps is {steps}; use at least 1")
    motion = next(iter(model.motions.values())).resample(RATE)
    poses, roots = motion.poses, motion.roots
    basis = stand_in_basis(model)
    full = ProjectedSimulator(PosedSubspace.from_model(model, lambda pose: basis), 1 / RATE)
    ours = PoseSpaceSimulator(model, 1 / RATE, integrator=PAPERS_INTEGRATOR)
    for simulator in (full, ours):
        simulator.reset(poses[0], roots[0])
    projected, parts, real = [], [], []
    with single_threaded(), at_most_threads(1):
        for at in range(1, steps + 4):  # three steps of warm-up
            frame = at % len(poses)
            began = perf_counter()
            # The rest pose keeps the arbitrary basis stable; only the time counts.
            seconds = full.step(poses[0], roots[0]).seconds
            middle = perf_counter()
            ours.step(poses[frame], roots[frame])
            real.append(perf_counter() - middle)
            projected.append(middle - began)
            parts.append([seconds[name] for name in ASSEMBLY])
    assembly = np.median(np.sum(parts[3:], axis=1))
    return {
        "r": model.n_modes,
        "vertices": len(model.mesh.vertices),
        "tets": len(model.mesh.tets),
        "reassembly_ms": 1e3 * float(assembly),
        "projected_step_ms": 1e3 * float(np.median(projected[3:])),
        "step_ms": 1e3 * float(np.median(real[3:])),
        "reassembly_over_step": float(assembly / np.median(real[3:])),
    }


def projection(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Compare times of assembly on the whole mesh and of reduced steps with the paper's times."""
    rows, names = [], ["arm"] if quick else list(PAPER_ASSEMBLY)
    for at, name in enumerate(names):
        progress(at / len(names), name)
        ours, theirs = PAPER_ASSEMBLY[name]
        paper = {"paper_assembly_ms": ours, "paper_reassembly_ms": theirs}
        paper["paper_ratio"] = theirs / ours
        times = projection_times(scene_model(name), 10 if quick else 40)
        rows.append({"scene": name, **times, **paper})
    ratios = [row["reassembly_over_step"] for row in rows]
    return {
        "title": "§9: a reduced system assembled on the full mesh",
        "message": f"Assembling the reduced system on the whole mesh takes {_range(ratios)} times "
        "our whole step without its skin; in the paper "
        f"{_range([row['paper_ratio'] for row in rows])} times its assembly by cubature.",
        "rows": rows,
        "note": "Medians on one core, alternating steps. Reassembly: forming UᵀKU, UᵀMU and "
        "Uᵀf on all tets and vertices, as Hahn et al. 2014 do. A step includes the solution, which "
        "the paper's numbers do not.",
    }


def _range(ratios: list[float]) -> str:
    low, high = min(ratios), max(ratios)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
