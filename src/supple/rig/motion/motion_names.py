"""Lookup of motions by name.

Blender writes "RatArmature|Rat_Run" for an action that the artist calls "Run". All commands,
functions and pages look up motions by these rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from supple.errors import SuppleError

#: Largest number of names in an error message.
MOST_LISTED = 12
#: Characters of a name, and number of words at its end, compared for "did you mean".
_COMPARED, _TAILS = 200, 4


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


def one_name(names: Iterable[str], query: object, whose: str, without: str = "it has none") -> str:
    """Return the only name that a query matches by the rules of `matching_names`.

    Errors begin with `whose`, the name of the character or model, and list the matches or the
    most similar names; `without` ends the error if there are no motions.
    """
    candidates = list(names)
    matches = matching_names(candidates, query) if isinstance(query, str) else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SuppleError(f'{whose}: "{query}" matches {_listed(matches)}; give one name in full')
    hint = without
    if similar := _similar_names(candidates, str(query)):
        hint = f"did you mean {' or '.join(_quoted(similar))}?"
    elif candidates:
        hint = f"there are {_listed(candidates, quoted=False)}"
    raise SuppleError(f'{whose}: no motion "{query}"; {hint}')


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[|_\-.:\s]+", name) if word]


def _ends_with(words: Sequence[str], last: Sequence[str]) -> bool:
    return 0 < len(last) <= len(words) and list(words[-len(last) :]) == list(last)


def _similar_names(names: Sequence[str], query: str) -> list[str]:
    """Return at most three names that resemble a query: in full, or their last part or words."""
    names_of_forms: dict[str, str] = {}
    for name in reversed(names):
        words = _words(name[-_COMPARED:].casefold())
        tails = ["_".join(words[-count:]) for count in range(1, min(len(words), _TAILS) + 1)]
        for form in (*tails, short_name(name)[:_COMPARED].casefold(), name[:_COMPARED].casefold()):
            names_of_forms[form] = name
    similar = get_close_matches(query[:_COMPARED].casefold(), names_of_forms, 6)
    return list(dict.fromkeys(names_of_forms[form] for form in similar))[:3]


def _quoted(names: Iterable[str]) -> list[str]:
    return [f'"{name}"' for name in names]


def _listed(names: Sequence[str], quoted: bool = True) -> str:
    shown = _quoted(names[:MOST_LISTED]) if quoted else names[:MOST_LISTED]
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(shown) + more
