"""An elephant that walks, its trunk and belly free: the first example of Hahn et al. 2013, §5."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.wire import Wire
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import Bone, Handle, PaperRow, Scene
from supple.scenes.characters.elephant_shape import (
    BOUNDS,
    JOINTS,
    TRUNK,
    elephant_colours,
    elephant_parts,
    elephant_solid,
    trunk_and_rest,
)
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.painting import painted
from supple.scenes.modelling.puppet import Puppet, Turns
from supple.scenes.modelling.sculpting import ramp
from supple.scenes.modelling.skin_weights import part_weights, strongest
from supple.scenes.modelling.solids import coarsened, polygonise, relaxed

PAPER = PaperRow(tet_vertices=2089, tets=None, surface_vertices=761)
VERTICES, SPACING = PAPER.tet_vertices, 0.035
PUPPET = Puppet(JOINTS, ("pelvis",))

#: Controls of the trunk: its wire from the second point, where it leaves the head, to the tip.
#: The first stays, the second only swings sideways: 13 parameters.
CONTROLS = 6
#: Places of the belly that move on their own: along it, and around it, in degrees from below.
ALONG, AROUND = (-0.58, -0.28, 0.02, 0.32), {"left": 68.0, "low": 0.0, "right": -68.0}
#: Every place moves out, around the body and along it: 36 parameters. At weight 1, in metres.
WAYS, FAR, WIDE = ("out", "round", "along"), 0.12, 0.52
FREE = {
    "trunk": ("trunk.1.tx", f"trunk.[2-{CONTROLS - 1}].t?"),
    "belly": ("belly.*",),
}
#: Young's modulus in Pa: of flesh, and of the muscle that a trunk is.
FLESH, MUSCLE = 3e4, 1.1e6


#: Degrees about x, y and z for each joint, of the left side for both; metres for "+name".
POSES: dict[str, Turns] = {
    "standing": {},
    "left ahead": {
        "shoulder.L": (-22, 0, 0),
        "elbow.L": (8, 0, 0),
        "shoulder.R": (16, 0, 0),
        "hip.L": (14, 0, 0),
        "hip.R": (-18, 0, 0),
        "knee.R": (12, 0, 0),
    },
    "right ahead": {
        "shoulder.R": (-22, 0, 0),
        "elbow.R": (8, 0, 0),
        "shoulder.L": (16, 0, 0),
        "hip.R": (14, 0, 0),
        "hip.L": (-18, 0, 0),
        "knee.L": (12, 0, 0),
    },
    "head up": {"head": (-24, 0, 0), "chest": (-5, 0, 0), "ear": (0, 28, 0)},
    "looking left": {"head": (4, 26, 0), "chest": (0, 8, 0), "ear": (0, -10, 0)},
    "bow": {
        "head": (18, 0, 0),
        "chest": (8, 0, 0),
        "spine": (5, 0, 0),
        "tail": (14, 0, 0),
    },
}


def sculpt() -> dict[str, NDArray]:
    """Sculpt the surface, skinning weights, the trunk's influence and the belly's shapes."""
    solid = elephant_solid()
    fine = relaxed(polygonise(solid, BOUNDS, SPACING), solid, 4)
    surface = coarsened(fine, solid, VERTICES)
    weights = part_weights(surface, list(elephant_parts().values()), 0.13)
    joints, kept = strongest(weights, 4)
    influence = part_weights(surface, trunk_and_rest(), 0.14)[:, 0]
    soft = weights[:, [list(JOINTS).index(joint) for joint in ("spine", "chest", "pelvis")]]
    return {
        "vertices": surface.vertices,
        "triangles": surface.triangles,
        "joints": joints,
        "weights": kept,
        "influence": ramp(influence, 0.02, 0.98),
        "belly": _belly_shapes(surface.vertices, ramp(soft.sum(axis=1), 0.3, 1.0)),
    }


def _belly_shapes(points: Floats, soft: Floats) -> Floats:
    """Return displacements (36, n, 3) of the belly's skin, of flesh that is no leg."""
    found = []
    for along in ALONG:
        for degrees in AROUND.values():
            turn = np.radians(degrees)
            out = np.array([np.sin(turn), -np.cos(turn), 0.0])
            centre = np.array([0.0, 1.15, along]) + 0.56 * out
            away = np.linalg.norm(points - centre, axis=1) / WIDE
            bump = FAR * soft * np.maximum(1 - away**2, 0.0) ** 2
            across = np.array([np.cos(turn), np.sin(turn), 0.0])
            found += [bump[:, None] * way for way in (out, across, np.array([0.0, 0.0, 1.0]))]
    return np.array(found)


