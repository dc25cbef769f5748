"""tapia2021 figs 2, 4 and 5: skin at rest, tets of the flesh, and handles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from supple.app.pictures.drawing import draw_surface, save_picture, view_axes
from supple.arrays import Floats
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer, flesh_layer
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.lab.bench.soft_skeleton.soft_cases import scene_bones
from supple.lab.reproduce.figures import Tell
from supple.lab.reproduce.tapia2021.soft_bodies import (
    QUICK,
    SIZES,
    draw_body,
    model_of,
    sheet,
    window_of,
)
from supple.mesh.surface import vertex_normals
from supple.mesh.tets import TetMesh
from supple.scenes.characters.character_scene import scene

#: Number of steps in a pose, without gravity and contact.
HELD = 20
#: Poses in the picture, and directions of the camera.
_SHOWN = {"hand": ("fist", -150.0, -20.0), "human": ("crouched", 60.0, 9.0)}
#: Tets and vertices of the paper's layers (§5.1, §5.2).
PAPER_TETS = {"hand": (88_716, 20_214), "human": (41_585, 10_111)}
#: Tets of a hand with bone meshes, which are thin.
MESHED_TETS = 40_000
_BONE, _CUT = np.array([0.93, 0.90, 0.80]), np.array([0.80, 0.36, 0.33])


def fig2(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw poses with and without pose blend shapes, and measure the skin's distance from them."""
    rows: list[dict[str, Any]] = []
    figure, grid = sheet("Skin at rest without and with pose blend shapes", 1, 4)
    for at, name in enumerate(SIZES):
        tell(at / 2, f"{name}: building")
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
        tell(at / 2 + 0.4, f"{name}: drawing")
        pose_name, azimuth, elevation = _SHOWN[name]
        pose = shown.pose(pose_name)
        plain = character.rig.base(pose)  # type: ignore[attr-defined]
        right = character.rig(pose)
        away = float(np.linalg.norm(right - plain, axis=1).max())
        window = window_of(right)
        for column, (points, text) in enumerate(((plain, "without"), (right, "with"))):
            caption = f"{pose_name}: {text}"
            if column:
                caption += f", which move by up to {1e3 * away:.0f} mm"
            view = {"azimuth": azimuth, "elevation": elevation, "window": window}
            draw_body(grid[0, 2 * at + column], character.surface, points, caption, **view)
    save_picture(figure, folder / "tapia2021-fig2.png")
    worst = max(row["after_held_steps_m"] for row in rows)
    return {
        "title": "tapia2021 fig. 2: skin at rest equals the parametric model's",
        "message": f"At equal θ, without gravity and contact, the skin equals the parametric "
        f"model's to {worst:.1g} m over {sum(row['poses'] for row in rows)} poses; skin is "
        "float32.",
        "rows": rows,
    }


def fig4(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw cut tets of the flesh, with bones from the anatomy and from meshes."""
    figure, grid = sheet("Flesh between skin and bone, cut open", 1, 3, 3.6)
    rows = []
    cases = [("human", False), ("hand", False), ("hand", True)]
    for at, (name, meshes) in enumerate(cases):
        tell(at / len(cases), f"{name}: tets")
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


def fig5(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw handles on the skin, from two sides."""
    figure, grid = sheet("Handles: geodesic farthest points of the skin", 1, 4, 3.0)
    rows = []
    for at, name in enumerate(("hand", "human")):
        tell(at / 2, f"{name}: building")
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
