"""tapia2021 figs 1, 3, 6, 8 and 10: contact that deforms flesh and moves bones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from supple.app.pictures.drawing import save_picture
from supple.arrays import Floats, Ints
from supple.dynamics.rigid_object import RigidObject
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.lab.bench.soft_skeleton.sphere_compliance import without_residual
from supple.lab.reproduce.figures import part_of
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
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.progress import Progress
from supple.scenes.characters.character_scene import scene
from supple.scenes.characters.hand import POSES as HAND_POSES
from supple.scenes.characters.hand import TIPS, hand_pose
from supple.scenes.characters.human import POSES as HUMAN_POSES
from supple.scenes.characters.human import human_pose
from supple.scenes.contact.contact_scene import ContactScene, contact_scene
from supple.scenes.contact.props import at, bars
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.sculpting import ramp

#: Stiffness factor of rigid flesh.
RIGID = 1e3


def fig1(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Draw the unposed shape, its contact deformation and the posed skin, for hand and body."""
    figure, grid = sheet("Handles, deformation by contact, and the posed skin", 2, 3)
    rows = []
    cases = (("hand-ball", 1.3, 4.0, (200.0, -70.0)), ("body-bench", 1.2, 40.0, (190.0, 5.0)))
    for row, (name, time, largest, (azimuth, elevation)) in enumerate(cases):
        shown = contact_scene(name)
        progress(row / 2, f"{name}: building")
        model = model_of(shown.scene.character.name, quick)
        report = part_of(progress, row / 2, 0.4, name)
        take = recorded(shown, shown.simulator(model), [time], quick=quick, progress=report)
        frame, skin = take.frames[time], shown.scene.character.surface
        view: dict[str, Any] = {"azimuth": azimuth, "elevation": elevation}
        camera = draw_body(grid[row, 0], skin, skin.vertices, "unposed", **view)
        handles = camera.project(skin.vertices[model.handles])
        grid[row, 0].plot(*handles[:, :2].T, ".", color="black", ms=3)
        text = f"flesh, at most {frame.far.max():.1f} mm"
        draw_flesh(grid[row, 1], skin, frame.unposed, text, largest=largest, **view)
        key_of(figure, grid[row, 1], largest, "mm")
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


