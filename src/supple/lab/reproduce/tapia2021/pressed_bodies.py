"""tapia2021 figs 13 to 16: pressed flesh, unreduced, with handles, and with modes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from supple.app.pictures.drawing import INK, plain_axes, save_picture
from supple.arrays import Floats
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.lab.bench.soft_skeleton.soft_bench import layer_of
from supple.lab.bench.soft_skeleton.sphere_compliance import (
    Pressed,
    Probe,
    press_full,
    press_model,
    probes_of,
    without_residual,
)
from supple.lab.reproduce.figures import new_figure
from supple.lab.reproduce.tapia2021.soft_bodies import (
    MODAL,
    build_options,
    draw_flesh,
    key_of,
    model_of,
    sheet,
    window_of,
)
from supple.mesh.surface import vertex_normals
from supple.progress import Progress
from supple.scenes.characters.character_scene import scene

#: Numbers of handles of the hand under a pin, and the number in the picture.
DENSITIES, SHOWN = (22, 44, 87, 176), 87
#: Pins of fig. 16: radius and depth in m, and positions between two handles.
PIN, PLACES = (0.004, 0.002), (0.0, 0.25, 0.5)
_VIEWS = {"hand": (200.0, -70.0), "human": (20.0, 5.0)}
_COLOURS = {"handles": "#3d7ab8", "handles + residual": "#c8453b"}


@cache
def _layer(name: str, quick: bool) -> FleshLayer:
    return layer_of(scene(name).character, build_options(name, quick))


def _full(name: str, probe: Probe, quick: bool) -> Pressed:
    return press_full(_layer(name, quick), scene(name).character.surface, probe)


def _row(basis: str, probe: Probe, ours: Pressed, full: Pressed, rest: Floats) -> dict[str, Any]:
    """Compare a pressed body with the unreduced flesh: forces, displacements, far motion."""
    size = np.linalg.norm(full.displacements)
    far = np.linalg.norm(rest - probe.place, axis=1) > 4 * probe.radius + 4 * probe.depth
    true = float(np.linalg.norm(full.displacements[far]))
    return {
        "basis": basis,
        "probe": probe.name,
        "force_N": ours.force,
        "to_full_force": ours.force / full.force,
        "motion_error": float(np.linalg.norm(ours.displacements - full.displacements) / size),
        "far_motion_to_full": float(np.linalg.norm(ours.displacements[far])) / max(true, 1e-12),
        "far_largest_mm": 1e3
        * float(np.linalg.norm(ours.displacements[far], axis=1).max(initial=0.0)),
    }


def fig13(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Press spheres into hand and body; draw the reduced simulation above, all tets below."""
    rows, drawn = [], []
    names = ("hand",) if quick else ("hand", "human")
    for at, name in enumerate(names):
        progress(at / len(names), f"{name}: building")
        shown, model = scene(name), model_of(name, quick)
        probes = probes_of(shown.character)[: 1 if quick else None]
        for number, probe in enumerate(probes):
            progress((at + (number + 0.3) / len(probes)) / len(names), f"{name}: {probe.name}")
            ours = press_model(model, probe)
            plain = press_model(without_residual(model), probe)
            began = process_time()
            full = _full(name, probe, quick)
            seconds = process_time() - began
            rest = shown.character.surface.vertices
            for basis, each in (("handles + residual", ours), ("handles", plain)):
                rows.append({"body": name} | _row(basis, probe, each, full, rest))
            rows[-1]["full_solution_s"] = seconds
            drawn.append((name, probe, ours, full))
    figure, grid = sheet("Pressed by a sphere: ours above, all tets below", 2, len(drawn))
    for column, (name, probe, ours, full) in enumerate(drawn):
        largest = max(0.5, round(1e3 * float(np.linalg.norm(full.displacements, axis=1).max()), 1))
        captions = f"{name}, {probe.name}: {ours.force:.2f} N", f"all tets: {full.force:.2f} N"
        for row, each in enumerate((ours, full)):
            _draw_pressed(grid[row, column], name, probe, each, captions[row], largest)
        key_of(figure, grid[1, column], largest, "mm")
    save_picture(figure, folder / "tapia2021-fig13.png")
    best = [row for row in rows if row["basis"] != "handles"]
    return {
        "title": "tapia2021 fig. 13: reduced against all tets",
        "message": f"Forces {min(r['to_full_force'] for r in best):.2f} to "
        f"{max(r['to_full_force'] for r in best):.2f} of those of all tets (handles alone "
        f"{max(r['to_full_force'] for r in rows if r['basis'] == 'handles'):.2f}), skin within "
        f"{max(r['motion_error'] for r in best):.2f} of its motion.",
        "rows": rows,
        "note": "far: skin at a distance of more than four times the sphere's radius and depth.",
    }


