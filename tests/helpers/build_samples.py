"""Small characters that build in a second or two: a bar that bends, and an arm of two joints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.elastic.material import Material
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.deformers.bend import Bend
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.scenes.bodies.beam import beam

Floats = NDArray[np.float64]

WIDTH = 1 / 6
MATERIAL = Material("stvk", young=3e4, poisson=0.4)


@cache
def bar_mesh(cells: tuple[int, int, int] = (12, 2, 2)) -> TetMesh:
    """Return a bar of 1 m along x."""
    return beam(cells=cells)


def held_end(mesh: TetMesh) -> NDArray[np.int64]:
    """Return the vertices at x = 0."""
    return np.flatnonzero(mesh.vertices[:, 0] < 1e-9)


def motion_of(poses: Floats, name: str = "sweep") -> Motion:
    """Return a motion of the poses, 0.1 s apart."""
    return Motion(np.arange(len(poses)) / 10, poses, name=name)


@cache
def bending_bar(most_degrees: float = 135.0, cells: tuple[int, int, int] = (12, 2, 2)) -> Character:
    """Return a bar that bends towards z; its motion sweeps from one side to the other."""
    surface, _ = bar_mesh(cells).surface()
    middle = (0, WIDTH / 2, WIDTH / 2)
    rig = Bend(surface.vertices, middle, (1, 0, 0), (0, 0, 1), low=0, high=1)
    sweep = np.radians(np.linspace(-most_degrees, most_degrees, 21))[:, None]
    return Character("bar", surface, rig, {"sweep": motion_of(sweep)})


def bar_options(cells: tuple[int, int, int] = (12, 2, 2), **changed: Any) -> dict[str, Any]:
    """Return options with which a bar builds in a second."""
    mesh = bar_mesh(cells)
    options: dict[str, Any] = {
        "poses": {"left": np.radians([-60.0]), "right": np.radians([60.0])},
        "modes": 8,
        "regions": None,
        "material": MATERIAL,
        "tets": mesh,
        "bones": held_end(mesh),
        "elastic_cubature": 20,
        "inertial_cubature": 8,
    }
    return options | changed


def flesh_options(cells: tuple[int, int, int] = (12, 2, 2), **changed: Any) -> dict[str, Any]:
    """Return the options of a bar's flesh without a reduction."""
    kept = ("poses", "material", "tets", "bones")
    return {name: bar_options(cells)[name] for name in kept} | changed


def two_joints(surface: SurfaceMesh) -> SkinnedRig:
    """Return a skeleton of two joints along x, the second at 0.5 m."""
    skeleton = Skeleton(["upper", "fore"], [-1, 0], [[0.0, WIDTH / 2, WIDTH / 2], [0.5, 0.0, 0.0]])
    share = np.clip(0.5 + (surface.vertices[:, 0] - 0.5) / 0.3, 0, 1)
    joints = np.tile([0, 1], (len(share), 1))
    bind = np.linalg.inv(skeleton.rest_world())
    weights = np.column_stack([1 - share, share])
    return SkinnedRig(JointPose(skeleton), surface.vertices, joints, weights, bind)


@cache
def jointed_arm() -> Character:
    """Return a bar with a skeleton; its motion bends the elbow by 70°."""
    surface, _ = bar_mesh().surface()
    rig: Rig = two_joints(surface)
    swing = np.zeros((12, 6))
    swing[:, 5] = np.radians(np.linspace(0, 70, 12))
    return Character("arm", surface, rig, {"Swing": motion_of(swing, "Swing")})


def mean_young(model: PoseSpaceModel, pose: int | Floats) -> float:
    """Return Young's modulus at a pose, or between poses with weights."""
    return float(np.asarray(model.material(pose).young, np.float64).mean())


@contextmanager
def kept_scenes(folder: Path) -> Iterator[None]:
    """Cache scenes in this folder instead of the user's."""
    before = os.environ.get("SUPPLE_CACHE")
    os.environ["SUPPLE_CACHE"] = str(folder)
    yield
    if before is None:
        del os.environ["SUPPLE_CACHE"]
    else:
        os.environ["SUPPLE_CACHE"] = before


STEPPED = (6, 2, 2)


@cache
def stepped_model(name: str) -> PoseSpaceModel:
    """A small model to step: "bar", "arm" (two regions), "one pose", "world", or a bar changed.

    Changed are the material ("corotational", "neo-hookean", "stvk-volume", "painted": stiffer to
    the right, and more so towards the tip), the cubature ("uncorrected": as in the paper), how
    bases are kept ("float32") and how stiff all is ("firm": a hundred times).
    """
    from supple.engines.pose_space.build.build import build

    if name in ("bar", "one pose", "world", "firm"):
        special: dict[str, dict[str, Any]] = {
            "one pose": {"poses": 1},
            "world": {"interpolation": "world"},
            "firm": {"material": replace(MATERIAL, young=3e6)},
        }
        return build(bending_bar(cells=STEPPED), **bar_options(STEPPED, **special.get(name, {})))
    if name == "arm":
        return build(jointed_arm(), **bar_options(poses=2, regions=_halves(), modes=[7, 6]))
    bar = stepped_model("bar")
    if name == "painted":
        stiffer = 1 + bar.mesh.vertices[bar.mesh.tets, 0].mean(axis=1)
        rows = np.outer([1.0, 1.0, 3.0], stiffer)
        return replace(bar, young=(3e4 * rows).astype(np.float32))
    if name == "uncorrected":
        none: dict[str, Any] = {"stiffness_corrections": None, "inertial_corrections": None}
        return replace(bar, correction_ends=bar.correction_ends[:0], **none)
    if name == "float32":
        rng = np.random.default_rng(0)
        noisy = [b * (1 + 1e-3 * rng.standard_normal(b.shape)) for b in bar.bases]
        return replace(bar, bases=tuple(b.astype(np.float32) for b in noisy), basis_bits=32)
    return replace(bar, material_kind=name)


def _halves() -> list[Any]:
    from supple.reduction.regions.handles import Handle

    return [
        Handle("near", np.array([[0.25, WIDTH / 2, WIDTH / 2]])),
        Handle("far", np.array([[0.6, WIDTH / 2, WIDTH / 2], [0.9, WIDTH / 2, WIDTH / 2]])),
    ]
