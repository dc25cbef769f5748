"""xu2016 fig. 15: our step, a fine full simulation, and coarse full simulations of similar cost."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from supple.app.pictures.drawing import INK, PAPER, draw_surface, save_picture, view_axes
from supple.app.processes import with_cores
from supple.arrays import Singles
from supple.engines.engine import CharacterEngine
from supple.engines.full.full_character import FullCharacterSimulator
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.step_options import PAPERS_INTEGRATOR, PRINTED_STEP
from supple.errors import SuppleWarning
from supple.lab.fidelity.oscillation import dominant_frequency, ringdown
from supple.lab.fidelity.truth import rig_surface
from supple.lab.reproduce.figures import frame_view, label_chart, new_figure
from supple.playback.character_models import scene_model
from supple.playback.final_take import rms_difference
from supple.progress import Progress
from supple.rig.motion.motion import Motion
from supple.rig.tets.character_placement import CharacterPlacement
from supple.scenes.characters.character_scene import Scene, scene

_COLOURS = ("#2f6f8f", INK, "#b5483a", "#d9a07a", "#b9b08a", "#7a9e57")
#: Points of the rest shape whose motion is drawn, in m.
_PLACES = {"belly": (0.0, 0.44, 0.30), "left ear": (0.2, 1.3, 0.0)}


def coarse_picture(
    bear: Scene, played: Sequence[Played], rig: Singles, rows: list[dict[str, Any]], rate: float
) -> Figure:
    """Draw bears coloured by distance from the fine simulation, and below curves and bars."""
    figure = new_figure(
        (14.0, 8.2),
        "The bear's motion, reduced and in full simulations of fewer tets, and in the fine one",
        13,
    )
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.05, 1))
    above, below = halves
    _draw_bears(above, bear, played, rig, rate)
    belly, ear, bars = below.subplots(1, 3, width_ratios=(1.25, 1.25, 1))
    vertices = bear.character.surface.vertices
    for axes, (name, place) in zip((belly, ear), _PLACES.items(), strict=True):
        vertex = int(np.linalg.norm(vertices - np.array(place), axis=1).argmin())
        _draw_curves(axes, name, vertex, played, rig, rate)
    belly.legend(framealpha=0.9, facecolor=PAPER, edgecolor="none", fontsize=8)
    _draw_bars(bars, rows)
    return figure


def _draw_bears(
    above: Any, bear: Scene, played: Sequence[Played], rig: Singles, rate: float
) -> None:
    true = played[1].frames
    rms_displacements = np.sqrt(((true - rig) ** 2).sum(axis=2).mean(axis=1))
    frame = int(rms_displacements.argmax())
    others = [each for each in played if each is not played[1]]
    distances = [np.linalg.norm(each.frames[frame] - true[frame], axis=1) for each in others]
    norm, colours = (
        Normalize(0.0, 1000 * float(np.percentile(distances, 99.5))),
        colormaps["YlOrRd"],
    )
    view, triangles = view_axes(20.0, 10.0), bear.character.surface.triangles
    rotation = _best_rotation(bear.character.surface.vertices, rig[frame])
    flat = true[frame] @ rotation @ view[:2].T
    low, high = flat.min(axis=0) - 0.04, flat.max(axis=0) + 0.04
    panels = above.subplots(1, len(others), squeeze=False)[0]
    for axes, each, far in zip(panels, others, distances, strict=True):
        tint = colours(norm(1000 * far[triangles].mean(axis=1)))[:, :3]
        draw_surface(
            axes, each.frames[frame] @ rotation, triangles, colour=tint, view=view, shadow=0.3
        )
        frame_view(axes, low, high)
        axes.set_title(f"{each.name}\n{each.milliseconds:.2g} ms", color=INK, fontsize=10)
    above.colorbar(
        ScalarMappable(norm, colours),
        ax=panels,
        shrink=0.8,
        label=f"distance from the fine simulation in mm, at {frame / rate:.2f} s",
    )


def _best_rotation(rest: NDArray, posed: NDArray) -> NDArray:
    """Return the best rotation R between two shapes, so that posed @ R matches the rest shape."""
    first, second = rest - rest.mean(axis=0), posed - posed.mean(axis=0)
    u, _, vt = np.linalg.svd(second.T @ first)
    flip = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    return u @ flip @ vt


def _draw_curves(
    axes: Axes, name: str, vertex: int, played: Sequence[Played], rig: Singles, rate: float
) -> None:
    """Draw displacements from the rig along the main direction of the fine simulation."""
    displacements = [
        (each.frames[:, vertex] - rig[:, vertex]).astype(np.float64) for each in played
    ]
    direction = np.linalg.svd(displacements[1], full_matrices=False)[2][0]
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    time = np.arange(len(rig)) / rate
    for each, path, colour in zip(played, displacements, _COLOURS, strict=False):
        width = 2.6 if each is played[1] else 1.3
        axes.plot(
            time,
            1000 * path @ direction,
            color=colour,
            lw=width,
            alpha=0.55 if each is played[1] else 1.0,
            label=each.name,
        )
    label_chart(axes, "time, s", "distance from the rig, mm", f"a vertex of the {name}")


def _draw_bars(axes: Axes, rows: list[dict[str, Any]]) -> None:
    shown = [
        (row, colour)
        for row, colour in zip(rows, _COLOURS, strict=False)
        if row["rms_to_full"] is not None
    ]
    names = [
        f"{row['simulation'].replace(', ', chr(10))}\n{row['time_to_ours']:.2g} ×\nour time"
        for row, _ in shown
    ]
    heights = [100 * row["rms_to_full"] for row, _ in shown]
    bars = axes.bar(names, heights, color=[colour for _, colour in shown])
    axes.bar_label(bars, fmt="%.0f %%", color=INK)
    axes.margins(y=0.1)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_ylabel("RMS distance from the fine simulation,\n% of its motion", color=INK)
    axes.set_facecolor(PAPER)


#: Numbers of tets of the coarse bodies: the paper's, and a larger one.
_COARSE = (420, 1229, 2500)
RATE = 90.0
#: Duration of the bear's motion in s: a wave, a hop, and the beginning of a hug.
_SECONDS = 4.0
#: Options, impulse in m/s and duration in s of a free oscillation.
_RINGING: dict[str, Any] = {"integrator": "bdf2", "alpha": 0.0, "beta": 0.001}
_IMPULSE, _RUNG = (0.0, -0.3, 0.0), 1.5
#: Number of timed steps.
_TIMED = 60
#: Times within this factor count as equal.
_SAME_TIME = 1.5
_PAPER = {420: "169 vertices, 420 tets, our time", 1229: "417 vertices, 1,229 tets, 5 × our time"}
_QUICK: dict[str, Any] = {
    "tets": 1500,
    "modes": (4, 4, 3, 3, 3, 3),
    "elastic_cubature": 50,
    "inertial_cubature": 25,
}


@dataclass(frozen=True, eq=False)
class Played:
    """Simulation of the motion."""

    name: str
    model: PoseSpaceModel
    milliseconds: float  # duration of a step without the skin
    frames: Singles  # (t, n̄, 3) positions of the skin
    hertz: float  # frequency of free oscillation


def run(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Play the motion with all simulations, and compare with the fine full simulation."""
    bear = scene("bear")
    progress(0.0, "the bear")
    (clip,) = bear.character.motions.values()
    motion = clip.slice(clip.times[0], clip.times[0] + (0.3 if quick else _SECONDS))
    if quick:  # tets are not fitted to unused motions
        bear = replace(bear, character=replace(bear.character, motions={motion.name: motion}))
    model = _small(bear) if quick else scene_model("bear")
    sizes = _COARSE[:1] if quick else _COARSE
    progress(0.1, f"coarse bodies of {', '.join(map(str, sizes))} tets")
    coarse = [_coarse(bear, tets, quick) for tets in sizes]
    printed = _printed(bear, quick)
    progress(0.3, "timing")
    times = _times([model, *coarse], printed, motion, quick)
    played = []
    for at, case in enumerate(_simulations(model, coarse, printed, times)):
        progress(0.35 + 0.5 * at / (len(coarse) + 3), case[0])
        played.append(_played(*case, motion, quick))
    progress(0.95, "drawing")
    rig = rig_surface(model, motion, RATE)
    rows = _rows(played, rig)
    save_picture(coarse_picture(bear, played, rig, rows, RATE), folder / "fig15.png")
    return _figures(rows)


