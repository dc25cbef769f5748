"""tapia2021 figs 2, 4, 5, 7, 9 and 12: bodies at rest, their flesh and handles, and in motion."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from supple.app.pictures.drawing import draw_surface, save_picture, view_axes
from supple.arrays import Floats
from supple.engines.factory import build
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer, flesh_layer
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.formats.smpl.load_body import body_character
from supple.lab.bench.soft_skeleton.soft_cases import scene_bones
from supple.lab.reproduce.figures import part_of
from supple.lab.reproduce.tapia2021.soft_bodies import (
    QUICK,
    SIZES,
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
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.mesh.tets import TetMesh
from supple.progress import Progress
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import scene
from supple.scenes.characters.human import POSES, human_pose
from supple.scenes.contact.contact_scene import ContactScene, contact_scene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.sculpting import ramp

#: Number of steps in a pose, without gravity and contact.
HELD = 20
#: Poses in the picture, and directions of the camera.
_SHOWN = {"hand": ("fist", -150.0, -20.0), "human": ("crouched", 60.0, 9.0)}
#: Tets and vertices of the paper's layers (§5.1, §5.2).
PAPER_TETS = {"hand": (88_716, 20_214), "human": (41_585, 10_111)}
#: Tets of a hand with bone meshes, which are thin.
MESHED_TETS = 40_000
_BONE, _CUT = np.array([0.93, 0.90, 0.80]), np.array([0.80, 0.36, 0.33])


def fig2(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Draw poses with and without pose blend shapes, and measure the skin's distance from them."""
    rows: list[dict[str, Any]] = []
    figure, grid = sheet("Skin at rest without and with pose blend shapes", 1, 4)
    for at, name in enumerate(SIZES):
        progress(at / 2, f"{name}: building")
        shown, model = scene(name), model_of(name, quick)
        character = shown.character
        simulator = SoftSkeletonSimulator(model, 1 / 90, gravity=(0, 0, 0), self_contact=False)
        started, held = [], []
        for pose in shown.poses[:2] if quick else shown.poses:
            truth = character.rig(pose)
            simulator.reset(pose)
            started.append(np.abs(simulator.surface() - truth).max())
            for _ in range(HELD):
                simulator.step(pose)
            held.append(np.abs(simulator.surface() - truth).max())
        rows.append(
            {
                "body": name,
                "poses": len(started),
                "largest_difference_m": float(max(started)),
                "after_held_steps_m": float(max(held)),
                "float32_rounding_m": float(np.spacing(np.float32(character.surface.size))),
            }
        )
        progress(at / 2 + 0.4, f"{name}: drawing")
        pose_name, azimuth, elevation = _SHOWN[name]
        pose = shown.pose(pose_name)
        plain = character.rig.base(pose)  # type: ignore[attr-defined]
        right = character.rig(pose)
        distance = float(np.linalg.norm(right - plain, axis=1).max())
        window = window_of(right)
        for column, (points, text) in enumerate(((plain, "without"), (right, "with"))):
            caption = f"{pose_name}: {text}"
            if column:
                caption += f", which move by up to {1e3 * distance:.0f} mm"
            draw_body(
                grid[0, 2 * at + column],
                character.surface,
                points,
                caption,
                azimuth=azimuth,
                elevation=elevation,
                window=window,
            )
    save_picture(figure, folder / "tapia2021-fig2.png")
    worst = max(row["after_held_steps_m"] for row in rows)
    return {
        "title": "tapia2021 fig. 2: skin at rest equals the parametric model's",
        "message": f"At equal θ, without gravity and contact, the skin equals the parametric "
        f"model's to {worst:.1g} m over {sum(row['poses'] for row in rows)} poses; skin is "
        "float32.",
        "rows": rows,
    }


