"""Models of the built-in characters, built once and kept in the user's cache folder.

A file is named by what was asked for and by a hash of the code that made it, so that another
version never reads it; files of other versions are removed. A file that cannot be read or
written is no error: the model is built again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from supple.app.build_display import build_log
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleError
from supple.scenes.characters.character_scene import scene
from supple.user_cache import HASH_LENGTH, cache_folder, code_hash

__all__ = ["cached_model_file", "scene_model", "scene_model_file"]

#: What a model's bytes depend on.
_PACKAGES = (
    "scenes",
    "engines",
    "anatomy",
    "reduction",
    "dynamics",
    "rig",
    "elastic",
    "mesh",
    "linalg",
    "maths",
    "compiled",
)


def scene_model(name: str, *, quiet: bool = True, **changes: Any) -> PoseSpaceModel:
    """The model of a scene, built with its recipe; see `scene_model_file`."""
    with scene_model_file(name, quiet=quiet, **changes) as path:
        return PoseSpaceModel.load(path)


@contextmanager
def scene_model_file(name: str, *, quiet: bool = True, **changes: Any) -> Iterator[Path]:
    """A file of the scene's model: of the cache, or where there is none one that goes again.

    Parameters
    ----------
    name
        One of `supple.scenes.SCENES`.
    quiet
        Do not show the stages of a build.
    **changes
        What differs from the scene's recipe: whole numbers or tuples of them, a word, or None.
    """
    path = cached_model_file(name, **changes)
    if path is not None and _is_whole(path):
        yield path
        return
    shown = scene(name)
    with build_log(quiet) as log:
        model = build(shown.character, **(shown.recipe() | changes), log=log)
    if path is not None and _kept(model, path, _label(name, changes)):
        yield path
        return
    with TemporaryDirectory() as folder:
        own = Path(folder) / f"{name}.supple"
        model.save(own)
        yield own


def cached_model_file(name: str, **changes: Any) -> Path | None:
    """Where the model is kept, whether or not it is there; None where nothing can be kept."""
    try:
        return cache_folder() / f"{_label(name, changes)}-{code_hash(_PACKAGES)}.supple"
    except RuntimeError:  # there is no home
        return None


def _label(name: str, changes: dict[str, Any]) -> str:
    parts = [f"model-{name}"]
    for key in sorted(changes):
        value = changes[key]
        words = [str(value).lower()] if value is None or isinstance(value, str) else _whole(value)
        parts.append("_".join([key, *words]))
    return "-".join(parts)


def _whole(value: Any) -> list[str]:
    return [str(int(each)) for each in np.atleast_1d(value)]


def _is_whole(path: Path) -> bool:
    """Whether there is a model that can be read; loading checks every byte."""
    if not path.is_file():
        return False
    with contextlib.suppress(SuppleError):
        PoseSpaceModel.load(path)
        return True
    return False


def _kept(model: PoseSpaceModel, path: Path, label: str) -> bool:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    except (OSError, SuppleError):
        return False
    for other in path.parent.glob(f"{label}-{'[0-9a-f]' * HASH_LENGTH}.supple"):
        if other != path:
            other.unlink(missing_ok=True)
    return True
