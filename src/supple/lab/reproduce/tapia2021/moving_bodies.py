"""tapia2021 figs 7, 9 and 12: inertia of the flesh, a tracked motion, and limp bodies."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from supple.app.pictures.drawing import save_picture
from supple.engines.factory import build
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.formats.smpl.load_body import body_character
from supple.lab.reproduce.figures import Tell, part_of
from supple.lab.reproduce.tapia2021.soft_bodies import (
    build_options,
    draw_body,
    draw_flesh,
    draw_frame,
    key_of,
    model_of,
    recorded,
    sheet,
    window_of,
)
from supple.mesh.surface import SurfaceMesh
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import scene
from supple.scenes.characters.human import POSES, human_pose
from supple.scenes.contact.contact_scene import ContactScene, contact_scene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.sculpting import ramp

#: Rotation of the whole body in rad, and time spans of its start and end in s.
ROTATION, STARTS, ENDS = 3.0, (0.1, 0.35), (0.7, 0.95)
#: Shape coefficients of two people: size, weight, legs, shoulders.
PEOPLE = {"slim": (0.0, -1.5, 0.0, -1.0), "heavy": (0.0, 3.0, 0.0, 1.0)}


def fig7(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Accelerate and decelerate a rotation of the body, and draw its flesh."""
    tell(0.0, "building")
    shown, model = scene("human"), model_of("human", quick)
    spun = _moved(_spun(), 20.0)
    times = {0.26: "accelerating", 0.86: "decelerating"}
    report = part_of(tell, 0.2, 0.5, "rotating")
    take = recorded(spun, spun.simulator(model), list(times), quick=quick, tell=report)
    skin, rows = shown.character.surface, []
    figure, grid = sheet("Flesh of a body that rotates about the vertical", 1, 4, 2.9)
    far_at = np.concatenate([take.frames[time].far for time in times])
    most = max(0.5, float(np.round(np.percentile(far_at, 99.5), 1)))
    for column, (time, text) in enumerate(times.items()):
        frame, far = take.frames[time], take.frames[time].far
        draw_body(grid[0, 2 * column], skin, frame.skin, text, values=far, most=most)
        caption = f"unposed, at most {far.max():.1f} mm"
        beside = grid[0, 2 * column + 1]
        draw_flesh(beside, skin, frame.unposed, caption, most=most, azimuth=10.0)
        rows.append(
            {"when": text, "largest_mm": float(far.max()), "lag_mm": 1e3 * _lag(model, frame)}
        )
    key_of(figure, grid[0, -1], most, "mm")
    save_picture(figure, folder / "tapia2021-fig7.png")
    return {
        "title": "tapia2021 fig. 7: inertia of the flesh",
        "message": f"Flesh of the trunk moves by {rows[0]['lag_mm']:+.2g} mm along the rotation "
        f"when it accelerates, and by {rows[1]['lag_mm']:+.2g} mm when it decelerates.",
        "rows": rows,
    }


def _spun() -> Motion:
    """Return a motion of a standing body that rotates about the vertical and stops."""
    line = Timeline(1.2, rate=180)
    fast = ROTATION / (0.5 * (sum(ENDS) - sum(STARTS)))
    speed = fast * (ramp(line.times, *STARTS) - ramp(line.times, *ENDS))
    angle = np.concatenate([[0.0], np.cumsum(0.5 * (speed[1:] + speed[:-1]) * np.diff(line.times))])
    roots = np.tile(np.eye(4), (len(line.times), 1, 1))
    roots[:, :3, :3] = Rotation.from_rotvec(angle[:, None] * np.array([0.0, 1.0, 0.0])).as_matrix()
    return line.held(human_pose(POSES["standing"]), "spun", roots)


def _moved(motion: Motion, tracking: float) -> ContactScene:
    """Return a scene of the person in a motion without contact."""
    options = {"tracking": tracking, "self_contact": False}
    return ContactScene(motion.name, motion.name, scene("human"), motion, options=options)


def _lag(model: SoftSkeletonModel, frame: Any) -> float:
    """Return the mean displacement of the trunk's flesh along the rotation."""
    rest = model.surface.vertices
    tangents = np.cross([0.0, 1.0, 0.0], rest * [1.0, 0.0, 1.0])
    lengths = np.linalg.norm(tangents, axis=1, keepdims=True)
    trunk = (np.abs(rest[:, 0]) < 0.2) & (rest[:, 1] > 0.85) & (rest[:, 1] < 1.35)
    along = (frame.unposed * tangents / np.maximum(lengths, 1e-9)).sum(axis=1)
    return float(along[trunk & (lengths[:, 0] > 0.05)].mean())


