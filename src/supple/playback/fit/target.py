"""Targets of a fit: motions of the same skin, from a file or an array, as offsets from the rig."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
from supple.checks import shown
from supple.errors import SuppleError, SuppleWarning, warn
from supple.formats.load import load
from supple.formats.point_cache import file_order, read_point_cache
from supple.formats.registry import CHARACTERS
from supple.playback.bake_plan import RATE
from supple.playback.cycle import FASTEST, SLOWEST, checked_rate
from supple.playback.motion_choice import chosen_motion
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

#: A file with a motion of the skin, a bake, or positions (t, n, 3) in m.
GivenTarget: TypeAlias = str | Path | BakedMotion | NDArray[Any]
#: Suffixes of point caches.
CACHES = (".pc2", ".mdd", ".npz", ".abc")
#: Metres of the units in which a cache may be, and matrices to +Y up, by name.
UNITS = {"": 1.0, "centimetres": 0.01, "millimetres": 0.001}
AXES = {"": np.eye(3), "+Z up": np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])}
#: Fewest frames, and number of frames that are compared with the rig in each unit.
FEWEST, COMPARED = 8, 7
#: Distances from the rig relative to the size: of the median vertex of a target that moves
#: otherwise, and of all vertices, root mean square, of one without flesh.
FAR, CALM = 0.08, 1e-4


@dataclass(frozen=True, eq=False)
class FitTarget:
    """Motion of a skin relative to its rig.

    Attributes
    ----------
    name
        Name of the file, for messages.
    times
        (t,) s in the clip.
    offsets
        (t, n̄, 3) displacements of the skin from the rig's, in m.
    read_as
        Unit and axis if they are not metres and +Y; "" otherwise.
    """

    name: str
    times: Floats
    offsets: Singles
    read_as: str = ""

    @property
    def rate(self) -> float:
        """Frames per second."""
        return (len(self.times) - 1) / float(self.times[-1] - self.times[0])

    def at(self, times: Floats) -> Singles:
        """Return offsets at times in s, interpolated linearly."""
        place = np.interp(times, self.times, np.arange(len(self.times)))
        first = np.minimum(place.astype(int), len(self.times) - 2)
        part = (place - first)[:, None, None].astype(np.float32)
        return np.asarray((1 - part) * self.offsets[first] + part * self.offsets[first + 1])


def fit_target(
    target: GivenTarget,
    character: Character,
    motion: Motion,
    span: tuple[float, float],
    rate: float | None,
    metres: float | None = None,
) -> FitTarget:
    """Read a target, and match it with a part of a motion, `span` in s.

    `rate` are frames per second of targets without times, and at which a character's file is
    evaluated; `metres` is the unit of such a file.

    Raises
    ------
    SuppleError
        If the target is not a motion of this skin by this rig.

    Warns
    -----
    SuppleWarning
        If the target is shorter than the part.
    """
    name, frames, times = _frames(target, motion, rate, metres)
    points = _points(name, frames, character)
    _check_times(name, frames, times, motion, span)
    sample = np.unique(np.linspace(0, len(times) - 1, COMPARED).astype(int))
    for index in sample:
        if not np.isfinite(frames[index]).all():
            raise SuppleError(f"{name}: frame {index} has positions that are not finite")
    usual = times - times[0] + span[0]
    slack = 0.5 * (times[-1] - times[0]) / (len(times) - 1)
    within = times[0] >= span[0] - slack and times[-1] <= span[1] + slack
    clocks = [times, usual] if within else [usual]
    best, reading = np.inf, (clocks[0], "", "")
    for clock, unit, axis in product(clocks, UNITS, AXES):
        poses = np.clip(clock[sample], motion.times[0], motion.times[-1])
        rig = _rig(character, motion, poses)
        displacement = _placed(frames[sample], points, unit, axis) - rig
        distance = float(np.median(np.sqrt(np.einsum("tni,tni->tn", displacement, displacement))))
        if distance < 0.999 * best:
            best, reading = distance, (clock, unit, axis)
    clock, unit, axis = reading
    size = character.surface.size
    if not best <= FAR * size:
        raise SuppleError(
            f'{name}: is {100 * best / size:.0f} % of the size from the rig in "{motion.name}"; '
            "it is another motion, or its vertices have another order"
        )
    kept = (clock >= motion.times[0] - slack) & (clock <= motion.times[-1] + slack)
    clock = np.clip(clock[kept], motion.times[0], motion.times[-1])
    offsets = np.empty((len(clock), len(character.surface.vertices), 3), np.float32)
    for k, index in enumerate(np.flatnonzero(kept)):
        placed = _placed(frames[index : index + 1], points, unit, axis)
        if not np.isfinite(placed).all():
            raise SuppleError(f"{name}: frame {index} has positions that are not finite")
        offsets[k] = (placed - _rig(character, motion, clock[k : k + 1]))[0]
    motion_size = float(np.sqrt(np.mean(np.einsum("tni,tni->tn", offsets, offsets))))
    if motion_size < CALM * size:
        raise SuppleError(
            f"{name}: follows the rig within {100 * motion_size / size:.2g} % of the size; "
            "it has no motion of flesh to fit"
        )
    lasts, part = clock[-1] - clock[0], span[1] - span[0]
    if lasts < 0.9 * part:
        warn(f"{name}: covers {lasts:.3g} of {part:.3g} s of the motion; only these are fitted")
    return FitTarget(name, clock, offsets, ", ".join(each for each in (unit, axis) if each))


def _frames(
    target: GivenTarget, motion: Motion, rate: float | None, metres: float | None
) -> tuple[str, NDArray[Any], Floats]:
    """Return the name of a target, positions (t, n, 3), and times in s."""
    usual = checked_rate(RATE if rate is None else rate)
    if isinstance(target, BakedMotion):
        return "the target", target.frames, np.asarray(target.times)
    if isinstance(target, np.ndarray):
        if target.ndim != 3 or target.shape[2] != 3 or target.dtype.kind != "f":
            raise SuppleError(f"the target has shape {target.shape}; use floats (t, n, 3)")
        return "the target", target, np.arange(len(target)) / usual
    if not isinstance(target, str | Path):
        raise SuppleError(f"the target is {shown(target)}; give a file, a bake or an array")
    path = Path(target)
    if path.suffix.lower() in CACHES:
        cache = read_point_cache(path)
        timed = path.suffix.lower() != ".pc2"
        times = cache.times if timed else cache.times / usual
        if timed and rate is not None:  # the given rate replaces the file's
            times = times[0] + np.arange(len(times)) / usual
        return path.name, cache.frames, times
    if CHARACTERS.find(path) is None:
        suffixes = ", ".join([*CACHES, *CHARACTERS.suffixes()])
        raise SuppleError(
            f'{path.name}: cannot fit to "{path.suffix}" files; use one of {suffixes}'
        )
    with warnings.catch_warnings():  # the same as of the character
        warnings.simplefilter("ignore", SuppleWarning)
        other = load(path, flesh=True, metres_per_unit=metres)
    clip = _same_motion(other, motion)
    count = max(round((clip.times[-1] - clip.times[0]) * usual), 1)
    times = clip.times[0] + np.arange(count + 1) / usual
    times = times[times <= clip.times[-1] + 1e-6]
    return path.name, _rig(other, clip, np.minimum(times, clip.times[-1])), times


def _same_motion(other: Character, motion: Motion) -> Motion:
    """Return the motion of the same name, or the only one."""
    if motion.name not in other.motions and len(other.motions) == 1:
        return next(iter(other.motions.values()))
    return chosen_motion(other, motion.name)


def _points(name: str, frames: NDArray[Any], character: Character) -> Ints:
    """Return the point (n̄,) of a target for each vertex of the skin."""
    count, skin = frames.shape[1], len(character.surface.vertices)
    if count == skin:
        return np.arange(skin)
    stored = file_order(character)
    alternative = ""
    if stored is not None:
        if count == len(stored):
            points = np.full(skin, -1)
            points[stored[::-1]] = np.arange(count)[::-1]
            if points.min() >= 0:
                return points
        alternative = f", or {len(stored):,} in the order of its file"
    raise SuppleError(
        f"{name}: has {count:,} vertices; {character.name} has {skin:,}{alternative}; "
        "give a motion of the same mesh"
    )


def _check_times(
    name: str, frames: NDArray[Any], times: Floats, motion: Motion, span: tuple[float, float]
) -> None:
    """Refuse too few frames, times that do not increase, and targets longer than the part."""
    if len(frames) < FEWEST:
        raise SuppleError(f"{name}: has {len(frames)} frames; a fit needs at least {FEWEST}")
    if not (np.isfinite(times).all() and (np.diff(times) > 0).all()):
        raise SuppleError(f"{name}: its times do not increase; export it again")
    lasts, part = float(times[-1] - times[0]), span[1] - span[0]
    frame = lasts / (len(times) - 1)
    if not SLOWEST * (1 - 1e-6) <= 1 / frame <= FASTEST * (1 + 1e-6):
        raise SuppleError(
            f"{name}: has {1 / frame:.4g} frames per second; use {SLOWEST:g} to {FASTEST:g}"
        )
    if lasts > part + 1.5 * frame:
        raise SuppleError(
            f'{name}: lasts {lasts:.3g} s at {1 / frame:.4g} frames per second, and "{motion.name}"'
            f" {part:.3g} s; give another motion, part or frames per second"
        )


def _placed(frames: NDArray[Any], points: Ints, unit: str, axis: str) -> Floats:
    """Return positions of the skin in m, +Y up."""
    placed = UNITS[unit] * frames[:, points].astype(np.float64)
    return placed @ AXES[axis] if axis else placed


def _rig(character: Character, motion: Motion, times: Floats) -> Floats:
    """Return the skin (t, n̄, 3) of the rig in the world."""
    poses, roots = motion.at(times)
    return np.array(
        [
            character.rig(pose) @ root[:3, :3].T + root[:3, 3]
            for pose, root in zip(poses, roots, strict=True)
        ]
    )
