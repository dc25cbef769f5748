"""Figures of bakes in words: the closing lines of `supple bake`, its report page and batches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from supple.anatomy.hard_parts import hard_parts_text, hard_share_text
from supple.app.command_files import print_rows
from supple.engines.common.accuracy import distance_words
from supple.errors import one_line
from supple.mesh.topology import counted
from supple.playback.flesh_motion import STILL
from supple.playback.progress_bar import console
from supple.rig.baked_motion import BakedMotion

#: Figures of a bake that differ from motion to motion.
_OF_MOTION = (
    "motion",
    "frames",
    "rate",
    "steps",
    "step_ms",
    "simulate_s",
    "limits",
    "stiffness",
    "cycles",
    "seamless",
    "blended",
    "loop_gap",
    "substeps",
    "change",
    "converged",
    "unconverged_steps",
    "live_distance",
    "peak",
    "peak_part",
    "peak_time",
    "rms",
    "moved",
    "advice",
)
#: Figures of a bake that differ between clips if quality auto bakes some of them live.
_OF_QUALITY = ("engine", "quality", "quality_reason")
#: Longest name from a file in a line, and most names of clips.
_LONGEST, _MOST_NAMES = 32, 3


def reported_bakes(bakes: Sequence[BakedMotion]) -> dict[str, Any]:
    """Return the report of a bake; for several, figures that differ are in a list ``clips``.

    ``peak``, ``peak_part`` and ``flesh_moves``, a description in words, are those of the clip in
    which flesh moves farthest; ``flesh_hard`` describes the hard parts, ``flesh_truth`` the
    distance from the full simulation, ``flesh_chosen`` the quality that "auto" chose.
    """
    reports = [baked.report for baked in bakes]
    # Quality auto may bake some clips live; their reduced model is then the one to describe.
    described = next((each for each in reports if each.get("quality") == "live"), reports[0])
    figures = dict(described)
    if len(bakes) > 1:
        mixed = [n for n in _OF_QUALITY if any(each.get(n) != described.get(n) for each in reports)]
        varying = (*_OF_MOTION, *mixed)
        common = {name: value for name, value in described.items() if name not in _OF_MOTION}
        clips = [{name: each[name] for name in varying if name in each} for each in reports]
        figures = common | {"clips": clips}
    liveliest = max(reports, key=lambda each: float(each.get("peak_part", -1.0)))
    if "peak" in liveliest:
        moves = _moves(liveliest)
        named = moves if len(bakes) == 1 else f"{_short(liveliest['motion'])}: {moves}"
        figures |= {name: liveliest[name] for name in ("peak", "peak_part")}
        figures["flesh_moves"] = named
    if "hard" in figures:
        figures["flesh_hard"] = _hard(figures)
    truth = [text for _, text in _truth(figures, figures.get("clips", [figures]))]
    chosen = chosen_quality(figures)
    for name, texts in (("flesh_truth", truth), ("flesh_chosen", chosen)):
        figures |= {name: "; ".join(texts)} if texts else {}
    return figures


def flesh_rows(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return closing lines of a bake, title and text: motion of flesh, hard parts, distance."""
    rows = []
    clips = figures.get("clips", [figures])
    for clip in clips:
        if "peak" in clip:
            before = f"{_short(clip['motion'])}: " if len(clips) > 1 else ""
            rows.append(("flesh", before + _moves(clip)))
    for goal in figures.get("swing", ()):
        reached, goal_length = length_text(goal["reached"]), length_text(goal["goal"])
        stiff = f"{goal['stiffness']:.3g} times as stiff"
        text = f"{_short(goal['region'])}: {reached} of {goal_length}, {stiff}"
        rows.append(("swing", text))
    if "hard" in figures:
        rows.append(("hard", _hard(figures)))
    return rows + _truth(figures, clips)


def _moves(clip: Mapping[str, Any]) -> str:
    """Describe how far the flesh of a clip moves and where, or why it hardly does."""
    percent = 100 * clip["peak_part"]
    part = f"{percent:.1f}" if percent >= 0.1 else f"{percent:.2g}"
    far = f"{length_text(clip['peak'])} ({part} % of the size)"
    advice = one_line(clip.get("advice", ""))
    if advice and clip["peak_part"] < STILL:
        return f"moves at most {far}: {advice}"
    where = [f"{_short(each['region'])} {length_text(each['peak'])}" for each in clip["moved"]]
    text = f"moves up to {far} at {clip['peak_time']:.2f} s"
    text += f": {', '.join(where)}" if where else ""
    return f"{text}; {advice}" if advice else text


def _hard(figures: Mapping[str, Any]) -> str:
    """Describe which part of the skin is hard, and why."""
    share, parts = hard_share_text(figures), hard_parts_text(figures)
    return one_line(f"{share}: {parts}" if parts else share)


