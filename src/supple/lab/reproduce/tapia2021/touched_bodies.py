"""tapia2021 figs 1, 3 and 6: contact that deforms flesh and moves bones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from supple.app.pictures.drawing import save_picture
from supple.arrays import Floats
from supple.dynamics.rigid_object import RigidObject
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.lab.bench.soft_skeleton.sphere_compliance import without_residual
from supple.lab.reproduce.figures import Tell, part_of
from supple.lab.reproduce.tapia2021.soft_bodies import (
    draw_body,
    draw_flesh,
    draw_frame,
    key_of,
    model_of,
    recorded,
    sheet,
    still,
    touch_row,
    window_of,
)
from supple.mesh.obstacles import Capsule, Sphere
from supple.scenes.characters.character_scene import scene
from supple.scenes.characters.hand import POSES as HAND_POSES
from supple.scenes.characters.hand import TIPS, hand_pose
from supple.scenes.characters.human import POSES as HUMAN_POSES
from supple.scenes.characters.human import human_pose
from supple.scenes.contact.contact_scene import ContactScene, contact_scene
from supple.scenes.contact.props import at
from supple.scenes.modelling.sculpting import ramp

#: Stiffness factor of rigid flesh.
RIGID = 1e3
#: Tracking frequency of pressing fingers, which are light, in Hz.
FIRM = 150.0


def fig1(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw the unposed shape, its contact deformation and the posed skin, for hand and body."""
    figure, grid = sheet("Handles, deformation by contact, and the posed skin", 2, 3)
    rows = []
    cases = (("hand-ball", 1.3, 4.0, (200.0, -70.0)), ("body-bench", 1.2, 40.0, (190.0, 5.0)))
    for row, (name, time, most, (azimuth, elevation)) in enumerate(cases):
        shown = contact_scene(name)
        tell(row / 2, f"{name}: building")
        model = model_of(shown.scene.character.name, quick)
        report = part_of(tell, row / 2, 0.4, name)
        take = recorded(shown, shown.simulator(model), [time], quick=quick, tell=report)
        frame, skin = take.frames[time], shown.scene.character.surface
        view = {"azimuth": azimuth, "elevation": elevation}
        camera = draw_body(grid[row, 0], skin, skin.vertices, "unposed", **view)
        handles = camera.project(skin.vertices[model.handles])
        grid[row, 0].plot(*handles[:, :2].T, ".", color="black", ms=3)
        text = f"flesh, at most {frame.far.max():.1f} mm"
        draw_flesh(grid[row, 1], skin, frame.unposed, text, most=most, **view)
        key_of(figure, grid[row, 1], most, "mm")
        view = {"azimuth": shown.azimuth, "window": window_of(frame.skin, 1.2)}
        draw_frame(grid[row, 2], skin, frame, shown.description, **view)
        rows.append(touch_row(name, take) | {"coordinates": _size(model)})
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


def _size(model: SoftSkeletonModel) -> int:
    return 3 + 3 * len(model.parents) + len(model.stiffness)


