"""Entries of an anatomy, one per region, and their editable file, NAME.anatomy.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from supple.anatomy.flesh_presets import FLESH_PRESETS
from supple.anatomy.roles import HARD, ROLES
from supple.checks import checked_path, shown
from supple.errors import FormatError, warn
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs
from supple.saving import write_whole

#: Suffix of anatomy files.
ENTRIES_SUFFIX = ".anatomy.json"
#: First key of a file, and the version that is written.
MARK, VERSION = "supple_anatomy", 1
#: Reason of a user's entry, which takes precedence over shape and material names.
EDITED = "told"
#: Key of the feel of all flesh, and limits of its factors.
FEEL, FEEL_LIMITS = "feel", {"stiffness": (1e-2, 1e2), "damping": (0.0, 100.0)}
#: Key of factors by region in a feel.
FELT_REGIONS = "regions"
FEELS = ("hard", "firm", "normal", "soft", "apart")
#: Feels of layers, and how their keys begin: the name of a mesh or material in place of a joint.
LAYER_FEELS, LAYER_KEYS = ("over", "hard", "soft", "apart"), ("mesh:", "material:")
LARGEST_FILE, MOST_REGIONS, MOST_GOALS = 4_000_000, 10_000, 1000


@dataclass(frozen=True)
class RegionEntry:
    """Role, flesh share and feel of one region.

    Attributes
    ----------
    role
        A name of `supple.anatomy.roles.ROLES`.
    share
        φ, 0 to 1: flesh deeper than φ times the thickness is bone.
    feel
        ``"hard"`` and ``"apart"`` make it rigid, ``"firm"`` and ``"soft"`` change its stiffness.
        A layer may be ``"over"`` (follows the skin below), ``"hard"`` (a plate, which moves with
        the flesh below as one piece), ``"soft"`` (on its own) or ``"apart"`` (follows the rig).
    reasons
        Reasons, one line each.
    """

    role: str
    share: float
    feel: str = "normal"
    reasons: tuple[str, ...] = ()

    def alike(self, other: RegionEntry) -> bool:
        """Return whether both entries are equal up to reasons and the rounding of files."""
        same = (self.role, self.feel) == (other.role, other.feel)
        return same and abs(self.share - other.share) < 1e-3

    def same_bone(self, other: RegionEntry) -> bool:
        """Return whether both entries yield the same bone vertices; stiffness may differ."""
        apart = (self.feel == "apart") == (other.feel == "apart")
        return apart and abs(self.acting_share - other.acting_share) < 1e-3

    @property
    def acting_share(self) -> float:
        """Flesh share limited by the feel: below `HARD` if hard or apart, else at least `HARD`."""
        if self.feel in ("hard", "apart"):
            return min(self.share, 0.5 * HARD)
        return max(self.share, HARD) if self.feel != "soft" else max(self.share, 0.9)


def write_entries(
    path: str | Path,
    name: str,
    entries: Mapping[str, RegionEntry],
    feel: Mapping[str, Any] | None = None,
) -> None:
    """Write regions by joint as JSON, one per line; `feel` is that of `read_feel`."""
    lines = []
    for joint, entry in entries.items():
        fields = asdict(entry) | {"share": round(entry.share, 4)}
        lines.append(f"  {json.dumps(joint)}: {json.dumps(fields, ensure_ascii=False)}")
    body = ",\n".join(lines)
    felt = f'"{FEEL}": {json.dumps(dict(feel), ensure_ascii=False)},\n' if feel else ""
    head = f'{{"{MARK}": {VERSION}, "character": {json.dumps(name)},\n{felt}'
    text = f'{head}"regions": {{\n{body}\n}}}}\n'
    # A lone surrogate becomes an escape of JSON, as it was in a file.
    write_whole(checked_path("the anatomy file", path), text.encode(errors="backslashreplace"))


def read_entries(path: str | Path) -> dict[str, RegionEntry]:
    """Read regions by joint; FormatError for an invalid file names the file and the joint."""
    name, data = _read(path)
    regions = data.get("regions")
    if not isinstance(regions, dict) or len(regions) > MOST_REGIONS:
        raise FormatError(f'{name}: "regions" must be an object with entries by joint')
    return {joint: _entry(name, joint, fields) for joint, fields in regions.items()}


def read_feel(path: str | Path) -> dict[str, Any]:
    """Read the feel of all flesh: ``"flesh"``, ``"stiffness"``, ``"damping"`` and ``"swing"``.

    They are a preset, factors on its stiffness and its damping, and values of `--swing`;
    ``"regions"`` has further factors ``"stiffness"`` and ``"damping"`` by name of a part of the
    skin. The result is empty for a file that has only entries.
    """
    name, data = _read(path)
    feel = data.get(FEEL, {})
    if not isinstance(feel, dict):
        raise FormatError(
            f'{name}: "{FEEL}" must be an object with flesh, stiffness, damping or swing'
        )
    for key, value in feel.items():
        known = ("flesh", "swing", FELT_REGIONS, *FEEL_LIMITS)
        if key not in known:
            raise FormatError(f"{name}: {FEEL} has {shown(key)}; use {', '.join(known)}")
        if key == "flesh":
            _one_of(f"{name}: {FEEL}", key, value, tuple(FLESH_PRESETS))
        elif key == "swing":
            words = isinstance(value, list) and all(isinstance(each, str) for each in value)
            if not words or not 0 < len(value) <= MOST_GOALS:
                raise FormatError(f'{name}: swing must be a list such as ["3%", "belly=4cm"]')
        elif key == FELT_REGIONS:
            _check_felt_regions(f"{name}: {FEEL}", value)
        else:
            _check_factor(name, key, value)
    return dict(feel)


def _check_felt_regions(where: str, regions: Any) -> None:
    """Refuse invalid factors by region. Names of regions are checked later, for a character."""
    if not isinstance(regions, dict) or len(regions) > MOST_REGIONS:
        raise FormatError(f'{where}: "{FELT_REGIONS}" must be an object with factors by region')
    for region, factors in regions.items():
        what = f"{where}: region {shown(region)}"
        if not isinstance(factors, dict):
            raise FormatError(f"{what} must be an object with {' and '.join(FEEL_LIMITS)}")
        for key, value in factors.items():
            if key not in FEEL_LIMITS:
                raise FormatError(f"{what} has {shown(key)}; use {' and '.join(FEEL_LIMITS)}")
            _check_factor(what, key, value)


def _check_factor(where: str, key: str, value: Any) -> None:
    low, high = FEEL_LIMITS[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and low <= value <= high):
        raise FormatError(f"{where}: {key} is {shown(value)}; use {low:g} to {high:g}")


def _read(path: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the name and the content of an anatomy file."""
    file = checked_path("the anatomy file", path)
    name = file.name or str(file)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise FormatError(f"{name}: is too large for an anatomy file")
        data = json.loads(file.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        why = (getattr(error, "strerror", None) or "").lower() or "it is not JSON"
        raise FormatError(f"{name}: cannot be read as an anatomy ({why})") from None
    if not isinstance(data, dict) or data.get(MARK) != VERSION or data[MARK] is True:
        raise FormatError(f'{name}: is not an anatomy file; one begins with {{"{MARK}": {VERSION}')
    keys = (MARK, "character", FEEL, "regions")
    for key in data:
        if key not in keys:
            near = get_close_matches(key.lower(), keys, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"use {', '.join(keys)}"
            raise FormatError(f"{name}: has {shown(key)}; {hint}")
    return name, data


def entries_for(character: Character, path: str | Path) -> dict[str, RegionEntry]:
    """Read the regions of a file for a character; it may be written for another on the same rig.

    Raises FormatError if the character has none of the file's joints; warns if it lacks some, or
    meshes and materials of layers.
    """
    entries, name = read_entries(path), Path(path).name
    skinned = skinned_rigs(character.rig)
    joints = set(skinned[0].skeleton.names) if len(skinned) == 1 else set()
    layers = {name for name in character.labels if name.startswith(LAYER_KEYS)}
    named = {name: entry for name, entry in entries.items() if name in joints | layers}
    unknown = [name for name in entries if name not in named]
    listed = ", ".join(_quoted(joint) for joint in unknown[:4])
    listed += f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
    if unknown and len(unknown) == len(entries):
        raise FormatError(f"{name}: is for another rig; {character.name} has no joint {listed}")
    if unknown:
        what = "part" if any(each.startswith(LAYER_KEYS) for each in unknown) else "joint"
        warn(f"{name}: {character.name} has no {what} {listed}; ignored")
    return named


def _quoted(joint: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in joint)
    return f'"{plain[:40]}"'


def _entry(name: str, joint: str, fields: Any) -> RegionEntry:
    where = f"{name}: region {shown(joint)}"
    if not isinstance(fields, dict):
        raise FormatError(f"{where} must be an object with role, share and feel")
    for key in fields:
        if key not in ("role", "share", "feel", "reasons"):
            raise FormatError(f"{where} has {shown(key)}; use role, share, feel and reasons")
    layer = joint.startswith(LAYER_KEYS)
    feels, usual = (LAYER_FEELS, ("prop", "over")) if layer else (FEELS, ("limb", "normal"))
    role = _one_of(where, "role", fields.get("role", usual[0]), tuple(ROLES))
    feel = _one_of(where, "feel", fields.get("feel", usual[1]), feels)
    share = fields.get("share", ROLES[role])
    number = isinstance(share, int | float) and not isinstance(share, bool)
    if not (number and 0 <= share <= 1):
        raise FormatError(f"{where} has share {shown(share)}; use a number from 0 to 1")
    reasons = fields.get("reasons", [])
    if not isinstance(reasons, list) or not all(isinstance(each, str) for each in reasons):
        raise FormatError(f"{where} has reasons that are not a list of strings")
    return RegionEntry(role, float(share), feel, tuple(reasons))


def _one_of(where: str, what: str, value: Any, known: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in known:
        return value
    near = get_close_matches(str(value), known, 1)
    hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
    raise FormatError(f"{where} has {what} {shown(value)}; {hint}")


#: Factor of Young's modulus for each feel.
FEEL_STIFFNESS = {"hard": 1.0, "firm": 4.0, "normal": 1.0, "soft": 0.4, "apart": 1.0}
