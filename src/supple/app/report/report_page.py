"""Report page of baked motions in one HTML file: a 3D player, figures and pictures.

The file contains all scripts, numbers and pictures; its security policy forbids network access.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import supple
from supple.app.bake_summary import flesh_rows, length_text
from supple.app.pictures.filmstrip import SOFT
from supple.app.report.figure_tables import grids
from supple.app.report.page_motion import encoded_motion
from supple.errors import SuppleError
from supple.mesh.topology import counted
from supple.progress import PartDone, unreported
from supple.rig.baked_motion import BakedMotion
from supple.rig.drawn_obstacles import clear_azimuth
from supple.saving import write_whole

#: In the order of their dependencies.
_SCRIPTS = (
    "algebra.js",
    "motion.js",
    "colours.js",
    "shaders.js",
    "renderer.js",
    "obstacles.js",
    "camera.js",
    "chart.js",
    "main.js",
)
#: Most bytes of a motion, of each further one, and of all.
BYTES, MORE_BYTES, MOST_BYTES = 3_500_000, 500_000, 10_000_000
_KINDS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


def write_page(
    path: str | Path,
    baked: BakedMotion | Sequence[BakedMotion],
    figures: Mapping[str, Any] | None = None,
    pictures: Mapping[str, Path | bytes] | None = None,
    *,
    clay: bool = False,
    azimuth: float = 35.0,
    most_bytes: int | None = None,
    progress: PartDone = unreported,
) -> dict[str, Any]:
    """Write the page of a motion, or of several motions of one character, atomically.

    The tables show `figures`, as `grids` does, or else the report of the bake. `pictures` are PNG
    or JPEG files, or their bytes, by caption; a browser without WebGL 2 refers to the first instead
    of the player. With `clay`, the page starts in clay instead of in the character's colours. The
    azimuth of the initial camera is in degrees; a wall that would hide the character changes it.
    Obstacles and objects of the motions are drawn transparently. Motions with more than
    `most_bytes` of data, by default 3.5 million and half a million for each further motion, are
    encoded more coarsely; the page shows the error. `progress` is called with the fraction done.

    Returns ``bytes``, ``shapes_rig``, ``shapes_flesh`` and ``error_m``, the largest error of a
    shown vertex.
    """
    shown = _loaded(pictures or {})
    bakes = [baked] if isinstance(baked, BakedMotion) else list(baked)
    usual = min(BYTES + (len(bakes) - 1) * MORE_BYTES, MOST_BYTES)
    motion = encoded_motion(bakes, most_bytes=most_bytes or usual, progress=progress)
    head = motion.header | {
        "colour": list(SOFT),
        "clay": bool(clay),
        "azimuth": float(np.radians(clear_azimuth(bakes[motion.header["clip"]], azimuth))),
    }
    for clip, each in zip(head["clips"], bakes, strict=True):
        clip |= {"subtitle": _subtitle(each), "far": length_text(clip["farthest"])}
    shown_figures = bakes[head["clip"]].report if figures is None else figures
    parts = _texts(head, bakes[0].character.name) | {
        "figures": _lines(shown_figures) + _tables(shown_figures),
        "pictures": _pictures(shown),
        "still": _still(shown),
        "footer": html.escape(_footer(bakes[0], motion.error)),
        "textures": json.dumps(motion.pictures),
        "data": motion.payload,
    }
    template = _resource("page.html")
    text = re.sub(r"\[\[(\w+)\]\]", lambda match: parts[match[1]], template)
    data = text.encode("utf-8", "replace")
    write_whole(path, data)
    return {
        "bytes": len(data),
        "shapes_rig": motion.n_shapes[0],
        "shapes_flesh": motion.n_shapes[1],
        "error_m": motion.error,
    }


def _texts(head: Mapping[str, Any], title: str) -> dict[str, str]:
    """Return the titles, style and scripts of the page."""
    clip = head["clips"][head["clip"]]
    return {
        "title": html.escape(title),
        "subtitle": html.escape(clip["subtitle"]),
        "farthest": html.escape(clip["far"]),
        "clips": _clip_list(head),
        "style": _resource("style.css"),
        "script": "\n".join(_resource(each) for each in _SCRIPTS),
        # In a script element only "</" and "<!" are special, and both begin with "<".
        "head": json.dumps(head).replace("<", "\\u003c"),
    }


def _resource(name: str) -> str:
    return files("supple.app.report").joinpath("page", name).read_text(encoding="utf-8")


def _loaded(pictures: Mapping[str, Path | bytes]) -> dict[str, str]:
    """Return pictures as data URIs, by caption."""
    addresses = {}
    for caption, picture in pictures.items():
        data = picture if isinstance(picture, bytes) else _read(Path(picture))
        kind = next((kind for start, kind in _KINDS.items() if data.startswith(start)), None)
        if kind is None:
            raise SuppleError(f"picture “{caption}”: is neither PNG nor JPEG")
        addresses[caption] = f"data:{kind};base64," + base64.b64encode(data).decode("ascii")
    return addresses


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
        f"“{baked.motion.name}”, {seconds:.1f} s, {frames} at {baked.rate:g} per second, {vertices}"
    )


def _clip_list(head: Mapping[str, Any]) -> str:
    """Return the list of motions as HTML, "" for a single motion."""
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
        f"Made by Supple {supple.__version__}. The drawing is within {length_text(error)} "
        f"({part:.2f} % of the size) of the simulation. The page loads nothing else."
    )


def _lines(figures: Mapping[str, Any]) -> str:
    """Return the closing lines of the bake as HTML, "" without any."""
    rows = "".join(
        f"<dt>{html.escape(title)}</dt><dd>{html.escape(text)}</dd>"
        for title, text in flesh_rows(figures)
    )
    return f'<dl class="lines">{rows}</dl>' if rows else ""


def _tables(figures: Mapping[str, Any]) -> str:
    tables = []
    for caption, headings, rows in grids(dict(figures)):
        head = "".join(f"<th>{html.escape(each)}</th>" for each in headings)
        body = "\n".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
        tables.append(
            f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
    return "<h2>Figures</h2>\n" + "\n".join(tables) if tables else ""


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
    """Return a line of HTML that refers to the first picture of the page, "" without pictures."""
    if not pictures:
        return ""
    return f"<p>There is a picture below: {html.escape(next(iter(pictures)))}.</p>"
