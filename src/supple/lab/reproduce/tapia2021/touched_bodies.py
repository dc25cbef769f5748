"""tapia2021 figs. 1, 3, 6, 8 and 10: flesh that is pressed, and bones that give way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from supple.app.pictures.drawing import save_picture
from supple.arrays import Floats
from supple.dynamics.rigid_object import RigidObject
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.lab.reproduce.tapia2021.skin_strain import skin_strain
from supple.lab.reproduce.tapia2021.soft_bodies import (
    Take,
    Tell,
    model_of,
    play_scene,
    played,
    without_residual,
)
from supple.lab.reproduce.tapia2021.soft_pictures import draw_body, key_of, sheet, window_of
from supple.mesh.obstacles import Capsule, Sphere
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import scene
from supple.scenes.characters.hand import POSES as HAND_POSES
from supple.scenes.characters.hand import hand_pose
from supple.scenes.characters.hand_shape import TIPS
from supple.scenes.characters.human import POSES as HUMAN_POSES
from supple.scenes.characters.human import human_pose
from supple.scenes.contact.contact_scene import contact_scene
from supple.scenes.contact.props import at
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.sculpting import ramp

__all__ = ["fig1", "fig3", "fig6", "fig8", "fig10"]

#: Stiffness of flesh that is to be rigid, in parts of its own.
RIGID = 1e3
#: Springs of fingers that press, in Hz: fingers are light.
FIRM = 50.0


def fig1(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw the unposed shape, what contact does to it, and the posed skin; a hand and a body."""
    figure, grid = sheet("Unposed with handles, what contact moves, and the posed skin", 2, 3)
    rows = []
    cases = (("hand-ball", 1.3, 4.0, (200.0, -70.0)), ("body-bench", 1.2, 15.0, (190.0, 5.0)))
    for row, (name, time, most, (azimuth, elevation)) in enumerate(cases):
        shown = contact_scene(name)
        tell(row / 2, f"{name}: building")
        model = model_of(shown.scene.character.name, quick)
        take = play_scene(shown, model, [time], quick=quick, tell=_told(tell, row / 2, 0.4, name))
        frame, skin = take.frames[time], shown.scene.character.surface
        far = 1e3 * np.linalg.norm(frame.unposed, axis=1)
        camera = draw_body(
            grid[row, 0], skin, skin.vertices, "unposed", azimuth=azimuth, elevation=elevation
        )
        handles = camera.project(skin.vertices[model.handles])
        grid[row, 0].plot(*handles[:, :2].T, ".", color="black", ms=3)
        moved = skin.vertices + frame.unposed
        draw_body(
            grid[row, 1],
            skin,
            moved,
            f"flesh, at most {far.max():.1f} mm",
            values=far,
            most=most,
            azimuth=azimuth,
            elevation=elevation,
        )
        key_of(figure, grid[row, 1], most, "mm")
        draw_body(
            grid[row, 2],
            skin,
            frame.skin,
            shown.description,
            things=frame.things,
            azimuth=shown.azimuth,
            window=window_of(frame.skin, 1.2),
        )
        rows.append(_touch_row(name, take) | {"coordinates": _size(model)})
    save_picture(figure, folder / "tapia2021-fig1.png")
    return {
        "title": "tapia2021 fig. 1: soft skeletons",
        "message": "; ".join(
            f"{row['scene']}: {row['most_contacts']} contacts, flesh moves by at most "
            f"{row['flesh_mm']:.2g} mm"
            for row in rows
        )
        + ".",
        "rows": rows,
    }


def _touch_row(name: str, take: Take) -> dict[str, Any]:
    return {
        "scene": name,
        "most_contacts": int(take.contacts.max()),
        "largest_force_N": float(np.linalg.norm(take.forces, axis=1).max()),
        "last_force_N": float(np.linalg.norm(take.forces[-1])),
        "flesh_mm": 1e3 * float(take.flesh.max()),
        "deepest_mm": 1e3 * float(take.depths.max()),
        "limits": ", ".join(take.limits) or "none",
    }


def _size(model: SoftSkeletonModel) -> int:
    return 3 + 3 * len(model.parents) + len(model.stiffness)


def _told(tell: Tell, first: float, much: float, text: str) -> Callable[[float], None]:
    return lambda part: tell(first + much * part, text)


