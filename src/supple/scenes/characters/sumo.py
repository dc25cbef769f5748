"""A sumo wrestler who stamps and shakes his head: the second example of Hahn et al. 2013, §5."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import Bone, Handle, PaperRow, Scene
from supple.scenes.characters.sumo_shape import (
    BOUNDS,
    JOINTS,
    enlarged,
    head_space,
    sumo_belt,
    sumo_colours,
    sumo_parts,
    sumo_solid,
)
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.painting import painted
from supple.scenes.modelling.puppet import Puppet, Turns
from supple.scenes.modelling.sculpting import bell, ramp
from supple.scenes.modelling.skin_weights import part_weights, strongest
from supple.scenes.modelling.solids import coarsened, polygonise, relaxed

PAPER = PaperRow(tet_vertices=2269, tets=None, surface_vertices=1302)
VERTICES, SPACING = PAPER.tet_vertices, 0.019
PUPPET = Puppet(JOINTS)


class _Soft(NamedTuple):
    """Flesh that moves on its own in many places.

    Attributes
    ----------
    centre
        Places are where rays from here leave the body.
    rows
        Degrees above the horizon, and degrees to his left from straight ahead.
    wide, far
        Radius of a place, and how far it goes at weight 1, in metres.
    joints
        Whose flesh it is.
    """

    centre: tuple[float, float, float]
    rows: dict[float, tuple[float, ...]]
    wide: float
    far: float
    joints: tuple[str, ...]


_BROAD = (-85.0, -51.0, -17.0, 17.0, 51.0, 85.0)
#: Each place moves out, to the side and up: with the top-knot's six places 174 parameters.
SOFT = {
    "belly": _Soft(
        (0.0, 0.95, 0.02),
        {-16.0: _BROAD, 0.0: _BROAD, 15.0: _BROAD, 30.0: _BROAD, 46.0: _BROAD},
        0.235,
        0.10,
        ("spine", "chest"),
    ),
    "breast.L": _Soft(
        (0.17, 1.20, 0.05),
        {-25.0: (-25.0, 25.0, 70.0), 20.0: (-25.0, 25.0, 70.0)},
        0.16,
        0.06,
        ("chest",),
    ),
    "breast.R": _Soft(
        (-0.17, 1.20, 0.05),
        {-25.0: (25.0, -25.0, -70.0), 20.0: (25.0, -25.0, -70.0)},
        0.16,
        0.06,
        ("chest",),
    ),
    "cheek.L": _Soft(
        (0.09, 1.53, 0.07),
        {-30.0: (0.0, 70.0), 10.0: (20.0, 80.0), -75.0: (40.0,)},
        0.085,
        0.03,
        ("head",),
    ),
    "cheek.R": _Soft(
        (-0.09, 1.53, 0.07),
        {-30.0: (0.0, -70.0), 10.0: (-20.0, -80.0), -75.0: (-40.0,)},
        0.085,
        0.03,
        ("head",),
    ),
}
#: The top-knot's places, from where it is bound to its tip.
KNOT = (
    (0.0, 1.790, -0.100),
    (0.0, 1.825, -0.090),
    (0.0, 1.855, -0.075),
    (0.0, 1.860, -0.030),
    (0.0, 1.855, 0.020),
    (0.0, 1.845, 0.070),
)
FREE = {
    "belly": ("belly*",),
    "chest": ("breast*",),
    "cheeks": ("cheek*",),
    "hair": ("hair*",),
}
WAYS = ("out", "side", "up")
#: Young's modulus in Pa: of the body, of cheeks, and of bound hair.
FLESH, CHEEK, HAIR = 2.2e4, 4e3, 3e4


def sculpt() -> dict[str, NDArray]:
    """Sculpt the surface, skinning weights and shapes."""
    solid = sumo_solid()
    fine = relaxed(polygonise(solid, BOUNDS, SPACING), solid, 4)
    surface = coarsened(fine, solid, VERTICES, enlarged)
    # Joints of arms and legs bend flesh that is as thick as they are long.
    weights = part_weights(surface, list(sumo_parts().values()), 0.07)
    joints, kept = strongest(weights, 4)
    names = list(JOINTS)
    shapes, bare = [], _bare(surface.vertices)
    for name, soft in SOFT.items():
        own = weights[:, [names.index(joint) for joint in soft.joints]].sum(axis=1)
        places = head_space(surface.vertices) if name.startswith("cheek") else surface.vertices
        shapes += _soft_shapes(places, soft, bare * ramp(own, 0.1, 1.0))
    shapes += _knot_shapes(head_space(surface.vertices))
    return {
        "vertices": surface.vertices,
        "triangles": surface.triangles,
        "joints": joints,
        "weights": kept,
        "shapes": np.array(shapes),
    }


def _bare(points: Floats) -> Floats:
    """Return 0 under the belt, which nothing moves but his hips, and 1 a hand above it."""
    return ramp(-sumo_belt()(points), 0.0, 0.06)


def _bump(points: Floats, centre: Floats, wide: float) -> Floats:
    away = np.linalg.norm(points - centre, axis=1) / wide
    return np.maximum(1 - away**2, 0.0) ** 2


def _soft_shapes(points: Floats, soft: _Soft, share: Floats) -> list[Floats]:
    """Return three displacements (n, 3) for each place of a part, of its share of the skin."""
    found = []
    inside = np.flatnonzero(share > 0.3)
    rays = points[inside] - soft.centre
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    for up, sides in soft.rows.items():
        for side in sides:
            a, e = np.radians([side, up])
            out = np.array([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)])
            centre = points[inside[np.argmax(rays @ out)]]
            bump = soft.far * share * _bump(points, centre, soft.wide)
            across = np.array([np.cos(a), 0.0, -np.sin(a)])
            ways = out, across, np.cross(out, across)
            found += [bump[:, None] * way for way in ways]
    return found


def _knot_shapes(points: Floats) -> list[Floats]:
    """Return displacements of places along the top-knot: to the front, the side and up."""
    above = ramp(points[:, 1], 1.755, 1.80)
    bumps = [0.06 * above * _bump(points, np.array(place), 0.105) for place in KNOT]
    return [bump[:, None] * way for bump in bumps for way in np.eye(3)[[2, 0, 1]]]


def _names() -> list[str]:
    places = {name: sum(map(len, soft.rows.values())) for name, soft in SOFT.items()}
    places["hair"] = len(KNOT)
    return [f"{name}{k + 1}.{way}" for name, n in places.items() for k in range(n) for way in WAYS]


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene of the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    skinned = PUPPET.skinned(surface.vertices, arrays["joints"], arrays["weights"])
    rig = BlendShapeRig(skinned, arrays["shapes"], _names())
    poses = np.array([_posed(PUPPET.pose(turns)) for turns in POSES.values()])
    motion = _shiko(rig)
    return Scene(
        character=Character(
            "sumo",
            surface,
            rig,
            {motion.name: motion},
            appearance=painted(surface, sumo_colours),
        ),
        tets=9_400,
        poses=poses,
        pose_names=tuple(POSES),
        handles=_handles(),
        bones=_bones(),
        parts=skinned.weight_matrix().toarray().argmax(axis=1),
        part_names=tuple(JOINTS),
        contacts=(),
        paper=PAPER,
        material=Material("neo-hookean", young=FLESH, poisson=0.45),
        modes=(10, 20, 10, 10, 10, 10),
        young=_young(surface.vertices),
        free=FREE,
        bounds={"*": (-1.0, 1.0)},
    )


def _young(points: Floats) -> Floats:
    """Return Young's modulus (n,) on the skin: soft cheeks, and hair that stands."""
    points = head_space(points)
    cheeks = sum(bell(points, (0.11 * side, 1.52, 0.10), (0.07,) * 3) for side in (1, -1))
    knot = ramp(points[:, 1], 1.74, 1.79)
    return FLESH * (CHEEK / FLESH) ** np.minimum(cheeks, 1.0) * (HAIR / FLESH) ** knot


