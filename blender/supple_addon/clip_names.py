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


def is_pattern(word: str) -> bool:
    """Return whether a word has signs that stand for others: ``*``, ``?`` or ``[``."""
    return any(sign in word for sign in "*?[")


def short_name(name: str) -> str:
    """Return the part of a name after its last ``|``: the action, without the armature."""
    return name.rpartition("|")[2]


def matching_names(names: Iterable[str], asked: str) -> list[str]:
    """Return the names that a word matches, in their order; an empty list for none.

    The first of these rules that matches any name decides, so more than one name means that the
    word is ambiguous, or a pattern:

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
    known = list(names)
    if asked in known or not asked.strip():
        return [asked] if asked in known else []
    folded, words, folded_words = asked.casefold(), _words(asked), _words(asked.casefold())
    rules: list[Callable[[str], bool]] = [
        lambda name: short_name(name) == asked,
        lambda name: name.casefold() == folded,
        lambda name: short_name(name).casefold() == folded,
        lambda name: _ends_with(_words(name), words),
        lambda name: _ends_with(_words(name.casefold()), folded_words),
    ]
    if is_pattern(asked):
        rules.append(lambda name: fnmatchcase(short_name(name).casefold(), folded))
        rules.append(lambda name: fnmatchcase(name.casefold(), folded))
    for rule in rules:
        if found := [name for name in known if rule(name)]:
            return found
    return []


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[|_\-.:\s]+", name) if word]


def _ends_with(words: Sequence[str], last: Sequence[str]) -> bool:
    return 0 < len(last) <= len(words) and list(words[-len(last) :]) == list(last)
