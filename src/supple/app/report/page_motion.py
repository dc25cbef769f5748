"""Baked motions and appearances encoded for a page: small textures, and shapes with weights."""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.app.pictures.filmstrip import liveliest_baked, liveliest_vertex
from supple.app.pictures.render import cavities
from supple.app.report.page_obstacles import encoded_obstacles, with_obstacles_near
from supple.arrays import Floats, Ints, Singles
from supple.errors import SuppleError
from supple.maths.rotations import continuous, from_matrix
from supple.mesh.appearance import SIDE, Appearance, Texture
from supple.mesh.surface import SurfaceMesh
from supple.progress import PartDone, unreported
from supple.rig.baked_motion import BakedMotion
from supple.rig.drawn_obstacles import ground_height

# Appearance ------------------------------------------------------------------------------------

#: Most bytes of all textures; larger ones are scaled down.
MOST_BYTES = 1_500_000
#: Least length of the longer side, in pixels.
LEAST_SIDE = 64
#: Steps of quantised texture coordinates.
STEPS = 65535
_KINDS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg"}


@dataclass(frozen=True, eq=False)
class EncodedAppearance:
    """Encoded appearance: materials and range of coordinates, packed integers, textures."""

    header: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Ints] = field(default_factory=dict)  # to be packed with the shapes
    pictures: list[str] = field(default_factory=list)  # data URIs


def encoded_appearance(appearance: Appearance | None, triangles: Ints) -> EncodedAppearance:
    """Return the encoded appearance of the corners of triangles (m, 3); empty for None.

    A vertex is drawn once for each different look of its corners. ``ways`` has the number of looks
    by vertex, ``corners`` the look of each corner, ``uv`` and ``tints`` the values of the looks.
    """
    if appearance is None:
        return EncodedAppearance()
    rows, header = _corner_rows(appearance)
    vertices = triangles.reshape(-1)
    keys, look = np.unique(np.column_stack([vertices, rows]), axis=0, return_inverse=True)
    looks = np.bincount(keys[:, 0], minlength=int(vertices.max()) + 1)
    first = np.cumsum(looks) - looks
    numbers: dict[str, Ints] = {
        "materials": np.diff(appearance.material_of, prepend=0),
        "ways": looks,
        "corners": look.reshape(-1) - first[vertices],
    }
    at = 1
    for name, width in (("uv", 2), ("tints", 4)):
        if header[name]:
            # One coordinate after the other, as differences.
            numbers[name] = np.diff(keys[:, at : at + width], axis=0, prepend=0).T
            at += width
    pictures, number = _pictures(appearance)
    header["materials"] = [
        {
            "colour": list(each.colour),
            "picture": -1 if each.texture is None else number[id(each.texture)],
            "wrap": list(each.texture.wrap) if each.texture else [],
            "smooth": bool(each.texture and each.texture.smooth),
            "alpha": each.alpha,
            "cutoff": each.cutoff,
        }
        for each in appearance.materials
    ]
    return EncodedAppearance(header, numbers, pictures)


def _corner_rows(appearance: Appearance) -> tuple[Ints, dict[str, Any]]:
    """Return quantised texture coordinates and tints of every corner, (3m, k), and their header."""
    columns: list[NDArray] = [np.empty((3 * len(appearance.material_of), 0), np.int64)]
    header: dict[str, Any] = {"uv": None, "tints": appearance.tints is not None}
    if appearance.uv is not None:
        flat = appearance.uv.reshape(-1, 2).astype(np.float64)
        low, span = flat.min(axis=0), np.maximum(np.ptp(flat, axis=0), 1e-9)
        header["uv"] = [*low.tolist(), *span.tolist()]
        columns.append(np.rint((flat - low) / span * STEPS).astype(np.int64))
    if appearance.tints is not None:
        # Square roots: dark colours get finer steps. The page squares them.
        columns.append(np.rint(255 * np.sqrt(appearance.tints.reshape(-1, 4))).astype(np.int64))
    return np.hstack(columns), header


def _pictures(appearance: Appearance) -> tuple[list[str], dict[int, int]]:
    """Return textures as data URIs, and the index of each by the `id` of its texture."""
    used = [(each.texture, each.alpha) for each in appearance.materials if each.texture]
    textures = {texture.data: texture for texture, _ in used}
    clear = {texture.data for texture, alpha in used if alpha != "opaque"}
    side, addresses = SIDE, [""]
    while side >= LEAST_SIDE:
        addresses = [_address(texture, side, data in clear) for data, texture in textures.items()]
        if sum(map(len, addresses)) <= MOST_BYTES:
            break
        side //= 2
    place = {data: k for k, data in enumerate(textures)}
    return addresses, {id(texture): place[texture.data] for texture, _ in used}