def _draw_pressed(
    axes: Any, name: str, probe: Probe, pressed: Pressed, caption: str, largest: float
) -> None:
    skin = scene(name).character.surface
    near = np.linalg.norm(skin.vertices - probe.place, axis=1) < 3 * probe.radius + 0.02
    azimuth, elevation = _VIEWS[name]
    view = {"azimuth": azimuth, "elevation": elevation}
    window = window_of(skin.vertices[near], 1.3)
    draw_flesh(axes, skin, pressed.displacements, caption, largest=largest, window=window, **view)


def _against_modes(
    name: str, number: int, folder: Path, *, quick: bool = False, progress: Progress
) -> dict[str, Any]:
    """Press a sphere into a body with handles, and with as many modes."""
    progress(0.0, "building")
    shown, probe = scene(name), _broad_probe(name)
    handles = model_of(name, quick)
    many = {"hand": 2_000, "human": 1_400}[name]
    models = {
        "handles + residual": handles,
        "handles": without_residual(handles),
        "paper": without_residual(model_of(name, quick, basis="paper")),
        "modal": without_residual(model_of(name, quick, **MODAL)),
    }
    if not quick:
        progress(0.3, "modes with more cubature")
        models[f"modal, {many}"] = without_residual(model_of(name, quick, **MODAL, cubature=many))
    progress(0.5, "all tets")
    full = _full(name, probe, quick)
    takes, rest = {}, shown.character.surface.vertices
    for at, (basis, model) in enumerate(models.items()):
        progress(0.6 + 0.3 * at / len(models), basis)
        takes[basis] = press_model(model, probe)
    rows = [_row(basis, probe, take, full, rest) for basis, take in takes.items()]
    shown_takes = {"without soft tissue": Pressed(np.inf, np.zeros_like(rest)), "all tets": full}
    shown_takes |= takes
    figure, grid = sheet(
        f"{probe.name}: displacement of the skin in mm at equal depth", 2, len(shown_takes), 2.3
    )
    largest = round(1e3 * float(np.linalg.norm(full.displacements, axis=1).max()), 1)
    azimuth, elevation = _VIEWS[name]
    for column, (basis, take) in enumerate(shown_takes.items()):
        caption = f"{basis}: {take.force:.1f} N" if np.isfinite(take.force) else basis
        _draw_pressed(grid[0, column], name, probe, take, caption, largest)
        text = "" if column else "colours ten times finer"
        view = {"largest": 0.1 * largest, "azimuth": azimuth, "elevation": elevation}
        draw_flesh(grid[1, column], shown.character.surface, take.displacements, text, **view)
    key_of(figure, grid[0, -1], largest, "mm")
    key_of(figure, grid[1, -1], 0.1 * largest, "mm")
    save_picture(figure, folder / f"tapia2021-fig{number}.png")
    by_name = {row["basis"]: row for row in rows}
    modal, plain = by_name["modal"], by_name["handles + residual"]
    return {
        "title": f"tapia2021 fig. {number}: handles and modes on the {name}",
        "message": f"Far from the sphere, modes move skin {modal['far_motion_to_full']:.2g} times "
        f"as far as all tets, handles {plain['far_motion_to_full']:.2g} times; errors of the "
        f"displacement are {modal['motion_error']:.2f} and {plain['motion_error']:.2f}.",
        "coordinates": {"ours": len(handles.stiffness), "paper": {"hand": 261, "human": 246}[name]},
        "rows": rows,
        "note": "modal: softest modes of the flesh with fixed bones, as many as the handles' "
        "coordinates, with the paper's cubature. paper: handles with linearly precise coordinates. "
        "Without soft tissue the skin stays, and the bones would move instead.",
    }


fig14 = partial(_against_modes, "hand", 14)
fig15 = partial(_against_modes, "human", 15)


def _broad_probe(name: str) -> Probe:
    """Return a sphere on the palm, or on the chest."""
    skin = scene(name).character.surface
    normals = vertex_normals(skin.vertices, skin.triangles)
    if name == "hand":
        return probes_of(scene(name).character)[0]
    target = np.array([0.08, 1.22, 0.3])
    place = int(np.linalg.norm((skin.vertices - target) * [1, 1, 0.2], axis=1).argmin())
    return Probe("chest, r 60 mm", skin.vertices[place], normals[place], 0.06, 0.012)


class _Shot(NamedTuple):
    """Pressed pin, unreduced and with a basis."""

    pin: Probe
    basis: str
    take: Pressed
    full: Pressed
    model: SoftSkeletonModel