def _posed(joints: Floats) -> Floats:
    """Append weights of shapes, which are at rest."""
    return np.pad(joints, [*[(0, 0)] * (joints.ndim - 1), (0, len(_names()))])


def _handles() -> tuple[Handle, ...]:
    """Return a segment through each region: head, body and limbs."""
    places = {name: np.array(place) for name, (_, place) in JOINTS.items()}
    ends = {
        "head": (places["head"], np.array([0.0, 1.66, 0.02])),
        "body": (places["pelvis"], places["chest"]),
    }
    for side in "LR":
        ends[f"arm.{side}"] = places[f"shoulder.{side}"], places[f"wrist.{side}"]
        ends[f"leg.{side}"] = places[f"hip.{side}"], places[f"ankle.{side}"]
    return tuple(Handle(name, np.array(pair)) for name, pair in ends.items())


def _bones() -> tuple[Bone, ...]:
    """Return bones from every joint's parent to the joint, and the skull."""
    places = {name: np.array(place) for name, (_, place) in JOINTS.items()}
    found = [
        Bone(name, places[parent], places[name])
        for name, (parent, _) in JOINTS.items()
        if parent is not None
    ]
    return (*found, Bone("skull", places["head"], np.array([0.0, 1.64, 0.0])))


# Poses, and a motion: shiko, then a shaken head


