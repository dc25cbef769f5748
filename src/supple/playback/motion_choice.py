"""Choice of motions to play: by name or pattern, the liveliest, or the wiggle."""

from __future__ import annotations

from collections.abc import Iterable

from supple.playback.liveliness import liveliest
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_names import is_pattern, matching_names, one_name, short_name
from supple.rig.wiggle import WIGGLE, wiggle


def chosen_motion(character: Character, motion: Motion | str | None) -> Motion:
    """Return one motion: by default the liveliest, or the wiggle of a character without any.

    Parameters
    ----------
    character
        Whose motions are looked through.
    motion
        Motion, or a name that `matching_names` finds. ``"wiggle"`` is the built-in one, unless a
        motion of the character is called so, in full or after its last ``|``.

    Raises
    ------
    SuppleError
        If a name matches no motion, or several.
    """
    if isinstance(motion, Motion):
        return motion
    if motion is None and character.motions:
        return liveliest(character)
    if motion is None or _means_wiggle(character, motion):
        return wiggle(character)
    without = f"it has none: use {WIGGLE}"
    return character.motions[one_name(character.motions, motion, character.name, without)]


def chosen_motions(
    character: Character, motions: Motion | str | Iterable[Motion | str] | None
) -> list[Motion]:
    """Return several motions: by default all, or the wiggle of a character without any.

    A pattern such as ``"Idle*"`` stands for all that it matches, in the file's order. A motion
    that is named twice is returned once.
    """
    if motions is None:
        return list(character.motions.values()) or [wiggle(character)]
    found: dict[int, Motion] = {}
    for each in [motions] if isinstance(motions, Motion | str) else motions:
        if isinstance(each, str) and is_pattern(each):
            several = [character.motions[name] for name in matching_names(character.motions, each)]
        else:
            several = []
        for motion in several or [chosen_motion(character, each)]:
            found.setdefault(id(motion), motion)
    return list(found.values())


def _means_wiggle(character: Character, word: object) -> bool:
    own = (short_name(name).casefold() for name in character.motions)
    return isinstance(word, str) and word.casefold() == WIGGLE and WIGGLE not in own
