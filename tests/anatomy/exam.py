"""Examine characters of the assets: bake every clip with defaults, and compare with the truth.

``make exam`` writes one record for each character, and goes on where it stopped;
``python tests/anatomy/exam.py --table`` prints what the records say. Every clip is baked live and
in full. The full simulation, with the accuracy of quality auto, is the truth; of the liveliest clip
it is compared with final quality, too. Frames of the truth are kept, so that ``--live`` measures
live bakes again within minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
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
from supple.engines.common.accuracy import Accuracy
from supple.errors import SolverError, SuppleWarning
from supple.playback.bake_plan import bake_plan
from supple.playback.baking import BakeRequest, bake
from supple.playback.character_models import prepared_model
from supple.playback.character_sources import source_of
from supple.playback.final_take import displacement_change
from supple.playback.flesh_motion import FleshMotion
from supple.playback.motion_choice import liveliness
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character, wiggle
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.skinning import skinned_rigs

Labels = Mapping[str, Any]
Mask = NDArray[np.bool_]

LABELS = Path(__file__).with_name("labels.json")
ASSETS = Path(__file__).resolve().parents[3] / "shared" / "assets"
#: Poses a second at which no tet may be inverted.
POSE_RATE = 12.0
#: Seconds for which the last pose of a clip is held, and over whose end the offset is a mean.
HELD, LAST = 2.0, 0.25
#: Seconds of the longest clip that is simulated in full.
LONGEST = 15.0
#: Newton iterations a step of the truth of clips for which quality auto takes live.
EXAMINED_WORK = 100.0
#: Pixels that a picture of a page is high.
HIGH = 420
#: Bounds: hard parts in % of the size, peaks relative to the thickness, limits in % of steps,
#: offsets that persist in % of the size, and distances from the truth.
HARD_BOUND, PEAK_BOUND, LIMITS_BOUND, OFFSET_BOUND = 0.3, 0.25, 1.0, 1.0
DISTANCE_BOUND, BAD = 0.25, 0.35


def labels() -> dict[str, Labels]:
    """Return labels by character, a path below the assets."""
    every = json.loads(LABELS.read_text(encoding="utf-8"))
    return {name: labelling for name, labelling in every.items() if name != "about"}


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
            for label, vertices in character.labels.items():
                chosen[vertices] |= fnmatchcase(label, pattern)
        elif len(skinned) == 1:
            rig = skinned[0]
            lead = rig.joints[np.arange(len(chosen)), rig.weights.argmax(axis=1)]
            fits = np.array([fnmatchcase(name, pattern) for name in rig.skeleton.names])
            chosen |= fits[lead]
    return chosen


def inverted_tets(model: Any, poses: NDArray[np.float64]) -> int:
    """Return how many tets have no volume, summed over poses."""
    corners, count = model.mesh.tets, 0
    for pose in poses:
        a, b, c, d = np.moveaxis(model.tet_rig(pose)[corners], 1, 0)
        count += int((np.einsum("ij,ij->i", b - a, np.cross(c - a, d - a)) <= 0).sum())
    return count


def clips_of(character: Character) -> list[Motion]:
    """Return the motions of a character; the wiggle of one without."""
    return [*character.motions.values()] or [wiggle(character)]


class Skin:
    """Labelled skin of a character, its areas and thickness."""

    def __init__(self, character: Character, labelling: Labels, anatomy: Anatomy | None) -> None:
        self.size = character.surface.size
        self.area = character.surface.vertex_areas()
        if anatomy is None:
            balls = InscribedBalls(character.surface)
            self.thickness = balls.skin_thickness(character.surface)
        else:
            self.thickness = anatomy.thickness
        self.hard = labelled(character, labelling["hard"])
        self.hard &= ~labelled(character, labelling.get("ears", []))
        self.trunk = labelled(character, labelling["trunk"])

    def figures(self, baked: BakedMotion) -> dict[str, float]:
        """Return displacements of hard parts and of the trunk, and the peak."""
        away = np.stack(
            [
                np.linalg.norm(frame - baked.rig_frame(k), axis=1)
                for k, frame in enumerate(baked.frames)
            ]
        )
        lasting = 100 * np.quantile(away, 0.95, axis=0) / self.size
        peak = away.max(axis=0)
        return {
            "hard": quantile(lasting[self.hard], self.area[self.hard], 0.95),
            "trunk": quantile(lasting[self.trunk], self.area[self.trunk], 0.95),
            "peak": 100 * float(peak.max()) / self.size,
            "relative": quantile(peak / (2 * self.thickness), self.area, 0.99),
        }


def quantile(values: NDArray[np.float64], area: NDArray[np.float64], part: float) -> float:
    """Value that `part` of the skin's area stays below; 0 of no skin."""
    order = np.argsort(values)
    sums = np.cumsum(area[order])
    if not (len(sums) and sums[-1] > 0):
        return 0.0
    return float(values[order][min(np.searchsorted(sums, part * sums[-1]), len(order) - 1)])


