"""Panels of free parameters: a window of their curves, and sliders of their springs."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from html import escape
from typing import Any

import numpy as np
import viser

from supple.app.pictures.drawing import label
from supple.app.viewer.panels.rows import Row, add_rows, labels
from supple.app.viewer.session.character_actor import SPRINGS, CharacterActor
from supple.app.viewer.session.parameter_traces import SECONDS, ParameterTraces
from supple.app.viewer.session.session import Session
from supple.arrays import Floats, Ints

#: Most curves at once, and seconds until their order may change.
MOST_CURVES, PATIENCE = 15, 3.0
#: Letters of a name over its curve, and in its hint.
LETTERS, MOST_LETTERS = 13, 200
#: Position of the window from the left and the bottom, and its size, in pixels.
PLACE, SIZE = (15, -15), (450, 222)
#: Upper limits of the sliders: doublings, and percent of following.
DOUBLINGS, MOST_FOLLOW = 4.0, 99.9
#: Springs by the labels of their sliders.
SPRING_LABELS = {
    "Follow (%)": "follow",
    "Stiffness (doublings)": "firmness",
    "Damping (doublings)": "damping",
}
#: Size of a chart in its own units; the page scales it.
WIDE, HIGH = 120, 40
STYLE = """<style>
.supple-curves {display:grid; grid-template-columns:repeat(auto-fill,minmax(76px,1fr)); gap:3px 8px;
  padding:0 6px 6px; font-size:11px; line-height:14px; white-space:nowrap}
