"""Checkpoints: a long bake in the user's cache as it goes on, and what was measured of others."""

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

#: Seconds from one checkpoint to the next, as much at the end of a part, and how many times as long
#: as it took to write one.
EVERY, AT_ENDS, RATIO = 20.0, 5.0, 20.0
#: Checkpoints that are kept; those of bakes that nobody went on with go first.
MOST_KEPT = 16
_KIND = running_cache(".part.npz", MOST_KEPT)
_LABEL = "bake"
#: Distances of live bakes from final ones, by what the live ones depend on; a few bytes each.
_DISTANCES = running_cache(".distance.npz", 500)


class Checkpoint:
    """Place in the user's cache of what a bake has got so far.

    It is known by all that the bake depends on, is written whole or not at all, and stays until
    the bake is written to its file.

    Parameters
    ----------
    content
        Hash of what the bake depends on; None where that is not known, and nothing is kept.
    beside
        Hashes of bakes that belong to the same work: what is kept of them makes no room.
    """

    def __init__(self, content: str | None, beside: Sequence[str | None] = ()) -> None:
        self._content, self._cost = content, 0.0
        self._spared = [cached_file(_KIND, _LABEL, each) for each in beside]
        self._last = perf_counter()

    @property
    def path(self) -> Path | None:
        """File that it is kept in; None where nothing can be."""
        return cached_file(_KIND, _LABEL, self._content)

    def read(self) -> Arrays | None:
        """Return what was kept; None if there is nothing, or not all of it."""
        path = self.path
        if path is None or not path.is_file():
            return None
        with contextlib.suppress(Exception):  # a damaged file raises nearly anything
            found = _KIND.read(path)
            os.utime(path)  # what is gone on with is not the first to go
            return found
        return None

    def offer(self, state: Callable[[], Arrays], *, ended: bool = False) -> None:
        """Keep a state if the last was long enough ago; less so where something has `ended`."""
        if self._content is None:
            return
        began = perf_counter()
        wait = AT_ENDS if ended else EVERY
        if began - self._last >= max(wait, RATIO * self._cost):
            keep(_KIND, _LABEL, state(), self._content, self._spared)
            self._last = perf_counter()
            self._cost = self._last - began

    def remove(self) -> None:
        """Forget what was kept."""
        path = self.path
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def content_of(model: Any, motion: Motion, *told: Any, reduced: bool = False) -> str | None:
    """Hash all that a bake depends on; None for a rig that nobody knows.

    Parameters
    ----------
    model
        Model whose flesh is simulated; its name and motions do not count.
    motion
        The clip.
    *told
        Plain values: steps, options, and others.
    reduced
        Whether its reduction counts too, where it has one.
    """
    if not isinstance(model, FleshFields):
        return None
    whole = reduced and isinstance(model, ModelFields)
    header, arrays = stored_fields(model, model.schema if whole else FLESH_SCHEMA)
    if any(part["kind"] == GIVEN for part in header["rigs"]["parts"]):
        return None
    flesh = {name: each for name, each in arrays.items() if not name.startswith("motions.")}
    clip: list[Any] = [motion.times, motion.poses, motion.roots, np.array(motion.cuts, np.int64)]
    clip += [] if motion.tracks is None else motion.tracks.content()
    names = ("rigs", "material", "interpolation", "basis_bits", "regions")
    return content_hash([header.get(name) for name in names], flesh, clip, *told)


def remember_distance(content: str | None, distance: float) -> None:
    """Keep how far a live bake, known by what it depends on, was from the final one."""
    keep(_DISTANCES, "live", {"distance": np.array(distance)}, content)


def known_distance(content: str | None) -> float | None:
    """Return how far a live bake is from the final one, if that was ever measured."""
    path = cached_file(_DISTANCES, "live", content)
    if path is not None and path.is_file():
        with contextlib.suppress(Exception):  # a damaged file raises nearly anything
            return float(_DISTANCES.read(path)["distance"])
    return None
