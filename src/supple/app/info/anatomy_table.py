"""`supple info --anatomy`: bone, flesh, hard and separate parts as a table, a sheet or a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.hard_parts import hard_warning
from supple.anatomy.region_entries import (
    ENTRIES_SUFFIX,
    FEEL,
    RegionEntry,
    entries_for,
    read_entries,
    read_feel,
)
from supple.app.command_files import check_place, checked_sheet
from supple.app.info.model_files import printable
from supple.errors import SuppleError, warn
from supple.playback.character_sources import read_any_character


def describe_anatomy(
    source: str | Path,
    targets: Sequence[Path] = (),
    unit: str | None = None,
    *,
    regions: Path | None = None,
    **body: Any,
) -> dict[str, Any]:
    """Detect the anatomy of a character, and write it to files.

    Targets are ``.png`` files for a sheet, and ``.anatomy.json`` files for editing, which must not
    exist. `regions` is an anatomy file that takes precedence over what is detected. `unit` and
    `body` are options of `read_any_character`. Returns ``hard``, a fraction of the skin's area;
    ``regions``, rows with joint, area, role, share, feel and reasons; ``layers``, rows with name,
    feel and reasons; ``wrote``, the files.

    Warns
    -----
    SuppleWarning
        If more than half of the skin is hard, with reasons and a remedy.
    """
    for target in targets:
        _check_target(target, Path(source))
    character = read_any_character(str(source), unit, **body).character
    anatomy = anatomy_of(character, entries=entries_for(character, regions) if regions else None)
    mostly_hard = hard_warning(anatomy, character)
    if mostly_hard is not None:
        warn(mostly_hard)
    for target in targets:
        if target.suffix.lower() == ".png":
            from supple.app.pictures.anatomy_sheet import write_anatomy_sheet

            write_anatomy_sheet(anatomy, target)
        else:
            anatomy.save(target)
    return {
        "hard": round(anatomy.hard_part, 4),
        "regions": _rows(anatomy),
        "layers": [
            {"name": name, "feel": each.feel, "reasons": list(each.reasons)}
            for name, each in anatomy.layers.items()
        ],
        "wrote": [str(target) for target in targets],
    }


def _check_target(target: Path, source: Path) -> None:
    if target.suffix.lower() == ".png":
        checked_sheet(target)
    elif not target.name.endswith(".json"):
        raise SuppleError(f"{target}: --anatomy writes .png or {ENTRIES_SUFFIX}")
    elif target.exists():
        raise SuppleError(f"{target}: already exists; use another name, or remove it")
    else:
        check_place(target, source)


def _rows(anatomy: Anatomy) -> list[dict[str, Any]]:
    area = np.bincount(anatomy.region, anatomy.surface.vertex_areas(), len(anatomy.joints))
    parts = area / max(float(area.sum()), 1e-300)
    return [
        {"joint": joint, "area": round(float(part), 4), **_entry(entry)}
        for (joint, entry), part in zip(anatomy.entries.items(), parts, strict=False)
    ]


def _entry(entry: RegionEntry) -> dict[str, Any]:
    return {
        "role": entry.role,
        "share": round(entry.share, 4),
        "feel": entry.feel,
        "reasons": list(entry.reasons),
    }


def describe_entries(path: Path) -> dict[str, Any]:
    """Return the regions of an anatomy file and the feel of all flesh, as plain values."""
    rows = [{"joint": joint, **_entry(each)} for joint, each in read_entries(path).items()]
    feel = read_feel(path)
    return {"format": "anatomy", "anatomy": {"regions": rows} | ({FEEL: feel} if feel else {})}


def anatomy_table(described: dict[str, Any], console: Console) -> None:
    """Print a table of regions."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading, side in (("joint", "left"), ("role", "left"), ("share", "right")):
        table.add_column(heading, justify=side, no_wrap=heading != "joint")  # type: ignore[arg-type]
    table.add_column("feel")
    table.add_column("reasons", overflow="fold")
    for row in described["regions"]:
        cells = (row["joint"], row["role"], f"{row['share']:.2f}", row["feel"])
        reasons = "; ".join(row["reasons"])
        table.add_row(*(escape(printable(word)) for word in (*cells, reasons)))
    console.print(table)
    for layer in described.get("layers", ()):
        line = f"layer {layer['name']}, {layer['feel']}: {'; '.join(layer['reasons'])}"
        console.print(printable(line), markup=False)
    if FEEL in described:
        felt = [
            f"{key} {' '.join(value) if isinstance(value, list) else value}"
            for key, value in described[FEEL].items()
        ]
        console.print(printable(f"all flesh: {', '.join(felt)}"), markup=False)
    if "hard" in described:
        console.print(f"{100 * described['hard']:.0f} % of the skin is hard")
    for target in described.get("wrote", ()):
        console.print(f"wrote {target}", markup=False)
