"""A page about baked motions in one file: a player in three dimensions, figures and pictures.

It needs no network and no server: scripts, numbers and pictures are inside, and the page itself
forbids the browser to fetch anything.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import supple
from supple.app.pictures.filmstrip import SOFT
from supple.app.report.html_tables import grids
from supple.app.report.page_motion import encoded_motion
from supple.errors import SuppleError
from supple.mesh.topology import counted
from supple.rig.baked_motion import BakedMotion
from supple.saving import write_whole

#: In the order in which they need each other.
_SCRIPTS = (
    "algebra.js",
    "motion.js",
    "colours.js",
    "shaders.js",
    "stage.js",
    "camera.js",
    "chart.js",
    "main.js",
)
#: Bytes that a motion may take, that each further one adds, and that all may take.
BYTES, MORE_BYTES, MOST_BYTES = 3_500_000, 500_000, 10_000_000
_KINDS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


def write_page(
    path: str | Path,
    baked: BakedMotion | Sequence[BakedMotion],
    figures: Mapping[str, Any] | None = None,
    pictures: Mapping[str, Path | bytes] | None = None,
    *,
    title: str | None = None,
    colour: ArrayLike = SOFT,
    clay: bool = False,
    azimuth: float = 35.0,
    most_bytes: int | None = None,
    tell: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Write the page, whole or not at all.

    Parameters
    ----------
    path
        Where to; a .html file.
    baked
        The motion it plays; of several, of one character, people choose one on the page, which
        begins with the liveliest.
    figures
        By name: numbers and words; ``paper_x`` is shown beside ``x``, lists of dicts are tables.
        By default what the bake reports.
    pictures
        PNG or JPEG, files or their bytes, by caption. The first is shown in place of the player
        where a browser cannot draw it.
    title
        By default the character's name.
    colour
        Of the flesh, 0 to 1, where it is of clay.
    clay
        Show it in clay at first, though the character has colours of its own.
    azimuth
        Where the camera is at first, in degrees.
    most_bytes
        That the motion may take, by default 3.5 million, and half a million more for each further
        one; longer ones are shown more coarsely. The page says how far what it shows is from the
        simulation.
    tell
        Called with the part done, 0 to 1.

    Returns
    -------
    dict
        ``bytes``, ``shapes_rig``, ``shapes_flesh`` and ``error_m``: the farthest that a shown
        vertex is from where it was simulated.
    """
    shown = _loaded(pictures or {})
    bakes = [baked] if isinstance(baked, BakedMotion) else list(baked)
    room = min(BYTES + (len(bakes) - 1) * MORE_BYTES, MOST_BYTES)
    motion = encoded_motion(bakes, most_bytes=most_bytes or room, tell=tell)
    head = motion.header | {
        "colour": _colour(colour),
        "clay": bool(clay),
        "azimuth": float(np.radians(azimuth)),
    }
    for clip, each in zip(head["clips"], bakes, strict=True):
        clip |= {"told": _subtitle(each), "far": _length(clip["farthest"])}
    told = bakes[head["clip"]].report if figures is None else figures
    parts = _words(head, title or bakes[0].character.name) | {
        "figures": _tables(told),
        "pictures": _pictures(shown),
        "still": _still(shown),
        "footer": html.escape(_footer(bakes[0], motion.error)),
        "textures": json.dumps(motion.pictures),
        "data": motion.payload,
    }
    template = _own("page.html")
    text = re.sub(r"\[\[(\w+)\]\]", lambda found: parts[found[1]], template)
    data = text.encode("utf-8", "replace")
    write_whole(path, data)
    return {
        "bytes": len(data),
        "shapes_rig": motion.n_shapes[0],
        "shapes_flesh": motion.n_shapes[1],
        "error_m": motion.error,
    }


def _words(head: Mapping[str, Any], title: str) -> dict[str, str]:
    """Return parts of the page that say what it plays, and its own files."""
    begun = head["clips"][head["clip"]]
    return {
        "title": html.escape(title),
        "subtitle": html.escape(begun["told"]),
        "farthest": html.escape(begun["far"]),
        "clips": _clip_list(head),
        "style": _own("style.css"),
        "script": "\n".join(_own(each) for each in _SCRIPTS),
        # In a script element only "</" and "<!" mean something, and both begin with "<".
        "head": json.dumps(head).replace("<", "\\u003c"),
    }


def _own(name: str) -> str:
    return files("supple.app.report").joinpath("page", name).read_text(encoding="utf-8")


def _colour(colour: ArrayLike) -> list[float]:
    found = np.asarray(colour, np.float64)
    if found.shape != (3,) or not ((found >= 0) & (found <= 1)).all():
        raise SuppleError(f"colour {found.tolist()}: three numbers from 0 to 1")
    return [float(part) for part in found]


def _loaded(pictures: Mapping[str, Path | bytes]) -> dict[str, str]:
    """Return pictures as addresses that hold them, by caption."""
    found = {}
    for caption, picture in pictures.items():
        data = picture if isinstance(picture, bytes) else _read(Path(picture))
        kind = next((kind for start, kind in _KINDS.items() if data.startswith(start)), None)
        if kind is None:
            raise SuppleError(f"picture “{caption}”: is neither PNG nor JPEG")
        found[caption] = f"data:{kind};base64," + base64.b64encode(data).decode("ascii")
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SuppleError(f"{path}: cannot be read ({why})") from None


def _subtitle(baked: BakedMotion) -> str:
    seconds = float(baked.times[-1] - baked.times[0])
    vertices = f"{len(baked.character.surface.vertices):,} vertices"
    frames = counted(baked.n_frames, "frame")
    return (
        f"“{baked.motion.name}”, {seconds:.1f} s, {frames} at {baked.rate:g} a second, {vertices}"
    )


def _clip_list(head: Mapping[str, Any]) -> str:
    """Return what a motion is chosen by, nothing where there is one."""
    if len(head["clips"]) == 1:
        return ""
    options = "".join(
        f'<option value="{k}"{" selected" if k == head["clip"] else ""}>'
        f"{html.escape(clip['motion'])}</option>"
        for k, clip in enumerate(head["clips"])
    )
    return f'<select id="clip" aria-label="motion">{options}</select>'


def _footer(baked: BakedMotion, error: float) -> str:
    part = 100 * error / baked.character.surface.size
    return (
        f"Made by Supple {supple.__version__}. What is drawn is within {_length(error)} "
        f"({part:.2f} % of the size) of the simulation; the page is one file and fetches nothing."
    )


def _length(metres: float) -> str:
    return f"{1000 * metres:.1f} mm" if metres < 0.01 else f"{100 * metres:.1f} cm"


def _tables(figures: Mapping[str, Any]) -> str:
    found = []
    for caption, headings, rows in grids(dict(figures)):
        head = "".join(f"<th>{html.escape(each)}</th>" for each in headings)
        body = "\n".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
        found.append(
            f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
    return "<h2>Figures</h2>\n" + "\n".join(found) if found else ""


def _pictures(pictures: Mapping[str, str]) -> str:
    if not pictures:
        return ""
    each = (
        f'<figure><img alt="{html.escape(caption)}" src="{address}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, address in pictures.items()
    )
    return "<h2>Pictures</h2>\n" + "\n".join(each)


def _still(pictures: Mapping[str, str]) -> str:
    """Return a line that leads to the picture: it is on the page already."""
    if not pictures:
        return ""
    return f"<p>Below is a picture of it: {html.escape(next(iter(pictures)))}.</p>"