def fig4(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Draw cut tets of the flesh, with bones from the anatomy and from meshes."""
    figure, grid = sheet("Flesh between skin and bone, cut open", 1, 3, 3.6)
    rows = []
    cases = [("human", False), ("hand", False), ("hand", True)]
    for at, (name, meshes) in enumerate(cases):
        progress(at / len(cases), f"{name}: tets")
        shown = scene(name)
        bones = scene_bones(shown) if meshes else None
        tets = QUICK["tets"] if quick else (MESHED_TETS if meshes else shown.tets)
        rig_bones = RigBones(shown.character.rig)
        layer = flesh_layer(shown.character, rig_bones, tets, None, None, bones)
        axis, view = (2, view_axes(0, 0)) if name == "human" else (1, view_axes(0, 89))
        _draw_cut(grid[0, at], layer, axis, view)
        bone = "bone meshes" if meshes else "thickness of flesh"
        grid[0, at].set_title(f"{name}, {bone}: {len(layer.soft):,} tets of flesh", fontsize=9)
        volumes = layer.mesh.volumes()
        rows.append(
            {
                "body": name,
                "bone": bone,
                "tets": {"ours": len(layer.mesh.tets), "paper": PAPER_TETS[name][0]},
                "tet_vertices": {"ours": len(layer.mesh.vertices), "paper": PAPER_TETS[name][1]},
                "soft_tets": len(layer.soft),
                "soft_volume_percent": 100 * float(volumes[layer.soft].sum() / volumes.sum()),
                "smallest_volume_part": float(volumes.min() / np.median(volumes)),
            }
        )
    save_picture(figure, folder / "tapia2021-fig4.png")
    return {
        "title": "tapia2021 fig. 4: tets of the flesh",
        "message": "Tets match the skin within an edge and bones at vertices; only the build uses "
        "them.",
        "rows": rows,
        "note": "The paper offsets the skin inwards for the body and uses bones for the hand, both "
        "with conforming tets (TetGen); ours form a lattice independent of the triangles.",
    }


def _draw_cut(axes: Any, layer: FleshLayer, axis: int, view: Floats) -> None:
    """Draw the tets behind a cut: red flesh, pale bone, skin outside."""
    mesh, held = layer.mesh, np.zeros(len(layer.mesh.vertices), bool)
    held[layer.held] = True
    middles = mesh.vertices[mesh.tets].mean(axis=1)
    direction = view[2][axis]
    place = float(np.median(mesh.vertices[held, axis]))
    behind = np.flatnonzero((middles[:, axis] - place) * np.sign(direction) < 0)
    part = TetMesh(mesh.vertices, mesh.tets[behind])
    faces = part.boundary()
    outside = {tuple(row) for row in np.sort(mesh.boundary(), axis=1)}
    skin = np.array([tuple(row) in outside for row in np.sort(faces, axis=1)])
    colours = np.where(held[faces].all(axis=1)[:, None], _BONE, _CUT)
    colours[skin] = [0.87, 0.70, 0.61]
    draw_surface(axes, mesh.vertices, faces, colour=colours, view=view)
    flat = mesh.vertices @ view[:2].T
    low, high = flat.min(axis=0), flat.max(axis=0)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")


def fig5(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Draw handles on the skin, from two sides."""
    figure, grid = sheet("Handles: geodesic farthest points of the skin", 1, 4, 3.0)
    rows = []
    for at, name in enumerate(("hand", "human")):
        progress(at / 2, f"{name}: building")
        shown, model = scene(name), model_of(name, quick)
        skin = shown.character.surface
        normals = vertex_normals(skin.vertices, skin.triangles)
        sides = ((200.0, -70.0), (20.0, 70.0)) if name == "hand" else ((10.0, 5.0), (190.0, 5.0))
        for column, (azimuth, elevation) in enumerate(sides):
            axes = grid[0, 2 * at + column]
            camera = draw_body(
                axes, skin, skin.vertices, name, azimuth=azimuth, elevation=elevation
            )
            projected = camera.project(skin.vertices[model.handles])
            facing = normals[model.handles] @ camera.view[2] > 0.05
            axes.plot(*projected[facing, :2].T, "o", color="black", ms=3)
        places = skin.vertices[model.handles]
        near = np.sort(np.linalg.norm(places[:, None] - places, axis=2), axis=1)[:, 1]
        rows.append(
            {
                "body": name,
                "handles": {"ours": len(model.handles), "paper": SIZES[name][0]},
                "nearest_mm": 1e3 * float(np.median(near)),
                "coordinates": {
                    "ours": len(model.stiffness) + 3 + 3 * len(model.parents),
                    "paper": {"hand": 357, "human": 672}[name],
                },
            }
        )
    save_picture(figure, folder / "tapia2021-fig5.png")
    return {
        "title": "tapia2021 fig. 5: handles",
        "message": "Our handles are placed automatically, the paper's by hand.",
        "rows": rows,
        "note": "Ours: three coordinates for each handle and joint, six for the first bone. The "
        "paper has six for each bone, with springs; 3·82 + 6·24 = 390, not the printed 672.",
    }


#: Rotation of the whole body in rad, and time spans of its start and end in s.
ROTATION, STARTS, ENDS = 3.0, (0.1, 0.35), (0.7, 0.95)
#: Shape coefficients of two people: size, weight, legs, shoulders.
PEOPLE = {"slim": (0.0, -1.5, 0.0, -1.0), "heavy": (0.0, 3.0, 0.0, 1.0)}


def fig7(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Accelerate and decelerate a rotation of the body, and draw its flesh."""
    progress(0.0, "building")
    shown, model = scene("human"), model_of("human", quick)
    spun = _moved(_spun(), 20.0)
    times = {0.26: "accelerating", 0.86: "decelerating"}
    report = part_of(progress, 0.2, 0.5, "rotating")
    take = recorded(spun, spun.simulator(model), list(times), quick=quick, progress=report)
    skin, rows = shown.character.surface, []
    figure, grid = sheet("Flesh of a body that rotates about the vertical", 1, 4, 2.9)
    lengths = np.concatenate([take.frames[time].far for time in times])
    largest = max(0.5, float(np.round(np.percentile(lengths, 99.5), 1)))
    for column, (time, text) in enumerate(times.items()):
        frame, far = take.frames[time], take.frames[time].far
        draw_body(grid[0, 2 * column], skin, frame.skin, text, values=far, largest=largest)
        caption = f"unposed, at most {far.max():.1f} mm"
        beside = grid[0, 2 * column + 1]
        draw_flesh(beside, skin, frame.unposed, caption, largest=largest, azimuth=10.0)
        rows.append(
            {"when": text, "largest_mm": float(far.max()), "lag_mm": 1e3 * _lag(model, frame)}
        )
    key_of(figure, grid[0, -1], largest, "mm")
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
    """Return the mean displacement of the trunk's flesh along the rotation, in m."""
    rest = model.surface.vertices
    tangents = np.cross([0.0, 1.0, 0.0], rest * [1.0, 0.0, 1.0])
    lengths = np.linalg.norm(tangents, axis=1, keepdims=True)
    trunk = (np.abs(rest[:, 0]) < 0.2) & (rest[:, 1] > 0.85) & (rest[:, 1] < 1.35)
    along = (frame.unposed * tangents / np.maximum(lengths, 1e-9)).sum(axis=1)
    return float(along[trunk & (lengths[:, 0] > 0.05)].mean())


def fig9(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Track a jump with springs, and draw three frames with the unposed flesh below."""
    progress(0.0, "building")
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
            progress=part_of(progress, 0.1 + share * number, share, "tracking"),
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
    largest = max(0.5 * np.ceil(2e3 * max(np.percentile(each, 99.5) for each in lengths)), 0.5)
    for column, (time, frame) in enumerate(frames.items()):
        draw_body(grid[0, column], skin, frame.skin, f"{time:.2f} s", azimuth=50.0)
        draw_flesh(grid[1, column], skin, frame.unposed, largest=largest, azimuth=10.0)
    key_of(figure, grid[1, -1], largest, "mm")
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


def fig12(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Hang two limp people by their wrists, push them with a bar, and draw frames."""
    times = [0.3, 1.0, 1.7, 2.4]
    figure, grid = sheet("Limp people of two shapes, hanging and pushed", len(PEOPLE), len(times))
    rows = []
    for number, name in enumerate(PEOPLE):
        progress(number / len(PEOPLE), f"{name}: building")
        model, skin = _person(name, quick)
        shown = contact_scene("body-hang")
        report = part_of(progress, (number + 0.3) / len(PEOPLE), 0.3, f"{name}: hanging")
        take = recorded(shown, shown.simulator(model), times, quick=quick, progress=report)
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
