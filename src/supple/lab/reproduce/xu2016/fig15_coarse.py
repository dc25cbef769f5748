"""xu2016 fig. 15: our step beside full simulations, one fine and others that cost as little."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
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

from supple.app.character_models import scene_model
from supple.app.pictures.drawing import INK, PAPER, draw_surface, save_picture, view_axes
from supple.app.processes import with_cores
from supple.arrays import Singles
from supple.engines.engine import CharacterEngine
from supple.engines.full.full_character import FullCharacterSimulator
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.step_options import PAPERS_INTEGRATOR
from supple.errors import SuppleWarning
from supple.lab.fidelity.oscillation import dominant_frequency, ringdown
from supple.lab.fidelity.truth import rig_surface
from supple.playback.convergence import rms_difference
from supple.rig.motion.motion import Motion
from supple.rig.tets.character_placement import CharacterPlacement
from supple.scenes.characters.character_scene import Scene, scene

# The picture: bears at one moment, curves of two vertices, and errors


_COLOURS = ("#2f6f8f", INK, "#b5483a", "#d9a07a", "#b9b08a")
#: Where to look at the rest shape: the middle of the belly and the tip of the left ear, in metres.
_PLACES = {"belly": (0.0, 0.44, 0.30), "left ear": (0.2, 1.3, 0.0)}


def coarse_picture(
    bear: Scene, played: Sequence[Played], rig: Singles, rows: list[dict[str, Any]], rate: float
) -> Figure:
    """Draw bears coloured by how far they are from the fine simulation, below curves and bars."""
    figure = Figure(figsize=(14.0, 8.2), facecolor=PAPER, layout="constrained")
    figure.suptitle(
        "The bear's motion, reduced and in full simulations of fewer tets, beside the fine one",
        color=INK,
        fontsize=13,
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
    moved = np.sqrt(((true - rig) ** 2).sum(axis=2).mean(axis=1))
    frame = int(moved.argmax())
    others = [each for each in played if each is not played[1]]
    away = [np.linalg.norm(each.frames[frame] - true[frame], axis=1) for each in others]
    norm, colours = Normalize(0.0, 1000 * float(np.percentile(away, 99.5))), colormaps["YlOrRd"]
    view, triangles = view_axes(20.0, 10.0), bear.character.surface.triangles
    turn = _turned_by(bear.character.surface.vertices, rig[frame])
    flat = true[frame] @ turn @ view[:2].T
    low, high = flat.min(axis=0) - 0.04, flat.max(axis=0) + 0.04
    panels = above.subplots(1, len(others), squeeze=False)[0]
    for axes, each, far in zip(panels, others, away, strict=True):
        tint = colours(norm(1000 * far[triangles].mean(axis=1)))[:, :3]
        draw_surface(axes, each.frames[frame] @ turn, triangles, colour=tint, view=view, shadow=0.3)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        axes.set_axis_off()
        axes.set_title(f"{each.name}\n{each.milliseconds:.2g} ms", color=INK, fontsize=10)
    above.colorbar(
        ScalarMappable(norm, colours),
        ax=panels,
        shrink=0.8,
        label=f"mm away from the fine simulation, at {frame / rate:.2f} s",
    )


def _turned_by(rest: NDArray, posed: NDArray) -> NDArray:
    """Return the best rotation R from one shape to another; posed @ R faces as the rest does."""
    first, second = rest - rest.mean(axis=0), posed - posed.mean(axis=0)
    u, _, vt = np.linalg.svd(second.T @ first)
    flip = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    return u @ flip @ vt


def _draw_curves(
    axes: Axes, name: str, vertex: int, played: Sequence[Played], rig: Singles, rate: float
) -> None:
    """Draw displacement away from the rig along the direction in which the fine one moves most."""
    moved = [(each.frames[:, vertex] - rig[:, vertex]).astype(np.float64) for each in played]
    direction = np.linalg.svd(moved[1], full_matrices=False)[2][0]
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    time = np.arange(len(rig)) / rate
    for each, path, colour in zip(played, moved, _COLOURS, strict=False):
        width = 2.6 if each is played[1] else 1.3
        axes.plot(
            time,
            1000 * path @ direction,
            color=colour,
            lw=width,
            alpha=0.55 if each is played[1] else 1.0,
            label=each.name,
        )
    axes.set_title(f"a vertex of the {name}", color=INK, fontsize=10)
    axes.set_xlabel("time, s", color=INK)
    axes.set_ylabel("away from the rig, mm", color=INK)
    axes.grid(alpha=0.25)
    axes.set_facecolor(PAPER)


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
    axes.set_ylabel("RMS away from the fine simulation,\n% of its own motion", color=INK)
    axes.set_facecolor(PAPER)


Tell = Callable[[float, str], None]
#: Tets of the coarse bodies: those the paper had, and one larger still.
_COARSE = (420, 1229, 2500)
RATE = 90.0
#: Seconds of the bear's motion: it waves, hops with a turn, and begins to hug.
_SECONDS = 4.0
#: Of swinging freely after an impulse, in m/s, with little damping: a body's own frequency.
_RINGING: dict[str, Any] = {"integrator": "bdf2", "alpha": 0.0, "beta": 0.001}
_IMPULSE, _RUNG = (0.0, -0.3, 0.0), 1.5
#: Steps that are timed.
_TIMED = 60
#: Times that differ by less than this factor are called equal.
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
    """One simulation of the motion.

    Attributes
    ----------
    name
        For people.
    model
        Of its tets.
    milliseconds
        Of a step, without the skin.
    frames
        (t, n̄, 3).
    hertz
        The frequency it swings at when it is left alone.
    """

    name: str
    model: PoseSpaceModel
    milliseconds: float
    frames: Singles
    hertz: float


def run(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Play the same motion with all of them, and compare with the fine full simulation."""
    bear = scene("bear")
    tell(0.0, "the bear")
    (whole,) = bear.character.motions.values()
    motion = whole.slice(whole.times[0], whole.times[0] + (0.3 if quick else _SECONDS))
    if quick:  # tets need not follow what nobody plays
        bear = replace(bear, character=replace(bear.character, motions={motion.name: motion}))
    model = _small(bear) if quick else scene_model("bear")
    coarse = [_coarse(bear, tets, quick) for tets in _told(_COARSE[:1] if quick else _COARSE, tell)]
    tell(0.3, "timing")
    times = _times([model, *coarse], motion, quick)
    played = []
    for at, (name, body, milliseconds) in enumerate(_simulations(model, coarse, times)):
        tell(0.35 + 0.5 * at / (len(coarse) + 2), name)
        played.append(_played(name, body, milliseconds, motion, at == 0, quick))
    tell(0.95, "drawing")
    rig = rig_surface(model, motion, RATE)
    rows = _rows(played, rig)
    save_picture(coarse_picture(bear, played, rig, rows, RATE), folder / "fig15.png")
    return _figures(rows)


