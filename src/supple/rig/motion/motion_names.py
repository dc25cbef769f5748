"""Names of motions: which motion of a file the user's word means.

Files name motions as the program that wrote them does: Blender writes "RatArmature|Rat_Run" for an
action that the artist calls "Run". Every command, function and page finds motions by these rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from supple.errors import SuppleError

#: Names that an error lists at most.
MOST_LISTED = 12
#: Characters of a name, and words at its end, that are compared for "did you mean".
_COMPARED, _TAILS = 200, 4


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


def one_name(names: Iterable[str], asked: object, whose: str, without: str = "it has none") -> str:
    """Return the one name that a word matches; see `matching_names` for the rules.

    Parameters
    ----------
    names
        Names of the motions.
    asked
        The user's word.
    whose
        Name of the character or model, which an error begins with.
    without
        End of the error where there are no motions.

    Raises
    ------
    SuppleError
        If the word matches no motion, or more than one; the message names them, or the nearest.
    """
    known = list(names)
    found = matching_names(known, asked) if isinstance(asked, str) else []
    if len(found) == 1:
        return found[0]
    if found:
        raise SuppleError(f'{whose}: "{asked}" matches {_listed(found)}; give one name in full')
    hint = without
    if near := _nearest(known, str(asked)):
        hint = f"did you mean {' or '.join(_quoted(near))}?"
    elif known:
        hint = f"there are {_listed(known, quoted=False)}"
    raise SuppleError(f'{whose}: no motion "{asked}"; {hint}')


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[|_\-.:\s]+", name) if word]


def _ends_with(words: Sequence[str], last: Sequence[str]) -> bool:
    return 0 < len(last) <= len(words) and list(words[-len(last) :]) == list(last)


def _nearest(names: Sequence[str], asked: str) -> list[str]:
    """Return at most three names whose whole, last part or last words resemble a word."""
    meant: dict[str, str] = {}
    for name in reversed(names):
        words = _words(name[-_COMPARED:].casefold())
        tails = ["_".join(words[-count:]) for count in range(1, min(len(words), _TAILS) + 1)]
        for form in (*tails, short_name(name)[:_COMPARED].casefold(), name[:_COMPARED].casefold()):
            meant[form] = name
    near = get_close_matches(asked[:_COMPARED].casefold(), meant, 6)
    return list(dict.fromkeys(meant[form] for form in near))[:3]


def _quoted(names: Iterable[str]) -> list[str]:
    return [f'"{name}"' for name in names]


def _listed(names: Sequence[str], quoted: bool = True) -> str:
    shown = _quoted(names[:MOST_LISTED]) if quoted else names[:MOST_LISTED]
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(shown) + more