def _address(texture: Texture, side: int, clear: bool) -> str:
    """Return a data URI of a texture, empty if it is damaged; PNG if opacity is needed."""
    image = texture.image(side)
    if image is None:
        return ""
    kind = next((kind for start, kind in _KINDS.items() if texture.data.startswith(start)), "")
    data = texture.data
    if not kind or max(texture.size) > side or len(data) > MOST_BYTES // 4:
        kind, file = "png" if clear else "jpeg", io.BytesIO()
        if clear:
            image.save(file, "PNG", optimize=True)
        else:
            image.convert("RGB").save(file, "JPEG", quality=88)
        data = file.getvalue()
    return f"data:image/{kind};base64," + base64.b64encode(data).decode("ascii")


# Shapes and weights ----------------------------------------------------------------------------

#: Shapes computed between two evaluations of the error.
_AT_ONCE = 6
#: Quantisation steps per tolerance, so that rounding adds little to the error.
_STEPS = 8


@dataclass(frozen=True, eq=False)
class Shapes:
    """Quantised shapes; a frame is Σ weight × step × numbers."""

    numbers: NDArray[np.int32]  # (k, n, 3)
    step: float  # in m


def fitted_shapes(samples: Singles, tolerance: float) -> Shapes:
    """Return the mean and the first singular vectors of samples (m, n, 3), as many as needed.

    The tolerance is the largest error of a vertex in m, before quantisation.
    """
    count, vertices = samples.shape[:2]
    flat = samples.reshape(count, -1)
    mean = flat.mean(axis=0, dtype=np.float64).astype(np.float32)
    residual = flat - mean
    _, vectors = np.linalg.eigh((residual @ residual.T).astype(np.float64))
    vectors = vectors[:, ::-1].astype(np.float32)
    parts: list[Singles] = [mean[None]]
    for first in range(0, count, _AT_ONCE):
        if _farthest(residual.reshape(samples.shape)) <= tolerance:
            break
        some = vectors[:, first : first + _AT_ONCE]
        shapes = some.T @ residual
        residual -= some @ shapes
        # Weights become at most one, so that a step is a length for every shape.
        parts.append(shapes * np.abs(some).max(axis=0)[:, None])
    step = tolerance / _STEPS
    numbers = np.rint(np.concatenate(parts) / np.float32(step)).astype(np.int32)
    return Shapes(numbers[np.any(numbers, axis=1)].reshape(-1, vertices, 3), step)


def _farthest(offsets: Singles) -> float:
    return float(np.sqrt(np.einsum("tni,tni->tn", offsets, offsets).max(initial=0.0)))


def weights_for(shapes: Shapes) -> Callable[[NDArray], tuple[Singles, float]]:
    """Return a function of a frame (n, 3) that returns its weights (k,) and their error in m.

    The weights are fitted by least squares; the error is the largest of any vertex.
    """
    count, vertices = shapes.numbers.shape[:2]
    flat = shapes.numbers.reshape(count, 3 * vertices).astype(np.float32)
    flat *= np.float32(shapes.step)
    gram = flat.astype(np.float64) @ flat.T if count else np.zeros((0, 0))
    # Quantised shapes may be nearly dependent; the cutoff keeps weights small.
    inverse = np.linalg.pinv(gram, rcond=1e-12, hermitian=True) if count else gram

    def fit(frame: NDArray) -> tuple[Singles, float]:
        target = frame.reshape(-1).astype(np.float32)
        weights = (inverse @ (flat @ target).astype(np.float64)).astype(np.float32)
        return weights, _farthest((weights @ flat - target).reshape(1, -1, 3))

    return fit


def neighbours_before(triangles: NDArray[np.int64], vertices: int) -> NDArray[np.int64]:
    """Return for every vertex the neighbour with the highest index below its own.

    A vertex without such a neighbour has its own index minus one. Neighbours move alike, so
    differences to them are small numbers.
    """
    pairs = np.concatenate([triangles[:, [i, j]] for i in range(3) for j in range(3) if i != j])
    pairs = pairs[pairs[:, 1] < pairs[:, 0]]
    neighbour = np.full(vertices, -1)
    np.maximum.at(neighbour, pairs[:, 0], pairs[:, 1])
    return np.where(neighbour >= 0, neighbour, np.arange(vertices) - 1)


