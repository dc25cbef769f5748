"""Baked motions as a page can carry them: within a thousandth of the size, in a megabyte or two."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.app.pictures.filmstrip import liveliest_baked, liveliest_vertex
from supple.app.pictures.render import cavities
from supple.app.report.page_appearance import encoded_appearance
from supple.arrays import Floats, Ints, Singles
from supple.errors import SuppleError
from supple.maths.rotations import continuous, from_matrix
from supple.mesh.surface import SurfaceMesh
from supple.rig.baked_motion import BakedMotion

# Frames as few shapes times weights, and shapes as few bytes


Whole = NDArray[np.int32]
#: Shapes found between two looks at the error.
_AT_ONCE = 6
#: Rounded to this part of the tolerance: rounding of some fifty shapes then adds little to it.
_STEPS = 8


@dataclass(frozen=True, eq=False)
class Shapes:
    """Shapes in whole steps: Σ weight × step × numbers is what they stand for.

    Attributes
    ----------
    numbers
        (k, n, 3).
    step
        In metres.
    """

    numbers: Whole
    step: float

    @property
    def count(self) -> int:
        """Number of shapes."""
        return len(self.numbers)


def fitted_shapes(samples: Singles, tolerance: float) -> Shapes:
    """Fit as few shapes as come near all samples: their first singular vectors.

    Parameters
    ----------
    samples
        (m, n, 3) places or offsets.
    tolerance
        The farthest that a vertex of a sample may be from what the shapes make of it, in metres,
        before they are rounded.
    """
    count, vertices = samples.shape[:2]
    flat = samples.reshape(count, -1)
    mean = flat.mean(axis=0, dtype=np.float64).astype(np.float32)
    left = flat - mean
    _, vectors = np.linalg.eigh((left @ left.T).astype(np.float64))
    vectors = vectors[:, ::-1].astype(np.float32)
    found: list[Singles] = [mean[None]]
    for first in range(0, count, _AT_ONCE):
        if _farthest(left.reshape(samples.shape)) <= tolerance:
            break
        some = vectors[:, first : first + _AT_ONCE]
        shapes = some.T @ left
        left -= some @ shapes
        # Weights are then at most one, so that a step is a length whatever the shape.
        found.append(shapes * np.abs(some).max(axis=0)[:, None])
    step = tolerance / _STEPS
    numbers = np.rint(np.concatenate(found) / np.float32(step)).astype(np.int32)
    return Shapes(numbers[np.any(numbers, axis=1)].reshape(-1, vertices, 3), step)


def _farthest(offsets: Singles) -> float:
    return float(np.sqrt(np.einsum("tni,tni->tn", offsets, offsets).max(initial=0.0)))


def weights_for(shapes: Shapes) -> Callable[[NDArray], tuple[Singles, float]]:
    """Return a function from a frame to its weights, by least squares, and the error they leave."""
    flat = shapes.numbers.reshape(shapes.count, 3 * shapes.numbers.shape[1]).astype(np.float32)
    flat *= np.float32(shapes.step)
    gram = flat.astype(np.float64) @ flat.T if shapes.count else np.zeros((0, 0))
    # Rounded shapes may nearly depend on each other; a little ridge keeps weights small.
    inverse = np.linalg.pinv(gram, rcond=1e-12, hermitian=True) if shapes.count else gram

    def fit(frame: NDArray) -> tuple[Singles, float]:
        wanted = frame.reshape(-1).astype(np.float32)
        weights = (inverse @ (flat @ wanted).astype(np.float64)).astype(np.float32)
        return weights, _farthest((weights @ flat - wanted).reshape(1, -1, 3))

    return fit


def neighbours_before(triangles: NDArray[np.int64], vertices: int) -> NDArray[np.int64]:
    """Return for every vertex the last neighbour that comes before it, or the one before it.

    Neighbours move alike: what a vertex has beyond such a neighbour is a small number.
    """
    pairs = np.concatenate([triangles[:, [i, j]] for i in range(3) for j in range(3) if i != j])
    pairs = pairs[pairs[:, 1] < pairs[:, 0]]
    found = np.full(vertices, -1)
    np.maximum.at(found, pairs[:, 0], pairs[:, 1])
    return np.where(found >= 0, found, np.arange(vertices) - 1)


def packed(numbers: NDArray[np.integer]) -> tuple[bytes, int]:
    """Pack whole numbers as planes of bytes, lowest first; return also the number of planes.

    Small ones of either sign become small positive ones (0, −1, 1, −2 …), whose upper planes
    are zeros, which compress to nothing.
    """
    wide = numbers.astype(np.int64).reshape(-1)
    folded = ((wide << 1) ^ (wide >> 63)).astype(np.uint64)
    most = int(folded.max(initial=0))
    planes = max(1, -(-most.bit_length() // 8))
    each = [((folded >> np.uint64(8 * p)) & np.uint64(255)).astype(np.uint8) for p in range(planes)]
    return b"".join(plane.tobytes() for plane in each), planes


Tell = Callable[[float], None]
#: Of the size: how far shapes may be from the frames they were found in, if there is room.
TOLERANCE = 5e-4
#: Frames that shapes are found in, at most, and bytes that these may take.
SAMPLES, SAMPLE_BYTES = 240, 400_000_000
#: Further frames for each motion beyond the first, and frames of all motions.
MORE_SAMPLES, MOST_SAMPLES = 60, 720
#: How often the tolerance is widened for a file that would be too large.
ATTEMPTS = 6


@dataclass(frozen=True)
class EncodedMotion:
    """Motions as they go into the page.

    Attributes
    ----------
    header
        Plain values: sizes, where which numbers are, and of each motion of ``clips`` its frames
        among all; ``clip`` is the one to begin with.
    payload
        Numbers, compressed, in base 64.
    pictures
        Textures, as addresses that hold them.
    error
        The farthest that a drawn vertex of a frame is from the given one, in metres.
    n_shapes
        How many there are for the rig and for what the flesh adds.
    """

    header: dict[str, Any]
    payload: str
    pictures: list[str]
    error: float
    n_shapes: tuple[int, int]


def encoded_motion(
    bakes: Sequence[BakedMotion], *, most_bytes: int = 3_500_000, tell: Tell | None = None
) -> EncodedMotion:
    """Encode motions of rig and flesh in root space as shapes, which they share, and weights.

    Parameters
    ----------
    bakes
        What to show, of one character.
    most_bytes
        For the payload: where it does not suffice, shapes are fewer and coarser.
    tell
        Called with the part done, 0 to 1.
    """
    tell = tell or (lambda part: None)
    character = bakes[0].character
    for baked in bakes:
        if not np.isfinite(baked.frames).all() or baked.n_frames == 0:
            raise SuppleError(f"{character.name}: there are no frames, or not all are finite")
    samples = _Samples.of(bakes, lambda part: tell(0.3 * part))
    surface = character.surface
    look = encoded_appearance(character.appearance, surface.triangles)
    tolerance = TOLERANCE * surface.size
    for attempt in range(ATTEMPTS):
        groups = (fitted_shapes(samples.rig, tolerance), fitted_shapes(samples.flesh, tolerance))
        sections, data = _shape_sections(surface, groups, look.numbers)
        if 4 * len(data) / 3 <= most_bytes:
            break
        tolerance *= 2
        tell(0.3 + 0.3 * (attempt + 1) / ATTEMPTS)
    tell(0.6)
    weights, places, error = _weights(bakes, samples, groups, lambda part: tell(0.6 + 0.4 * part))
    rest, more = _plain_sections({"weights": weights, "places": places})
    header = _header(bakes, samples, groups, error) | {"appearance": look.header or None}
    header["packed"], header["plain"], header["bytes"] = sections, rest, [len(data), len(more)]
    payload = base64.b64encode(data + more).decode("ascii")
    counts = (groups[0].count, groups[1].count)
    return EncodedMotion(header, payload, look.pictures, error, counts)


@dataclass(frozen=True, eq=False)
class _Samples:
    """Frames spread over the motions: where the rig has the skin without the root, and what the
    flesh adds there, (m, n, 3) both; `places` has the motion and the frame of each, in order.
    """

    places: list[tuple[int, int]]
    rig: Singles
    flesh: Singles

    @classmethod
    def of(cls, bakes: Sequence[BakedMotion], tell: Tell) -> _Samples:
        vertices = bakes[0].frames.shape[1]
        wanted = min(SAMPLES + (len(bakes) - 1) * MORE_SAMPLES, MOST_SAMPLES)
        most = int(np.clip(SAMPLE_BYTES // (24 * max(vertices, 1)), 8, wanted))
        total = sum(baked.n_frames for baked in bakes)
        places = []
        for number, baked in enumerate(bakes):
            share = max(2, round(most * baked.n_frames / total))
            chosen = np.linspace(0, baked.n_frames - 1, share).round().astype(int)
            places += [(number, frame) for frame in np.unique(chosen).tolist()]
        rig = np.empty((len(places), vertices, 3), np.float32)
        flesh = np.empty_like(rig)
        for k, (number, frame) in enumerate(places):
            rig[k], flesh[k] = _root_space(bakes[number], frame)
            tell((k + 1) / len(places))
        return cls(places, rig, flesh)

    def of_motion(self, number: int) -> Singles:
        """Return what flesh adds in the samples of one motion."""
        return self.flesh[[k for k, (owner, _) in enumerate(self.places) if owner == number]]


def _root_space(baked: BakedMotion, frame: int) -> tuple[Singles, Singles]:
    rig = baked.character.rig(baked.motion.poses[frame])
    root = baked.motion.roots[frame]
    soft = (baked.frames[frame] - root[:3, 3]) @ root[:3, :3]
    return rig.astype(np.float32), (soft - rig).astype(np.float32)


def _weights(
    bakes: Sequence[BakedMotion], samples: _Samples, groups: tuple[Shapes, Shapes], tell: Tell
) -> tuple[Singles, Singles, float]:
    """Return weights at all frames, roots, and the largest error of rig or flesh."""
    fits = [weights_for(shapes) for shapes in groups]
    known = {place: k for k, place in enumerate(samples.places)}
    every = [(number, k) for number, baked in enumerate(bakes) for k in range(baked.n_frames)]
    weights = np.zeros((len(every), sum(shapes.count for shapes in groups)), np.float32)
    error = 0.0
    for row, (number, frame) in enumerate(every):
        k = known.get((number, frame))
        known_parts = None if k is None else (samples.rig[k], samples.flesh[k])
        parts = known_parts or _root_space(bakes[number], frame)
        found = [fit(part) for fit, part in zip(fits, parts, strict=True)]
        weights[row] = np.concatenate([each for each, _ in found])
        error = max(error, found[0][1] + found[1][1])
        tell((row + 1) / len(every))
    places = []
    for baked in bakes:
        roots = baked.motion.roots
        turns = continuous(from_matrix(roots[:, :3, :3]))
        places.append(np.hstack([turns, roots[:, :3, 3]]))
    return weights, np.concatenate(places).astype(np.float32), error


def _shape_sections(
    surface: SurfaceMesh, groups: tuple[Shapes, Shapes], look: dict[str, Ints]
) -> tuple[list[dict[str, Any]], bytes]:
    """Pack triangles, shapes and looks, and compress all of it."""
    before = neighbours_before(surface.triangles, len(surface.vertices))
    corners = surface.triangles.reshape(-1)
    named: list[tuple[str, NDArray]] = [("triangles", np.diff(corners, prepend=0))]
    for name, shapes in zip(("rig", "flesh"), groups, strict=True):
        beyond = shapes.numbers.copy()
        beyond[:, 1:] -= shapes.numbers[:, before[1:]]
        # All x, then all y, then all z of a shape.
        named.append((name, beyond.transpose(0, 2, 1)))
    named.append(("cavity", np.rint(100 * cavities(surface)).astype(np.int64)))
    named += look.items()
    sections, parts = [], []
    for name, numbers in named:
        data, planes = packed(np.ascontiguousarray(numbers))
        sections.append({"name": name, "count": int(numbers.size), "planes": planes})
        parts.append(data)
    return sections, zlib.compress(b"".join(parts), 7)


def _plain_sections(arrays: dict[str, Singles]) -> tuple[list[dict[str, Any]], bytes]:
    """Write numbers as they are: float32, lowest byte first."""
    sections = [{"name": name, "count": int(array.size)} for name, array in arrays.items()]
    data = b"".join(array.astype("<f4").tobytes() for array in arrays.values())
    return sections, zlib.compress(data, 7)


def _header(
    bakes: Sequence[BakedMotion], samples: _Samples, groups: tuple[Shapes, Shapes], error: float
) -> dict[str, Any]:
    """Return what is the same for all motions, and what is not of each; one is begun with."""
    character = bakes[0].character
    surface, clips, first = character.surface, [], 0
    for number, baked in enumerate(bakes):
        clips.append(_clip_header(baked, samples.of_motion(number)) | {"first": first})
        first += baked.n_frames
    return {
        "name": character.name,
        "vertices": len(surface.vertices),
        "triangles": len(surface.triangles),
        "size": float(surface.size),
        "shapes": [shapes.count for shapes in groups],
        "steps": [shapes.step for shapes in groups],
        "error": error,
        "clips": clips,
        "clip": liveliest_baked(bakes) if len(bakes) > 1 else 0,
    }


def _clip_header(baked: BakedMotion, flesh: Singles) -> dict[str, Any]:
    # The last colour for what is farther than all but a few: a single swinging ear would leave
    # the rest without any.
    farthest = [float(np.quantile(np.linalg.norm(each, axis=1), 0.97)) for each in flesh]
    return {
        "motion": baked.motion.name,
        "rate": float(baked.rate),
        "start": float(baked.times[0]),
        "loop": bool(baked.loop),
        "frames": baked.n_frames,
        "ground": float(np.median(baked.frames[..., 1].min(axis=1))),
        "bounds": _bounds(baked).tolist(),
        "farthest": max(farthest),
        "vertex": liveliest_vertex(flesh)[0],
    }


def _bounds(baked: BakedMotion) -> Floats:
    """Return the box of the motion relative to where the root stands on the ground, (2, 3)."""
    stands = baked.motion.roots[:, :3, 3] * [1.0, 0.0, 1.0]
    low = (baked.frames.min(axis=1) - stands).min(axis=0)
    high = (baked.frames.max(axis=1) - stands).max(axis=0)
    return np.stack([low, high])
