# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of clips: which clip the user's word means.

The functions are those of `supple.rig.motion.motion_names`, to the letter, and a test compares
them: the add-on runs where Supple cannot be imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

__all__ = ["matching_names"]


def is_pattern(name: str) -> bool:
    """Return whether a name contains wildcards: ``*``, ``?`` or ``[``."""
    return any(wildcard in name for wildcard in "*?[")


def short_name(name: str) -> str:
    """Return the part of a name after its last ``|``: Blender's action without the armature."""
    return name.rpartition("|")[2]


def matching_names(names: Iterable[str], query: str) -> list[str]:
    """Return the names that a query matches, in their order; an empty list for none.

    The first rule that matches any name decides. Several matches mean that the query is
    ambiguous or a pattern. The rules are:

    1. the whole name;
    2. the part after the last ``|``;
    3. the whole name, ignoring case;
    4. the part after the last ``|``, ignoring case;
    5. the last words of the name, separated by ``_ - . : |`` or spaces: "Run" for "Rat_Run";
    6. the last words, ignoring case;
    7. a pattern with ``*`` and ``?`` for the part after the last ``|``, ignoring case;
    8. a pattern for the whole name, ignoring case.

    Examples
    --------
    >>> matching_names(["Armature|Rat_Run", "Armature|Rat_Idle"], "run")
    ['Armature|Rat_Run']
    >>> matching_names(["Armature|Rat_Run", "Armature|Rat_Idle"], "rat*")
    ['Armature|Rat_Run', 'Armature|Rat_Idle']
    """
    candidates = list(names)
    if query in candidates or not query.strip():
        return [query] if query in candidates else []
    folded, words, folded_words = query.casefold(), _words(query), _words(query.casefold())
    rules: list[Callable[[str], bool]] = [
        lambda name: short_name(name) == query,
        lambda name: name.casefold() == folded,
        lambda name: short_name(name).casefold() == folded,
        lambda name: _ends_with(_words(name), words),
        lambda name: _ends_with(_words(name.casefold()), folded_words),
    ]
    if is_pattern(query):
        rules.append(lambda name: fnmatchcase(short_name(name).casefold(), folded))
        rules.append(lambda name: fnmatchcase(name.casefold(), folded))
    for rule in rules:
        if matches := [name for name in candidates if rule(name)]:
            return matches
    return []


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[|_\-.:\s]+", name) if word]


def _ends_with(words: Sequence[str], last: Sequence[str]) -> bool:
    return 0 < len(last) <= len(words) and list(words[-len(last) :]) == list(last)