def _rig(arrays: dict[str, NDArray]) -> RigChain:
    """Return a wire through the trunk, and on it the belly's shapes and the skeleton."""
    vertices = arrays["vertices"]
    wire = Wire(vertices, _wire(), influence=arrays["influence"], name="trunk")
    skinned = PUPPET.skinned(vertices, arrays["joints"], arrays["weights"])
    names = [
        f"belly.{place}{row + 1}.{way}"
        for row in range(len(ALONG))
        for place in AROUND
        for way in WAYS
    ]
    return RigChain(wire, BlendShapeRig(skinned, arrays["belly"], names))


def _wire() -> Floats:
    """Return control points spread evenly along the trunk."""
    places = np.array([place for place, _ in TRUNK])
    marks = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(places, axis=0), axis=1))])
    wanted = np.linspace(0, marks[-1], CONTROLS)
    return np.stack([np.interp(wanted, marks, axis) for axis in places.T], axis=1)


def assemble(arrays: dict[str, NDArray]) -> Scene:
    """Assemble the scene of the sculpted arrays."""
    surface = SurfaceMesh(arrays["vertices"], arrays["triangles"])
    rig = _rig(arrays)
    poses = np.array([_posed(PUPPET.pose(turns)) for turns in POSES.values()])
    motions = {motion.name: motion for motion in (_walk(), _toss(), _nod())}
    weights = np.zeros((len(surface.vertices), len(JOINTS)))
    np.put_along_axis(weights, arrays["joints"], arrays["weights"], axis=1)
    return Scene(
        character=Character(
            "elephant", surface, rig, motions, appearance=painted(surface, elephant_colours)
        ),
        tets=8_000,
        poses=poses,
        pose_names=tuple(POSES),
        handles=_handles(),
        bones=_bones(),
        parts=weights.argmax(axis=1),
        part_names=tuple(JOINTS),
        contacts=(),
        paper=PAPER,
        material=Material("neo-hookean", young=FLESH, poisson=0.45),
        modes=(15, 20, 10, 10, 10, 10),
        young=FLESH * (MUSCLE / FLESH) ** arrays["influence"],
        free=FREE,
        bounds={"belly.*": (-1.0, 1.0), "trunk.*": (-0.9, 0.9)},
    )


def _posed(joints: Floats) -> Floats:
    """Put poses of the joints between the wire's and the shapes', which are at rest."""
    before, after = 3 * CONTROLS, len(ALONG) * len(AROUND) * len(WAYS)
    wide = [(0, 0)] * (joints.ndim - 1)
    return np.pad(joints, [*wide, (before, after)])


def _handles() -> tuple[Handle, ...]:
    """Return a segment through each region: trunk, body and legs."""
    places = {name: np.array(place) for name, (_, place) in JOINTS.items()}
    ends = {
        "trunk": (np.array(TRUNK[2][0]), np.array(TRUNK[5][0])),
        "body": (places["pelvis"], places["chest"]),
    }
    for side in "LR":
        ends[f"fore.{side}"] = places[f"shoulder.{side}"], places[f"wrist.{side}"]
        ends[f"hind.{side}"] = places[f"hip.{side}"], places[f"ankle.{side}"]
    return tuple(Handle(name, np.array(pair)) for name, pair in ends.items())


def _bones() -> tuple[Bone, ...]:
    """Return the spine, the skull and the legs; a trunk has none."""
    places = {name: np.array(place) for name, (_, place) in JOINTS.items()}
    bones = [
        Bone(name, places[parent], place)
        for (name, (parent, _)), place in zip(JOINTS.items(), places.values(), strict=True)
        if parent is not None and not name.startswith(("ear", "tail"))
    ]
    skull = Bone("skull", places["head"], np.array([0.0, 1.80, 1.16]))
    return (*bones, skull)


