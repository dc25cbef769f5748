"""Bodies to be shown: of a file, of a scene (kept for the next time), or made of a mesh now."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from supple.app.bodies.body_source import is_stvk_scene, mesh_suffixes
from supple.app.bodies.make_body import SUFFIX, BodyOptions, made_body
from supple.app.build_display import build_log
from supple.app.progress_bar import console, working
from supple.app.scene_models import cached_model_file
from supple.engines.stvk.model import StvkModel
from supple.errors import SuppleError
from supple.user_cache import HASH_LENGTH

__all__ = ["is_body", "prepared_body"]


def is_body(given: str) -> bool:
    """Whether this is an elastic body rather than a character."""
    return is_stvk_scene(given) or Path(given).suffix.lower() in (SUFFIX, *mesh_suffixes())


def prepared_body(given: str, *, quiet: bool = True) -> StvkModel:
    """The body of a file or a scene, or of a mesh as `supple stvk` makes it without options."""
    if Path(given).suffix.lower() == SUFFIX and not is_stvk_scene(given):
        with working("reading", quiet):
            return StvkModel.load(given)
    path = _kept_file(given) if is_stvk_scene(given) else None
    if path is not None and path.is_file():
        with contextlib.suppress(SuppleError):  # whatever is wrong with it, it is made again
            return StvkModel.load(path)
    with build_log(quiet) as log:
        model, _, notes = made_body(given, BodyOptions(), log)
    if path is not None:
        _keep(model, path, given)
    elif not quiet:
        for note in (*notes, f"supple stvk {given} makes a file of it, with options"):
            console.print(f"note: {note}", markup=False, soft_wrap=True)
    return model


def _kept_file(name: str) -> Path | None:
    """Where a scene's body is kept; None where nothing can be."""
    path = cached_model_file(name)
    return None if path is None else path.with_suffix(SUFFIX)


def _keep(model: StvkModel, path: Path, name: str) -> None:
    """Keep it in place of those of other versions; where that cannot be, it is made again."""
    with contextlib.suppress(OSError, SuppleError):
        os.makedirs(path.parent, exist_ok=True)
        model.save(path)
        for other in path.parent.glob(f"model-{name}-{'[0-9a-f]' * HASH_LENGTH}{SUFFIX}"):
            if other != path:
                other.unlink(missing_ok=True)
