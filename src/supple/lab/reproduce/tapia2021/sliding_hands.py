"""tapia2021 figs. 8 and 10: a palm on bars, and fingertips along a cylinder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from supple.app.pictures.drawing import save_picture
from supple.arrays import Floats, Ints
from supple.lab.reproduce.tapia2021.soft_bodies import (
    Tell,
    model_of,
    told_part,
    touch_row,
    watched,
)
from supple.lab.reproduce.tapia2021.soft_pictures import draw_body, key_of, sheet, window_of
from supple.mesh.obstacles import Capsule
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import scene
from supple.scenes.characters.hand import POSES, hand_pose
from supple.scenes.contact.contact_scene import ContactScene
from supple.scenes.contact.props import bars
from supple.scenes.modelling.keyframes import Timeline

#: Distance of bars that a palm slides over, and how deep it is pressed on them, in m.
BARS, PALM_DEPTH = 0.018, 0.006
#: More handles, and where they are nearer to each other.
FINER_PALM: dict[str, Any] = {
    "handles": 176,
    "cubature": 1_200,
    "tets": 20_000,
    "denser": {"wrist": 2.0},
}
FINER_TIPS: dict[str, Any] = {"handles": 150, "cubature": 1_000, "denser": {"*3": 2.5}}
#: Degree of what is smooth of the palm's motion, and no ripple.
SMOOTH = 4
#: Springs of a hand that slides, in Hz, and of fingers that press: they are light.
FIRM, VERY_FIRM = 50.0, 150.0


def fig8(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw a hand that slides over fine bars, and its flesh unposed below."""
    tell(0.0, "building")
    shown, times = _palm_on_bars(), [0.5, 0.8, 1.1, 1.45]
    finer = {} if quick else FINER_PALM
    simulator = shown.simulator(model_of("hand", quick, **finer))
    told = told_part(tell, 0.2, 0.6, "sliding")
    take = watched(shown, simulator, times, quick=quick, tell=told)
    skin = shown.scene.character.surface
    figure, grid = sheet("A hand slides over bars; below, what moves its flesh", 2, len(times))
    deep = 1e3 * max(float(np.linalg.norm(take.frames[t].unposed, axis=1).max()) for t in times)
    most = max(1.0, float(np.ceil(deep)))
    ripples = []
    window = window_of(np.concatenate([take.frames[time].skin for time in times]), 1.0)
    for column, time in enumerate(times):
        frame = take.frames[time]
        draw_body(
            grid[0, column],
            skin,
            frame.skin,
            f"{time:.2f} s",
            things=frame.things,
            azimuth=shown.azimuth,
            window=window,
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
        ripples.append(_ripples(frame.skin, frame.unposed, BARS))
    key_of(figure, grid[1, -1], most, "mm")
    save_picture(figure, folder / "tapia2021-fig8.png")
    return {
        "title": "tapia2021 fig. 8: a hand slides over bars",
        "message": f"Flesh moves by up to {deep:.2g} mm; {100 * max(ripples):.0f} % of what is not "
        "smooth of it along the palm repeats with the bars.",
        "rows": [touch_row("palm on bars", take)],
    }


def _palm_on_bars() -> ContactScene:
    """Return a flat hand whose palm is pressed on bars, and slides along them."""
    shown, pose, line = scene("hand"), hand_pose(POSES["flat"]), Timeline(2.0, rate=90)
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
    poses = np.tile(pose, (len(line.times), 1))
    first = (0.03, float(palm[:, 1].min()) - radius, -0.008)
    return ContactScene(
        "palm-bars",
        "a palm slides over fine bars",
        shown,
        Motion(line.times, poses, line.roots(keys), "slide"),
        obstacles=bars(first, (-BARS, 0, 0), (0, 0, 0.035), 9, radius),
        options={"tracking": FIRM, "friction": 0.3},
        azimuth=-30.0,
    )


def _ripples(skin: Floats, unposed: Floats, spacing: float) -> float:
    """Return the part of the palm's variance, but for what is smooth, that repeats with bars."""
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


def fig10(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw fingertips that slide sideways along a cylinder: stretched ahead, or behind."""
    tell(0.0, "building")
    shown = scene("hand")
    finer = {} if quick else FINER_TIPS
    model, sliding = model_of("hand", quick, **finer), _fingers_on_cylinder()
    ways = {0.95: "towards +z", 1.55: "towards −z"}
    told = told_part(tell, 0.2, 0.6, "sliding")
    take = watched(sliding, sliding.simulator(model), list(ways), quick=quick, tell=told)
    points, x = shown.character.rig(sliding.motion.poses[0]), _bar_place(sliding)
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
        "rows": [touch_row("fingers on a cylinder", take)],
        "note": "150 handles, 2.5 times as near to each other at fingertips. tr C − 2 of skin's "
        "own right Cauchy–Green tensor, in its plane.",
    }


def _fingers_on_cylinder() -> ContactScene:
    """Return fingers pressed on a cylinder that lies across them, and slide along it."""
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
        Motion(line.times, np.tile(pose, (len(line.times), 1)), line.roots(keys), "slides"),
        obstacles=(Capsule((x, low - radius, -0.2), (x, low - radius, 0.2), radius),),
        options={"tracking": VERY_FIRM, "friction": 0.9, "self_contact": False},
    )


def _bar_place(sliding: ContactScene) -> float:
    (bar,) = sliding.obstacles
    assert isinstance(bar, Capsule)
    return float(np.asarray(bar.start, np.float64)[0])


def _sides(parts: Ints, names: tuple[str, ...], rest: Floats, strain: Floats) -> float:
    """Return the mean strain of fingertips on the side of +z less that on the other."""
    found = []
    for finger in ("index", "ring"):
        own = parts == names.index(f"{finger}3")
        across = rest[:, 2] - np.median(rest[own, 2])
        left, right = own & (across > 0.003), own & (across < -0.003)
        found.append(float(strain[left].mean() - strain[right].mean()))
    return float(np.mean(found))


def skin_strain(surface: SurfaceMesh, moved: Floats) -> Floats:
    """(n̄,) tr C − 2 with C the right Cauchy–Green tensor of the triangles around each vertex.

    Parameters
    ----------
    surface
        At rest.
    moved
        (n̄, 3) displacement.
    """
    corners, now = surface.vertices[surface.triangles], (surface.vertices + moved)
    now = now[surface.triangles]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    p, q = now[:, 1] - now[:, 0], now[:, 2] - now[:, 0]
    # tr(G⁻¹ g) of the first fundamental forms G at rest and g now.
    E, F, G = (a * a).sum(axis=1), (a * b).sum(axis=1), (b * b).sum(axis=1)
    e, f, g = (p * p).sum(axis=1), (p * q).sum(axis=1), (q * q).sum(axis=1)
    flat = np.maximum(E * G - F * F, 1e-300)
    strain = (G * e - 2 * F * f + E * g) / flat - 2.0
    areas = np.sqrt(flat)
    total, weight = np.zeros(len(moved)), np.zeros(len(moved))
    for i in range(3):
        np.add.at(total, surface.triangles[:, i], areas * strain)
        np.add.at(weight, surface.triangles[:, i], areas)
    return total / np.maximum(weight, 1e-300)
