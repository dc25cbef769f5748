"""Models of files and scenes, built when they are needed and kept in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.anatomy.flesh_presets import Flesh
from supple.app.bake_source import Source
from supple.app.build_display import build_log
from supple.app.scene_models import cached_model_file, scene_model
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleError
from supple.playing.bake_model import check_model, model_options
from supple.rig.character import Character
from supple.rig.stored.rigs import GIVEN, stored_rig

__all__ = ["PreparedModel", "prepared_model"]

#: Models of files that are kept; the one that was not used for longest goes first.
MOST_KEPT = 24


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """A model, how long it took to get, and whether it was there already."""

    model: PoseSpaceModel
    seconds: float
    kept: bool


def prepared_model(
    source: Source,
    *,
    model: Path | None = None,
    flesh: str | Flesh = "normal",
    quiet: bool = True,
    **told: Any,
) -> PreparedModel:
    """The model of a character: of a file, from the cache, or built now.

    Parameters
    ----------
    source
        See `read_bake_source`.
    model
        A model file of this character.
    flesh, **told
        As for `supple.bake`: `young`, `poisson`, `stiffness` and what `supple.build` takes.
    quiet
        Do not show the stages of a build.
    """
    began = perf_counter()
    character, own = source.character, source.model
    told = {name: value for name, value in told.items() if value is not None}
    if model is not None:
        own = PoseSpaceModel.load(model)
    if own is not None:
        check_model(character, own, flesh=flesh, **told)
        return PreparedModel(own, perf_counter() - began, True)
    if source.scene and flesh == "normal" and not told:
        return _scene_model(source.scene, quiet)
    recipe = dict(source.recipe)
    painted = recipe.pop("young", None)
    options = model_options(character, flesh, painted=painted, **(recipe | told))
    path = _kept_file(character, options)
    kept = _loaded(path)
    if kept is not None:
        return PreparedModel(kept, perf_counter() - began, True)
    with build_log(quiet) as log:
        made = build(character, **options, log=log)
    _keep(made, path)
    return PreparedModel(made, perf_counter() - began, False)


def _scene_model(name: str, quiet: bool) -> PreparedModel:
    path, began = cached_model_file(name), perf_counter()
    there = path is not None and path.is_file()
    return PreparedModel(scene_model(name, quiet=quiet), perf_counter() - began, there)


def _kept_file(character: Character, options: Mapping[str, Any]) -> Path | None:
    """Where a model of this character and these options is kept; None where it cannot be."""
    header, arrays = stored_rig(character.rig)
    if any(part["kind"] == GIVEN for part in header["parts"]):
        return None  # nobody knows what a black box does
    mesh, digest = character.surface, hashlib.sha256()
    try:
        parts = (character.name, mesh.vertices, mesh.triangles, header, arrays)
        for each in (*parts, dict(character.motions), dict(options)):
            _add(digest, each)
    except TypeError:
        return None
    return cached_model_file("own", content=digest.hexdigest()[:32])


def _add(digest: Any, value: Any) -> None:
    """Plain values, arrays, and what is made of them; TypeError for anything else."""
    digest.update(f"{type(value).__name__} ".encode())
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif value is None or isinstance(value, str | int | float | np.number):
        digest.update(f"{value!r} ".encode())
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            digest.update(f"{key!r} ".encode())
            _add(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(f"{len(value)} ".encode())
        for each in value:
            _add(digest, each)
    elif is_dataclass(value):
        for each in fields(value):
            digest.update(f"{each.name} ".encode())
            _add(digest, getattr(value, each.name))
    else:
        raise TypeError(type(value).__name__)


def _loaded(path: Path | None) -> PoseSpaceModel | None:
    """A model that is there whole; loading checks every byte."""
    if path is None or not path.is_file():
        return None
    with contextlib.suppress(SuppleError, OSError):
        model = PoseSpaceModel.load(path)
        os.utime(path)
        return model
    return None


def _keep(model: PoseSpaceModel, path: Path | None) -> None:
    """Keep a model for the next time; where that cannot be, it is built again."""
    if path is None:
        return
    with contextlib.suppress(OSError, SuppleError):
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
        others = [each for each in path.parent.glob("model-own-*.supple") if each != path]
        others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
        for other in others[MOST_KEPT - 1 :]:
            other.unlink(missing_ok=True)
