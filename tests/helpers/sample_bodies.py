"""Small characters made for tests: bodies of rods whose parts are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

Vector = Sequence[float]


def rod(
    start: Vector, end: Vector, radii: Sequence[float] | Floats, around: int = 12
) -> tuple[Floats, Floats]:
    """A closed rod of rings with these radii from end to end: vertices and triangles."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    along = (b - a) / np.linalg.norm(b - a)
    side = np.cross(along, [0.0, 0, 1] if abs(along[2]) < 0.9 else [1.0, 0, 0])
    side /= np.linalg.norm(side)
    up = np.cross(along, side)
    turn = 2 * np.pi * np.arange(around) / around
    ring = np.outer(np.cos(turn), side) + np.outer(np.sin(turn), up)
    parts = np.linspace(0, 1, len(radii))
    points = [a + part * (b - a) + radius * ring for part, radius in zip(parts, radii, strict=True)]
    vertices = np.concatenate([[a], *points, [b]])
    faces = []
    for k in range(around):
        n = (k + 1) % around
        faces.append([0, 1 + n, 1 + k])
        for r in range(len(radii) - 1):
            p, q = 1 + r * around, 1 + (r + 1) * around
            faces += [[p + k, p + n, q + n], [p + k, q + n, q + k]]
        last = 1 + (len(radii) - 1) * around
        faces.append([last + k, last + n, len(vertices) - 1])
    return vertices, np.array(faces)


def capsule(start: Vector, end: Vector, radius: float, rings: int = 10) -> tuple[Floats, Floats]:
    """A rod with round ends that reach `radius` beyond start and end."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    way = (b - a) / np.linalg.norm(b - a)
    length = float(np.linalg.norm(b - a)) + 2 * radius
    at = np.linspace(0.02, 0.98, rings) * length
    beyond = np.maximum(np.maximum(radius - at, at - (length - radius)), 0.0)
    return rod(a - radius * way, b + radius * way, np.sqrt(radius**2 - beyond**2))


@dataclass
class BodyParts:
    """Rods with the joints that move them, put together into one character.

    A rod follows its joints one after the other along its length, blended where they meet.
    """

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    places: list[Floats] = field(default_factory=list)
    skins: list[tuple[Floats, Floats, Floats]] = field(default_factory=list)

    def joint(self, name: str, parent: str | None, place: Vector) -> None:
        """Add a joint."""
        self.names.append(name)
        self.parents.append(-1 if parent is None else self.names.index(parent))
        self.places.append(np.asarray(place, float))

    def skin(self, shape: tuple[Floats, Floats], joints: Sequence[str], blend: float) -> None:
        """Add skin that follows the nearest of these joints' segments, blended over a length."""
        vertices, triangles = shape
        rows = np.array([self.names.index(name) for name in joints])
        starts = np.array([self.places[row] for row in rows])
        # The way along the chain at which each joint begins.
        ways = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(starts, axis=0), axis=1))])
        axis = starts[-1] - starts[0] if len(rows) > 1 else np.array([1.0, 0, 0])
        axis = axis / max(float(np.linalg.norm(axis)), 1e-12)
        at = (vertices - starts[0]) @ axis
        weights = np.zeros((len(vertices), 64))
        left = np.ones(len(vertices))
        for row, way in zip(rows[:0:-1], ways[:0:-1], strict=True):
            share = np.clip(0.5 + (at - way) / blend, 0, 1)
            weights[:, row] += left * share
            left = left * (1 - share)
        weights[:, rows[0]] += left
        self.skins.append((vertices, triangles, weights))

    def character(
        self,
        name: str = "sample",
        scale: float = 1.0,
        turn: Floats | None = None,
        names: Sequence[str] | None = None,
        finer: int = 0,
    ) -> Character:
        """All of it, `scale` times as large and turned."""
        turned = np.eye(3) if turn is None else turn
        points, faces, weights, at = [], [], [], 0
        for vertices, triangles, shares in self.skins:
            for _ in range(finer):
                vertices, triangles, shares = refined(vertices, triangles, shares)
            points.append(vertices)
            faces.append(triangles + at)
            weights.append(shares[:, : len(self.names)])
            at += len(vertices)
        skin = scale * np.concatenate(points) @ turned.T
        places = scale * np.array(self.places) @ turned.T
        offsets = places - np.where(
            np.array(self.parents)[:, None] >= 0, places[np.maximum(self.parents, 0)], 0.0
        )
        skeleton = Skeleton(list(names or self.names), self.parents, offsets)
        inverse_bind = np.tile(np.eye(4), (len(places), 1, 1))
        inverse_bind[:, :3, 3] = -places
        much = np.concatenate(weights)
        joints = np.tile(np.arange(len(self.names)), (len(skin), 1))
        rig = SkinnedRig(JointPose(skeleton), skin, joints, much, inverse_bind)
        surface = SurfaceMesh(rig(rig.rest_pose), np.concatenate(faces))
        return Character(name, surface, rig, {})