def _told(tets: Sequence[int], tell: Tell) -> Sequence[int]:
    tell(0.1, f"coarse bodies of {', '.join(map(str, tets))} tets")
    return tets


def _simulations(
    model: PoseSpaceModel, coarse: Sequence[PoseSpaceModel], times: Sequence[float]
) -> list[tuple[str, PoseSpaceModel, float]]:
    """Return names, models and times: ours first, then the fine full body, then coarse ones."""
    fine = f"full, {len(model.mesh.tets):,} tets"
    names = [f"ours, {model.n_modes} modes", fine]
    names += [f"full, {len(body.mesh.tets):,} tets" for body in coarse]
    return list(zip(names, [model, model, *coarse], times, strict=True))


def _small(bear: Scene) -> PoseSpaceModel:
    recipe = bear.recipe() | {"poses": {bear.pose_names[0]: bear.poses[0]}}
    return build(bear.character, **(recipe | _QUICK))


def _coarse(bear: Scene, tets: int, quick: bool) -> PoseSpaceModel:
    """Build the character filled with few tets, of which only the full simulation is used.

    Its skin is carried, and its tets fitted to the poses, as the fine body's are.
    """
    recipe = bear.recipe()
    if quick:
        recipe["poses"] = {bear.pose_names[0]: bear.poses[0]}
    unused: dict[str, Any] = {"regions": None, "modes": 4, "contacts": None}
    unused |= {"elastic_cubature": 12, "inertial_cubature": 6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)  # so few tets cannot follow the skin well
        if not quick:
            return scene_model("bear", tets=tets, **unused)
        return build(bear.character, **(recipe | {"tets": tets} | unused))


def _played(
    name: str, body: PoseSpaceModel, milliseconds: float, motion: Motion, ours: bool, quick: bool
) -> Played:
    def simulator(**options: Any) -> CharacterEngine:
        engine = PoseSpaceSimulator if ours else FullCharacterSimulator
        return engine(body, 1 / RATE, **options)

    frames = played_frames(simulator(), motion)
    swings = ringdown(simulator(**_RINGING), velocity=_IMPULSE, seconds=0.4 if quick else _RUNG)
    return Played(name, body, milliseconds, frames, dominant_frequency(swings, RATE))