def _simulations(
    model: PoseSpaceModel,
    coarse: Sequence[PoseSpaceModel],
    printed: PoseSpaceModel,
    times: Sequence[float],
) -> list[tuple[str, PoseSpaceModel, float, dict[str, Any] | None]]:
    """Return names, models, times and options of a reduced step; the options are None in full.

    The reduced model, the fine full body, coarse full bodies, and the paper's reduced model.
    """
    fine = f"full, {len(model.mesh.tets):,} tets"
    names = [f"ours, {model.n_modes} modes", fine]
    names += [f"full, {len(body.mesh.tets):,} tets" for body in coarse]
    names.append(f"as printed, {printed.n_modes} modes")
    models, unreduced = [model, model, *coarse, printed], [None] * (1 + len(coarse))
    options = [{"integrator": PAPERS_INTEGRATOR}, *unreduced, PRINTED_STEP]
    return list(zip(names, models, times, options, strict=True))


def _printed(bear: Scene, quick: bool) -> PoseSpaceModel:
    """Return the model by the paper's method, at its cubature counts."""
    recipe = bear.printed_recipe()
    if quick:
        recipe |= {"poses": {bear.pose_names[0]: bear.poses[0]}, **_QUICK}
        return build(bear.character, **recipe)
    changes = {name: recipe[name] for name in ("recipe", *bear.printed_counts())}
    return scene_model("bear", **changes)