def fig3(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Press a bar against fingers whose flesh is rigid, and soft."""
    tell(0.0, "building")
    shown, model = scene("hand"), model_of("hand", quick)
    skin = shown.character.surface
    figure, grid = sheet("A bar pressed against fingers: rigid flesh, and soft", 1, 4, 2.9)
    rows, takes = [], {}
    for at_row, (said, own) in enumerate((("rigid", without_residual(model)), ("soft", model))):
        motion, bar, path = _lifted_bar()
        simulator = SoftSkeletonSimulator(
            own, 1 / 90, tracking=FIRM, objects=(bar,), gravity=(0, 0, 0)
        )
        simulator.reset(*motion.at(0.0))
        if said == "rigid":
            simulator.stiffness = RIGID
        told = _told(tell, 0.1 + 0.4 * at_row, 0.4, said)
        take = played(
            simulator, motion, [0.8], things=(bar,), led=[(bar, path)], quick=quick, tell=told
        )
        takes[said] = take
        turned = np.degrees(np.abs(take.parameters[-1, 3:48] - take.wanted[-1, 3:48]))
        rows.append(
            _touch_row(said, take) | {"largest_turn_degrees": float(turned.max()), "flesh": said}
        )
    tips = 0.5 * (TIPS["index"] + TIPS["ring"])
    window = tips + np.array([0.02, 0.0, 0.0]), 0.09
    for column, (said, take) in enumerate(takes.items()):
        frame = take.frames[0.8]
        draw_body(
            grid[0, 2 * column],
            skin,
            frame.skin,
            f"{said}: joints turn by {rows[column]['largest_turn_degrees']:.1f}°",
            things=frame.things,
            azimuth=0.0,
            elevation=5.0,
            window=window,
        )
        far = 1e3 * np.linalg.norm(frame.unposed, axis=1)
        draw_body(
            grid[0, 2 * column + 1],
            skin,
            skin.vertices + frame.unposed,
            f"{said}: flesh moves by {far.max():.2f} mm",
            values=far,
            most=3.0,
            azimuth=200.0,
            elevation=-60.0,
            window=window,
        )
    key_of(figure, grid[0, -1], 3.0, "mm")
    save_picture(figure, folder / "tapia2021-fig3.png")
    return {
        "title": "tapia2021 fig. 3: contact on a skeleton, and on soft flesh",
        "message": f"Joints turn by up to {rows[0]['largest_turn_degrees']:.3g}° under rigid flesh "
        f"and {rows[1]['largest_turn_degrees']:.3g}° under soft, which gives way by "
        f"{rows[1]['flesh_mm']:.2g} mm; forces {rows[0]['last_force_N']:.3g} and "
        f"{rows[1]['last_force_N']:.3g} N.",
        "rows": rows,
    }


def _lifted_bar() -> tuple[Motion, RigidObject, Callable[[float], Floats]]:
    """Return a flat hand that holds still, and a bar lifted by 8 mm against its fingers."""
    line = Timeline(1.2, rate=90)
    pose = hand_pose(HAND_POSES["flat"])
    motion = Motion(line.times, np.tile(pose, (len(line.times), 1)), line.roots(), "flat")
    skin = scene("hand").character.rig(pose)
    place = 0.5 * (TIPS["index"] + TIPS["ring"])
    near = np.abs(skin[:, 0] - place[0] - 0.012) < 0.004
    low, radius = float(skin[near, 1].min()), 0.006

    def path(seconds: float) -> Floats:
        up = -0.003 + 0.011 * ramp(np.array([seconds]), 0.05, 0.6)[0]
        return at((place[0] + 0.012, low - radius + up, place[2]))

    shape = Capsule((0, 0, -0.06), (0, 0, 0.06), radius)
    return motion, RigidObject(shape, 1.0, place=path(0.0), moved=True, name="bar"), path


def fig6(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw a body alone, and with a ball that pushes its belly and arm; the flesh apart."""
    tell(0.0, "building")
    shown, model = scene("human"), model_of("human", quick)
    skin, pose = shown.character.surface, human_pose(HUMAN_POSES["standing"])
    line = Timeline(1.2, rate=90)
    motion = Motion(line.times, np.tile(pose, (len(line.times), 1)), line.roots(), "standing")
    points = shown.character.rig(pose)
    arm = points[shown.parts == shown.part_names.index("left_elbow")]
    target, radius = arm.mean(axis=0), 0.07

    def path(seconds: float) -> Floats:
        ahead = 0.15 - 0.16 * ramp(np.array([seconds]), 0.1, 0.9)[0]
        return at(target + np.array([0.15 * ahead, 0.0, radius + ahead]))

    ball = RigidObject(Sphere((0, 0, 0), radius), 5.0, place=path(0.0), moved=True, name="ball")
    simulator = SoftSkeletonSimulator(model, 1 / 90, tracking=3.0, objects=(ball,))
    simulator.reset(*motion.at(0.0))
    at_rest = float(np.abs(simulator.surface() - points).max())
    take = played(
        simulator,
        motion,
        [1.0],
        things=(ball,),
        led=[(ball, path)],
        quick=quick,
        tell=_told(tell, 0.2, 0.6, "pushing"),
    )
    frame = take.frames[1.0]
    far = 1e3 * np.linalg.norm(frame.unposed, axis=1)
    figure, grid = sheet("A body alone, pushed by a ball, and its flesh unposed", 1, 3, 3.2)
    window = window_of(points)
    near = window_of(np.concatenate([frame.skin[far > 0.4 * far.max()], [path(1.0)[:3, 3]]]), 3.0)
    draw_body(grid[0, 0], skin, points, "alone: the parametric skin", window=window)
    draw_body(
        grid[0, 1], skin, frame.skin, "pushed", things=frame.things, window=near, azimuth=100.0
    )
    most = max(1.0, float(np.ceil(far.max())))
    draw_body(
        grid[0, 2],
        skin,
        skin.vertices + frame.unposed,
        f"unposed: flesh moves by {far.max():.1f} mm",
        values=far,
        most=most,
        azimuth=10.0,
    )
    key_of(figure, grid[0, 2], most, "mm")
    save_picture(figure, folder / "tapia2021-fig6.png")
    turned = np.degrees(np.abs(take.parameters[-1, 3:72] - take.wanted[-1, 3:72])).max()
    return {
        "title": "tapia2021 fig. 6: matches at rest, and answers to a push",
        "message": f"Alone within {at_rest:.1g} m of the parametric skin; pushed, joints turn by up"
        f" to {turned:.3g}° and flesh moves by {far.max():.2g} mm.",
        "rows": [_touch_row("ball on the arm", take)],
    }


def fig8(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw a hand that slides over fine bars, and its flesh unposed below."""
    tell(0.0, "building")
    shown = contact_scene("hand-bars")
    model, times = model_of("hand", quick), [0.5, 0.8, 1.1, 1.45]
    take = play_scene(shown, model, times, quick=quick, tell=_told(tell, 0.2, 0.6, "sliding"))
    skin = shown.scene.character.surface
    figure, grid = sheet("A hand slides over bars; below, what moves its flesh", 2, len(times))
    deep = 1e3 * max(float(np.linalg.norm(take.frames[t].unposed, axis=1).max()) for t in times)
    most = max(1.0, float(np.ceil(deep)))
    ripples = []
    for column, time in enumerate(times):
        frame = take.frames[time]
        draw_body(
            grid[0, column],
            skin,
            frame.skin,
            f"{time:.2f} s",
            things=frame.things,
            azimuth=shown.azimuth,
            window=window_of(frame.skin, 1.15),
        )
        draw_body(
            grid[1, column],
            skin,
            skin.vertices + frame.unposed,
            values=1e3 * np.linalg.norm(frame.unposed, axis=1),
            most=most,
            azimuth=200.0,
            elevation=-70.0,
        )
        ripples.append(_ripples(frame.skin, frame.unposed, -0.016))
    key_of(figure, grid[1, -1], most, "mm")
    save_picture(figure, folder / "tapia2021-fig8.png")
    return {
        "title": "tapia2021 fig. 8: a hand slides over bars",
        "message": f"Flesh moves by up to {deep:.2g} mm, in ripples as far apart as the bars: they "
        f"are {100 * max(ripples):.0f} % of the variance along the palm.",
        "rows": [_touch_row("hand-bars", take)],
    }


def _ripples(skin: Floats, unposed: Floats, spacing: float) -> float:
    """Return the part of the palm's displacement along x that repeats with the bars."""
    low = unposed[:, 1] != 0
    palm = low & (skin[:, 1] < np.median(skin[:, 1])) & (np.abs(skin[:, 2]) < 0.03)
    if palm.sum() < 8 or not np.ptp(unposed[palm, 1]):
        return 0.0
    x, u = skin[palm, 0], unposed[palm, 1] - unposed[palm, 1].mean()
    waves = np.column_stack([f(2 * np.pi * x / spacing) for f in (np.sin, np.cos)])
    fitted = waves @ np.linalg.lstsq(waves, u, rcond=None)[0]
    return float((fitted**2).sum() / (u**2).sum())


def fig10(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw fingertips that slide sideways along a cylinder: stretched ahead, or behind."""
    tell(0.0, "building")
    shown, model = scene("hand"), model_of("hand", quick)
    pose = hand_pose({finger: (4.0, 10.0, 10.0, 0.0) for finger in ("index", "middle", "ring")})
    points, line = shown.character.rig(pose), Timeline(2.0, rate=90)
    tip = points[shown.parts == shown.part_names.index("middle3")]
    x, radius = float(tip[:, 0].mean()), 0.012
    low = float(tip[np.abs(tip[:, 0] - x) < 0.006, 1].min())
    bar = Capsule((x, low - radius, -0.2), (x, low - radius, 0.2), radius)
    down = -0.002
    keys = [
        (0.0, (0.0, 0.004, 0.0)),
        (0.4, (0.0, down, 0.0)),
        (0.5, (0.0, down, 0.0)),
        (1.0, (0.0, down, 0.025)),
        (1.1, (0.0, down, 0.025)),
        (1.7, (0.0, down, -0.025)),
    ]
    motion = Motion(line.times, np.tile(pose, (len(line.times), 1)), line.roots(keys), "slides")
    simulator = SoftSkeletonSimulator(
        model, 1 / 90, tracking=60.0, obstacles=(bar,), friction=0.8, self_contact=False
    )
    simulator.reset(*motion.at(0.0))
    ways = {0.9: "towards +z", 1.5: "towards −z"}
    take = played(
        simulator,
        motion,
        list(ways),
        things=(bar,),
        quick=quick,
        tell=_told(tell, 0.2, 0.6, "sliding"),
    )
    skin = shown.character.surface
    figure, grid = sheet("Fingertips slide along a cylinder: how their skin is strained", 1, 4, 2.9)
    near, sides = window_of(points[points[:, 0] < x + 0.025], 1.15), []
    for column, (time, said) in enumerate(ways.items()):
        frame = take.frames[time]
        draw_body(
            grid[0, 2 * column],
            skin,
            frame.skin,
            said,
            things=frame.things,
            azimuth=180.0,
            elevation=15.0,
            window=window_of(frame.skin[points[:, 0] < x + 0.04], 1.3),
        )
        strain = skin_strain(skin, frame.unposed)
        draw_body(
            grid[0, 2 * column + 1],
            skin,
            skin.vertices + frame.unposed,
            "tr C − 2 of the skin",
            values=strain,
            most=0.3,
            signed=True,
            azimuth=180.0,
            elevation=-75.0,
            window=near,
        )
        sides.append(_sides(shown.parts, shown.part_names, skin.vertices, strain))
    key_of(figure, grid[0, -1], 0.3, "compressed | stretched", signed=True)
    save_picture(figure, folder / "tapia2021-fig10.png")
    return {
        "title": "tapia2021 fig. 10: fingertips that slide sideways",
        "message": "Strain of the side towards +z less that of the other: "
        + ", ".join(f"{side:+.3f} {said}" for side, said in zip(sides, ways.values(), strict=True))
        + ".",
        "rows": [_touch_row("fingers on a cylinder", take)],
        "note": "tr C − 2 of the skin's own right Cauchy–Green tensor, in its plane.",
    }


def _sides(parts: Floats, names: tuple[str, ...], rest: Floats, strain: Floats) -> float:
    """Return the mean strain of fingertips on the side of +z less that on the other."""
    found = []
    for finger in ("index", "middle", "ring"):
        own = parts == names.index(f"{finger}3")
        across = rest[:, 2] - np.median(rest[own, 2])
        left, right = own & (across > 0.003), own & (across < -0.003)
        found.append(float(strain[left].mean() - strain[right].mean()))
    return float(np.mean(found))
