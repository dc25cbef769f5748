"""Two crossing bars that bend by one parameter: the second example of Xu and Barbič 2016, §9."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import Bone, Handle, PaperRow, Scene
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.scene_data import scene_data
from supple.scenes.modelling.sculpting import bell, bulged
from supple.scenes.modelling.solids import Solid, polygonise, relaxed, smooth_union, tapered_limb

PAPER = PaperRow(3077, 9303, 2362, 30, 1, 3, 0, 144, 50, 0.59, 4.2, 105)
SPACING = 0.0234
REACH, RADIUS = 0.30, 0.075
DATA = scene_data("x")
#: Half length of the part at the crossing that the bend leaves in place.
HELD = 0.04
#: Angle in degrees by which both bars are bent, towards +z or away from it.
POSES: dict[str, float] = {name: angle for name, (angle,) in DATA["poses"].items()}


def _solid() -> Solid:
    ends = [np.array((side * REACH, REACH, 0.0)) for side in (1, -1)]
    return smooth_union([tapered_limb(-end, end, RADIUS, RADIUS) for end in ends], 0.05)


def sculpt() -> dict[str, NDArray]:
    """Return the sculpted surface and corrections, as named arrays."""
    solid = _solid()
    surface = relaxed(polygonise(solid, DATA["bounds"], SPACING), solid)
    shapes = [_correction(surface, angle) for angle in POSES.values()]
    arrays = {"vertices": surface.vertices, "triangles": surface.triangles}
    return arrays | {"corrections": np.array(shapes)}


def _bend(vertices: Floats) -> Bend:
    reach = REACH + RADIUS
    return Bend(vertices, axis=(1, 0, 0), direction=(0, 0, 1), low=-reach, high=reach)


def _poses() -> Floats:
    return np.radians(np.array([[angle] for angle in POSES.values()]))


def _correction(surface: SurfaceMesh, angle: float) -> Floats:
    """Return displacements (n, 3): flesh swells inside a bend of `angle` degrees, thins outside."""
    rest = surface.vertices
    if angle == 0:
        return np.zeros_like(rest)
    bent = _bend(rest)([np.radians(angle)])
    inner = np.sign(angle) * rest[:, 2] / RADIUS
    crossing = bell(rest, (0, 0, 0), (0.11, 0.16, 1.0))
    return bulged(bent, surface.triangles, 0.012 * crossing * inner) - bent


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene from the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    poses, motion = _poses(), _motion()
    bend = _bend(surface.vertices)
    rig = PoseSpaceDeformation(bend, poses, arrays["corrections"], names=list(POSES))
    return Scene(
        character=Character("x", surface, rig, {motion.name: motion}),
        tets=9_303,
        poses=poses,
        pose_names=tuple(POSES),
        handles=(Handle("middle", np.zeros((1, 3))),),
        bones=(Bone("middle", np.array((-HELD, 0.0, 0.0)), np.array((HELD, 0.0, 0.0))),),
        parts=np.zeros(len(surface.vertices), np.int64),
        part_names=("bars",),
        contacts=(),
        paper=PAPER,
        material=Material("neo-hookean", young=8e5, poisson=0.45),
        modes=(30,),
        elastic_cubature=72,
    )


def _motion() -> Motion:
    """Return a motion of five seconds: the X flaps, takes off, rolls over and comes down."""
    line = Timeline(5.0)
    degrees = line.curve(DATA["angles"])
    return Motion(line.times, np.radians(degrees), line.roots(**DATA["root"]), "flap")