@contextmanager
def messages() -> Iterator[list[str]]:
    """Collect texts of warnings."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SuppleWarning)
        yield texts
    texts += dict.fromkeys(str(each.message) for each in caught)


def live_figures(
    character: Character, clip: Motion, skin: Skin, **options: Any
) -> tuple[dict[str, Any], BakedMotion]:
    """Bake a clip live; return its figures and the bake."""
    began = perf_counter()
    with messages() as texts:
        baked = bake(character, clip, quality="live", progress=False, **options)
    report = baked.report
    figures = skin.figures(baked) | {
        "seconds": perf_counter() - began,
        "steps": report["steps"],
        "step_ms": report["step_ms"],
        "limits": report["limits"],
        "stiffness": report["stiffness"],
        "hard_share": report.get("hard", 0.0),
        "warnings": texts,
    }
    return figures, baked


def persisting(character: Character, clip: Motion, **options: Any) -> dict[str, float]:
    """Return the mean offset in % of the size long after a clip, beyond the sag of the truth."""
    times = clip.times[-1] + np.arange(1, 1 + round(HELD * 30)) / 30
    count = len(times)
    held = Motion(
        np.append(clip.times, times),
        np.concatenate([clip.poses, np.repeat(clip.poses[-1:], count, axis=0)]),
        np.concatenate([clip.roots, np.repeat(clip.roots[-1:], count, axis=0)]),
        clip.name,
        clip.cuts,
    )
    offset = _last_offset(bake(character, held, quality="live", progress=False, **options))
    figures = {"mean": _mean_length(offset, character), "sag": 0.0}
    if figures["mean"] > OFFSET_BOUND:
        start = float(clip.times[-1])
        full = bake(character, held, quality="final", progress=False, keep=False, start=start)
        sag = _last_offset(full)
        figures["sag"] = _mean_length(sag, character)
        figures["mean"] = _mean_length(offset - sag, character)
    return figures


def _last_offset(baked: BakedMotion) -> NDArray[np.float64]:
    frames = range(baked.n_frames - round(LAST * baked.rate), baked.n_frames)
    return np.mean([baked.frames[k] - baked.rig_frame(k) for k in frames], axis=0)


def _mean_length(offset: NDArray[np.float64], character: Character) -> float:
    return 100 * float(np.linalg.norm(offset, axis=1).mean()) / character.surface.size


def truth(path: Path, clip: Motion, file: Path) -> dict[str, Any]:
    """Simulate a clip in full as quality auto does; keep its frames in a file."""
    request = BakeRequest.of("bake", source_of(path), None, None, None, False, {"quality": "auto"})
    plan = bake_plan(request.source.character, clip, engine=request.live.name)
    chosen = request.decided([plan])
    work = chosen.most_work if chosen.quality == "final" else EXAMINED_WORK
    forced = replace(request, quality="final", reason="examined", most_work=work)
    began, gave_up = perf_counter(), ""
    with messages() as texts:
        try:
            (baked,) = forced.bake([plan], False, None, too_violent)
        except SolverError as error:
            gave_up = str(error)
    spent = perf_counter() - began
    if gave_up:
        with messages() as texts:
            try:
                (baked,) = replace(request, quality="final").bake([plan], False, None)
            except SolverError as error:
                return {"chosen": chosen.quality, "gave_up": str(error), "seconds": spent}
    store(file, baked)
    report = baked.report
    kept = ("change", "converged", "substeps", "limits", "peak_part")
    return {
        "chosen": chosen.quality,
        "reason": chosen.reason,
        "gave_up": gave_up,
        "seconds": spent,
        "warnings": texts,
        **{name: report[name] for name in kept},
    }


def too_violent() -> BakeRequest:
    """Raise an error in place of a live bake of a clip that is too violent."""
    raise SolverError("too violent for the full simulation of quality auto")


def finer_distance(path: Path, clip: Motion, file: Path) -> dict[str, float]:
    """Return the distance of the full simulation of quality auto from final quality."""
    began = perf_counter()
    with messages():
        final = bake(path, clip, quality="final", keep=False, progress=False)
    distance = displacement_change(stored(final.character, file), final)
    return {"distance": distance, "seconds": perf_counter() - began}


def examine(
    path: Path,
    labelling: Labels,
    folder: Path,
    record: dict[str, Any],
    *,
    liveliest: bool = False,
    truth_alone: bool = False,
) -> Iterator[dict[str, Any]]:
    """Build once, bake every clip live and in full, and measure; yield the record as it grows.

    With `liveliest` only the liveliest clip is simulated in full, with `truth_alone` no model is
    built and nothing is baked live.
    """
    stem, character = stem_of(path), source_of(path).character
    clips = clips_of(character)
    if "live" not in record and not truth_alone:
        anatomy = anatomy_of(character) if len(skinned_rigs(character.rig)) <= 1 else None
        own, bakes = examine_live(character, labelling, anatomy)
        record |= own
        for number, baked in enumerate(bakes):
            store(_frames(folder, stem, number, "live"), baked)
        if anatomy is not None:
            shown = max(bakes, key=lambda baked: FleshMotion.of(baked).rms)
            draw(folder / f"{stem}.png", anatomy, shown)
        yield record
    record.setdefault("full", {})
    best = int(np.argmax([liveliness(character, clip) for clip in clips]))
    record["liveliest"] = clips[best].name
    for number, clip in enumerate(clips):
        if liveliest and number != best:
            continue
        file = _frames(folder, stem, number, "full")
        if clip.name not in record["full"] and clip.duration <= LONGEST:
            record["full"][clip.name] = truth(path, clip, file)
            yield record
        if file.exists() and "live" in record:
            record["full"][clip.name] |= distances(character, folder, stem, number)
    file = _frames(folder, stem, best, "full")
    short = clips[best].duration <= LONGEST
    if "finer" not in record and file.exists() and short and not (liveliest or truth_alone):
        record["finer"] = finer_distance(path, clips[best], file)
    yield record


def examine_live(
    character: Character, labelling: Labels, anatomy: Anatomy | None, **building: Any
) -> tuple[dict[str, Any], list[BakedMotion]]:
    """Build a model and bake every clip live; return the record, and the bakes."""
    skin = Skin(character, labelling, anatomy)
    began = perf_counter()
    with messages() as texts:
        prepared = prepared_model(source_of(character), anatomy="auto", keep=False, **building)
    model = prepared.model
    accuracy = Accuracy.of(model.report)
    live: dict[str, Any] = {}
    bakes = []
    record = {
        "tets": len(model.mesh.tets),
        "build_s": perf_counter() - began,
        "build_warnings": texts,
        "accuracy": None if accuracy is None else accuracy.figures(),
        "inverted": inverted_tets(model, character.sampled_poses(POSE_RATE)),
        "live": live,
    }
    for clip in clips_of(character):
        with messages():
            held = persisting(character, clip, model=model)
        figures, baked = live_figures(character, clip, skin, model=model)
        live[clip.name] = figures | {"offset": held}
        bakes.append(baked)
    return record, bakes


def distances(character: Character, folder: Path, stem: str, number: int) -> dict[str, float]:
    """Return the distance of a live bake from the truth, and the ratio of their amplitudes."""
    live, full = (stored(character, _frames(folder, stem, number, k)) for k in ("live", "full"))
    moved = [FleshMotion.of(each).rms for each in (live, full)]
    return {
        "distance": displacement_change(live, full),
        "amplitude": moved[0] / max(moved[1], 1e-300),
        "rms": 100 * moved[1] / character.surface.size,
    }


def store(path: Path, baked: BakedMotion) -> None:
    """Write the frames of a bake, and its motion."""
    motion = baked.motion
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, frames=baked.frames, times=motion.times, poses=motion.poses, roots=motion.roots)


def stored(character: Character, path: Path) -> BakedMotion:
    """Return a bake that `store` wrote."""
    with np.load(path) as arrays:
        motion = Motion(arrays["times"], arrays["poses"], arrays["roots"])
        return BakedMotion(character, motion, arrays["frames"], 30.0)


def _frames(folder: Path, stem: str, number: int, kind: str) -> Path:
    return folder / "frames" / f"{stem}.{number}.{kind}.npz"


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


def stem_of(path: Path) -> str:
    """Return the name of a record: that of the file, with the suffix where it is no .glb."""
    return path.stem if path.suffix == ".glb" else path.name.replace(".", "_")


def summary(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the bounds are on."""
    live = list(record["live"].values())
    full = record.get("full", {})
    far = [each["distance"] for each in full.values() if "distance" in each]
    ratios = [each["amplitude"] for each in full.values() if "amplitude" in each]
    steps = sum(each["steps"] for each in live)
    limits = sum(max(each["limits"].values(), default=0) for each in live)
    return {
        "inverted": record["inverted"],
        "limits": 100 * limits / max(steps, 1),
        "stiffened": sum(each["stiffness"] > 1 for each in live),
        "hard": max(each["hard"] for each in live),
        "relative": max(each["relative"] for each in live),
        "trunk": max(each["trunk"] for each in live),
        "offset": max(each["offset"]["mean"] for each in live),
        "far": far,
        "ratios": ratios,
        "silent": silent(record),
    }