#: Degrees about x, y and z for each joint, of the left side for both.
POSES: dict[str, Turns] = {
    "standing": {},
    "squat": {
        "pelvis": (8, 0, 0),
        "spine": (4, 0, 0),
        "head": (-14, 0, 0),
        "hip": (-45, 12, 28),
        "knee": (56, 0, 0),
        "ankle": (-20, 0, -25),
        "shoulder": (-26, 0, 6),
        "elbow": (-20, -24, 0),
    },
    "leg raised": {
        "pelvis": (0, 0, 24),
        "spine": (0, 0, 6),
        "head": (0, 0, -10),
        "hip.L": (-16, 10, 44),
        "knee.L": (22, 0, 0),
        "ankle.L": (-6, 0, -6),
        "hip.R": (-6, 0, 2),
        "knee.R": (10, 0, 0),
        "ankle.R": (-4, 0, -26),
        "shoulder.L": (-14, 0, 14),
        "elbow.L": (-18, -20, 0),
        "shoulder.R": (-10, 0, -16),
        "elbow.R": (-18, 20, 0),
    },
    "arms wide": {"shoulder": (0, 0, 42), "elbow": (0, 0, 14), "spine": (-5, 0, 0)},
    "twist": {"spine": (0, 18, 0), "chest": (0, 16, 0), "head": (0, 24, 0)},
    "bow": {"pelvis": (14, 0, 0), "spine": (14, 0, 0), "head": (14, 0, 0), "hip": (-14, 0, 0)},
}


def _shiko(rig: BlendShapeRig) -> Motion:
    """Return 5.4 s: a leg is raised, held and slammed down; then he shakes his head."""
    line = Timeline(5.4, rate=100)
    pose = {name: PUPPET.pose(turns) for name, turns in POSES.items()}
    poses = line.curve(
        [
            (0.0, 0.7 * pose["squat"]),
            (0.3, 0.7 * pose["squat"]),
            (0.9, 0.55 * pose["leg raised"] + 0.25 * pose["squat"]),
            (1.35, pose["leg raised"]),
            (1.64, 0.97 * pose["leg raised"]),
            (1.98, 0.8 * pose["squat"]),
            (2.14, 0.85 * pose["squat"]),
            (2.60, 0.6 * pose["squat"]),
            (3.00, 0.35 * pose["squat"]),
            (4.40, 0.3 * pose["squat"]),
        ]
    )
    poses[:, PUPPET.places["head.ry"]] += np.radians(30) * line.wave(2.2, 3.0, 4.4)
    poses[:, PUPPET.places["chest.ry"]] -= np.radians(4) * line.wave(2.2, 3.05, 4.45)
    whole = _posed(poses)
    # The right foot, on which he stands, stays where it is.
    sole = np.flatnonzero((rig.rest_points[:, 0] < 0) & (rig.rest_points[:, 1] < 0.03))
    stand = np.array([rig(row, sole).mean(axis=0) for row in whole])
    roots = np.tile(np.eye(4), (len(whole), 1, 1))
    roots[:, :3, 3] = rig.rest_points[sole].mean(axis=0) - stand
    return Motion(line.times, whole, roots, "shiko")