def fig3(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Press a bar against fingers with rigid and with soft flesh."""
    tell(0.0, "building")
    shown, model = scene("hand"), model_of("hand", quick)
    skin = shown.character.surface
    figure, grid = sheet("A bar pressed against fingers with rigid and soft flesh", 1, 4, 2.9)
    rows, takes = [], {}
    for at_row, (kind, flesh) in enumerate((("rigid", without_residual(model)), ("soft", model))):
        pressed = _lifted_bar()
        simulator = pressed.simulator(flesh)
        if kind == "rigid":
            simulator.stiffness = RIGID
        report = part_of(tell, 0.1 + 0.4 * at_row, 0.4, kind)
        take = recorded(pressed, simulator, [0.8], quick=quick, tell=report)
        takes[kind] = take
        angles = np.degrees(np.abs(take.parameters[-1, 3:48] - take.targets[-1, 3:48]))
        rows.append(
            touch_row(kind, take) | {"largest_turn_degrees": float(angles.max()), "flesh": kind}
        )
    tips = 0.5 * (TIPS["index"] + TIPS["ring"])
    window = tips + np.array([0.02, 0.0, 0.0]), 0.09
    for column, (kind, take) in enumerate(takes.items()):
        frame = take.frames[0.8]
        text = f"{kind}: joints rotate by {rows[column]['largest_turn_degrees']:.1f}°"
        view = {"azimuth": 0.0, "elevation": 5.0, "window": window}
        draw_frame(grid[0, 2 * column], skin, frame, text, **view)
        text = f"{kind}: flesh moves by {frame.far.max():.2f} mm"
        view = {"azimuth": 200.0, "elevation": -60.0, "window": window}
        draw_flesh(grid[0, 2 * column + 1], skin, frame.unposed, text, most=3.0, **view)
    key_of(figure, grid[0, -1], 3.0, "mm")
    save_picture(figure, folder / "tapia2021-fig3.png")
    return {
        "title": "tapia2021 fig. 3: contact on a skeleton, and on soft flesh",
        "message": f"Joints rotate by up to {rows[0]['largest_turn_degrees']:.3g}° under rigid "
        f"flesh and {rows[1]['largest_turn_degrees']:.3g}° under soft flesh, which yields by "
        f"{rows[1]['flesh_mm']:.2g} mm; forces {rows[0]['last_force_N']:.3g} and "
        f"{rows[1]['last_force_N']:.3g} N.",
        "rows": rows,
    }


def _lifted_bar() -> ContactScene:
    """Return a resting flat hand, and a bar that is lifted by 8 mm against its fingers."""
    shown, pose = scene("hand"), hand_pose(HAND_POSES["flat"])
    skin = shown.character.rig(pose)
    place = 0.5 * (TIPS["index"] + TIPS["ring"])
    near = np.abs(skin[:, 0] - place[0] - 0.012) < 0.004
    low, radius = float(skin[near, 1].min()), 0.006

    def path(seconds: float) -> Floats:
        up = -0.003 + 0.011 * ramp(np.array([seconds]), 0.05, 0.6)[0]
        return at((place[0] + 0.012, low - radius + up, place[2]))

    shape = Capsule((0, 0, -0.06), (0, 0, 0.06), radius)
    return ContactScene(
        "lifted-bar",
        "a bar is lifted against fingers",
        shown,
        still(pose, 1.2),
        objects=(RigidObject(shape, 1.0, place=path(0.0), kinematic=True, name="bar"),),
        led={"bar": path},
        options={"tracking": FIRM, "gravity": (0, 0, 0)},
    )


_LEFT_ARM = ("left_shoulder", "left_elbow", "left_wrist", "left_hand")


def fig6(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw a body alone, pushed by a ball, and its unposed flesh."""
    tell(0.0, "building")
    shown, model = scene("human"), model_of("human", quick)
    skin, pushed = shown.character.surface, _pushed_arm()
    points = shown.character.rig(pushed.motion.poses[0])
    simulator = pushed.simulator(model)
    at_rest = float(np.abs(simulator.surface() - points).max())
    report = part_of(tell, 0.2, 0.6, "pushing")
    take = recorded(pushed, simulator, [1.0], quick=quick, tell=report)
    frame = take.frames[1.0]
    most = max(1.0, float(np.ceil(frame.far.max())))
    figure, grid = sheet("A body alone, pushed by a ball, and its flesh unposed", 1, 3, 3.2)
    arm = [k for k, part in enumerate(shown.part_names) if part in _LEFT_ARM]
    near = window_of(frame.skin[np.isin(shown.parts, arm)], 1.2)
    draw_body(grid[0, 0], skin, points, "alone: the parametric skin")
    draw_frame(grid[0, 1], skin, frame, "pushed", window=near, azimuth=65.0)
    text = f"unposed: flesh moves by {frame.far.max():.1f} mm"
    draw_flesh(grid[0, 2], skin, frame.unposed, text, most=most, azimuth=10.0)
    key_of(figure, grid[0, 2], most, "mm")
    save_picture(figure, folder / "tapia2021-fig6.png")
    angle = np.degrees(np.abs(take.parameters[-1, 3:72] - take.targets[-1, 3:72])).max()
    return {
        "title": "tapia2021 fig. 6: the body at rest, and its response to a push",
        "message": f"Alone within {at_rest:.1g} m of the parametric skin; pushed, joints rotate by "
        f"up to {angle:.3g}° and flesh moves by {frame.far.max():.2g} mm.",
        "rows": [touch_row("ball on the arm", take)],
    }


def _pushed_arm() -> ContactScene:
    """Return a standing person, and a ball that pushes a forearm back."""
    shown, pose = scene("human"), human_pose(HUMAN_POSES["standing"])
    points = shown.character.rig(pose)
    arm = points[shown.parts == shown.part_names.index("left_elbow")]
    target, radius = arm.mean(axis=0), 0.07

    def path(seconds: float) -> Floats:
        ahead = 0.15 - 0.16 * ramp(np.array([seconds]), 0.1, 0.9)[0]
        return at(target + np.array([0.15 * ahead, 0.0, radius + ahead]))

    ball = RigidObject(Sphere((0, 0, 0), radius), 5.0, place=path(0.0), kinematic=True, name="ball")
    return ContactScene(
        "pushed-arm",
        "a ball pushes a forearm",
        shown,
        still(pose, 1.2),
        objects=(ball,),
        led={"ball": path},
        options={"tracking": 3.0},
    )
