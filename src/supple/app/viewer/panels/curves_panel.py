"""Panels of free parameters: their curves under the character, and sliders of their springs."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from html import escape
from typing import Any

import numpy as np
import viser

from supple.app.pictures.drawing import label
from supple.app.viewer.panels.pose_panel import labels
from supple.app.viewer.session.character_subject import SPRINGS, CharacterSubject
from supple.app.viewer.session.parameter_traces import SECONDS, ParameterTraces
from supple.app.viewer.session.session import Session
from supple.app.viewer.session.subject import clamped
from supple.arrays import Floats, Ints

#: Curves at once, and seconds until they may change places.
MOST_CURVES, PATIENCE = 15, 3.0
#: Letters of a name over its curve, and of the hint that has all of it.
LETTERS, MOST_LETTERS = 13, 200
#: Window of the curves: place from the left and the bottom, size; in pixels.
PLACE, SIZE = (15, -15), (450, 222)
#: Largest doublings of springs on their sliders, and percents of following.
DOUBLINGS, MOST_FOLLOW = 4.0, 99.9
#: A chart's own units, which it is stretched from.
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
    """Window of curves under the character: keys dashed, results solid, the liveliest first."""

    def __init__(self, server: viser.ViserServer, session: Session[CharacterSubject]) -> None:
        traces = session.subject.traces
        assert traces is not None
        self._traces: ParameterTraces = traces
        self.group: Ints = np.arange(len(traces.names))
        """(m,) numbers of the parameters to choose from."""
        self.shown: Ints = self.group[:MOST_CURVES]
        """Numbers of the parameters whose curves are drawn."""
        self._ranked = 0.0
        panel: Any = server.gui.add_panel()
        with panel.add_tab("Curves", viser.Icon.CHART_LINE):
            self.charts = server.gui.add_html(STYLE)
        x, y = PLACE
        panel.float(x=x, y=y, width=SIZE[0], height=SIZE[1])

    def choose(self, group: Ints) -> None:
        """Show curves of these parameters."""
        self.group, self._ranked = group, 0.0

    def update(self) -> None:
        """Draw the last seconds."""
        now = time.monotonic()
        if now - self._ranked >= PATIENCE:  # nobody can read what jumps about
            self._ranked = now
            self.shown = self._traces.liveliest(self.group)[:MOST_CURVES]
        said = f"{len(self.shown)} of {len(self.group)}, the liveliest; " * (
            len(self.shown) < len(self.group)
        )
        said += f"{SECONDS:g} s; dashed: key, solid: with physics"
        drawn = curve_charts(self._traces, self.shown)
        self.charts.content = f'{STYLE}<div class="supple-said">{said}</div>{drawn}'


def curve_charts(traces: ParameterTraces, numbers: Ints) -> str:
    """Return small charts of parameters as HTML, which names from files cannot break out of."""
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
    """Return what a chart shows from bottom to top; what hardly moves looks as if it did not."""
    both = np.concatenate([key, result]) if len(key) else np.zeros(1)
    low, high = float(both.min()), float(both.max())
    middle, half = (low + high) / 2, 0.55 * max(high - low, 0.02)
    return middle - half, middle + half


def _points(across: Floats, values: Floats, low: float, high: float) -> str:
    up = HIGH * (high - values) / (high - low)
    return " ".join(f"{x:g},{y:.1f}" for x, y in zip(across.tolist(), up.tolist(), strict=True))


class SpringPanel:
    """Choice of a group of free parameters, and sliders of its springs, which act at once.

    Parameters
    ----------
    server, session
        Of the page.
    curves
        Window that shows the group.
    """

    def __init__(
        self, server: viser.ViserServer, session: Session[CharacterSubject], curves: CurvesPanel
    ) -> None:
        self._session, self._subject, self._curves = session, session.subject, curves
        assert self._subject.traces is not None
        self._names = self._subject.traces.names
        self._groups = _listed(self._subject.traces.groups)
        self._usual = getattr(self._subject.simulator, "springs", None)
        gui, first = server.gui, next(iter(self._groups))
        self._choice = gui.add_dropdown(
            "Controls", list(self._groups), initial_value=first, hint="Groups by name"
        )
        self._sliders: dict[str, Any] = {}
        if "springs" in self._subject.parts:
            hint = "Of the way to the key: 0 is flesh alone, 50 a spring as stiff as the flesh"
            self._sliders["follow"] = gui.add_slider(
                "Follow (%)", 0.0, MOST_FOLLOW, 0.1, 0.0, hint=hint
            )
            for name, shown in (("firmness", "Stiffness"), ("damping", "Damping")):
                self._sliders[name] = gui.add_slider(
                    *(f"{shown} (doublings)", -DOUBLINGS, DOUBLINGS, 0.1, 0.0),
                    hint="0 is as built, 1 twice as much; no rebuild",
                )
        self._said = gui.add_markdown("")
        self._listen()
        self._show_group()

    def _listen(self) -> None:
        session = self._session

        @self._choice.on_update
        async def choose(event: Any) -> None:
            if self._choice.value in self._groups:
                session.ask(self._curves.choose, self._groups[self._choice.value])
                session.ask(self._show_group)

        for name, slider in self._sliders.items():

            @slider.on_update
            async def moved(event: Any, name: str = name, slider: Any = slider) -> None:
                if event.client is not None:  # not where another group is shown
                    group = self._groups[self._choice.value]
                    session.ask(self._tune, group, name, float(slider.value))

    def _tune(self, group: Ints, name: str, value: float) -> None:
        number = _followed(value) if name == "follow" else 2.0 ** clamped(value, -10, 10)
        self._subject.tune(group, name, number)
        self._say()

    def _show_group(self) -> None:
        """Let the sliders stand where the group is."""
        group = self._groups[self._choice.value]
        for name, slider in self._sliders.items():
            mean = float(np.mean(getattr(self._subject.simulator.springs, name)[group]))
            if name == "follow":
                slider.value = round(min(100 * mean / (1 + mean), MOST_FOLLOW), 1)
            else:
                slider.value = round(math.log2(max(mean, 2.0**-DOUBLINGS)), 1)
        self._say()

    def _say(self) -> None:
        """Say what `supple curves` has to be told to do the same."""
        if not self._sliders:
            return
        groups = list(self._groups.values())[1:]
        options = curve_options(self._names, groups, self._subject.simulator.springs, self._usual)
        self._said.content = f"The same in curves:  \n`{options}`" if options else ""


def _listed(groups: dict[str, Ints]) -> dict[str, Ints]:
    """Return groups as a list names them, and first of all parameters together."""
    every = np.sort(np.concatenate(list(groups.values())))
    names = labels(["all", *groups])
    parts = [every, *groups.values()]
    return {
        f"{name}: {len(own)}": own
        for name, own in zip(names, parts, strict=True)
        if own is every or len(groups) > 1
    } or {f"all: {len(every)}": every}


def _followed(percent: float) -> float:
    """Return κ of springs that leave 100 − `percent` of a hundred of what flesh gives way."""
    part = clamped(percent, 0.0, MOST_FOLLOW) / 100
    return part / (1 - part)


def curve_options(names: Sequence[str], groups: Sequence[Ints], springs: Any, usual: Any) -> str:
    """Return options of `supple curves` for the springs that were changed; "" for none.

    Parameters
    ----------
    names
        Of the free parameters.
    groups
        Numbers of parameters in each, each parameter in one; where there are none, all are one.
    springs, usual
        As they are and as they were; see `supple.engines.engine.ParameterSprings`.
    """
    parts = []
    for option in SPRINGS:
        values, before = getattr(springs, option), getattr(usual, option)
        told = []
        for own in groups or [np.arange(len(names))]:
            value, pattern = float(values[own[0]]), _pattern(names, own)
            changed = np.any(values[own] != before[own])
            if changed and pattern and np.all(values[own] == value):
                told.append(f"'{pattern}={value:.3g}'")
        parts += [f"--{option} {' '.join(told)}"] if told else []
    return " ".join(parts)


def _pattern(names: Sequence[str], own: Ints) -> str:
    """Return a pattern that means these names and no others; "" if there is none."""
    if len(own) == len(names):
        return "*"
    folded = [names[k].casefold() for k in own]
    letters = itertools.takewhile(lambda each: len(set(each)) == 1, zip(*folded, strict=False))
    prefix = "".join(each[0] for each in letters)
    found = [k for k, name in enumerate(names) if fnmatchcase(name.casefold(), f"{prefix}*")]
    plain = prefix and not set(prefix) & set("*?[]'`=")
    return f"{prefix}*" if plain and np.array_equal(found, own) else ""