def played_frames(simulator: CharacterEngine, motion: Motion) -> Singles:
    """Return the skin at every step, from rest: (t, n̄, 3)."""
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
    ours, coarse = rows[0], rows[2:]
    equal = min(coarse, key=lambda row: abs(np.log(row["time_to_ours"])))
    worse = equal["rms_to_full"] > ours["rms_to_full"]
    return {
        "title": "Fig. 15: the bear, reduced, full and coarse",
        "message": _message(ours, equal, coarse),
        "rows": rows,
        "rms_to_full": {
            "ours": ours["rms_to_full"],
            "coarse_of_nearest_time": equal["rms_to_full"],
            "best_coarse": min(row["rms_to_full"] for row in coarse),
        },
        "nearest_time_to_ours": equal["time_to_ours"],
        "speed_up_over_full": rows[1]["time_to_ours"],
        "paper_speed_up_over_full": 60,
        "equal_time_is_worse": worse if _alike(equal) else None,
        "paper_sizes": list(_PAPER.values()),
        "note": "RMS difference of the skin from the fine full simulation over its own motion "
        "away from the rig. One Newton iteration of backward Euler a step, at 90 Hz, for all. "
        "Times on one core, of placing tets, forces and solution; the skin, which costs all the "
        "same, is left out. Hz: the strongest frequency after an impulse, with little damping.",
    }


def _alike(row: dict[str, Any]) -> bool:
    """Return whether it takes about our time."""
    return 1 / _SAME_TIME < row["time_to_ours"] < _SAME_TIME


def _message(ours: dict[str, Any], equal: dict[str, Any], coarse: list[dict[str, Any]]) -> str:
    said = (
        f"Ours is {100 * ours['rms_to_full']:.0f} % off the fine full simulation. Of the coarse "
        f"ones, that of {equal['tets']:,} tets is nearest to our time: it takes "
        f"{equal['time_to_ours']:.2g} times as long and is {100 * equal['rms_to_full']:.0f} % off."
    )
    if not _alike(equal):
        said += " None takes about our time, so nothing is compared at equal time."
    better = [row for row in coarse if row["rms_to_full"] < ours["rms_to_full"]]
    for row in better:
        said += (
            f" {row['tets']:,} tets come nearer than ours ({100 * row['rms_to_full']:.0f} %), "
            f"in {row['time_to_ours']:.2g} times our time."
        )
    return said + ("" if better else " None of the coarse ones comes as near as ours.")


def _times(models: Sequence[PoseSpaceModel], motion: Motion, quick: bool) -> list[float]:
    """Time a step in ms: of the first model reduced and in full, of the others in full."""
    if quick:
        return time_steps(models, motion, 3)
    with TemporaryDirectory() as folder:
        files = []
        for at, model in enumerate(models):
            files.append(str(Path(folder) / f"{at}.supple"))
            model.save(files[-1])
        return with_cores(1, _timed_files, files, motion, _TIMED)


def _timed_files(files: Sequence[str], motion: Motion, steps: int) -> list[float]:
    return time_steps([PoseSpaceModel.load(file) for file in files], motion, steps)


def time_steps(models: Sequence[PoseSpaceModel], motion: Motion, steps: int) -> list[float]:
    """Time steps taken in turn, so that all see the same machine; medians, see `_times`."""
    keys = motion.smooth.resample(RATE)
    first, last = max(len(keys.times) // 2 - steps - 2, 0), len(keys.times)
    chosen = range(first + 1, min(first + steps + 3, last))
    ours = PoseSpaceSimulator(models[0], 1 / RATE, integrator=PAPERS_INTEGRATOR)
    full = [FullCharacterSimulator(model, 1 / RATE) for model in models]
    placements = [
        CharacterPlacement(model.rig, model.tet_rig, np.arange(len(model.mesh.vertices)))
        for model in models
    ]
    rests = [np.empty((len(model.mesh.vertices), 3)) for model in models]
    taken: list[list[float]] = [[] for _ in range(len(models) + 1)]
    engines: list[CharacterEngine] = [ours, *full]
    for each in engines:
        each.reset(keys.poses[first], keys.roots[first])
    for count, at in enumerate(chosen):
        done = ours.step(keys.poses[at], keys.roots[at])
        taken[0].append(done.core + done.dynamics)
        for k, simulator in enumerate(full):
            if k == 0 and count > 8:  # the fine one takes long, and there is no need for more
                continue
            # The full simulator places its tets as a general rig does; a real-time one would
            # use what ours uses, so that is what is counted.
            began = perf_counter()
            placements[k].place_tets(keys.poses[at], rests[k])
            placed = perf_counter() - began
            report = simulator.step(keys.poses[at], keys.roots[at])
            taken[k + 1].append(placed + sum(report.seconds.values()))
    return [1000 * float(np.median(each[2:] or each)) for each in taken]
