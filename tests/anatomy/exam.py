"""Examine characters of the assets: bake every clip with defaults and measure on hand labels.

``make exam`` writes one record for each character and resolution, and goes on where it stopped;
``python tests/anatomy/exam.py --table`` prints what the records say.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.thickness import InscribedBalls
from supple.app.pictures.anatomy_sheet import write_anatomy_sheet
from supple.app.pictures.filmstrip import filmstrip
from supple.engines.factory import build
from supple.errors import SuppleWarning
from supple.formats.load import load
from supple.playback.bake_model import model_options
from supple.playback.baking import bake
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs

Labels = Mapping[str, Any]
Mask = NDArray[np.bool_]

LABELS = Path(__file__).with_name("labels.json")
ASSETS = Path(__file__).resolve().parents[3] / "shared" / "assets"
#: Tets of the two resolutions: the default, and half of it.
RESOLUTIONS = (8_000, 4_000)
#: Poses a second at which no tet may be inverted.
POSE_RATE = 12.0
#: Pixels that a picture of a page is high.
HIGH = 420
#: Bounds: of hard parts in % of the size, of peaks beside the thickness, of limits in % of steps.
HARD_BOUND, PEAK_BOUND, LIMITS_BOUND, TRUNK_BOUND = 0.3, 0.25, 1.0, 0.8


def labels() -> dict[str, Labels]:
    """Return labels by character, a path below the assets."""
    found = json.loads(LABELS.read_text(encoding="utf-8"))
    return {name: said for name, said in found.items() if name != "about"}


def labelled(character: Character, patterns: Sequence[Any]) -> Mask:
    """(n̄,) vertices of some labels: see "about" in the file of labels."""
    chosen = np.zeros(len(character.surface.vertices), bool)
    skinned = skinned_rigs(character.rig)
    for pattern in patterns:
        if not isinstance(pattern, str):  # a ball
            *place, radius = np.array(pattern) * character.surface.size
            chosen |= np.linalg.norm(character.surface.vertices - place, axis=1) < radius
        elif pattern == "parts":
            part = np.zeros(len(chosen), np.int64)
            part[character.surface.triangles] = character.surface.components()[:, None]
            chosen |= part != np.bincount(part).argmax()
        elif pattern == "*":
            chosen[:] = True
        elif pattern.startswith(("material:", "mesh:")):
            for label, own in character.labels.items():
                chosen[own] |= fnmatchcase(label, pattern)
        elif len(skinned) == 1:
            rig = skinned[0]
            lead = rig.joints[np.arange(len(chosen)), rig.weights.argmax(axis=1)]
            fits = np.array([fnmatchcase(name, pattern) for name in rig.skeleton.names])
            chosen |= fits[lead]
    return chosen


def inverted_tets(model: Any, poses: NDArray[np.float64]) -> list[int]:
    """Return how many tets have no volume at each pose."""
    corners, found = model.mesh.tets, []
    for pose in poses:
        a, b, c, d = np.moveaxis(model.tet_rig(pose)[corners], 1, 0)
        found.append(int((np.einsum("ij,ij->i", b - a, np.cross(c - a, d - a)) <= 0).sum()))
    return found


def examine(
    character: Character,
    said: Labels,
    tets: int,
    *,
    anatomy: Any = "auto",
    picture: Path | None = None,
) -> dict[str, Any]:
    """Build once, bake every clip, and measure; draw the anatomy and the liveliest clip."""
    began = perf_counter()
    size = character.surface.size
    found = None
    if anatomy == "auto":
        anatomy = found = anatomy_of(character)
    known = perf_counter()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", SuppleWarning)
        options = model_options(character, anatomy=anatomy, tets=tets)
        model = build(character, **options)
    record: dict[str, Any] = {
        "size": size,
        "tets": len(model.mesh.tets),
        "anatomy_s": known - began,
        "build_s": perf_counter() - began,
        "warnings": [str(each.message) for each in heard],
        "inverted": sum(inverted_tets(model, character.sampled_poses(POSE_RATE))),
    }
    thickness = InscribedBalls(character.surface).skin_thickness(character.surface)
    if found is not None:
        thickness = found.thickness
    area = character.surface.vertex_areas()
    hard, trunk = labelled(character, said["hard"]), labelled(character, said["trunk"])
    hard &= ~labelled(character, said.get("ears", []))
    soft = {name: labelled(character, each) for name, each in said.get("soft", {}).items()}
    loads = {"scaled_loads": anatomy is not None}
    peak, clips = np.zeros(len(thickness)), []
    liveliest: tuple[float, Any] = (-1.0, None)
    for name in [*character.motions] or ["wiggle"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            clock = perf_counter()
            taken = bake(character, name, model, simulation=loads)
            clock = perf_counter() - clock
        away = np.stack(
            [
                np.linalg.norm(frame - taken.rig_frame(k), axis=1)
                for k, frame in enumerate(taken.frames)
            ]
        )
        peak = np.maximum(peak, away.max(axis=0))
        liveliest = max(liveliest, (float(np.square(away).mean()), taken), key=lambda each: each[0])
        lasting = 100 * np.quantile(away, 0.95, axis=0) / size
        clips.append(
            {
                "clip": name,
                "steps": taken.report["steps"],
                "limits": taken.report["limits"],
                "stiffness": taken.report["stiffness"],
                "bake_s": clock,
                "hard": quantile(lasting[hard], area[hard], 0.95),
                "trunk": quantile(lasting[trunk], area[trunk], 0.95),
                "skin": quantile(lasting, area, 0.95),
            }
        )
    relative = peak / (2 * thickness)
    record["clips"] = clips
    record["peak"] = quantile(relative, area, 0.99)
    record["soft_cm"] = {
        name: 100 * quantile(peak[own], area[own], 0.95) for name, own in soft.items()
    }
    record["hard_cm"] = 100 * quantile(peak[hard], area[hard], 0.95)
    if found is not None and picture is not None:
        draw(picture, found, liveliest[1])
    if found is not None:
        roles = np.array(found.role)
        record["peaks_by_role"] = {
            str(role): [
                float(area[roles == role].sum() / area.sum()),
                quantile(relative[roles == role], area[roles == role], 0.99),
            ]
            for role in np.unique(roles)
        }
    return record


def draw(path: Path, anatomy: Anatomy, baked: Any) -> None:
    """Draw roles and a filmstrip beside each other, small enough for a page."""
    with TemporaryDirectory() as folder:
        sheet, strip = Path(folder) / "sheet.png", Path(folder) / "strip.png"
        write_anatomy_sheet(anatomy, sheet)
        filmstrip(strip, baked, columns=4, chart=False)
        shown = [Image.open(each).convert("RGB") for each in (sheet, strip)]
    fits = [each.resize((round(each.width * HIGH / each.height), HIGH)) for each in shown]
    whole = Image.new("RGB", (sum(each.width for each in fits), HIGH), "white")
    at = 0
    for each in fits:
        whole.paste(each, (at, 0))
        at += each.width
    whole.quantize(96).save(path, optimize=True)


def quantile(values: NDArray[np.float64], area: NDArray[np.float64], part: float) -> float:
    """Value that `part` of the skin's area stays below; 0 of no skin."""
    order = np.argsort(values)
    sums = np.cumsum(area[order])
    if not (len(sums) and sums[-1] > 0):
        return 0.0
    return float(values[order][min(np.searchsorted(sums, part * sums[-1]), len(order) - 1)])