def _truth(figures: Mapping[str, Any], clips: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the row of the distance from the converged full simulation, if it is known."""
    rows = []
    final = [clip for clip in clips if clip.get("quality", figures.get("quality")) == "final"]
    clips = [clip for clip in clips if clip not in final]
    of_final, of_live = (
        (f"{_names(final)}: ", f"{_names(clips)}: ") if final and clips else ("", "")
    )
    if final and not all(clip.get("converged") for clip in final):
        text = "the full simulation, which has not converged everywhere"
        rows.append(("truth", f"{of_final}{text}"))
    elif final:
        change = max(float(clip.get("change") or 0) for clip in final)
        near = max(math.ceil(round(100 * change / 3, 6)), 1)  # the method has order two
        text = f"the full simulation, within {near} % of its converged result"
        rows.append(("truth", f"{of_final}{text}"))
    if not clips:
        return rows
    measured = [clip for clip in clips if clip.get("live_distance") is not None]
    if measured:
        worst = max(measured, key=lambda clip: float(clip["live_distance"]))
        apart = distance_words(worst["live_distance"])
        text = f'reduced model, {apart} (measured on "{_short(worst["motion"])}")'
        rows.append(("truth", f"{of_live}{text}"))
    elif figures.get("full_accuracy"):
        changed = any(float(clip.get("stiffness") or 1) != 1 for clip in clips)
        changed = changed or bool(figures.get("feel") or figures.get("swing"))
        when = "; measured as stiff as built" if changed else ""
        text = one_line(f"reduced model, {figures['full_accuracy']}{when}")
        rows.append(("truth", f"{of_live}{text}"))
    return rows


def _names(clips: Sequence[Mapping[str, Any]]) -> str:
    """Return the names of clips in a line, the first few of many."""
    names = [_short(clip["motion"]) for clip in clips]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def length_text(metres: float) -> str:
    """Return a length in mm, cm or m.

    >>> length_text(0.0012), length_text(0.041), length_text(2.5)
    ('1.2 mm', '4.1 cm', '2.50 m')
    """
    if metres < 0.01:
        return f"{1000 * metres:.1f} mm"
    return f"{100 * metres:.1f} cm" if metres < 1 else f"{metres:.2f} m"


def _short(name: str) -> str:
    """Return a name from a file, printable and not too long."""
    plain = one_line(str(name))
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 2] + " …"


def print_summary(figures: dict[str, Any]) -> None:
    """Print the summary of a bake on standard error."""
    why = f": {figures['build_reason']}" if figures.get("build_reason") else ""
    built = f"built in {figures['build_s']:.1f} s{why}"
    model = f"{figures['engine']}{_sizes(figures, 'poses', 'modes')}"
    rows = [
        ("character", f"{figures['vertices']:,} vertices{_sizes(figures, 'tets')}"),
        ("model", f"{model}, " + ("kept from before" if figures["model_kept"] else built)),
    ]
    if figures.get("feel"):
        rows.append(("feel", f"{figures['feel']}, without a build"))
    for clip in figures.get("clips", [figures]):
        cycles = f", {clip['cycles']} cycles" if "cycles" in clip else ""
        frames = f"{clip['frames']} frames at {clip['rate']:.4g} per second{cycles}"
        rows.append(("motion", f"{clip['motion']}, {frames}, {clip['step_ms']:.2f} ms per step"))
        if quality := _quality(clip.get("quality", figures["quality"]), clip):
            rows.append(("quality", quality))
    rows += [("chosen", text) for text in chosen_quality(figures)]
    rows += _shapes(figures)
    rows.append(("time", f"{figures['bake_s']:.1f} s in all"))
    print_rows(rows + flesh_rows(figures))
    beside = [
        str(figures[name]) for name in ("mesh", "report", "video", "readings") if name in figures
    ]
    shown = "".join(f" and {each}" for each in beside)
    others = len(figures.get("outputs", [0])) - 1
    more = f" and {others} more" if others else ""
    console.print(f"wrote {figures['output']}{more}{shown}", markup=False)


def chosen_quality(figures: Mapping[str, Any]) -> list[str]:
    """Return the quality that "auto" selected, and the reason; by clip if clips differ."""
    clips_by_text: dict[str, list[Mapping[str, Any]]] = {}
    clips = figures.get("clips", [figures])
    for clip in clips:
        both = {**figures, **clip}
        if reason := both.get("quality_reason"):
            used = "full simulation" if both["quality"] == "final" else "reduced model"
            clips_by_text.setdefault(f"{used}: {reason}", []).append(clip)
    if sum(map(len, clips_by_text.values())) == len(clips) and len(clips_by_text) == 1:
        return [*clips_by_text]
    return [f"{_names(named)}: {text}" for text, named in clips_by_text.items()]


def _shapes(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return rows about the new clips and shapes in a file."""
    rows = []
    reached = 100 * float(figures.get("error") or 0)
    if figures.get("new") and figures.get("animation"):
        rows.append(("clip", f'"{figures["animation"]}" is new: the file had no such clip'))
    if figures.get("shapes"):
        rows.append(("shapes", f"{figures['shapes']}, within {reached:.2f} % of the size"))
    elif figures.get("shapes") == 0:
        off = f"none: the rig alone is within {reached:.2g} % of the size"
        rows.append(("shapes", f"{off}; a smaller --error keeps smaller motion"))
    return rows


def _sizes(figures: Mapping[str, Any], *names: str) -> str:
    """Return the given sizes of a model as text, without sizes that its engine lacks."""
    return "".join(f", {counted(figures[name], name[:-1])}" for name in names if name in figures)


def _quality(quality: str, clip: Mapping[str, Any]) -> str:
    """Describe the quality of a clip: sub-steps, effect of halving them, error of quality live."""
    apart = f"{100 * clip.get('live_distance', 0):.0f} %"
    if quality == "live":
        return f"reduced model, {apart} from the full simulation" if "live_distance" in clip else ""
    least, most = clip["substeps"]["least"], clip["substeps"]["most"]
    counts = f"{least} to {most} steps" if least != most else counted(most, "step")
    text = f"full simulation, {counts} in place of one"
    if clip["change"] is not None:
        text += f"; half as many change {100 * clip['change']:.1f} %"
    return text + (f"; the reduced model is {apart} from it" if "live_distance" in clip else "")
