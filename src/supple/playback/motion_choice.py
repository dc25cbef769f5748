"""Choice of motions to play: by name or pattern, the liveliest, or the wiggle.

The liveliness of a motion estimates the flesh's response from the rig alone, before a model is
built. Flesh with natural frequency ω₀ responds to a slow acceleration a by a / ω₀², and does not
follow faster motions. The second difference x(t + h) − 2 x(t) + x(t − h) with h near √2 / ω₀ does
likewise: it is h² a for slow motions, and a multiple of x for fast motions.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from supple.arrays import Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import WIGGLE, Character, wiggle
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_names import is_pattern, matching_names, one_name, short_name

#: Seconds h: flesh of a body oscillates at about three cycles per second.
STEP = 1 / 15
#: Largest number of times, and of skin vertices, that are evaluated.
MOST_MOMENTS, MOST_VERTICES = 40, 160
#: Largest number of times at which the liveliest part of a motion is searched.
MOST_PART_MOMENTS = 600


def chosen_motion(character: Character, motion: Motion | str | None) -> Motion:
    """Return one motion: by default the liveliest, or the wiggle of a character without any.

    A name is resolved by `one_name`. ``"wiggle"`` is the built-in motion, unless a motion of the
    character has that name, in full or after its last ``|``. SuppleError if a name matches no
    motion, or several.
    """
    if isinstance(motion, Motion):
        return motion
    if motion is None and character.motions:
        return liveliest(character)
    if motion is None or _means_wiggle(character, motion):
        return wiggle(character)
    without = f"it has no motions; use {WIGGLE}"
    return character.motions[one_name(character.motions, motion, character.name, without)]


def chosen_motions(
    character: Character, motions: Motion | str | Iterable[Motion | str] | None
) -> list[Motion]:
    """Return several motions: by default all, or the wiggle of a character without any.

    A pattern such as ``"Idle*"`` selects all motions that it matches, in the file's order. A motion
    that is named twice is returned once.
    """
    if motions is None:
        return list(character.motions.values()) or [wiggle(character)]
    chosen: dict[int, Motion] = {}
    for each in [motions] if isinstance(motions, Motion | str) else motions:
        pattern = isinstance(each, str) and is_pattern(each)
        names = matching_names(character.motions, each) if pattern else []  # type: ignore[arg-type]
        matches = [character.motions[name] for name in names]
        for motion in matches or [chosen_motion(character, each)]:
            chosen.setdefault(id(motion), motion)
    return list(chosen.values())


def _means_wiggle(character: Character, name: object) -> bool:
    names = (short_name(each).casefold() for each in character.motions)
    return isinstance(name, str) and name.casefold() == WIGGLE and WIGGLE not in names


def liveliest(character: Character) -> Motion:
    """Return the motion of a character with the largest liveliness, the first of equals."""
    motions = list(character.motions.values())
    if len(motions) == 1:
        return motions[0]
    return motions[int(np.argmax([liveliness(character, motion) for motion in motions]))]


def liveliness(character: Character, motion: Motion) -> float:
    """Return the RMS second difference of skin positions over `STEP` s, relative to the size."""
    size = character.surface.size
    step, times = _sample_times(motion)
    if not len(times) or not size > 0:
        return 0.0
    vertices = _sample_vertices(character.surface)
    places = [_places(character, motion, times + k * step, vertices) for k in (-1, 0, 1)]
    second = places[0] - 2 * places[1] + places[2]
    rms = float(np.sqrt(np.mean(np.einsum("tni,tni->tn", second, second)))) / size
    return rms if np.isfinite(rms) and character.rig.n_vertices else 0.0


def liveliest_part(character: Character, motion: Motion, seconds: float) -> tuple[float, float]:
    """Return the first and last time, in s, of the liveliest part of a motion.

    The part has `seconds`, or the duration of a shorter motion.
    """
    first, last = float(motion.times[0]), float(motion.times[-1])
    if not seconds < last - first:
        return first, last
    # Evenly spaced, and so many that a part has ten.
    spacing = max(seconds / 10, (last - first) / MOST_PART_MOMENTS)
    times = np.arange(first, last, spacing)
    vertices = _sample_vertices(character.surface)
    places = [_places(character, motion, times + k * STEP, vertices) for k in (-1, 0, 1)]
    second = places[0] - 2 * places[1] + places[2]
    squares = np.nan_to_num(np.einsum("tni,tni->t", second, second))
    count = max(1, min(round(seconds / spacing), len(times)))
    sums = np.convolve(squares, np.ones(count), "valid")
    start = min(float(times[int(np.argmax(sums))]), last - seconds)
    return start, start + seconds


def _sample_times(motion: Motion) -> tuple[float, Floats]:
    """Return a step h, and times t with t ± h in the motion and no cut between them, all in s."""
    first, last = float(motion.times[0]), float(motion.times[-1])
    step = min(STEP, 0.5 * (last - first))
    if not step > 0:
        return step, np.empty(0)
    count = int(np.clip((last - first) / step - 1, 1, MOST_MOMENTS))
    times = np.linspace(first + step, last - step, count)
    for cut in motion.times[list(motion.cuts)]:
        times = times[(times + step < cut) | (times - step >= cut)]
    return step, times


def _sample_vertices(surface: SurfaceMesh) -> Ints:
    """Return vertices at equal steps of the cumulated area of the skin."""
    corners = surface.vertices[surface.triangles]
    areas = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    share = np.bincount(
        surface.triangles.ravel(), np.repeat(areas, 3), minlength=len(surface.vertices)
    )
    count = min(MOST_VERTICES, len(share))
    sampled = (np.arange(count) + 0.5) / count * share.sum()
    return np.unique(np.minimum(np.searchsorted(np.cumsum(share), sampled), len(share) - 1))


def _places(character: Character, motion: Motion, times: Floats, vertices: Ints) -> Floats:
    """Return the world positions (t, k, 3) of vertices at times."""
    poses, roots = motion.at(np.clip(times, motion.times[0], motion.times[-1]))
    placed = np.stack([character.rig(pose, vertices) for pose in poses])
    return placed @ roots[:, :3, :3].transpose(0, 2, 1) + roots[:, None, :3, 3]
