"""Characters for timing rig-space dynamics: scenes with free parameters, and generated ones.

A generated trunk (on a wire) or belly (joint and blend shapes) has any number of parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.wire import Wire
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.joint_pose import PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.scenes.bodies.beam import beam
from supple.scenes.characters.character_scene import PAPERS, scene
from supple.scenes.modelling.scene_data import unknown_name


class Case(NamedTuple):
    """Character, and options of `supple.build` with engine "rig-space"."""

    character: Character
    options: dict[str, Any]


class PaperTimes(NamedTuple):
    """Seconds a frame of the fastest solver in hahn2013, Table 1, and its speed-up over RSP."""

    seconds: float
    speed_up: float | None


#: Generated characters by name: kind of deformer, free parameters, tets.
CASES = {
    "trunk": ("wire", 13, 2_400),
    "belly": ("shapes", 36, 2_400),
    "shapes": ("shapes", 174, 2_400),
}
#: Rows of Table 1 by scene, or by scene and group of free parameters.
PAPER = {
    "elephant:trunk": PaperTimes(0.12, 56),
    "elephant:belly": PaperTimes(0.13, 348),
    "sumo": PaperTimes(0.58, None),
}
#: Scenes with free parameters.
FREE_SCENES = PAPERS["hahn2013"]
#: Frames per second of motions, and their duration in s.
RATE, SECONDS = 30, 3.0
#: Displacement of the skin at weight 1 of a shape in m, and factor of its radius.
FAR, WIDE = 0.1, 1.1


def checked_cases(names: Sequence[str]) -> list[str]:
    """Return the names without duplicates; by default generated ones and the paper's."""
    names_of_cases = [*CASES, *FREE_SCENES, *(name for name in PAPER if name not in FREE_SCENES)]
    for name in names:
        base, _, group = name.partition(":")
        # Sculpting a scene takes seconds, so that its groups are looked up only if named.
        if name in names_of_cases or (base in FREE_SCENES and group in scene(base).free):
            continue
        raise SuppleError(unknown_name("case with free parameters", name, names_of_cases))
    return list(dict.fromkeys(names)) or [*CASES, *PAPER]


def prepared_case(name: str) -> Case:
    """Return the character of a case, and the options of its build."""
    if name in CASES:
        kind, free, tets = CASES[name]
        return made_trunk(free, tets) if kind == "wire" else made_belly(free, tets)
    base, _, group = name.partition(":")
    shown = scene(base)
    options = shown.recipe("rig-space")
    if group:
        options |= {"free": list(shown.free[group])}
    return Case(shown.character, options)


def made_trunk(free: int, tets: int) -> Case:
    """Return a soft bar on a wire, shaken at its clamped end.

    The `free` parameters are coordinates of the last control points; `tets` is approximate.
    """
    across = max(2, round((tets / 6 / 3.5) ** (1 / 3)))
    mesh = beam((1.0, 0.25, 0.25), (max(2, round(tets / 6 / across**2)), across, across))
    surface, _ = mesh.surface()
    controls = 2 + -(-free // 3)
    line = np.column_stack([np.linspace(0, 1, controls), *np.full((2, controls), 0.125)])
    rig = Wire(surface.vertices, line)
    names = [each.name for each in rig.parameters][-free:]
    held = np.flatnonzero(mesh.vertices[:, 0] < 1e-9)
    roots, times = _shaken()
    rest = np.tile(rig.rest_pose, (len(times), 1))
    motion = Motion(times, rest, roots, name="shaken")
    soft = Material("neo-hookean", young=1e5, poisson=0.45)
    options = {"free": names, "tets": mesh, "bones": held, "material": soft}
    return Case(Character(f"trunk{free}", surface, rig, {"shaken": motion}), options)


def made_belly(free: int, tets: int) -> Case:
    """Return a barrel that one joint bends, with `free` shapes of its skin.

    The shapes move the skin out, round and along. The radius of a shape depends on `free`, so that
    about as many shapes act on each vertex.
    """
    half = max(2, round((tets / 8) ** (1 / 3) / 2))
    mesh = _barrel(beam((1.0, 1.0, 1.0), (max(3, round(tets / 24 / half**2)), 2 * half, 2 * half)))
    surface, _ = mesh.surface()
    rig = _shape_rig(surface.vertices, free)
    roots, times = _shaken(0.03)
    poses = np.zeros((len(times), 1 + free))
    poses[:, 0] = 0.5 * np.sin(2 * np.pi * times) * np.minimum(times, 1.0)
    motion = Motion(times, poses, roots, name="bent")
    spine = np.flatnonzero(np.linalg.norm(mesh.vertices[:, 1:], axis=1) < 1e-6)
    soft = Material("neo-hookean", young=1.5e4, poisson=0.45)
    options = {"free": "bump*", "tets": mesh, "bones": spine, "material": soft}
    options |= {"bounds": (-5.0, 5.0)}
    return Case(Character(f"belly{free}", surface, rig, {"bent": motion}), options)


def _barrel(mesh: TetMesh) -> TetMesh:
    """Return a box deformed to a barrel of 1 m, thickest in the middle."""
    across = 2 * mesh.vertices[:, 1:] - 1
    radius, square = np.linalg.norm(across, axis=1), np.abs(across).max(axis=1)
    scale = 0.35 * square / np.maximum(radius, 1e-9)
    scale *= 0.6 + 0.4 * np.sin(np.pi * mesh.vertices[:, 0])
    return TetMesh(np.column_stack([mesh.vertices[:, :1], across * scale[:, None]]), mesh.tets)


def _shape_rig(points: Floats, count: int) -> BlendShapeRig:
    skeleton = Skeleton(["low", "high"], [-1, 0], [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    share = np.clip(0.5 + (points[:, 0] - 0.5) / 0.6, 0, 1)
    weights = np.column_stack([1 - share, share])
    base = SkinnedRig(
        PartialJointPose(skeleton, ["high.rz"]),
        points,
        np.tile([0, 1], (len(points), 1)),
        weights,
        np.linalg.inv(skeleton.rest_world()),
    )
    out = points * [0.0, 1.0, 1.0]
    out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)
    along = np.tile([1.0, 0.0, 0.0], (len(points), 1))
    directions = (out, np.cross(along, out), along)
    centres = -(-count // 3)
    reach = WIDE * np.sqrt(2 * np.pi * 0.3 / centres)
    deltas = []
    for k in range(count):
        spot, angle = k // 3, 2.399963 * (k // 3)  # the golden angle spreads them evenly
        x = 0.08 + 0.84 * (spot + 0.5) / centres
        radius = 0.35 * (0.6 + 0.4 * np.sin(np.pi * x))
        centre = np.array([x, radius * np.cos(angle), radius * np.sin(angle)])
        centre = points[np.argmin(np.linalg.norm(points - centre, axis=1))]
        away = np.linalg.norm(points - centre, axis=1) / reach
        bump = FAR * np.maximum(1 - away**2, 0.0) ** 2
        deltas.append(bump[:, None] * directions[k % 3])
    return BlendShapeRig(base, np.array(deltas), [f"bump{k}" for k in range(count)])


def _shaken(far: float = 0.06) -> tuple[Floats, Floats]:
    """Return roots (f, 4, 4) that move up, down and sideways, and their times."""
    times = np.arange(round(RATE * SECONDS) + 1) / RATE
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    eased = np.minimum(times, 1.0)
    roots[:, 1, 3] = far * eased * np.sin(2 * np.pi * 1.7 * times)
    roots[:, 2, 3] = far * eased * np.sin(2 * np.pi * 1.1 * times)
    return roots, times