def fig9(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Track a jump with springs, and draw three frames with the unposed flesh below."""
    tell(0.0, "building")
    shown, model = scene("human"), model_of("human", quick)
    motion = shown.character.motions["jump"]
    rows, frames = [], {}
    chosen = [0.35 * motion.duration, 0.55 * motion.duration, 0.75 * motion.duration]
    frequencies = (8.0,) if quick else (4.0, 8.0, 20.0)
    for number, frequency in enumerate(frequencies):
        jumping = _moved(motion, frequency)
        share = 0.7 / len(frequencies)
        take = recorded(
            jumping,
            jumping.simulator(model),
            chosen,
            seconds=motion.duration,
            quick=quick,
            tell=part_of(tell, 0.1 + share * number, share, "tracking"),
        )
        if frequency == 8.0:
            frames = take.frames
        missed = np.degrees(take.parameters[:, 3:72] - take.targets[:, 3:72])
        rows.append(
            {
                "tracking_Hz": frequency,
                "joints_rms_degrees": float(np.sqrt((missed**2).mean())),
                "joints_largest_degrees": float(np.abs(missed).max()),
                "flesh_mm": 1e3 * float(take.flesh.max()),
                "limits": ", ".join(take.limits) or "none",
            }
        )
    skin = shown.character.surface
    figure, grid = sheet("A jump tracked by springs of 8 Hz; below, the flesh", 2, 3)
    lengths = [np.linalg.norm(frame.unposed, axis=1) for frame in frames.values()]
    most = max(0.5 * np.ceil(2e3 * max(np.percentile(each, 99.5) for each in lengths)), 0.5)
    for column, (time, frame) in enumerate(frames.items()):
        draw_body(grid[0, column], skin, frame.skin, f"{time:.2f} s", azimuth=50.0)
        draw_flesh(grid[1, column], skin, frame.unposed, most=most, azimuth=10.0)
    key_of(figure, grid[1, -1], most, "mm")
    save_picture(figure, folder / "tapia2021-fig9.png")
    return {
        "title": "tapia2021 fig. 9: a motion tracked by springs",
        "message": "; ".join(
            f"{row['tracking_Hz']:g} Hz: joints within {row['joints_rms_degrees']:.2g}° (rms), "
            f"flesh {row['flesh_mm']:.2g} mm"
            for row in rows
        )
        + ".",
        "rows": rows,
    }


def fig12(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Hang two limp people by their wrists, push them with a bar, and draw frames."""
    times = [0.3, 1.0, 1.7, 2.4]
    figure, grid = sheet("Limp people of two shapes, hanging and pushed", len(PEOPLE), len(times))
    rows = []
    for number, name in enumerate(PEOPLE):
        tell(number / len(PEOPLE), f"{name}: building")
        model, skin = _person(name, quick)
        shown = contact_scene("body-hang")
        report = part_of(tell, (number + 0.3) / len(PEOPLE), 0.3, f"{name}: hanging")
        take = recorded(shown, shown.simulator(model), times, quick=quick, tell=report)
        window = window_of(take.frames[times[0]].skin, 1.15)
        for column, time in enumerate(times):
            frame = take.frames[time]
            view = {"azimuth": shown.azimuth, "window": window}
            draw_frame(grid[number, column], skin, frame, f"{name}, {time:.1f} s", **view)
        shift = (take.frames[times[-1]].skin - take.frames[times[0]].skin).mean(axis=0)
        rows.append(
            {
                "person": name,
                "mass_kg": float(model.masses.sum()),
                "largest_push_N": float(np.linalg.norm(take.forces, axis=1).max()),
                "flesh_mm": 1e3 * float(take.flesh.max()),
                "middle_moves_mm": 1e3 * float(np.linalg.norm(shift)),
                "limits": ", ".join(take.limits) or "none",
            }
        )
    save_picture(figure, folder / "tapia2021-fig12.png")
    return {
        "title": "tapia2021 fig. 12: two shapes in the same scene",
        "message": "; ".join(
            f"{row['person']}: {row['mass_kg']:.0f} kg, flesh moves by {row['flesh_mm']:.2g} mm, "
            f"the body by {row['middle_moves_mm']:.0f} mm"
            for row in rows
        )
        + ".",
        "rows": rows,
    }


@cache
def _person(name: str, quick: bool) -> tuple[SoftSkeletonModel, SurfaceMesh]:
    """Return the person with other shape coefficients; unchanged in a quick run."""
    shown = scene("human")
    if quick:
        return model_of("human", quick), shown.character.surface
    source: Any = shown.character.source
    shaped = body_character(Path(name), source.body, None, PEOPLE[name], (), False, False)
    return build(shaped, engine="soft-skeleton", **build_options("human")), shaped.surface
