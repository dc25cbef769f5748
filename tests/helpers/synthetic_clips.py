"""Small skinned characters with one difficult kind of clip each, written as .glb files.

The body is a capsule along x on three joints. The root joint is at the origin; "middle" and "tip"
follow along x. Each builder writes a file and returns its path. All are valid glTF, apart from
`equal_times`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from helpers.gltf_builder import Builder

Floats = NDArray[np.float64]
#: Keyframes of a channel: joint, path, times, values, and the interpolation.
Keys = tuple[int, str, Floats, Floats, str]

ROOT, MIDDLE, TIP, BODY = 0, 1, 2, 3
JOINTS = ("root", "middle", "tip")
#: Places of the joints along x, and the capsule's ends and radius, in metres.
PLACES = np.array([0.0, 0.4, 0.8])
LENGTH, RADIUS = 1.2, 0.2
#: Axes of rotations.
X, Y, Z = 0, 1, 2
#: Turns a second of `turning`, and how many.
TURN_RATE, TURNS = 1.0, 3
KEY_COUNT = 100_000


def quaternion(axis: int, degrees: ArrayLike) -> Floats:
    """Quaternions (n, 4) of turns about an axis; one full turn changes their sign."""
    half = np.radians(np.atleast_1d(np.asarray(degrees, np.float64))) / 2
    result = np.zeros((len(half), 4))
    result[:, axis], result[:, 3] = np.sin(half), np.cos(half)
    return result


def turning(path: Path, steps: Sequence[float] = (20, 60, 120, 170)) -> Path:
    """Root joint turning three times about y at a constant rate; one clip for each key spacing."""
    clips: dict[str, list[Keys]] = {}
    for step in steps:
        angles = np.append(np.arange(0, 360 * TURNS, step), 360 * TURNS)
        times = angles / (360 * TURN_RATE)
        keys = (ROOT, "rotation", times, quaternion(Y, angles), "LINEAR")
        clips[f"every {step:g} degrees"] = [keys]
    return write(path, clips)


def swinging(path: Path) -> Path:
    """Turns through ±180 degrees, with keys every 45 degrees.

    In "joint" the middle joint bends from 0 to 180 to -180 and back; in "root" the root turns from
    120 to 240 degrees and back. Quaternions have w ≥ 0, so their signs change where 180 is passed.
    """
    bend = np.array([0, 45, 90, 135, 180, 135, 90, 45, 0, -45, -90, -135, -180, -135, -90, -45, 0])
    root = np.array([120, 165, 210, 240, 210, 165, 120])
    clips: dict[str, list[Keys]] = {}
    for name, joint, axis, angles in (("joint", MIDDLE, Z, bend), ("root", ROOT, Y, root)):
        turns = quaternion(axis, angles)
        turns = np.where(turns[:, 3:] < 0, -turns, turns)
        clips[name] = [(joint, "rotation", np.arange(len(angles)) / 6, turns, "LINEAR")]
    return write(path, clips)


def flipping_signs(path: Path) -> Path:
    """Sway of the middle joint: "plain", and "flipped" with every other quaternion negated."""
    times = np.arange(25) / 12
    turns = quaternion(Z, 40 * np.sin(2 * np.pi * times))
    flipped = turns * np.where(np.arange(25) % 2, -1, 1)[:, None]
    return write(
        path,
        {
            "plain": [(MIDDLE, "rotation", times, turns, "LINEAR")],
            "flipped": [(MIDDLE, "rotation", times, flipped, "LINEAR")],
        },
    )


def one_ulp_apart(path: Path) -> Path:
    """Jump of the root at 1 s, 0.3 m and 90 degrees, between adjacent float32 times."""
    return _jumping(path, float(np.nextafter(np.float32(1), np.float32(2))))


def equal_times(path: Path) -> Path:
    """Jump of the root at 1 s, between two keys of equal times: invalid, but found in files."""
    return _jumping(path, 1.0)


def _jumping(path: Path, later: float) -> Path:
    times = np.array([0, 1, later, 2])
    places = np.array([[0, 0, 0], [0, 0, 0], [0.3, 0, 0], [0.3, 0, 0]])
    turns = quaternion(Y, [0, 0, 90, 90])
    sway = np.arange(25) / 12
    bend = quaternion(Z, 30 * np.sin(2 * np.pi * sway))
    return write(
        path,
        {
            "jump": [
                (ROOT, "translation", times, places, "LINEAR"),
                (ROOT, "rotation", times, turns, "LINEAR"),
                (MIDDLE, "rotation", sway, bend, "LINEAR"),
            ]
        },
    )


def step_beside_linear(path: Path) -> Path:
    """STEP rotation of the middle joint, at 2 keys a second, while the root moves linearly."""
    times = np.arange(5) / 2
    root = np.array([[0, 0, 0], [0, 0.2, 0], [0, 0, 0]])
    return write(
        path,
        {
            "step": [
                (MIDDLE, "rotation", times, quaternion(Z, [0, 30, -30, 30, 0]), "STEP"),
                (ROOT, "translation", np.array([0.0, 1, 2]), root, "LINEAR"),
                (TIP, "rotation", np.array([0.0, 1, 2]), quaternion(Y, [0, 40, 0]), "LINEAR"),
            ]
        },
    )


def one_key(path: Path) -> Path:
    """Clips with one key: "pose" has no other, in "beside" another joint sways."""
    bent = (MIDDLE, "rotation", np.array([0.0]), quaternion(Z, 30), "LINEAR")
    late = (MIDDLE, "rotation", np.array([0.5]), quaternion(Z, 30), "LINEAR")
    times = np.arange(25) / 12
    sway = quaternion(Y, 40 * np.sin(2 * np.pi * times))
    return write(path, {"pose": [bent], "beside": [late, (TIP, "rotation", times, sway, "LINEAR")]})


def cubic(path: Path) -> Path:
    """CUBICSPLINE rotation of the middle joint and translation of the root.

    The translation is (0, t³ - 2t², 0) metres exactly, as a cubic with its own tangents is.
    """
    times = np.array([0, 0.5, 1.25, 2])
    height, slope = times**3 - 2 * times**2, 3 * times**2 - 4 * times
    place, tangent = np.zeros((4, 3)), np.zeros((4, 3))
    place[:, 1], tangent[:, 1] = height, slope
    turns = quaternion(Z, [0, 50, -50, 0])
    rates = np.gradient(turns, times, axis=0)
    return write(
        path,
        {
            "cubic": [
                (ROOT, "translation", times, _hermite(place, tangent), "CUBICSPLINE"),
                (MIDDLE, "rotation", times, _hermite(turns, rates), "CUBICSPLINE"),
            ]
        },
    )


def many_keys(path: Path, count: int = KEY_COUNT, seconds: float = 5.0) -> Path:
    """Sway of the middle joint with very many keys."""
    times = np.linspace(0, seconds, count)
    turns = quaternion(Z, 30 * np.sin(2 * np.pi * times))
    return write(path, {"many": [(MIDDLE, "rotation", times, turns, "LINEAR")]})


def _hermite(values: Floats, tangents: Floats) -> Floats:
    """(3 n, width): in-tangent, value and out-tangent of each key."""
    return np.stack([tangents, values, tangents], axis=1).reshape(-1, values.shape[1])


BUILDERS: dict[str, Callable[[Path], Path]] = {
    "turning": turning,
    "swinging": swinging,
    "flipping_signs": flipping_signs,
    "one_ulp_apart": one_ulp_apart,
    "equal_times": equal_times,
    "step_beside_linear": step_beside_linear,
    "one_key": one_key,
    "cubic": cubic,
    "many_keys": many_keys,
}


def write(path: Path, clips: dict[str, list[Keys]]) -> Path:
    """Write the capsule with some clips, each a list of keyframes."""
    return built(clips).save_glb(path)


def built(clips: dict[str, list[Keys]]) -> Builder:
    """Return the capsule with some clips, as a file to add to; its mesh is at node `BODY`."""
    b = Builder()
    b.json["asset"]["generator"] = "synthetic_clips.py of Supple's tests"
    points, triangles = capsule()
    weights = np.clip(1 - np.abs(points[:, :1] - PLACES - 0.1) / 0.4, 0, 1)
    weights[points[:, 0] < PLACES[0] + 0.1] = (1, 0, 0)
    weights[points[:, 0] > PLACES[2] + 0.1] = (0, 0, 1)
    weights = np.hstack([weights / weights.sum(axis=1, keepdims=True), np.zeros((len(points), 1))])
    joints = np.where(weights > 0, np.arange(4), 0)
    attributes = {
        "POSITION": b.accessor(_single(points)),
        "JOINTS_0": b.accessor(joints, "B"),
        "WEIGHTS_0": b.accessor(_single(weights)),
    }
    for view in range(3):
        b.json["bufferViews"][view]["target"] = 34962
    indices = b.accessor(triangles.ravel(), "H")
    b.json["bufferViews"][-1]["target"] = 34963
    primitive = {"attributes": attributes, "indices": indices}
    b.add("meshes", {"name": "capsule", "primitives": [primitive]})
    inverse = np.tile(np.eye(4), (3, 1, 1))
    inverse[:, 0, 3] = -PLACES
    stored = b.accessor(_single(inverse.transpose(0, 2, 1).reshape(3, 16)))
    for k, name in enumerate(JOINTS):
        step = float(PLACES[k] - PLACES[k - 1]) if k else 0.0
        below = {"children": [k + 1]} if k + 1 < len(JOINTS) else {}
        b.add("nodes", {"name": name, "translation": [step, 0, 0], **below})
    b.add("nodes", {"name": "body", "mesh": 0, "skin": 0})
    b.add("skins", {"joints": [0, 1, 2], "inverseBindMatrices": stored})
    b.add("scenes", {"nodes": [ROOT, BODY]})
    b.json["scene"] = 0
    for name, channels in clips.items():
        clip: dict[str, Any] = {"name": name, "channels": [], "samplers": []}
        for number, (joint, what, times, values, how) in enumerate(channels):
            pair = {"input": b.accessor(_single(times)), "output": b.accessor(_single(values))}
            clip["samplers"].append({**pair, "interpolation": how})
            clip["channels"].append({"sampler": number, "target": {"node": joint, "path": what}})
        b.add("animations", clip)
    return b


def capsule(around: int = 18, along: int = 22) -> tuple[Floats, NDArray[np.int64]]:
    """Vertices (n, 3) and outward triangles of a closed capsule along x."""
    # Arc length along the profile: a quarter circle, a straight part, a quarter circle.
    straight, quarter = LENGTH - 2 * RADIUS, np.pi / 2 * RADIUS
    arc = np.linspace(0, straight + 2 * quarter, along + 2)[1:-1]
    left, right = np.minimum(arc, quarter), np.maximum(arc - quarter - straight, 0)
    angle = (left + right) / RADIUS
    x = -RADIUS * np.cos(angle) + np.clip(arc - quarter, 0, straight)
    turn = 2 * np.pi * np.arange(around) / around
    rings = np.empty((along, around, 3))
    rings[..., 0] = x[:, None]
    rings[..., 1] = (RADIUS * np.sin(angle))[:, None] * np.cos(turn)
    rings[..., 2] = (RADIUS * np.sin(angle))[:, None] * np.sin(turn)
    ends = np.array([[-RADIUS, 0, 0], [straight + RADIUS, 0, 0]])
    points = np.vstack([rings.reshape(-1, 3), ends])
    a = np.arange(along * around).reshape(along, around)
    b = np.roll(a, -1, axis=1)
    sides = [(a[:-1], b[:-1], a[1:]), (b[:-1], b[1:], a[1:])]
    faces = [np.stack(corners, axis=-1).reshape(-1, 3) for corners in sides]
    first, last = len(points) - 2, len(points) - 1
    faces.append(np.column_stack([np.full(around, first), b[0], a[0]]))
    faces.append(np.column_stack([np.full(around, last), a[-1], b[-1]]))
    return points, np.vstack(faces).astype(np.int64)


def _single(values: Floats) -> Floats:
    """Values as float32 holds them, so that the bounds in the file are exact."""
    return np.asarray(values, np.float32).astype(np.float64)