def fig16(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Press a pin on and between handles, for increasing numbers of handles."""
    densities = DENSITIES[:1] if quick else DENSITIES
    rows: list[dict[str, Any]] = []
    skin = scene("hand").character.surface
    pins: list[Probe] = []
    shots: list[_Shot] = []
    for at, count in enumerate(densities):
        progress(at / len(densities), f"{count} handles")
        model = model_of("hand", quick, handles=count, cubature=max(700, 6 * count))
        if count == SHOWN or quick:
            pins = list(_pins(model))
    truths = [_full("hand", pin, quick) for pin in pins]
    for at, count in enumerate(densities):
        progress(0.5 + 0.4 * at / len(densities), f"{count} handles: pressing")
        model = model_of("hand", quick, handles=count, cubature=max(700, 6 * count))
        for pin, full in zip(pins, truths, strict=True):
            near = skin.vertices[model.handles]
            distance = float(np.linalg.norm(near - pin.place, axis=1).min())
            cases = {"handles": without_residual(model), "handles + residual": model}
            for basis, each in cases.items():
                take = press_model(each, pin)
                row = _row(basis, pin, take, full, skin.vertices)
                rows.append({"handles": count, "from_handle_mm": 1e3 * distance} | row)
                if count == SHOWN or quick:
                    shots.append(_Shot(pin, basis, take, full, model))
    save_picture(_pin_picture(shots), folder / "tapia2021-fig16.png")
    save_picture(_density_plot(rows), folder / "tapia2021-fig16-density.png")
    plain = [row for row in rows if row["basis"] == "handles"]
    ours = [row for row in rows if row["basis"] != "handles"]
    return {
        "title": "tapia2021 fig. 16: a pin and the density of handles",
        "message": f"Handles alone are {min(r['to_full_force'] for r in plain):.2g} to "
        f"{max(r['to_full_force'] for r in plain):.2g} times too stiff under a pin of 4 mm; with "
        f"the residual {min(r['to_full_force'] for r in ours):.2g} to "
        f"{max(r['to_full_force'] for r in ours):.2g}.",
        "rows": rows,
    }


def _pins(model: SoftSkeletonModel) -> Iterable[Probe]:
    """Yield pins at positions between a handle on the index finger's pad and the next handle."""
    skin, shown = model.surface, scene("hand")
    normals = vertex_normals(skin.vertices, skin.triangles)
    down = normals[:, 1] < -0.6
    pad = np.isin(shown.parts, [shown.part_names.index(f"index{k}") for k in (2, 3)]) & down
    on_pad = model.handles[pad[model.handles]]
    handle = int(on_pad[0]) if len(on_pad) else int(np.flatnonzero(pad)[0])
    places = skin.vertices[model.handles]
    others = np.linalg.norm(places - skin.vertices[handle], axis=1)
    other = places[np.argsort(others)[1]]
    for part in PLACES:
        goal = (1 - part) * skin.vertices[handle] + part * other
        at = np.flatnonzero(down)[np.linalg.norm(skin.vertices[down] - goal, axis=1).argmin()]
        yield Probe(f"{part:g} of the distance", skin.vertices[at], normals[at], *PIN)


def _pin_picture(shots: Sequence[_Shot]) -> Figure:
    figure, grid = sheet("A pin on a handle (black), and towards the next one", 3, len(PLACES))
    largest = 2.0
    skin = scene("hand").character.surface
    by_pin: dict[str, list[_Shot]] = {}
    for shot in shots:
        by_pin.setdefault(shot.pin.name, []).append(shot)
    for column, same in enumerate(by_pin.values()):
        pin, full, model = same[0].pin, same[0].full, same[0].model
        takes = {"all tets": full} | {shot.basis: shot.take for shot in same}
        for row, (basis, take) in enumerate(takes.items()):
            text = f"{basis}: {take.force:.2f} N"
            view = {"azimuth": 200.0, "elevation": -60.0, "window": (pin.place, 0.05)}
            camera = draw_flesh(
                grid[row, column], skin, take.displacements, text, largest=largest, **view
            )
            projected = camera.project(skin.vertices[model.handles])
            inside = (projected[:, :2] > 0).all(axis=1) & (projected[:, :2] < camera.pixels[0]).all(
                axis=1
            )
            facing = vertex_normals(skin.vertices, skin.triangles)[model.handles] @ camera.view[2]
            shown = inside & (facing > 0)
            grid[row, column].plot(*projected[shown, :2].T, "o", color="black", ms=4)
    key_of(figure, grid[:, -1], largest, "mm")
    return figure


def _density_plot(rows: list[dict[str, Any]]) -> Figure:
    """Draw forces relative to those of all tets, and displacement errors, over handles."""
    figure = new_figure((7.6, 3.8))
    labels = {"to_full_force": "force / that of all tets", "motion_error": "displacement error"}
    for axes, (key, text) in zip(figure.subplots(1, 2), labels.items(), strict=True):
        for basis, colour in _COLOURS.items():
            for number, probe in enumerate(dict.fromkeys(row["probe"] for row in rows)):
                line = [r for r in rows if r["basis"] == basis and r["probe"] == probe]
                counts, values = [r["handles"] for r in line], [r[key] for r in line]
                if line:
                    style = ("-", "--", ":")[number % 3]
                    name = f"{basis}, {probe}"
                    axes.semilogx(counts, values, "o" + style, color=colour, label=name, ms=4)
        ticks = sorted({row["handles"] for row in rows})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xlabel("handles", color=INK)
        axes.set_ylabel(text, color=INK)
        axes.axhline(1.0, color=INK, lw=0.6, ls=":")
        axes.xaxis.set_minor_formatter(NullFormatter())
        plain_axes(axes)
    lines = figure.axes[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=2, frameon=False, fontsize=7)
    return figure