# Motions: a walk, a head that is thrown about, and one that looks around


#: Seconds of a stride, and how far it goes.
STRIDE, METRES = 1.2, 0.95
#: When each leg swings, as a part of the stride: hind, fore of one side, then of the other.
PHASES = {"hip.L": 0.0, "shoulder.L": 0.25, "hip.R": 0.5, "shoulder.R": 0.75}


def _walk() -> Motion:
    """Return three strides of 3.6 s that close to a loop."""
    times = np.arange(round(3 * STRIDE * 100) + 1) / 100
    turns = 2 * np.pi * times / STRIDE
    poses, places = np.zeros((len(times), len(PUPPET.places))), PUPPET.places

    def turn(name: str, degrees: Floats) -> None:
        poses[:, places[name]] += np.radians(degrees)

    for leg, part in PHASES.items():
        along = turns - 2 * np.pi * part
        joint, side = leg.split(".")
        lower, foot = ("elbow", "wrist") if joint == "shoulder" else ("knee", "ankle")
        turn(f"{leg}.rx", -17 * np.sin(along) + (3 if joint == "hip" else 0))
        lifted = 0.5 * (1 + np.cos(along)) ** 2 / 2
        turn(f"{lower}.{side}.rx", 24 * lifted)
        turn(f"{foot}.{side}.rx", 17 * np.sin(along) - 12 * lifted)
    turn("pelvis.rz", 2.5 * np.sin(turns))
    turn("spine.ry", 3.0 * np.sin(turns))
    turn("chest.rz", -3.0 * np.sin(turns + 0.6))
    turn("chest.rx", 1.5 * np.sin(2 * turns))
    turn("head.rx", 5.0 * np.sin(2 * turns + 0.8))
    turn("head.ry", 6.0 * np.sin(turns + 0.5))
    turn("tail.rz", 14 * np.sin(turns))
    turn("tail tip.rz", 12 * np.sin(turns - 0.8))
    for side, sign in (("L", 1.0), ("R", -1.0)):
        turn(f"ear.{side}.ry", sign * (9 * np.sin(2 * turns - 0.5) + 6 * np.sin(turns)))
    poses[:, places["pelvis.ty"]] += -0.035 + 0.018 * np.sin(2 * turns)
    poses[:, places["pelvis.tx"]] += 0.02 * np.sin(turns)
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    roots[:, 2, 3] = METRES * times / STRIDE
    return Motion(times, _posed(poses), roots, "walk")


def _toss() -> Motion:
    """Return a head that is thrown about for 3 s, and then held."""
    line = Timeline(4.0, rate=100)
    poses = np.zeros((len(line.times), len(PUPPET.places)))
    for name, degrees, hertz in (
        ("head.ry", 27.0, 1.25),
        ("head.rx", 18.0, 1.6),
        ("head.rz", 10.0, 0.9),
        ("chest.ry", 9.0, 1.25),
        ("chest.rx", 5.0, 1.6),
    ):
        poses[:, PUPPET.places[name]] = np.radians(degrees) * line.wave(hertz, 0.1, 2.6)
    for side, sign in (("L", 1.0), ("R", -1.0)):
        flap = np.radians(sign * 6) * line.wave(1.6, 0.2, 2.7)
        # They lag behind the head, and so keep off the shoulders.
        drag = 0.3 * poses[:, PUPPET.places["head.ry"]]
        poses[:, PUPPET.places[f"ear.{side}.ry"]] = flap - drag
    return Motion(line.times, _posed(poses), None, "toss")


def _nod() -> Motion:
    """Return a head that looks around at its ease, 4 s."""
    line = Timeline(4.0, rate=100)
    looks = [
        (0.0, PUPPET.pose({})),
        (0.8, PUPPET.pose({"head": (3, 14, 0), "chest": (0, 4, 0), "ear": (0, -6, 0)})),
        (1.7, PUPPET.pose({"head": (-8, -12, 0), "chest": (-2, -3, 0), "ear": (0, 10, 0)})),
        (2.5, PUPPET.pose({"head": (7, 0, 0), "chest": (2, 0, 0)})),
        (3.2, PUPPET.pose({})),
    ]
    return Motion(line.times, _posed(line.curve(looks)), None, "nod")