.supple-curves > div {position:relative; overflow:hidden}
.supple-curves b {position:absolute; right:0; bottom:0; padding:0 2px; font-weight:400;
  font-size:9px; line-height:11px; opacity:.75; background:var(--mantine-color-body,#fff);
  border-radius:3px 0 0 0}
.supple-curves svg {display:block; width:100%; height:30px; background:rgba(128,128,128,.08);
  border-radius:3px}
.supple-curves polyline {fill:none; vector-effect:non-scaling-stroke}
.supple-curves .key {stroke:#808890; stroke-width:1; stroke-dasharray:4 3}
.supple-curves .soft {stroke:#c8443c; stroke-width:1.4}
.supple-said {padding:0 6px 2px; font-size:11px; line-height:14px; opacity:.65}
</style>"""


class CurvesPanel:
    """Window of curves: keys dashed, results solid, the largest motions first."""

    def __init__(self, server: viser.ViserServer, session: Session[CharacterActor]) -> None:
        traces = session.actor.traces
        assert traces is not None
        self._traces: ParameterTraces = traces
        self.group: Ints = np.arange(len(traces.names))  # parameters of the chosen group
        self.shown: Ints = self.group[:MOST_CURVES]  # parameters whose curves are drawn
        self._ranked = 0.0
        panel: Any = server.gui.add_panel()
        with panel.add_tab("Curves", viser.Icon.CHART_LINE):
            self.charts = server.gui.add_html(STYLE)
        x, y = PLACE
        panel.float(x=x, y=y, width=SIZE[0], height=SIZE[1])

    def choose(self, group: Ints) -> None:
        """Choose the parameters whose curves are shown."""
        self.group, self._ranked = group, 0.0

    def update(self) -> None:
        """Draw the curves of the last seconds."""
        now = time.monotonic()
        if now - self._ranked >= PATIENCE:  # a changing order would be unreadable
            self._ranked = now
            self.shown = self._traces.liveliest(self.group)[:MOST_CURVES]
        caption = f"{SECONDS:g} s; dashed: key, solid: with physics"
        if len(self.shown) < len(self.group):
            caption = f"{len(self.shown)} of {len(self.group)}, the liveliest; {caption}"
        charts = curve_charts(self._traces, self.shown)
        self.charts.content = f'{STYLE}<div class="supple-said">{caption}</div>{charts}'


def curve_charts(traces: ParameterTraces, numbers: Ints) -> str:
    """Return small charts of parameters as HTML; names from files are escaped."""
    seconds, keys, results = traces.read()
    across = np.rint(WIDE * (1 + seconds / SECONDS) * 10) / 10
    charts = []
    for number in numbers:
        name = traces.names[number]
        key, result = keys[:, number], results[:, number]
        now = result[-1] if len(result) else 0.0
        value = (
            f"{math.degrees(now):.1f}°"
            if traces.units[number] == "rad"
            else f"{round(now, 2) + 0.0:.2f}"
        )
        low, high = _range(key, result)
        lines = "".join(
            f'<polyline class="{kind}" points="{_points(across, values, low, high)}"/>'
            for kind, values in (("key", key), ("soft", result))
        )
        charts.append(
            f'<div title="{escape(label(name, MOST_LETTERS))}">{escape(label(name, LETTERS))}'
            f'<svg viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none">{lines}</svg>'
            f"<b>{value}</b></div>"
        )
    return f'<div class="supple-curves">{"".join(charts)}</div>'


def _range(key: Floats, result: Floats) -> tuple[float, float]:
    """Return the range of a chart, with a lower bound so that tiny motions look flat."""
    both = np.concatenate([key, result]) if len(key) else np.zeros(1)
    low, high = float(both.min()), float(both.max())
    middle, half = (low + high) / 2, 0.55 * max(high - low, 0.02)
    return middle - half, middle + half


def _points(across: Floats, values: Floats, low: float, high: float) -> str:
    up = HIGH * (high - values) / (high - low)
    return " ".join(f"{x:g},{y:.1f}" for x, y in zip(across.tolist(), up.tolist(), strict=True))


class SpringPanel:
    """Choice of a group of free parameters, whose curves are shown, and sliders of its springs."""

    def __init__(
        self, server: viser.ViserServer, session: Session[CharacterActor], curves: CurvesPanel
    ) -> None:
        self._actor, self._curves = session.actor, curves
        assert self._actor.traces is not None
        self._names = self._actor.traces.names
        self._groups = _listed(self._actor.traces.groups)
        self._name = next(iter(self._groups))
        self._built = getattr(self._actor.simulator, "springs", None)
        handles = add_rows(server.gui, session, self._rows())
        self._sliders = {
            name: handles[text] for text, name in SPRING_LABELS.items() if text in handles
        }
        self._options = server.gui.add_markdown("")
        self._show_group()

    def _rows(self) -> Iterator[Row]:
        hint, options = "Groups of free parameters, by name", tuple(self._groups)
        yield Row("Controls", lambda: self._name, self._choose, hint, options=options)
        if "springs" not in self._actor.parts:
            return
        for text, name in SPRING_LABELS.items():
            follow = name == "follow"
            limits = (0.0, MOST_FOLLOW, 0.1) if follow else (-DOUBLINGS, DOUBLINGS, 0.1)
            hint = (
                "How closely the result follows the key; 0: flesh alone, 50: a spring as stiff "
                "as the flesh"
                if follow
                else "0: as built, 1: twice as much; no rebuild"
            )
            put = partial(self._tune, name)
            yield Row(text, lambda: 0.0, put, hint, limits, from_pages=True)

    def _choose(self, name: str) -> None:
        self._name = name
        self._curves.choose(self._groups[name])
        self._show_group()

    def _tune(self, name: str, value: float) -> None:
        number = _followed(value) if name == "follow" else 2.0**value
        self._actor.tune(self._groups[self._name], name, number)
        self._show_options()

    def _show_group(self) -> None:
        """Set the sliders to the group's means."""
        group = self._groups[self._name]
        for name, slider in self._sliders.items():
            mean = float(np.mean(getattr(self._actor.simulator.springs, name)[group]))
            if name == "follow":
                slider.value = round(min(100 * mean / (1 + mean), MOST_FOLLOW), 1)
            else:
                slider.value = round(math.log2(max(mean, 2.0**-DOUBLINGS)), 1)
        self._show_options()

    def _show_options(self) -> None:
        """Show the options of `supple curves` that give the same springs."""
        if not self._sliders:
            return
        groups = list(self._groups.values())[1:]
        options = curve_options(self._names, groups, self._actor.simulator.springs, self._built)
        self._options.content = f"The same in curves:  \n`{options}`" if options else ""


def _listed(groups: dict[str, Ints]) -> dict[str, Ints]:
    """Return groups by label, with all parameters together as the first."""
    every = np.sort(np.concatenate(list(groups.values())))
    names = labels(["all", *groups])
    parts = [every, *groups.values()]
    return {
        f"{name}: {len(numbers)}": numbers
        for name, numbers in zip(names, parts, strict=True)
        if numbers is every or len(groups) > 1
    } or {f"all: {len(every)}": every}


def _followed(percent: float) -> float:
    """Return the strength `follow` of springs that reduce deviations from the key by `percent`."""
    part = percent / 100
    return part / (1 - part)


def curve_options(names: Sequence[str], groups: Sequence[Ints], springs: Any, built: Any) -> str:
    """Return options of `supple curves` for the springs that were changed; "" for none.

    `groups` are disjoint groups of indices into `names`; without any, all parameters are one group.
    `springs` and `built` are the current and original `supple.engines.ParameterSprings`.
    """
    parts = []
    for option in SPRINGS:
        values, before = getattr(springs, option), getattr(built, option)
        words = []
        for numbers in groups or [np.arange(len(names))]:
            value, pattern = float(values[numbers[0]]), _pattern(names, numbers)
            changed = np.any(values[numbers] != before[numbers])
            if changed and pattern and np.all(values[numbers] == value):
                words.append(f"'{pattern}={value:.3g}'")
        parts += [f"--{option} {' '.join(words)}"] if words else []
    return " ".join(parts)


def _pattern(names: Sequence[str], numbers: Ints) -> str:
    """Return a pattern that matches exactly these names; "" if there is none."""
    if len(numbers) == len(names):
        return "*"
    folded = [names[k].casefold() for k in numbers]
    letters = itertools.takewhile(lambda each: len(set(each)) == 1, zip(*folded, strict=False))
    prefix = "".join(each[0] for each in letters)
    matches = [k for k, name in enumerate(names) if fnmatchcase(name.casefold(), f"{prefix}*")]
    plain = prefix and not set(prefix) & set("*?[]'`=")
    return f"{prefix}*" if plain and np.array_equal(matches, numbers) else ""