def fig3(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Press a bar against fingers with rigid and with soft flesh."""
    progress(0.0, "building")
    shown, model = scene("hand"), model_of("hand", quick)
    skin = shown.character.surface
    figure, grid = sheet("A bar pressed against fingers with rigid and soft flesh", 1, 4, 2.9)
    rows, takes = [], {}
    for at_row, (kind, flesh) in enumerate((("rigid", without_residual(model)), ("soft", model))):
        pressed = _lifted_bar()
        simulator = pressed.simulator(flesh)
        if kind == "rigid":
            simulator.stiffness = RIGID
        report = part_of(progress, 0.1 + 0.4 * at_row, 0.4, kind)
        take = recorded(pressed, simulator, [0.8], quick=quick, progress=report)
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
        draw_flesh(grid[0, 2 * column + 1], skin, frame.unposed, text, largest=3.0, **view)
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
        options={"tracking": VERY_FIRM, "gravity": (0, 0, 0)},
    )


_LEFT_ARM = ("left_shoulder", "left_elbow", "left_wrist", "left_hand")


def fig6(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Draw a body alone, pushed by a ball, and its unposed flesh."""
    progress(0.0, "building")
    shown, model = scene("human"), model_of("human", quick)
    skin, pushed = shown.character.surface, _pushed_arm()
    points = shown.character.rig(pushed.motion.poses[0])
    simulator = pushed.simulator(model)
    at_rest = float(np.abs(simulator.surface() - points).max())
    report = part_of(progress, 0.2, 0.6, "pushing")
    take = recorded(pushed, simulator, [1.0], quick=quick, progress=report)
    frame = take.frames[1.0]
    largest = max(1.0, float(np.ceil(frame.far.max())))
    figure, grid = sheet("A body alone, pushed by a ball, and its flesh unposed", 1, 3, 3.2)
    arm = [k for k, part in enumerate(shown.part_names) if part in _LEFT_ARM]
    near = window_of(frame.skin[np.isin(shown.parts, arm)], 1.2)
    draw_body(grid[0, 0], skin, points, "alone: the parametric skin")
    draw_frame(grid[0, 1], skin, frame, "pushed", window=near, azimuth=65.0)
    text = f"unposed: flesh moves by {frame.far.max():.1f} mm"
    draw_flesh(grid[0, 2], skin, frame.unposed, text, largest=largest, azimuth=10.0)
    key_of(figure, grid[0, 2], largest, "mm")
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


#: Distance between the bars, and depth of the palm on them, in m.
BARS, PALM_DEPTH = 0.018, 0.006
#: Options with more handles, denser on palm and fingertips.
FINER_PALM: dict[str, Any] = {
    "handles": 176,
    "cubature": 1_200,
    "tets": 20_000,
    "denser": {"wrist": 2.0},
}
FINER_TIPS: dict[str, Any] = {"handles": 150, "cubature": 1_000, "denser": {"*3": 2.5}}
#: Degree of the polynomial that is subtracted from the palm's displacement.
SMOOTH = 4
#: Tracking frequencies of a sliding hand and of pressing fingers, which are light, in Hz.
FIRM, VERY_FIRM = 50.0, 150.0


def fig8(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Draw a hand that slides over thin bars, and its unposed flesh below."""
    progress(0.0, "building")
    shown, times = _palm_on_bars(), [0.5, 0.8, 1.1, 1.45]
    finer = {} if quick else FINER_PALM
    simulator = shown.simulator(model_of("hand", quick, **finer))
    report = part_of(progress, 0.2, 0.6, "sliding")
    take = recorded(shown, simulator, times, quick=quick, progress=report)
    skin = shown.scene.character.surface
    figure, grid = sheet(
        "A hand slides over bars; below, the displacement of its flesh", 2, len(times)
    )
    deep = max(float(take.frames[time].far.max()) for time in times)
    largest = max(1.0, float(np.ceil(deep)))
    ripples = []
    window = window_of(np.concatenate([take.frames[time].skin for time in times]), 1.0)
    for column, time in enumerate(times):
        frame = take.frames[time]
        view: dict[str, Any] = {"azimuth": shown.azimuth, "window": window}
        draw_frame(grid[0, column], skin, frame, f"{time:.2f} s", **view)
        view = {"azimuth": 200.0, "elevation": -70.0}
        draw_flesh(grid[1, column], skin, frame.unposed, largest=largest, **view)
        ripples.append(_ripples(frame.skin, frame.unposed, BARS))
    key_of(figure, grid[1, -1], largest, "mm")
    save_picture(figure, folder / "tapia2021-fig8.png")
    return {
        "title": "tapia2021 fig. 8: a hand slides over bars",
        "message": f"Flesh moves by up to {deep:.2g} mm; {100 * max(ripples):.0f} % of its "
        "variance along the palm, without the smooth part, has the period of the bars.",
        "rows": [touch_row("palm on bars", take)],
    }


def _palm_on_bars() -> ContactScene:
    """Return a flat hand whose palm is pressed on bars and slides over them."""
    shown, pose, line = scene("hand"), hand_pose(HAND_POSES["flat"]), Timeline(2.0, rate=90)
    skin, radius = shown.character.rig(pose), 0.005
    palm = skin[(shown.parts == 0) & (skin[:, 0] < 0)]
    down = -PALM_DEPTH
    keys = [
        (0.0, (0.0, 0.006, 0.0)),
        (0.4, (0.0, down, 0.0)),
        (0.6, (0.0, down, 0.0)),
        (1.1, (-0.02, down, 0.0)),
        (1.6, (0.02, down, 0.0)),
    ]
    first = (0.03, float(palm[:, 1].min()) - radius, -0.008)
    return ContactScene(
        "palm-bars",
        "a palm slides over thin bars",
        shown,
        line.held(pose, "slide", line.roots(keys)),
        obstacles=bars(first, (-BARS, 0, 0), (0, 0, 0.035), 9, radius),
        options={"tracking": FIRM, "friction": 0.3},
        azimuth=-30.0,
    )


def _ripples(skin: Floats, unposed: Floats, spacing: float) -> float:
    """Return the share of the palm's detrended variance that has the period of the bars."""
    shown = scene("hand")
    down = vertex_normals(skin, shown.character.surface.triangles)[:, 1] < -0.5
    palm = down & (shown.parts == 0) & (np.abs(skin[:, 2] + 0.012) < 0.015) & (skin[:, 0] < 0.02)
    x, u = skin[palm, 0], unposed[palm, 1]
    u = u - np.polyval(np.polyfit(x, u, SMOOTH), x)
    if not u.any():
        return 0.0
    waves = np.column_stack([f(2 * np.pi * x / spacing) for f in (np.sin, np.cos)])
    fitted = waves @ np.linalg.lstsq(waves, u, rcond=None)[0]
    return float((fitted**2).sum() / (u**2).sum())


def fig10(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Draw fingertips that slide along a cylinder, with the strain of their skin."""
    progress(0.0, "building")
    shown = scene("hand")
    finer = {} if quick else FINER_TIPS
    model, sliding = model_of("hand", quick, **finer), _fingers_on_cylinder()
    directions = {0.95: "towards +z", 1.55: "towards −z"}
    part = part_of(progress, 0.2, 0.6, "sliding")
    take = recorded(sliding, sliding.simulator(model), list(directions), quick=quick, progress=part)
    points, x = shown.character.rig(sliding.motion.poses[0]), _bar_place(sliding)
    skin = shown.character.surface
    figure, grid = sheet("Fingertips slide along a cylinder: strain of their skin", 1, 4, 2.9)
    near, sides = window_of(points[points[:, 0] < x + 0.025], 1.15), []
    for column, (time, text) in enumerate(directions.items()):
        frame = take.frames[time]
        tips = window_of(frame.skin[points[:, 0] < x + 0.04], 1.3)
        view = {"azimuth": 180.0, "elevation": 15.0, "window": tips}
        draw_frame(grid[0, 2 * column], skin, frame, text, **view)
        strain = skin_strain(skin, frame.unposed)
        draw_body(
            grid[0, 2 * column + 1],
            skin,
            skin.vertices + frame.unposed,
            "tr C − 2 of the skin",
            values=strain,
            largest=0.3,
            signed=True,
            azimuth=180.0,
            elevation=-75.0,
            window=near,
        )
        sides.append(_sides(shown.parts, shown.part_names, skin.vertices, strain))
    key_of(figure, grid[0, -1], 0.3, "compressed | stretched", signed=True)
    save_picture(figure, folder / "tapia2021-fig10.png")
    return {
        "title": "tapia2021 fig. 10: sliding fingertips",
        "message": "Strain of the side towards +z minus that of the other: "
        + ", ".join(
            f"{side:+.3f} {text}" for side, text in zip(sides, directions.values(), strict=True)
        )
        + ".",
        "rows": [touch_row("fingers on a cylinder", take)],
        "note": "150 handles, 2.5 times denser at the fingertips. tr C − 2 of the in-plane right "
        "Cauchy–Green tensor of the skin.",
    }


def _fingers_on_cylinder() -> ContactScene:
    """Return fingers that are pressed on a cylinder across them and slide along it."""
    shown, line = scene("hand"), Timeline(2.0, rate=90)
    pose = hand_pose({finger: (4.0, 10.0, 10.0, 0.0) for finger in ("index", "middle", "ring")})
    points, radius, down = shown.character.rig(pose), 0.012, -0.003
    tips = [points[shown.parts == shown.part_names.index(f"{f}3")] for f in ("index", "ring")]
    x = float(np.mean([tip[:, 0].mean() for tip in tips]))
    low = float(np.mean([tip[np.abs(tip[:, 0] - x) < 0.006, 1].min() for tip in tips]))
    keys = [
        (0.0, (0.0, 0.004, 0.0)),
        (0.4, (0.0, down, 0.0)),
        (0.5, (0.0, down, 0.0)),
        (1.0, (0.0, down, 0.02)),
        (1.1, (0.0, down, 0.02)),
        (1.6, (0.0, down, -0.02)),
    ]
    return ContactScene(
        "fingers-cylinder",
        "fingertips slide along a cylinder",
        shown,
        line.held(pose, "slides", line.roots(keys)),
        obstacles=(Capsule((x, low - radius, -0.2), (x, low - radius, 0.2), radius),),
        options={"tracking": VERY_FIRM, "friction": 0.9, "self_contact": False},
    )


def _bar_place(sliding: ContactScene) -> float:
    (bar,) = sliding.obstacles
    assert isinstance(bar, Capsule)
    return float(np.asarray(bar.start, np.float64)[0])


def _sides(parts: Ints, names: tuple[str, ...], rest: Floats, strain: Floats) -> float:
    """Return the mean strain of fingertips on the +z side minus that on the other side."""
    differences = []
    for finger in ("index", "ring"):
        tip = parts == names.index(f"{finger}3")
        across = rest[:, 2] - np.median(rest[tip, 2])
        left, right = tip & (across > 0.003), tip & (across < -0.003)
        differences.append(float(strain[left].mean() - strain[right].mean()))
    return float(np.mean(differences))


def skin_strain(surface: SurfaceMesh, displacements: Floats) -> Floats:
    """Return tr C − 2 at each vertex, (n̄,), of a surface with displacements (n̄, 3).

    C is the right Cauchy–Green tensor of the triangles.
    """
    corners, now = surface.vertices[surface.triangles], (surface.vertices + displacements)
    now = now[surface.triangles]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    p, q = now[:, 1] - now[:, 0], now[:, 2] - now[:, 0]
    # tr(G⁻¹ g) of the first fundamental forms G at rest and g now.
    E, F, G = (a * a).sum(axis=1), (a * b).sum(axis=1), (b * b).sum(axis=1)
    e, f, g = (p * p).sum(axis=1), (p * q).sum(axis=1), (q * q).sum(axis=1)
    flat = np.maximum(E * G - F * F, 1e-300)
    strain = (G * e - 2 * F * f + E * g) / flat - 2.0
    areas = np.sqrt(flat)
    total, weight = np.zeros(len(displacements)), np.zeros(len(displacements))
    for i in range(3):
        np.add.at(total, surface.triangles[:, i], areas * strain)
        np.add.at(weight, surface.triangles[:, i], areas)
    return total / np.maximum(weight, 1e-300)
