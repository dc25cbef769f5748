"""Checkpoints of long bakes in the user's cache, and measured distances of live bakes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.engines.common.flesh_fields import FLESH_SCHEMA, FleshFields
from supple.engines.common.model_file import stored_fields
from supple.engines.pose_space.model.fields import ModelFields
from supple.rig.motion.motion import Motion
from supple.rig.stored_rigs import GIVEN
from supple.user_cache import cached_file, content_hash, keep, running_cache

Arrays = dict[str, NDArray]

#: Seconds between two checkpoints, the same at the end of a level, and the least ratio of that time
#: to the time of writing.
EVERY, AT_ENDS, RATIO = 20.0, 5.0, 20.0
#: Largest number of checkpoints; the least recently used is removed first.
MOST_KEPT = 16
_KIND = running_cache(".part.npz", MOST_KEPT)
_LABEL = "bake"
#: Distances of live bakes from final ones, by the content hash of the live one; a few bytes each.
_DISTANCES = running_cache(".distance.npz", 500)


class Checkpoint:
    """File in the user's cache with the state of an unfinished bake.

    `content` is the hash of all inputs of the bake; nothing is stored if it is None. Checkpoints
    with the hashes `beside` belong to the same command and are not removed to make room. The file
    is written atomically, and remains until the bake is written to its file.
    """

    def __init__(self, content: str | None, beside: Sequence[str | None] = ()) -> None:
        self._content, self._cost = content, 0.0
        self._spared = [cached_file(_KIND, _LABEL, each) for each in beside]
        self._last = perf_counter()

    @property
    def path(self) -> Path | None:
        """File of the checkpoint; None if nothing is kept."""
        return cached_file(_KIND, _LABEL, self._content)

    def read(self) -> Arrays | None:
        """Return the stored state; None if there is none, or if the file is damaged."""
        path = self.path
        if path is None or not path.is_file():
            return None
        with contextlib.suppress(Exception):  # a damaged file raises nearly anything
            state = _KIND.read(path)
            os.utime(path)  # marks it as recently used
            return state
        return None

    def offer(self, state: Callable[[], Arrays], *, ended: bool = False) -> None:
        """Store a state if the last was stored long ago; sooner if a level has `ended`."""
        if self._content is None:
            return
        began = perf_counter()
        wait = AT_ENDS if ended else EVERY
        if began - self._last >= max(wait, RATIO * self._cost):
            keep(_KIND, _LABEL, state(), self._content, self._spared)
            self._last = perf_counter()
            self._cost = self._last - began

    def remove(self) -> None:
        """Remove the file."""
        path = self.path
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def content_of(model: Any, motion: Motion, *values: Any, reduced: bool = False) -> str | None:
    """Hash the inputs of a bake: flesh, clip and plain values; None for black-box rigs.

    The name and the motions of the model do not count, its reduction only if `reduced`.
    """
    if not isinstance(model, FleshFields):
        return None
    all_fields = reduced and isinstance(model, ModelFields)
    header, arrays = stored_fields(model, model.schema if all_fields else FLESH_SCHEMA)
    if any(part["kind"] == GIVEN for part in header["rigs"]["parts"]):
        return None
    flesh = {name: each for name, each in arrays.items() if not name.startswith("motions.")}
    clip: list[Any] = [motion.times, motion.poses, motion.roots, np.array(motion.cuts, np.int64)]
    clip += [] if motion.tracks is None else motion.tracks.content()
    names = ("rigs", "material", "interpolation", "basis_bits", "regions")
    return content_hash([header.get(name) for name in names], flesh, clip, *values)


def remember_distance(content: str | None, distance: float) -> None:
    """Store the distance of a live bake, by its content hash, from the final one."""
    keep(_DISTANCES, "live", {"distance": np.array(distance)}, content)


def known_distance(content: str | None) -> float | None:
    """Return the stored distance of a live bake from the final one; None if there is none."""
    path = cached_file(_DISTANCES, "live", content)
    if path is not None and path.is_file():
        with contextlib.suppress(Exception):  # a damaged file raises nearly anything
            return float(_DISTANCES.read(path)["distance"])
    return None
