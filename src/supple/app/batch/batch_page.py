"""HTML page of a batch, made from its journal: pictures, times, sizes, warnings and failures.

The page is one self-contained file. Names and messages are untrusted: they are escaped, and a
content security policy allows only the page's own script.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from supple.app.batch.journal import JOURNAL, lines_of
from supple.saving import write_chunks

#: Name of the page, and of the folder of pictures, in the output folder.
PAGE, PICTURES = "batch.html", ".batch"
#: Largest numbers of rows and of rows with a picture, which a browser shows without delay.
#: Failures go first.
MOST_ROWS, MOST_PICTURES = 20_000, 4_000

_STYLE = """
:root { color-scheme: light dark; --paper: #f7f5f1; --card: #fff; --ink: #23242b; --faint: #6d7079;
  --line: #e4e0d9; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14151a; --card: #1c1e25; --ink: #ecebe7;
  --faint: #989ca8; --line: #2d3039; --bad: #ff8a80; } }
body { margin: 0 auto; max-width: 1400px; padding: 24px 16px; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 28px; margin: 0 0 4px; overflow-wrap: anywhere; }
p, small { color: var(--faint); }
table { width: 100%; border-collapse: collapse; background: var(--card); }
th, td { padding: 6px 8px; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
th { position: sticky; top: 0; background: var(--card); white-space: nowrap; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid; }
th[aria-sort=ascending] button::after { content: " ↑"; }
th[aria-sort=descending] button::after { content: " ↓"; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td img { width: 96px; height: 96px; border-radius: 4px; display: block; }
.failed { color: var(--bad); }
label { display: block; margin: 12px 0; }
"""
_SCRIPT = """
const body = document.querySelector('tbody'), rows = [...body.rows];
const value = (row, k) => row.cells[k].dataset.v ?? row.cells[k].textContent;
document.querySelectorAll('th').forEach((head, k) => head.querySelector('button')
  ?.addEventListener('click', () => {
    const up = head.getAttribute('aria-sort') !== 'ascending';
    document.querySelectorAll('th').forEach(each => each.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const number = head.dataset.kind === 'n', sign = up ? 1 : -1;
    rows.sort((a, b) => sign * (number ? value(a, k) - value(b, k)
      : value(a, k).localeCompare(value(b, k))));
    body.append(...rows);
  }));
document.querySelector('#only').addEventListener('change', event => {
  const kind = event.target.value;
  for (const row of rows) row.hidden = kind !== 'all' && !row.dataset.is.split(' ').includes(kind);
});
"""


def picture_file(folder: Path, key: str) -> Path:
    """Return the path of a job's picture: in one of 256 folders, since there may be many."""
    return folder / PICTURES / key[:2] / f"{key}.jpg"


def write_batch_page(folder: Path) -> Path:
    """Write the page from the last journal line of each result, and return its path."""
    last: dict[str, int] = {}
    for number, line in enumerate(lines_of(folder / JOURNAL)):
        if line is not None and line.get("event") in ("done", "failed"):
            last[_result(line)] = number
    totals = {"done": 0, "failed": 0, "seconds": 0.0, "bytes": 0, "warned": 0}
    rows = {kind: deque[dict[str, Any]](maxlen=MOST_ROWS) for kind in ("failed", "done")}
    for number, line in enumerate(lines_of(folder / JOURNAL)):
        if line is None or last.get(_result(line)) != number:
            continue
        kind = "done" if line["event"] == "done" else "failed"
        totals[kind] += 1
        totals["seconds"] += _number(line.get("seconds"))
        totals["bytes"] += _size(line)
        totals["warned"] += bool(_texts(line.get("warnings")))
        rows[kind].append(line)
    shown = [*rows["failed"], *list(rows["done"])[: MOST_ROWS - len(rows["failed"])]]
    write_chunks(folder / PAGE, _page(folder, shown, totals))
    return folder / PAGE


def _result(line: dict[str, Any]) -> str:
    """Return the name of the result of a journal line; several jobs may write the same result."""
    return str(line.get("output") or line.get("job"))


def _page(folder: Path, shown: list[dict[str, Any]], totals: dict[str, Any]) -> Iterator[bytes]:
    """Yield the page in chunks."""
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
    policy += f" script-src 'sha256-{digest}'"
    count = totals["done"] + totals["failed"]
    title = escape(folder.name or "batch")
    summary = f"{count:,} jobs, {totals['failed']:,} failed, {totals['warned']:,} with warnings; "
    summary += f"{_duration(totals['seconds'])} of work, {totals['bytes'] / 1e6:,.1f} MB"
    more = f" The page has {len(shown):,} of them, failures first; {JOURNAL} has all." * (
        count > len(shown)
    )
    written = time.strftime("%Y-%m-%d %H:%M")
    heads = "".join(_head(name, kind) for name, kind in _COLUMNS)
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{summary}.{more} Written {written}.</p>"
        '<label>Show <select id="only"><option value="all">all</option>'
        '<option value="failed">failed</option><option value="warned">with warnings</option>'
        f"</select></label><table><thead><tr>{heads}</tr></thead><tbody>\n"
    ).encode(errors="replace")  # a name may have a lone surrogate
    for number, line in enumerate(shown):
        yield _row(folder, line, number < MOST_PICTURES).encode(errors="replace")
    yield f"</tbody></table><script>{_SCRIPT}</script></body></html>\n".encode()


#: Columns with their kinds: "t" for text, "n" for numbers.
_COLUMNS = (
    ("", ""),
    ("result", "t"),
    ("source", "t"),
    ("settings", "t"),
    ("seconds", "n"),
    ("MB", "n"),
    ("memory, MB", "n"),
    ("flesh, %", "n"),
    ("flesh", "t"),
    ("messages", "t"),
)


def _head(name: str, kind: str) -> str:
    if not kind:
        return "<th></th>"
    return f'<th scope="col" data-kind="{kind}"><button type="button">{name}</button></th>'


def _row(folder: Path, line: dict[str, Any], pictured: bool) -> str:
    failed = line.get("event") == "failed"
    warned = _texts(line.get("warnings"))
    output, source = str(line.get("output", "")), str(line.get("source", ""))
    name = escape(output)
    if not failed:
        name = f'<a href="./{escape(quote(output, errors="replace"))}">{name}</a>'
    options = line.get("options") if isinstance(line.get("options"), dict) else {}
    words = ", ".join(f"{k} {' '.join(_texts(v))}" for k, v in options.items())  # type: ignore[union-attr]
    messages = (
        [f'<span class="failed">{escape(str(line.get("line", "")))}</span>'] if failed else []
    )
    messages += [escape(each) for each in warned]
    kinds = " ".join(["failed"] * failed + ["warned"] * bool(warned))
    cells = [
        f"<td>{_picture(folder, line) if pictured and not failed else ''}</td>",
        f"<td>{name}</td>",
        f'<td title="{escape(source)}">{escape(Path(source).name)}</td>',
        f"<td>{escape(str(line.get('command', '')))} <small>{escape(words)}</small></td>",
        _cell(_number(line.get("seconds")), 1),
        _cell(_size(line) / 1e6, 2),
        _cell(_number(line.get("peak_mb")), 0),
        *_flesh(line),
        f"<td>{'<br>'.join(messages)}</td>",
    ]
    return f'<tr data-is="{kinds}">{"".join(cells)}</tr>\n'


def _flesh(line: dict[str, Any]) -> list[str]:
    """Return cells of a bake: the peak in percent of the size, and where flesh moves or is hard."""
    figures = line.get("figures") if isinstance(line.get("figures"), dict) else {}
    assert isinstance(figures, dict)
    moves = figures.get("flesh_moves")
    if not isinstance(moves, str):
        return ['<td class="n" data-v="-1"></td>', "<td></td>"]
    texts = {name: figures.get(f"flesh_{name}") for name in ("hard", "truth", "chosen")}
    more = [f"{name}: {escape(text)}" for name, text in texts.items() if isinstance(text, str)]
    small = "".join(f"<br><small>{line}</small>" for line in more)
    peak = _cell(100 * _number(figures.get("peak_part")), 2)
    return [peak, f"<td>{escape(moves)}{small}</td>"]


def _duration(seconds: float) -> str:
    """Format seconds in a readable unit.

    >>> _duration(90), _duration(9000)
    ('1.5 minutes', '2.5 hours')
    """
    if seconds < 6000:
        return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} minutes"
    return f"{seconds / 3600:.1f} hours"


def _cell(value: float, digits: int) -> str:
    return f'<td class="n" data-v="{value:.6g}">{value:,.{digits}f}</td>'


def _picture(folder: Path, line: dict[str, Any]) -> str:
    key = str(line.get("job", ""))
    if not key.isalnum():
        return ""
    with suppress(OSError):
        data = base64.b64encode(picture_file(folder, key).read_bytes()).decode()
        return f'<img alt="" loading="lazy" src="data:image/jpeg;base64,{data}">'
    return ""


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _size(line: dict[str, Any]) -> int:
    files = line.get("files")
    return sum(int(_number(each)) for each in files.values()) if isinstance(files, dict) else 0