def silent(record: Mapping[str, Any]) -> list[str]:
    """Return the clips that are far from the truth without a warning."""
    built = bool(record["build_warnings"])
    names = []
    for name, figures in record.get("full", {}).items():
        live = record["live"][name]
        if figures.get("distance", 0) > BAD and not live["warnings"] and not built:
            names.append(name)
    return names


def taken(record: Mapping[str, Any], name: str) -> tuple[str, float, float, float]:
    """Return what quality auto takes for a clip, its distance, and seconds of auto and of live."""
    live, full = record["live"][name], record["full"][name]
    live_s = record["build_s"] + live["seconds"]
    if full["chosen"] == "live":
        return "live", full.get("distance", np.nan), live_s, live_s
    if full["gave_up"]:
        return "gave up", full.get("distance", np.nan), full["seconds"] + live_s, live_s
    return "full", full["change"] or 0.0, full["seconds"], live_s


def records(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what was examined, by character; records of the truth alone are left out."""
    for name in labels():
        file = folder / f"{stem_of(Path(name))}.json"
        if file.exists():
            record = json.loads(file.read_text(encoding="utf-8"))
            if "live" in record or "full" not in record:
                yield name, record


def character_table(folder: Path) -> str:
    """Return a row for each character; bold where a bound does not hold."""
    lines = [
        "| character | clips | inverted tets | limits % of steps | hard parts % | peak / 2R "
        "| trunk % | offset % | built within | live: median, most | amplitude | full vs final "
        "| build s |",
        "|" + "---|" * 13,
    ]
    for name, record in records(folder):
        if "live" not in record:
            lines.append(f"| {Path(name).name} | {record.get('error', '')} |")
            continue
        own = summary(record)
        far, ratios = own["far"], own["ratios"]
        accuracy, finer = record["accuracy"], record.get("finer", {}).get("distance")
        built = accuracy["distance"] if accuracy else None
        cells = [
            Path(name).name,
            str(len(record["live"])),
            _bold(own["inverted"], "d", own["inverted"] > 0),
            _bold(own["limits"], ".2f", own["limits"] >= LIMITS_BOUND),
            _bold(own["hard"], ".2f", own["hard"] > HARD_BOUND),
            _bold(own["relative"], ".2f", own["relative"] > PEAK_BOUND),
            f"{own['trunk']:.2f}",
            _bold(own["offset"], ".2f", own["offset"] > OFFSET_BOUND),
            "" if built is None else f"{built:.2f}",
            f"{median(far):.2f}, {_bold(max(far), '.2f', max(far) > DISTANCE_BOUND)}"
            if far
            else "",
            f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "",
            "" if finer is None else _bold(finer, ".3f", finer > 0.1),
            f"{record['build_s']:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def clip_table(folder: Path) -> str:
    """Return a row for each clip."""
    lines = [
        "| clip | peak % | moves % | limits | live from the truth | auto takes | from the truth "
        "| auto s, live s | warned |",
        "|" + "---|" * 9,
    ]
    for name, record in records(folder):
        for clip, full in record.get("full", {}).items():
            live = record["live"][clip]
            choice, distance, auto_s, live_s = taken(record, clip)
            limits = sum(live["limits"].values())
            warned = bool(live["warnings"]) or (choice == "live" and bool(record["build_warnings"]))
            far = full.get("distance", np.nan)
            cells = [
                f"{Path(name).stem}: {clip.split('|')[-1]}",
                f"{live['peak']:.2f}",
                f"{full.get('rms', np.nan):.3f}",
                f"{100 * limits / max(live['steps'], 1):.1f} %" if limits else "",
                _bold(far, ".2f", far > BAD),
                choice,
                _bold(distance, ".2f", distance > BAD),
                f"{'' if np.isnan(auto_s) else f'{auto_s:.0f}'}, {live_s:.0f}",
                "yes" if warned else "",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def totals(folder: Path) -> str:
    """Return the figures of the whole exam as a list."""
    every = [record for _, record in records(folder) if "full" in record]
    rows = [taken(record, name) for record in every for name in record["full"]]
    best = [
        record["full"][record["liveliest"]]["distance"]
        for record in every
        if "distance" in record["full"].get(record.get("liveliest", ""), {})
    ]
    far = [value for record in every for value in summary(record)["far"]]
    finer = [record["finer"]["distance"] for record in every if "finer" in record]
    choices = [row[0] for row in rows]
    lost = [f"{Path(name).stem} {clip}" for name, each in records(folder) for clip in silent(each)]
    offsets = [each["offset"]["mean"] for record in every for each in record["live"].values()]
    lines = [
        f"{len(every)} characters, {len(rows)} clips",
        f"live from the truth, liveliest clips: median {_median(best):.2f}, "
        f"most {max(best, default=np.nan):.2f}; all clips: median {_median(far):.2f}, "
        f"{sum(each > BAD for each in far)} beyond {BAD}",
        f"auto takes the full simulation for {choices.count('full')} clips, "
        f"gives it up for {choices.count('gave up')}",
        f"the median clip, built anew: auto {_seconds([row[2] for row in rows])}, "
        f"live {_seconds([row[3] for row in rows])}",
        f"the full simulation of auto from final quality: most {max(finer, default=np.nan):.3f}",
        f"offsets that persist: most {max(offsets, default=np.nan):.2f} % of the size",
        f"clips beyond {BAD} without a warning: {', '.join(lost) or 'none'}",
    ]
    return "\n".join(f"- {line}." for line in lines)


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return median(known) if known else np.nan


def _seconds(values: Sequence[float]) -> str:
    return "not timed" if np.isnan(values).any() else f"{_median(values):.0f} s"


def _bold(value: float, form: str, wrong: bool) -> str:
    text = "" if value != value else format(value, form)
    return f"**{text}**" if wrong else text


def picture_list(folder: Path) -> str:
    """Return the pictures of the characters as a page shows them."""
    kept = [Path(name) for name in labels() if (folder / f"{stem_of(Path(name))}.png").exists()]
    return "\n\n".join(
        f"![{path.name}: anatomy and filmstrip](characters/{stem_of(path)}.png)" for path in kept
    )


def with_old_rows(old: str, new: str) -> str:
    """Return the rows of two tables; the new ones of characters that both tables have."""
    head, rows = new.splitlines()[:2], new.splitlines()[2:]
    subjects = {_subject(row) for row in rows}
    kept = [row for row in old.splitlines()[2:] if _subject(row) not in subjects]
    order = [Path(name).name for name in labels()] + [Path(name).stem for name in labels()]
    place = {name: number for number, name in enumerate(order)}
    every = sorted([*rows, *kept], key=lambda row: place.get(_subject(row), len(order)))
    return "\n".join([*head, *every])


def _subject(row: str) -> str:
    """Return the character of a row: all of its first cell, or what precedes the clip."""
    return row.split("|")[1].strip().partition(": ")[0]


def write_tables(page: Path, folder: Path) -> None:
    """Put the tables into a page, between marks, and pictures beside it.

    Characters without a record keep the rows that the page has.
    """
    beside = page.with_suffix("")
    beside.mkdir(exist_ok=True)
    for name in labels():
        picture = folder / f"{stem_of(Path(name))}.png"
        if picture.exists():
            (beside / picture.name).write_bytes(picture.read_bytes())
    text = page.read_text(encoding="utf-8")
    tables = {"totals": totals, "characters": character_table, "clips": clip_table}
    tables["pictures"] = picture_list
    for kind, table in tables.items():
        start, end = f"<!-- {kind} -->", f"<!-- end {kind} -->"
        before, rest = text.split(start)
        old, after = rest.split(end)
        made = table(beside if kind == "pictures" else folder)
        if kind in ("characters", "clips"):
            made = with_old_rows(old.strip(), made)
        text = f"{before}{start}\n{made}\n{end}{after}"
    page.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Examine all that has no record yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".exam"))
    parser.add_argument("--only", default="*", help="characters to examine, a pattern")
    parser.add_argument("--part", default="1/1", help="which of how many parts: 1/2")
    parser.add_argument("--live", action="store_true", help="measure live bakes again")
    parser.add_argument(
        "--liveliest", action="store_true", help="simulate only the liveliest clip of each in full"
    )
    parser.add_argument(
        "--truth", action="store_true", help="simulate in full alone, without live bakes"
    )
    parser.add_argument("--table", action="store_true", help="print what is there and stop")
    parser.add_argument("--files", action="store_true", help="print the characters' files and stop")
    parser.add_argument("--page", type=Path, help="put tables and pictures into this page")
    given = parser.parse_args(arguments)
    part, parts = map(int, given.part.split("/"))
    names = [name for name in labels() if fnmatchcase(name, f"*{given.only}*")][part - 1 :: parts]
    if given.files:
        print(*(ASSETS / name for name in names))
        return
    for name in [] if given.table else names:
        file = given.folder / f"{stem_of(Path(name))}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        record: dict[str, Any] = {}
        if file.exists():
            record = json.loads(file.read_text(encoding="utf-8"))
        record.pop("error", None)
        record = record if not given.live else {n: record[n] for n in _TRUTH if n in record}
        began = perf_counter()
        try:
            for grown in examine(
                ASSETS / name,
                labels()[name],
                given.folder,
                record,
                liveliest=given.liveliest,
                truth_alone=given.truth,
            ):
                write_record(file, grown)
        except Exception as error:  # the rest goes on
            write_record(file, record | {"error": f"{type(error).__name__}: {error}"})
        print(f"{name}: {perf_counter() - began:.0f} s", flush=True)
    print(f"{character_table(given.folder)}\n\n{clip_table(given.folder)}\n")
    print(totals(given.folder))
    if given.page is not None:
        write_tables(given.page, given.folder)


#: Entries of a record that do not depend on the reduced model.
_TRUTH = ("full", "finer", "liveliest")


def write_record(file: Path, record: Mapping[str, Any]) -> None:
    """Write a record at once or not at all."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1), encoding="utf-8")
    part.replace(file)


if __name__ == "__main__":
    main(sys.argv[1:])