def _small(bear: Scene) -> PoseSpaceModel:
    recipe = bear.recipe() | {"poses": {bear.pose_names[0]: bear.poses[0]}}
    return build(bear.character, **(recipe | _QUICK))


def _coarse(bear: Scene, tets: int, quick: bool) -> PoseSpaceModel:
    """Return a model with few tets, for the full simulation only.

    Skin and tets follow the poses as in the fine body.
    """
    recipe = bear.recipe()
    if quick:
        recipe["poses"] = {bear.pose_names[0]: bear.poses[0]}
    unused: dict[str, Any] = {"regions": None, "modes": 4, "contacts": None}
    unused |= {"elastic_cubature": 12, "inertial_cubature": 6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)  # few tets fit the skin badly
        if not quick:
            return scene_model("bear", tets=tets, **unused)
        return build(bear.character, **(recipe | {"tets": tets} | unused))


def _played(
    name: str,
    body: PoseSpaceModel,
    milliseconds: float,
    options: dict[str, Any] | None,
    motion: Motion,
    quick: bool,
) -> Played:
    def simulator(**others: Any) -> CharacterEngine:
        if options is None:
            return FullCharacterSimulator(body, 1 / RATE, **others)
        return PoseSpaceSimulator(body, 1 / RATE, **(options | others))

    frames = played_frames(simulator(), motion)
    swings = ringdown(simulator(**_RINGING), velocity=_IMPULSE, seconds=0.4 if quick else _RUNG)
    return Played(name, body, milliseconds, frames, dominant_frequency(swings, RATE))


def played_frames(simulator: CharacterEngine, motion: Motion) -> Singles:
    """Return the skin at every step, (t, n̄, 3), from rest."""
    keys = motion.smooth.resample(RATE)
    simulator.reset(keys.poses[0], keys.roots[0])
    frames = [simulator.surface()]
    for pose, root in zip(keys.poses[1:], keys.roots[1:], strict=True):
        simulator.step(pose, root)
        frames.append(simulator.surface())
    return np.stack(frames)


def _rows(played: Sequence[Played], rig: Singles) -> list[dict[str, Any]]:
    true = played[1]
    rows = []
    for each in played:
        mesh = each.model.mesh
        held = np.isin(mesh.tets, each.model.fixed).all(axis=1)
        rows.append(
            {
                "simulation": each.name,
                "tet_vertices": len(mesh.vertices),
                "tets": len(mesh.tets),
                "held_by_bones_percent": 100 * float(held.mean()),
                "step_ms": each.milliseconds,
                "time_to_ours": each.milliseconds / played[0].milliseconds,
                "rms_to_full": None
                if each is true
                else rms_difference(each.frames, true.frames, rig),
                "hertz": each.hertz,
                "frequency_error": abs(each.hertz / true.hertz - 1),
            }
        )
    return rows


def _figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ours, coarse, printed = rows[0], rows[2:-1], rows[-1]
    equal = min(coarse, key=lambda row: abs(np.log(row["time_to_ours"])))
    worse = equal["rms_to_full"] > ours["rms_to_full"]
    return {
        "title": "Fig. 15: the bear, reduced, full and coarse",
        "message": _message(ours, printed, equal, coarse),
        "rows": rows,
        "rms_to_full": {
            "ours": ours["rms_to_full"],
            "printed": printed["rms_to_full"],
            "coarse_of_nearest_time": equal["rms_to_full"],
            "best_coarse": min(row["rms_to_full"] for row in coarse),
        },
        "nearest_time_to_ours": equal["time_to_ours"],
        "speed_up_over_full": rows[1]["time_to_ours"],
        "paper_speed_up_over_full": {"caption": 60, "table_3": 40},
        "equal_time_is_worse": worse if _alike(equal) else None,
        "paper_sizes": list(_PAPER.values()),
        "note": "RMS difference of the skin from the fine full simulation, relative to its "
        "motion away from the rig. One Newton iteration of backward Euler a step, at 90 Hz, for "
        "all. Times on one core of placing tets, forces and solution, without the skin, which "
        "costs the same for all. Hz: dominant frequency after an impulse, with little damping.",
    }