def summary(record: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> dict[str, float]:
    """Return what the bounds are on."""
    clips = record["clips"]
    steps = sum(clip["steps"] for clip in clips)
    limits = sum(max(clip["limits"].values(), default=0) for clip in clips)
    found = {
        "inverted": record["inverted"],
        "limits": 100 * limits / max(steps, 1),
        "stiffened": sum(clip["stiffness"] > 1 for clip in clips),
        "hard": max(clip["hard"] for clip in clips),
        "peak": record["peak"],
        "trunk": max(clip["trunk"] for clip in clips),
    }
    if before is not None and before["clips"][0]["trunk"]:
        ratios = [
            now["trunk"] / was["trunk"]
            for now, was in zip(clips, before["clips"], strict=True)
            if was["trunk"] > 0
        ]
        found["kept"] = float(np.median(ratios))
        found["kept_first"] = ratios[0]
    return found


def records(folder: Path, tets: int, kind: str) -> Iterator[tuple[str, dict]]:
    """Yield what was examined, by character."""
    for name in labels():
        file = folder / f"{_stem(name)}.{tets}.{kind}.json"
        if file.exists():
            yield name, json.loads(file.read_text(encoding="utf-8"))


def _stem(name: str) -> str:
    return name.replace("/", "_").rsplit(".", 1)[0] + ("_usdz" if name.endswith("usdz") else "")


def table(folder: Path, tets: int, kind: str = "auto") -> str:
    """Return the records as lines of text, a * where a bound does not hold."""
    was = dict(records(folder, RESOLUTIONS[0], "none"))
    lines = [
        f"{'character':34s} {'inv':>5s} {'lim%':>7s} {'stiff':>6s} {'hard%':>7s} {'pk/2R':>6s}"
        f" {'trunk%':>7s} {'kept':>6s} {'first':>6s} {'anat s':>6s} {'build':>5s} {'bake':>5s}"
    ]
    for name, record in records(folder, tets, kind):
        if "error" in record:
            lines.append(f"{_stem(name)[-34:]:34s} {record['error'][:80]}")
            continue
        own = summary(record, was.get(name))
        marks = {
            "inverted": own["inverted"] > 0,
            "limits": own["limits"] >= LIMITS_BOUND,
            "stiffened": own["stiffened"] > 0,
            "hard": own["hard"] > HARD_BOUND,
            "peak": own["peak"] > PEAK_BOUND,
            "kept": own.get("kept", 1) < TRUNK_BOUND,
        }
        star = {key: "*" if mark else " " for key, mark in marks.items()}
        baked = sum(clip["bake_s"] for clip in record["clips"])
        lines.append(
            f"{_stem(name)[-34:]:34s} {own['inverted']:4d}{star['inverted']}"
            f" {own['limits']:6.2f}{star['limits']}"
            f" {own['stiffened']:2d}/{len(record['clips']):2d}{star['stiffened']}"
            f" {own['hard']:6.2f}{star['hard']} {own['peak']:5.2f}{star['peak']}"
            f" {own['trunk']:7.2f} {own.get('kept', np.nan):5.2f}{star['kept']}"
            f" {own.get('kept_first', np.nan):6.2f}"
            f" {record['anatomy_s']:6.1f} {record['build_s']:5.1f} {baked:5.1f}"
            f"  {' '.join(f'{k} {v:.2f}cm' for k, v in record['soft_cm'].items())}"
        )
    return "\n".join(lines)


def markdown(folder: Path, tets: int) -> str:
    """Return the records as a table of a page; bold where a bound does not hold."""
    was = dict(records(folder, RESOLUTIONS[0], "none"))
    lines = [
        "| character | clips | inverted tets | limits % of steps | hard parts % | peak / 2R "
        "| trunk % (before) | kept | build s | notes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, record in records(folder, tets, "auto"):
        if "error" in record:
            lines.append(f"| {Path(name).name} | {record['error']} |")
            continue
        own = summary(record, was.get(name))
        old = summary(was[name])["trunk"] if "clips" in was.get(name, {}) else float("nan")
        cells = [
            Path(name).name,
            str(len(record["clips"])),
            _bold(own["inverted"], "d", own["inverted"] > 0),
            _bold(own["limits"], ".2f", own["limits"] >= LIMITS_BOUND),
            _bold(own["hard"], ".2f", own["hard"] > HARD_BOUND),
            _bold(own["peak"], ".2f", own["peak"] > PEAK_BOUND),
            f"{own['trunk']:.2f}" + (f" ({old:.2f})" if old == old else ""),
            _bold(own["kept"], ".2f", own["kept"] < TRUNK_BOUND) if "kept" in own else "",
            f"{record['build_s']:.0f}",
            ", ".join(f"{part} {moved:.1f} cm" for part, moved in record["soft_cm"].items()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _bold(value: float, form: str, wrong: bool) -> str:
    text = format(value, form)
    return f"**{text}**" if wrong else text


def write_tables(page: Path, folder: Path, resolutions: Sequence[int]) -> None:
    """Put tables of some resolutions into a page, between marks, and pictures beside it."""
    text = page.read_text(encoding="utf-8")
    for tets in resolutions:
        start, end = f"<!-- table {tets} -->", f"<!-- end {tets} -->"
        before, rest = text.split(start)
        text = f"{before}{start}\n{markdown(folder, tets)}\n{end}{rest.split(end)[1]}"
    page.write_text(text, encoding="utf-8")
    beside = page.with_suffix("")
    beside.mkdir(exist_ok=True)
    for name in labels():
        picture = folder / f"{_stem(name)}.png"
        if picture.exists():
            (beside / picture.name).write_bytes(picture.read_bytes())


def main(arguments: list[str]) -> None:
    """Examine all that has no record yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".exam"))
    parser.add_argument("--only", default="*", help="characters to examine, a pattern")
    parser.add_argument("--tets", type=int, nargs="*", default=[*RESOLUTIONS])
    parser.add_argument("--before", action="store_true", help="without anatomy, to compare with")
    parser.add_argument("--table", action="store_true", help="print what is there and stop")
    parser.add_argument("--files", action="store_true", help="print the characters' files and stop")
    parser.add_argument("--page", type=Path, help="put tables and pictures into this page")
    told = parser.parse_args(arguments)
    if told.files:
        print(*(ASSETS / name for name in labels() if fnmatchcase(name, f"*{told.only}*")))
        return
    kind = "none" if told.before else "auto"
    told.folder.mkdir(parents=True, exist_ok=True)
    for tets in told.tets if not told.table else ():
        for name, said in labels().items():
            file = told.folder / f"{_stem(name)}.{tets}.{kind}.json"
            if file.exists() or not fnmatchcase(name, f"*{told.only}*"):
                continue
            began = perf_counter()
            try:
                character = load(ASSETS / name)
                drawn = tets == RESOLUTIONS[0] and not told.before
                record = examine(
                    character,
                    said,
                    tets,
                    anatomy=None if told.before else "auto",
                    picture=told.folder / f"{_stem(name)}.png" if drawn else None,
                )
            except Exception as error:  # the rest goes on
                record = {"error": f"{type(error).__name__}: {error}"}
            file.write_text(json.dumps(record, indent=1), encoding="utf-8")
            print(f"{name} at {tets:,} tets: {perf_counter() - began:.0f} s", flush=True)
    for tets in told.tets:
        print(f"\n{tets:,} tets\n{table(told.folder, tets, kind)}")
    if told.page is not None:
        write_tables(told.page, told.folder, told.tets)


if __name__ == "__main__":
    main(sys.argv[1:])
