"""Reason why a model of a character is built although the cache has another model of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from supple.user_cache import cached_file, content_hash, keep, running_cache

#: Hashes of the options of the last model of a character.
_KIND = running_cache(".options.npz", 500)
_LABEL = "model-options"


def build_reason(character: str | None, options: Mapping[str, Any], was_cached: bool) -> str:
    """Return which options differ from those of the character's last model, and store the options.

    `character` is the hash of its content. The reason is "" if the model `was_cached`, and for the
    first model of a character.
    """
    path = cached_file(_KIND, _LABEL, character)
    if path is None:
        return ""
    now = {name: np.array(content_hash(value) or "") for name, value in options.items()}
    changed: list[str] = []
    if not was_cached and path.is_file():
        with suppress(Exception):  # a damaged file raises nearly anything
            before = _KIND.read(path)
            names = sorted({*before, *now})
            changed = [name for name in names if before.get(name) != now.get(name)]
    keep(_KIND, _LABEL, now, character)
    return f"{', '.join(changed)} changed" if changed else ""