def _alike(row: dict[str, Any]) -> bool:
    """Return whether a simulation takes about as long as Supple's reduced simulation."""
    return 1 / _SAME_TIME < row["time_to_ours"] < _SAME_TIME


def _message(
    ours: dict[str, Any],
    printed: dict[str, Any],
    equal: dict[str, Any],
    coarse: list[dict[str, Any]],
) -> str:
    text = (
        f"Our error against the fine full simulation is {100 * ours['rms_to_full']:.0f} %, "
        f"that of the paper's method {100 * printed['rms_to_full']:.0f} %. Of the "
        f"coarse ones, that of {equal['tets']:,} tets is nearest to our time: it takes "
        f"{equal['time_to_ours']:.2g} times as long with {100 * equal['rms_to_full']:.0f} % error."
    )
    if not _alike(equal):
        text += " None takes about our time, so there is no comparison at equal time."
    better = [row for row in coarse if row["rms_to_full"] < ours["rms_to_full"]]
    for row in better:
        text += (
            f" {row['tets']:,} tets are more accurate than ours ({100 * row['rms_to_full']:.0f} %) "
            f"in {row['time_to_ours']:.2g} times our time."
        )
    return text + ("" if better else " None of the coarse ones is as accurate as ours.")


def _times(
    models: Sequence[PoseSpaceModel], printed: PoseSpaceModel, motion: Motion, quick: bool
) -> list[float]:
    """Return times of a step in ms: the first model reduced and full, the others full; then the
    paper's reduced model.
    """
    if quick:
        return time_steps([*models, printed], motion, 3)
    with TemporaryDirectory() as folder:
        files = []
        for at, model in enumerate([*models, printed]):
            files.append(str(Path(folder) / f"{at}.supple"))
            model.save(files[-1])
        return with_cores(1, _timed_files, files, motion, _TIMED)


def _timed_files(files: Sequence[str], motion: Motion, steps: int) -> list[float]:
    return time_steps([PoseSpaceModel.load(file) for file in files], motion, steps)


def time_steps(models: Sequence[PoseSpaceModel], motion: Motion, steps: int) -> list[float]:
    """Return median times of alternating steps in ms, see `_times`."""
    keys = motion.smooth.resample(RATE)
    first, last = max(len(keys.times) // 2 - steps - 2, 0), len(keys.times)
    chosen = range(first + 1, min(first + steps + 3, last))
    *models, printed = models
    ours = PoseSpaceSimulator(models[0], 1 / RATE, integrator=PAPERS_INTEGRATOR)
    theirs = PoseSpaceSimulator(printed, 1 / RATE, **PRINTED_STEP)
    full = [FullCharacterSimulator(model, 1 / RATE) for model in models]
    placements = [
        CharacterPlacement(model.rig, model.tet_rig, np.arange(len(model.mesh.vertices)))
        for model in models
    ]
    rests = [np.empty((len(model.mesh.vertices), 3)) for model in models]
    taken: list[list[float]] = [[] for _ in range(len(models) + 2)]
    engines: list[CharacterEngine] = [ours, *full, theirs]
    for each in engines:
        each.reset(keys.poses[first], keys.roots[first])
    for count, at in enumerate(chosen):
        for place, reduced in ((0, ours), (-1, theirs)):
            done = reduced.step(keys.poses[at], keys.roots[at])
            taken[place].append(done.core + done.dynamics)
        for k, simulator in enumerate(full):
            if k == 0 and count > 8:  # the fine one is slow
                continue
            # The time of our placement counts, as a real-time full simulator would use it.
            began = perf_counter()
            placements[k].place_tets(keys.poses[at], rests[k])
            placed = perf_counter() - began
            report = simulator.step(keys.poses[at], keys.roots[at])
            taken[k + 1].append(placed + sum(report.seconds.values()))
    return [1000 * float(np.median(each[2:] or each)) for each in taken]