def refined(vertices: Floats, triangles: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Each triangle as four."""
    sides = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    unique, at = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True)
    middle = (len(vertices) + at).reshape(-1, 3)
    a, b, c = triangles.T
    p, q, r = middle.T
    faces = np.concatenate(
        [np.column_stack(each) for each in ((a, p, r), (p, b, q), (r, q, c), (p, q, r))]
    )
    halves = [np.concatenate([x, x[unique].mean(axis=1)]) for x in (vertices, values)]
    return halves[0], faces, halves[1]


def bending(character: Character, joint: str, angle: float, *, seconds: float = 1.0) -> Character:
    """The character with a motion that turns one joint about z and back, and shakes it."""
    rig = character.rig
    times = np.linspace(0, 1, 25)
    poses = np.tile(np.asarray(rig.rest_pose, float), (len(times), 1))
    column = [each.name for each in rig.parameters].index(f"{joint}.rz")
    poses[:, column] += angle * np.sin(np.pi * times) ** 2
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    roots[:, 1, 3] = 0.05 * character.surface.size * np.sin(4 * np.pi * times) ** 2
    motion = Motion(seconds * times, poses, roots, "bend")
    return Character(character.name, character.surface, rig, {"bend": motion})


def figure() -> BodyParts:
    """A body with a trunk, neck and head, paired ears, arms and legs, a tail, and a held box."""
    parts = BodyParts()
    parts.joint("hips", None, (0, 1.0, 0))
    parts.joint("chest", "hips", (0, 1.25, 0))
    parts.joint("neck", "chest", (0, 1.55, 0))
    parts.joint("head", "neck", (0, 1.68, 0))
    for side, x in (("L", 1), ("R", -1)):
        parts.joint(f"upperarm.{side}", "chest", (0.18 * x, 1.42, 0))
        parts.joint(f"forearm.{side}", f"upperarm.{side}", (0.45 * x, 1.42, 0))
        parts.joint(f"hand.{side}", f"forearm.{side}", (0.70 * x, 1.42, 0))
        parts.joint(f"thigh.{side}", "hips", (0.1 * x, 0.9, 0))
        parts.joint(f"shin.{side}", f"thigh.{side}", (0.1 * x, 0.5, 0))
        parts.joint(f"foot.{side}", f"shin.{side}", (0.1 * x, 0.12, 0))
        parts.joint(f"ear.{side}", "head", (0.1 * x, 1.85, 0))
        parts.joint(f"eartip.{side}", f"ear.{side}", (0.14 * x, 1.95, 0))
    for k in range(5):
        parts.joint(f"tail{k}", f"tail{k - 1}" if k else "hips", (0, 0.95, -0.16 - 0.12 * k))
    parts.skin(capsule((0, 1.0, 0), (0, 1.4, 0), 0.19, 16), ["hips", "chest"], 0.15)
    head = rod((0, 1.45, 0), (0, 1.95, 0), (0.06, 0.06, 0.06, 0.1, 0.13, 0.14, 0.13, 0.08))
    parts.skin(head, ["neck", "head"], 0.06)
    for side, x in (("L", 1), ("R", -1)):
        arm = rod((0.1 * x, 1.42, 0), (0.88 * x, 1.42, 0), np.linspace(0.06, 0.035, 16))
        parts.skin(arm, [f"{name}.{side}" for name in ("upperarm", "forearm", "hand")], 0.06)
        leg = rod((0.1 * x, 0.95, 0), (0.1 * x, 0.0, 0), np.linspace(0.085, 0.05, 18))
        parts.skin(leg, [f"{name}.{side}" for name in ("thigh", "shin", "foot")], 0.06)
        ear = rod((0.09 * x, 1.83, 0), (0.17 * x, 2.03, 0), (0.03, 0.028, 0.025, 0.02, 0.012))
        parts.skin(ear, [f"ear.{side}", f"eartip.{side}"], 0.04)
    tail = rod((0, 0.95, -0.1), (0, 0.95, -0.76), np.linspace(0.04, 0.02, 18))
    parts.skin(tail, [f"tail{k}" for k in range(5)], 0.05)
    return parts


def with_box(parts: BodyParts) -> BodyParts:
    """The body with a box in its left hand that follows it whole."""
    parts.skin(rod((0.78, 1.36, 0), (0.78, 0.9, 0), (0.05, 0.05, 0.05)), ["hand.L"], 0.1)
    return parts


def mannequin() -> BodyParts:
    """A jointed figure of separate rigid pieces, each on a joint with a name of Unreal's mannequin.

    Its belly alone bends: one piece from the pelvis to the chest.
    """
    parts = BodyParts()
    middle = {"pelvis": 0.92, "spine_01": 1.0, "spine_02": 1.25, "neck_01": 1.5, "head": 1.6}
    above = None
    for name, height in middle.items():
        parts.joint(name, above, (0, height, 0))
        above = name
    parts.skin(capsule((0, 0.9, 0), (0, 0.94, 0), 0.14), ["pelvis"], 0.1)
    belly = rod((0, 1.0, 0), (0, 1.22, 0), [0.1, 0.11, 0.12, 0.12, 0.12, 0.11])
    parts.skin(belly, ["pelvis", "spine_01", "spine_02"], 0.2)
    parts.skin(capsule((0, 1.3, 0), (0, 1.4, 0), 0.16), ["spine_02"], 0.1)
    parts.skin(capsule((0, 1.5, 0), (0, 1.56, 0), 0.05), ["neck_01"], 0.1)
    parts.skin(capsule((0, 1.7, 0), (0, 1.8, 0), 0.11), ["head"], 0.1)
    for side, x in (("l", 1), ("r", -1)):
        chains = {
            "spine_02": {"upperarm": 0.22, "lowerarm": 0.5, "hand": 0.76, "": 0.9},
            "pelvis": {"thigh": 0.85, "calf": 0.47, "foot": 0.08, "": 0.02},
        }
        for carrier, chain in chains.items():
            above, places = carrier, [*chain.items()]
            for (name, at), (_, end) in pairwise(places):
                arm = carrier == "spine_02"
                start = (at * x, 1.42, 0) if arm else (0.1 * x, at, 0)
                stop = (end * x, 1.42, 0) if arm else (0.1 * x, end, 0)
                radius = 0.045 if arm else 0.06 if end > 0.05 else 0.04
                parts.joint(f"{name}_{side}", above, start)
                gap = 0.05 * np.sign(np.subtract(stop, start))
                far = np.asarray(stop) - gap if end not in (0.9, 0.02) else np.asarray(stop)
                parts.skin(
                    capsule((start + gap).tolist(), far.tolist(), radius), [f"{name}_{side}"], 0.1
                )
                above = f"{name}_{side}"
    return parts