def packed(numbers: NDArray[np.integer]) -> tuple[bytes, int]:
    """Pack integers as planes of bytes, lowest first; return also the number of planes.

    Zigzag coding (0, −1, 1, −2 …) makes the upper planes of small numbers zero, so that they
    compress well.
    """
    wide = numbers.astype(np.int64).reshape(-1)
    folded = ((wide << 1) ^ (wide >> 63)).astype(np.uint64)
    largest = int(folded.max(initial=0))
    planes = max(1, -(-largest.bit_length() // 8))
    each = [((folded >> np.uint64(8 * p)) & np.uint64(255)).astype(np.uint8) for p in range(planes)]
    return b"".join(plane.tobytes() for plane in each), planes


#: Tolerance of shapes relative to the size, if the payload allows it.
TOLERANCE = 5e-4
#: Most sampled frames of a motion, and their most bytes.
SAMPLES, SAMPLE_BYTES = 240, 400_000_000
#: Further sampled frames for each further motion, and most of all motions.
MORE_SAMPLES, MOST_SAMPLES = 60, 720
#: Attempts with doubled tolerance if the payload is too large.
ATTEMPTS = 6


@dataclass(frozen=True)
class EncodedMotion:
    """Encoded motions.

    The header has sizes, the layout of the numbers, the motions ``clips``, and the one shown first,
    ``clip``.
    """

    header: dict[str, Any]
    payload: str  # compressed numbers in base 64
    pictures: list[str]  # textures as data URIs
    error: float  # largest error of a vertex, in m
    n_shapes: tuple[int, int]  # of the rig and of the flesh's offsets


def encoded_motion(
    bakes: Sequence[BakedMotion], *, most_bytes: int = 3_500_000, progress: PartDone = unreported
) -> EncodedMotion:
    """Encode motions of one character, rig and flesh in root space, as shapes and weights.

    Shapes are coarser if the payload would have more than `most_bytes`. `progress` is called with
    the fraction done.
    """
    character = bakes[0].character
    for baked in bakes:
        if not np.isfinite(baked.frames).all() or baked.n_frames == 0:
            raise SuppleError(f"{character.name}: has no frames, or some are not finite")
    samples = _Samples.of(bakes, lambda part: progress(0.3 * part))
    surface = character.surface
    look = encoded_appearance(character.appearance, surface.triangles)
    tolerance = TOLERANCE * surface.size
    for attempt in range(ATTEMPTS):
        groups = (fitted_shapes(samples.rig, tolerance), fitted_shapes(samples.flesh, tolerance))
        sections, data = _shape_sections(surface, groups, look.numbers)
        if 4 * len(data) / 3 <= most_bytes:
            break
        tolerance *= 2
        progress(0.3 + 0.3 * (attempt + 1) / ATTEMPTS)
    progress(0.6)
    weights, places, error = _weights(
        bakes, samples, groups, lambda part: progress(0.6 + 0.4 * part)
    )
    obstacles, numbers = encoded_obstacles(bakes)
    rest, more = _plain_sections({"weights": weights, "places": places, **numbers})
    header = _header(bakes, samples, groups, error) | {"appearance": look.header or None}
    header["obstacles"] = obstacles
    header["packed"], header["plain"], header["bytes"] = sections, rest, [len(data), len(more)]
    payload = base64.b64encode(data + more).decode("ascii")
    counts = (len(groups[0].numbers), len(groups[1].numbers))
    return EncodedMotion(header, payload, look.pictures, error, counts)


@dataclass(frozen=True, eq=False)
class _Samples:
    """Sampled frames in root space: the skin `rig` and the offsets `flesh` from it, (m, n, 3).

    `places` has the motion and the frame of each sample.
    """

    places: list[tuple[int, int]]
    rig: Singles
    flesh: Singles

    @classmethod
    def of(cls, bakes: Sequence[BakedMotion], progress: PartDone) -> _Samples:
        vertices = bakes[0].frames.shape[1]
        count = min(SAMPLES + (len(bakes) - 1) * MORE_SAMPLES, MOST_SAMPLES)
        frames = int(np.clip(SAMPLE_BYTES // (24 * max(vertices, 1)), 8, count))
        total = sum(baked.n_frames for baked in bakes)
        places = []
        for number, baked in enumerate(bakes):
            share = max(2, round(frames * baked.n_frames / total))
            chosen = np.linspace(0, baked.n_frames - 1, share).round().astype(int)
            places += [(number, frame) for frame in np.unique(chosen).tolist()]
        rig = np.empty((len(places), vertices, 3), np.float32)
        flesh = np.empty_like(rig)
        for k, (number, frame) in enumerate(places):
            rig[k], flesh[k] = _root_space(bakes[number], frame)
            progress((k + 1) / len(places))
        return cls(places, rig, flesh)

    def of_motion(self, number: int) -> Singles:
        """Return the flesh's offsets in the samples of one motion."""
        return self.flesh[[k for k, (owner, _) in enumerate(self.places) if owner == number]]


def _root_space(baked: BakedMotion, frame: int) -> tuple[Singles, Singles]:
    rig = baked.character.rig(baked.motion.poses[frame])
    root = baked.motion.roots[frame]
    soft = (baked.frames[frame] - root[:3, 3]) @ root[:3, :3]
    return rig.astype(np.float32), (soft - rig).astype(np.float32)


def _weights(
    bakes: Sequence[BakedMotion],
    samples: _Samples,
    groups: tuple[Shapes, Shapes],
    progress: PartDone,
) -> tuple[Singles, Singles, float]:
    """Return weights (t, k), roots (t, 7: quaternion, position), and the largest error in m."""
    fits = [weights_for(shapes) for shapes in groups]
    sampled = {place: k for k, place in enumerate(samples.places)}
    every = [(number, k) for number, baked in enumerate(bakes) for k in range(baked.n_frames)]
    weights = np.zeros((len(every), sum(len(shapes.numbers) for shapes in groups)), np.float32)
    error = 0.0
    for row, (number, frame) in enumerate(every):
        k = sampled.get((number, frame))
        sample = None if k is None else (samples.rig[k], samples.flesh[k])
        parts = sample or _root_space(bakes[number], frame)
        fitted = [fit(part) for fit, part in zip(fits, parts, strict=True)]
        weights[row] = np.concatenate([each for each, _ in fitted])
        error = max(error, fitted[0][1] + fitted[1][1])
        progress((row + 1) / len(every))
    places = []
    for baked in bakes:
        roots = baked.motion.roots
        quaternions = continuous(from_matrix(roots[:, :3, :3]))
        places.append(np.hstack([quaternions, roots[:, :3, 3]]))
    return weights, np.concatenate(places).astype(np.float32), error


def _shape_sections(
    surface: SurfaceMesh, groups: tuple[Shapes, Shapes], look: dict[str, Ints]
) -> tuple[list[dict[str, Any]], bytes]:
    """Return the layout and the compressed bytes of triangles, shapes and the appearance."""
    before = neighbours_before(surface.triangles, len(surface.vertices))
    corners = surface.triangles.reshape(-1)
    named: list[tuple[str, NDArray]] = [("triangles", np.diff(corners, prepend=0))]
    for name, shapes in zip(("rig", "flesh"), groups, strict=True):
        differences = shapes.numbers.copy()
        differences[:, 1:] -= shapes.numbers[:, before[1:]]
        # All x, then all y, then all z of a shape.
        named.append((name, differences.transpose(0, 2, 1)))
    named.append(("cavity", np.rint(100 * cavities(surface)).astype(np.int64)))
    named += look.items()
    sections, parts = [], []
    for name, numbers in named:
        data, planes = packed(np.ascontiguousarray(numbers))
        sections.append({"name": name, "count": int(numbers.size), "planes": planes})
        parts.append(data)
    return sections, zlib.compress(b"".join(parts), 7)


def _plain_sections(arrays: dict[str, Singles]) -> tuple[list[dict[str, Any]], bytes]:
    """Return the layout and the compressed bytes of arrays as little-endian float32."""
    sections = [{"name": name, "count": int(array.size)} for name, array in arrays.items()]
    data = b"".join(array.astype("<f4").tobytes() for array in arrays.values())
    return sections, zlib.compress(data, 7)


def _header(
    bakes: Sequence[BakedMotion], samples: _Samples, groups: tuple[Shapes, Shapes], error: float
) -> dict[str, Any]:
    """Return the header: shared values, values of each motion, and the first motion shown."""
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
        "shapes": [len(shapes.numbers) for shapes in groups],
        "steps": [shapes.step for shapes in groups],
        "error": error,
        "clips": clips,
        "clip": liveliest_baked(bakes) if len(bakes) > 1 else 0,
    }


def _clip_header(baked: BakedMotion, flesh: Singles) -> dict[str, Any]:
    # A quantile, or a single swinging ear would leave the rest of the body without colour.
    farthest = [float(np.quantile(np.linalg.norm(each, axis=1), 0.97)) for each in flesh]
    return {
        "motion": baked.motion.name,
        "rate": float(baked.rate),
        "start": float(baked.times[0]),
        "loop": bool(baked.loop),
        "frames": baked.n_frames,
        "ground": ground_height(baked),
        "bounds": with_obstacles_near(baked, _bounds(baked)).tolist(),
        "farthest": max(farthest),
        "vertex": liveliest_vertex(flesh)[0],
    }


def _bounds(baked: BakedMotion) -> Floats:
    """Return the bounding box of the motion relative to the root on the ground, (2, 3)."""
    ground = baked.motion.roots[:, :3, 3] * [1.0, 0.0, 1.0]
    low = (baked.frames.min(axis=1) - ground).min(axis=0)
    high = (baked.frames.max(axis=1) - ground).max(axis=0)
    return np.stack([low, high])
