"""Small characters with free parameters: a bar that bends, a trunk on a wire, a belly of shapes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from helpers.build_samples import WIDTH, bar_mesh, held_end, motion_of
from supple.elastic.material import Material
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.wire import Wire
from supple.rig.skeleton.joint_pose import PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

Cells = tuple[int, int, int]
SOFT = Material("neo-hookean", young=2e4, poisson=0.45)


@cache
def rising_bar(cells: Cells = (6, 2, 2)) -> Character:
    """Return a bar that bends upwards by one parameter, which is keyed and free."""
    surface, _ = bar_mesh(cells).surface()
    middle = (0, WIDTH / 2, WIDTH / 2)
    rig = Bend(surface.vertices, middle, (1, 0, 0), (0, 1, 0), low=0, high=1)
    sweep = np.radians(np.linspace(-40, 40, 21))[:, None]
    return Character("bar", surface, rig, {"sweep": motion_of(sweep)})


def rig_space_options(cells: Cells = (6, 2, 2), **changed: Any) -> dict[str, Any]:
    """Return options with which a bar builds in a second."""
    mesh = bar_mesh(cells)
    options: dict[str, Any] = {
        "free": "*",
        "tets": mesh,
        "bones": held_end(mesh),
        "material": SOFT,
        "modes": 4,
        "cubature": 60,
    }
    return options | changed


@cache
def trunk(cells: Cells = (14, 4, 4), controls: int = 6) -> Character:
    """A bar on a wire of which the first two control points stay: it is clamped."""
    surface, _ = bar_mesh(cells).surface()
    middle = np.full(controls, WIDTH / 2)
    curve = np.column_stack([np.linspace(0, 1, controls), middle, middle])
    return Character("trunk", surface, Wire(surface.vertices, curve))


@cache
def belly(cells: Cells = (8, 6, 6), shapes: int = 12, wide: float = 0.15) -> Character:
    """A thick body that one joint bends, with bumps as shapes all around."""
    mesh = stout_mesh(cells)
    surface, _ = mesh.surface()
    points = surface.vertices
    skeleton = Skeleton(["low", "high"], [-1, 0], [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    share = np.clip(0.5 + (points[:, 0] - 0.5) / 0.6, 0, 1)
    weights = np.column_stack([1 - share, share])
    joints = np.tile([0, 1], (len(points), 1))
    bind = np.linalg.inv(skeleton.rest_world())
    pose = PartialJointPose(skeleton, ["high.rz"])
    base = SkinnedRig(pose, points, joints, weights, bind)
    rng, deltas = np.random.default_rng(5), []
    out = points * [0, 1, 1]
    out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)
    for k in range(shapes):
        turn, along = 2.4 * k, 0.15 + 0.7 * rng.random()
        centre = np.array([along, 0.35 * np.cos(turn), 0.35 * np.sin(turn)])
        away = np.linalg.norm(points - centre, axis=1) / (3 * wide)
        bump = np.maximum(1 - away**2, 0.0) ** 2  # as shapes are, nothing but near it
        way = out if k % 2 == 0 else np.cross(out, [1.0, 0, 0])
        deltas.append(0.1 * bump[:, None] * way)
    rig = BlendShapeRig(base, np.array(deltas), [f"bump{k}" for k in range(shapes)])
    bend = np.zeros((21, 1 + shapes))
    bend[:, 0] = 0.5 * np.sin(np.linspace(0, 4 * np.pi, 21))
    return Character("belly", surface, rig, {"bend": motion_of(bend, "bend")})


@cache
def stout_mesh(cells: Cells = (8, 6, 6)) -> TetMesh:
    """Return a round body of 1 m along x, nearly as thick."""
    mesh = bar_mesh(cells)
    yz = (mesh.vertices[:, 1:] / WIDTH - 0.5) * 2
    radius = np.linalg.norm(yz, axis=1)
    square = np.abs(yz).max(axis=1)
    scale = 0.35 * np.where(radius > 0, square / np.maximum(radius, 1e-9), 0.0)
    scale = np.where(radius > 0, scale, 0.0) * (0.6 + 0.4 * np.sin(np.pi * mesh.vertices[:, 0]))
    return TetMesh(np.column_stack([mesh.vertices[:, :1], yz * scale[:, None]]), mesh.tets)


def trunk_options(cells: Cells = (14, 4, 4), **changed: Any) -> dict[str, Any]:
    """Physics of a soft trunk: all control points but the first two are free."""
    free = ["wire.[2-9].t?"]
    return {"free": free, "tets": bar_mesh(cells), "material": SOFT, "modes": 16} | changed


def belly_options(cells: Cells = (8, 6, 6), **changed: Any) -> dict[str, Any]:
    """Physics of a soft belly around a spine."""
    mesh = stout_mesh(cells)
    spine = np.linalg.norm(mesh.vertices[:, 1:], axis=1) < 1e-6
    options: dict[str, Any] = {"free": "bump*", "tets": mesh, "bones": np.flatnonzero(spine)}
    soft = Material("neo-hookean", young=1.5e4, poisson=0.45)
    return options | {"material": soft, "modes": 12, "bounds": (-5, 5)} | changed
