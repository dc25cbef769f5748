"""Obstacles in words, such as ``sphere:hand_r,10%``, also relative to a character and its motion.

``KIND:NUMBERS``: lengths are in m, or in % of the character's size. A point is X,Y,Z, or the name
of a joint, for its place at the first frame, which an offset X,Y,Z may follow. ``plane:ground`` is
below the lowest point of the skin in the motion. ``@VX,VY,VZ`` behind it is a velocity in m/s.
Free objects are written likewise, with a mass before the velocity: ``sphere:chest,0,20%,0,5%,2kg``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.mesh.obstacles import Box, Capsule, Obstacle, Plane, Sphere
from supple.rig.skeleton.skinning import skinned_core

if TYPE_CHECKING:
    from supple.dynamics.rigid_object import RigidObject
    from supple.mesh.surface import SurfaceMesh
    from supple.rig.motion.motion import Motion
    from supple.rig.protocol import Rig

#: Largest number in m or m/s; computations with larger ones lose their precision.
LARGEST = 1e6
#: Largest speed of an obstacle, in m/s.
FASTEST = 100.0
#: Most poses in which the lowest point of the skin is sought.
MOST_POSES = 240
#: Largest part of the skin that may be inside an obstacle at first.
MOST_INSIDE = 0.8
GROUND = "plane:ground"
#: Numbers of points and of further numbers by kind; the last is a radius, half sides or a normal.
_KINDS = {"plane": (1, 3), "sphere": (1, 1), "capsule": (2, 1), "box": (1, 3)}
_HINT = "a point is X,Y,Z or a joint"


@dataclass(frozen=True, eq=False)
class ClipPlace:
    """Character and part of a motion, relative to which obstacles are placed."""

    rig: Rig
    surface: SurfaceMesh
    motion: Motion
    start: float
    end: float

    @property
    def size(self) -> float:
        """Size of the character in m."""
        return float(self.surface.size)

    def joint(self, name: str) -> Floats:
        """Return the place (3,) of a joint at the first frame."""
        core = skinned_core(self.rig)
        if core is None:
            raise SuppleError(f'no joint "{name}": the rig has no single skeleton; use X,Y,Z')
        skeleton = core.rig.skeleton
        joint = skeleton.joint(name)
        pose, root = self.motion.at(self.start)
        parts = core.rig.joint_pose.unpack(pose[None, core.entries])
        place: Floats = root @ skeleton.world(*parts)[0, joint, :, 3]
        return place[:3]

    @cached_property
    def first_skin(self) -> Floats:
        """Skin (n̄, 3) of the rig at the first frame, in the world."""
        pose, root = self.motion.at(self.start)
        skin: Floats = self.rig(pose) @ root[:3, :3].T + root[:3, 3]
        return skin

    @cached_property
    def lowest(self) -> float:
        """Height of the lowest point of the skin in this part of the motion."""
        times = self.motion.times
        inside = times[(times > self.start) & (times < self.end)]
        inside = inside[:: -(-len(inside) // MOST_POSES) or 1]
        heights = []
        for pose, root in zip(
            *self.motion.at(np.concatenate([[self.start], inside, [self.end]])), strict=True
        ):
            heights.append(float((self.rig(pose) @ root[1, :3]).min() + root[1, 3]))
        return min(heights)


def obstacle_of(word: str, clip: ClipPlace | None = None) -> Obstacle | None:
    """Return the obstacle of a text such as ``sphere:0,1,0,0.2``, or of a mesh file.

    The result is None if the obstacle depends on the character and no `clip` is given; other
    mistakes are errors in either case.
    """
    kind, colon, rest = word.partition(":")
    if not colon or Path(word).exists():
        return _outside(_solid(word), clip, word)
    if kind.lower() not in _KINDS:
        near = difflib.get_close_matches(kind.lower(), _KINDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"use {', '.join(_KINDS)} or a mesh file"
        raise SuppleError(f"obstacle {word[:60]}: no {kind[:20]}; {hint}")
    try:
        placed = _placed(kind.lower(), rest, clip)
    except SuppleError as error:
        raise SuppleError(f"obstacle {word[:60]}: {error}") from None
    return _outside(placed, clip, word)


def object_of(word: str, clip: ClipPlace | None = None) -> RigidObject | None:
    """Return the free object of a text such as ``box:0,2,0,0.1,0.1,0.1,2kg@0,-1,0``.

    The mass is by default that of wood, 500 kg/m³. The result is None if the object depends on the
    character and no `clip` is given; other mistakes are errors in either case.
    """
    from supple.dynamics.rigid_object import RigidObject

    text, at_sign, speeds = word.partition("@")
    try:
        velocity = _velocity("object", speeds, clip) if at_sign else [0.0, 0.0, 0.0]
        text, mass = _mass(text)
    except SuppleError as error:
        raise SuppleError(f"object {word[:60]}: {error}") from None
    try:
        shape = obstacle_of(text, clip)
    except SuppleError as error:
        raise SuppleError(str(error).replace("obstacle", "object", 1)) from None
    if shape is None or velocity is None:
        return None
    return RigidObject(shape, mass, velocity=velocity, name=_object_name(text))


def _object_name(text: str) -> str:
    """Return the kind of a shape in words, or the stem of a mesh file."""
    return text.partition(":")[0] if ":" in text and not Path(text).exists() else Path(text).stem


def _mass(text: str) -> tuple[str, float | None]:
    """Return a text without its mass at the end, such as ``,2kg``, and the mass."""
    rest, comma, last = text.rpartition(",")
    if not comma or not last.strip().endswith("kg"):
        return text, None
    number = last.strip().removesuffix("kg").strip()
    mass = None if number.endswith("%") else _number(number, None)
    if mass is None:
        raise SuppleError(f'the mass "{last.strip()[:30]}" must be in kg, such as 2kg')
    return rest, mass


def placed_options(options: Mapping[str, Any], clip: ClipPlace) -> dict[str, Any]:
    """Return options of a simulator with obstacles placed, and copies of rigid objects.

    Texts among the ``obstacles`` become obstacles. Each simulator moves its own copies of objects,
    so that each take of a motion begins with the objects where they were given.
    """
    from supple.dynamics.rigid_object import RigidObject

    placed = dict(options)
    for name in ("obstacles", "objects"):
        if isinstance(placed.get(name), Iterable) and not isinstance(placed[name], str | Obstacle):
            of_text = obstacle_of if name == "obstacles" else object_of
            given = [
                of_text(each, clip) if isinstance(each, str) else _outside(each, clip, str(number))
                for number, each in enumerate(placed[name])
            ]
            placed[name] = tuple(
                each.copy() if isinstance(each, RigidObject) else each for each in given
            )
    return placed


def _outside(obstacle: Obstacle | None, clip: ClipPlace | None, label: str) -> Obstacle | None:
    """Return an obstacle; refuse one that nearly all of the skin is inside of at first."""
    if clip is None or not isinstance(obstacle, Obstacle):
        return obstacle  # the simulator refuses what is no obstacle
    depths = -obstacle.distances(clip.first_skin)[0]
    if np.mean(depths > 0) > MOST_INSIDE:
        raise SuppleError(
            f"obstacle {label[:60]}: at {clip.start:.4g} s the body is inside it, up to"
            f" {depths.max():.3g} m deep; move it, make it smaller, or turn a plane round"
        )
    return obstacle


def _placed(kind: str, rest: str, clip: ClipPlace | None) -> Obstacle | None:
    """Return the obstacle of a kind and the text behind it; None without a needed clip."""
    rest, at_sign, speeds = rest.partition("@")
    velocity = _velocity(kind, speeds, clip) if at_sign else None
    shape: Obstacle | None = None
    if f"{kind}:{rest.strip().lower()}" != GROUND:
        numbers = _numbers_of(kind, _tokens(rest), clip)
        shape = None if numbers is None else _shape(kind, numbers)
    elif clip is not None:
        shape = Plane((0.0, clip.lowest, 0.0), (0.0, 1.0, 0.0))
    if not at_sign or shape is None:
        return shape
    return None if clip is None or velocity is None else _moving(shape, velocity, clip.start)


def _shape(kind: str, numbers: list[float]) -> Obstacle:
    n = numbers
    makers: dict[str, Callable[[], Obstacle]] = {
        "plane": lambda: Plane(n[:3], n[3:]),
        "sphere": lambda: Sphere(n[:3], n[3]),
        "capsule": lambda: Capsule(n[:3], n[3:6], n[6]),
        "box": lambda: Box(n[:3], n[3:]),
    }
    return makers[kind]()


def _tokens(text: str) -> list[str]:
    """Split at commas; without commas at spaces, which names of joints may contain."""
    parts = text.split(",") if "," in text else text.split()
    return [part.strip() for part in parts if part.strip()]


def _numbers_of(kind: str, tokens: list[str], clip: ClipPlace | None) -> list[float] | None:
    """Return all numbers of an obstacle; None if they depend on a clip that is not given."""
    n_points, n_rest = _KINDS[kind]
    numbers: list[float | None] = []
    left = list(tokens)
    for _ in range(n_points):
        if not left or _is_number(left[0]):
            numbers += [_number(each, clip) for each in left[:3]]
            left = left[3:]
            continue
        point = [None] * 3 if clip is None else clip.joint(left[0]).tolist()
        left = left[1:]
        if n_points == 1 and len(left) == n_rest + 3:
            offset = [_number(each, clip) for each in left[:3]]
            point = [_sum(*each) for each in zip(point, offset, strict=True)]
            left = left[3:]
        numbers += point
    numbers += [_number(each, clip) for each in left]
    if len(numbers) != 3 * n_points + n_rest:
        count = 3 * n_points + n_rest
        raise SuppleError(f"{len(tokens)} numbers; a {kind} has {count}, and {_HINT}")
    known = [each for each in numbers if each is not None]
    return known if len(known) == len(numbers) else None


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _is_number(text: str) -> bool:
    try:
        float(text.removesuffix("%"))
    except ValueError:
        return False
    return True


def _number(text: str, clip: ClipPlace | None) -> float | None:
    """Return a number in m; None for a fraction of the size if there is no clip."""
    if not _is_number(text):
        raise SuppleError(f'"{text[:30]}" is not a number; use numbers with commas, and {_HINT}')
    number = float(text.removesuffix("%"))
    if not abs(number) <= LARGEST:  # nor NaN
        raise SuppleError(f"use numbers within ±{LARGEST:g}")
    if not text.endswith("%"):
        return number
    return None if clip is None else number / 100 * clip.size


def _velocity(kind: str, text: str, clip: ClipPlace | None) -> list[float] | None:
    if kind == "plane":
        raise SuppleError("a plane cannot move; use a box")
    velocity = [_number(each, clip) for each in _tokens(text)]
    if len(velocity) != 3:
        raise SuppleError("a velocity is @VX,VY,VZ in m/s")
    known = [each for each in velocity if each is not None]
    if known and float(np.linalg.norm(known)) > FASTEST:
        raise SuppleError(f"moves at {np.linalg.norm(known):g} m/s; use at most {FASTEST:g}")
    return known if len(known) == 3 else None


def _moving(shape: Obstacle, velocity: list[float], start: float) -> Obstacle:
    from supple.dynamics.rigid_object import RigidObject

    return RigidObject(shape, path=partial(_straight, np.array(velocity), start))


def _straight(velocity: Floats, start: float, seconds: float) -> Floats:
    """Return the place (4, 4) on a straight path from the origin at `start` s."""
    place = np.eye(4)
    place[:3, 3] = (seconds - start) * velocity
    return place


def _solid(word: str) -> Obstacle:
    from supple.formats.meshes.read_mesh import read_surface
    from supple.formats.registry import SURFACES
    from supple.mesh.distance_field import Solid

    if SURFACES.find(Path(word)) is None:
        raise SuppleError(
            f"obstacle {word[:60]}: use plane:, sphere:, capsule: or box: with numbers,"
            f" or a mesh ({' '.join(SURFACES.suffixes())})"
        )
    surface = read_surface(word)
    try:
        return Solid(surface)
    except SuppleError as error:
        raise SuppleError(f"{Path(word).name}: {error}") from None
