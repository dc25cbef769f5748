"""Compare the motion of baked glTF files with that of their originals, at 120 Hz.

``python tests/formats/exam_motion.py ORIGINAL BAKED [ORIGINAL BAKED …]`` compares pairs of files.
``python tests/formats/exam_motion.py --all FOLDER`` first bakes every animated character among the
assets into the folder, one after another; outputs that exist are kept, so it can be resumed.

A baked file must have the same clips, the same bytes in the channels of all joints, and move only
vertices that its new morph targets move. "rig" compares all vertices, with the new targets left
out; "hard" those vertices that no new target moves, with all targets. Both files are played by
`helpers.gltf_evaluator`, which shares no code with Supple. Prints a table; ``--json FILE`` writes
the figures (``--all`` writes FOLDER/motion.json by itself). The exit code is 1 where a file fails.
Lengths are percentages of the size: the diagonal of the bounding box at rest, as `Surface.size` is.
"jerk" is the largest second difference of the flesh's offsets over its median in time, "own" that
of the original's positions; "seam" is how far the offsets at the clip's end are from those at its
beginning.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.gltf_evaluator import Channel, Evaluator, Floats
from helpers.gltf_validation import ERROR, WARNING, issues

Mask = NDArray[np.bool_]

TESTS = Path(__file__).resolve().parents[1]
ASSETS = Path(os.environ.get("SUPPLE_ASSETS") or TESTS.parents[1] / "shared" / "assets")
PATTERNS = ("gltf_characters/*.glb", "untuned/*.glb", "rig_space/*.glb", "vrm/*.vrm")
RATE = 120.0
#: Frames that are played at once.
BLOCK = 64
#: Second differences are taken over ±1/30 s: over one frame they would show each key of a morph
#: weight, where linear pieces meet, rather than jumps.
SPAN = 4
#: Where all vertices have deltas, those count as hard whose deltas, each times the largest weight
#: of its target, sum up to less than this part of the size.
SMALL = 1e-3
#: Bounds in % of the size: of hard vertices, and of those whose deltas are small only.
HARD_BOUND, SMALL_BOUND = 1e-4, 0.2
#: Least median of second differences that others are compared with, as a part of the size.
LEAST_MEDIAN = 1e-5
#: Name that a second clip gets where the first is kept.
COPY = re.compile(r"[ ._]?\(?\d+\)?$")


def judge(original: Path, baked: Path) -> dict[str, Any]:
    """Compare two files; "failures" of the result lists in words what differs and must not."""
    old, new = Evaluator(original), Evaluator(baked)
    rest = old.positions(None, 0.0)[0]
    record: dict[str, Any] = {
        "file": original.name,
        "size": float(np.linalg.norm(np.ptp(rest, axis=0))),
        "vertices": old.vertex_count,
        "clips_same": new.clips == old.clips,
        "clips_added": max(0, len(new.clips) - len(old.clips)),
        "clips_of_baked": new.clips,
        "clips": [],
        **validated(original, baked),
    }
    if names(old) != names(new)[: len(old.nodes)]:
        record["failures"] = ["nodes differ"]
        return record
    if [(p.node, p.primitive, p.stop) for p in old.parts] != [
        (p.node, p.primitive, p.stop) for p in new.parts
    ]:
        record["failures"] = ["meshes differ, or have other numbers of vertices"]
        return record
    hard, rule, kept = hard_vertices(old, new, record["size"])
    record |= {"hard": int(hard.sum()), "hard_rule": rule, "targets_kept": kept}
    for clip, other in clip_pairs(old, new):
        row: dict[str, Any] = {"clip": old.clips[clip], "baked_clip": None}
        if other is not None:
            row |= {"baked_clip": new.clips[other], **channels_compared(old, new, clip, other)}
            row |= played(old, new, clip, other, hard, record["size"])
        record["clips"].append(row)
    record["failures"] = failures(record)
    return record


def names(file: Evaluator) -> list[Any]:
    """Return the nodes' names."""
    return [node.get("name") for node in file.nodes]


def clip_pairs(old: Evaluator, new: Evaluator) -> Iterator[tuple[int, int | None]]:
    """Clips of the original with those of the same name, then with added copies of them."""
    used = set()
    for k, name in enumerate(old.clips):
        found = k if new.clips[k : k + 1] == [name] else None
        if found is None and name in new.clips:
            found = new.clips.index(name)
        used.add(found)
        yield k, found
    for k, name in enumerate(new.clips):
        base = COPY.sub("", name)
        if k not in used and base in old.clips:
            yield old.clips.index(base), k


def hard_vertices(old: Evaluator, new: Evaluator, size: float) -> tuple[Mask, str, bool]:
    """Vertices that no new morph target moves, the rule, and whether old targets are kept."""
    reach, moved, kept = np.zeros(old.vertex_count), np.zeros(old.vertex_count, bool), True
    peaks = largest_weights(new)
    for before, after in zip(old.parts, new.parts, strict=True):
        first, second = old.targets(before), new.targets(after)
        same = (np.array_equal(a, b) for a, b in zip(first, second, strict=False))
        kept &= len(first) <= len(second) and all(same)
        scale = new.rest_scale(after)
        for number, delta in enumerate(second[len(first) :], len(first)):
            peak = peaks[after.node][number] if number < len(peaks.get(after.node, ())) else 1.0
            far = np.linalg.norm(delta, axis=1)
            reach[before.start : before.stop] += far * peak * scale
            moved[before.start : before.stop] |= far > 0
    if moved.all():
        return reach < SMALL * size, f"deltas below {SMALL:.1%} of the size", bool(kept)
    return ~moved, "no deltas", bool(kept)


def largest_weights(file: Evaluator) -> dict[int, Floats]:
    """Largest absolute morph weights by node, among the keys of all clips."""
    peaks: dict[int, Floats] = {}
    for clip in range(len(file.clips)):
        for channel in file.channels(clip):
            if channel.path == "weights":
                keys = np.frombuffer(channel.input, "<f4").astype(np.float64)
                values = np.abs(file.pose(clip, keys)[channel.node, "weights"]).max(axis=0)
                peaks[channel.node] = np.maximum(peaks.get(channel.node, 0.0), values)
    return peaks


def channels_compared(old: Evaluator, new: Evaluator, clip: int, other: int) -> dict[str, Any]:
    """Compare the bytes of channels: of joints, and of morph weights that the original has.

    Weights of old and new targets share a channel, so its bytes change where targets are added:
    of it the largest difference of the old targets' weights counts.
    """
    found: dict[tuple[int, str], Channel] = {(c.node, c.path): c for c in new.channels(other)}
    first = old.channels(clip)
    changed, differences = [], []
    for channel in first:
        twin = found.get((channel.node, channel.path))
        if twin == channel:
            continue
        what = f"{old.nodes[channel.node].get('name', channel.node)}.{channel.path}"
        if twin is not None and channel.path == "weights":
            keys = [np.frombuffer(c.input, "<f4").astype(np.float64) for c in (channel, twin)]
            times = np.unique(np.concatenate([grid(old.duration(clip)), *keys]))
            a, b = (
                f.pose(k, times)[channel.node, "weights"] for f, k in ((old, clip), (new, other))
            )
            differences.append(float(np.abs(a - b[:, : a.shape[1]]).max()))
        else:
            changed.append(f"{what} {'is lost' if twin is None else 'differs'}")
    own = {(c.node, c.path) for c in first}
    added = sorted({path for node, path in found if (node, path) not in own})
    return {
        "channels": len(first),
        "changed": changed,
        "weights_difference": max(differences, default=0.0),
        "added_paths": added,
        "seconds": [old.duration(clip), new.duration(other)],
    }


def grid(seconds: float) -> Floats:
    """Times of the frames from 0 to the last that is within the clip."""
    return np.arange(int(np.floor(seconds * RATE * (1 + 1e-9))) + 1) / RATE


def played(
    old: Evaluator, new: Evaluator, clip: int, other: int, hard: Mask, size: float
) -> dict[str, Any]:
    """Distances between the vertices of two files over a clip, and jumps of the flesh."""
    seconds = max(old.duration(clip), new.duration(other))
    times = grid(seconds)
    most_hard, most, most_rig, bends, own_bends = [], [], [], [], []
    counts = {part.node: len(old.targets(part)) for part in old.parts}
    before = np.empty((0, 2, old.vertex_count, 3))
    first = last = np.zeros(0)
    for start in [*range(0, len(times), BLOCK), None]:
        at = np.array([seconds]) if start is None else times[start : start + BLOCK]
        a, b = old.positions(clip, at), new.positions(other, at)
        offset = b - a
        far = np.linalg.norm(offset, axis=2)
        rig = new.positions(other, at, targets=counts) - a
        most_rig.append(np.linalg.norm(rig, axis=2).max(axis=1))
        most.append(far.max(axis=1))
        most_hard.append(far[:, hard].max(axis=1, initial=0))
        if start is None:
            last = offset[-1]
        else:
            first = offset[0] if start == 0 else first
            before = np.concatenate([before, np.stack([offset, a], axis=1)])
            second = before[2 * SPAN :] - 2 * before[SPAN : len(before) - SPAN]
            second += before[: max(0, len(before) - 2 * SPAN)]
            largest = np.linalg.norm(second, axis=3).max(axis=2, initial=0)
            bends.append(largest[:, 0])
            own_bends.append(largest[:, 1])
            before = before[-2 * SPAN :]
    rig_far, hard_far, all_far = (
        np.concatenate(parts) / size * 100 for parts in (most_rig, most_hard, most)
    )
    return {
        "finite": bool(np.isfinite(all_far).all()),
        "rig_max": float(rig_far.max()),
        "rig_mean": float(rig_far.mean()),
        "hard_max": float(hard_far.max()) if hard.any() else None,
        "hard_mean": float(hard_far.mean()) if hard.any() else None,
        "flesh_max": float(all_far.max()),
        "flesh_mean": float(all_far.mean()),
        "seam": float(np.linalg.norm(last - first, axis=1).max() / size * 100),
        "jerk": jerk(np.concatenate(bends), size),
        "original_jerk": jerk(np.concatenate(own_bends), size),
    }


def jerk(bends: Floats, size: float) -> dict[str, float]:
    """Largest second difference beside the median over time, in % of the size, and its time."""
    if len(bends) == 0:
        return {"ratio": 0.0, "largest": 0.0, "time": 0.0}
    median = max(float(np.median(bends)), LEAST_MEDIAN * size)
    at = int(bends.argmax())
    largest = float(bends[at])
    return {
        "ratio": largest / median,
        "largest": largest / size * 100,
        "time": (at + SPAN) / RATE,
    }


def validated(original: Path, baked: Path) -> dict[str, Any]:
    """Codes that the Khronos validator finds in the second file more often than in the first."""
    try:
        found = {
            name: issues(original, baked, least=least)
            for name, least in (("errors", ERROR), ("warnings", WARNING), ("hints", 3))
        }
    except pytest.skip.Exception as reason:
        return {"validator": str(reason), "new_issues": {}}
    new = {name: after - before for name, (before, after) in found.items()}
    new["hints"] -= new["warnings"]
    new["warnings"] -= new["errors"]
    return {"validator": "ran", "new_issues": {k: dict(v) for k, v in new.items() if v}}


def failures(record: dict[str, Any]) -> list[str]:
    """List what must not be, in words."""
    found = []
    if not record["clips_same"]:
        found.append(f"clips differ: {record['clips_added']} added")
    if not record["targets_kept"]:
        found.append("morph targets of the original differ")
    found += [
        f"validator: new {name}" for name in ("errors", "warnings") if name in record["new_issues"]
    ]
    bound = HARD_BOUND if record["hard_rule"] == "no deltas" else SMALL_BOUND
    for row in record["clips"]:
        if row["baked_clip"] is None:
            found.append(f"{row['clip']}: is lost")
            continue
        if row["changed"]:
            found.append(f"{row['baked_clip']}: {len(row['changed'])} channels differ")
        if row["weights_difference"] > 1e-6:
            found.append(f"{row['baked_clip']}: weights of old targets differ")
        if row["seconds"][0] != row["seconds"][1]:
            found.append(f"{row['baked_clip']}: lasts {row['seconds'][1]:g} s")
        if not row["finite"]:
            found.append(f"{row['baked_clip']}: positions are not finite")
        if row["rig_max"] > HARD_BOUND:
            found.append(f"{row['baked_clip']}: the rig is off by {row['rig_max']:.3g} %")
        if (row["hard_max"] or 0) > bound:
            found.append(f"{row['baked_clip']}: hard vertices are off by {row['hard_max']:.3g} %")
    return found


def table(records: list[dict[str, Any]]) -> str:
    """Return all records as lines of text."""
    head = f"{'file':22} {'clip':28} {'size':>8} {'s':>6} {'rig %':>8} {'mean %':>8}"
    head += f" {'hard':>5} {'max %':>8} {'mean %':>8} {'flesh %':>7} {'seam %':>7} {'jerk':>6}"
    head += f" {'own':>6} {'same bytes':>10}"
    lines = [head]
    for record in records:
        for row in record.get("clips", []):
            start = f"{record['file'][:22]:22} {(row['baked_clip'] or row['clip'])[-28:]:28}"
            if row["baked_clip"] is None:
                lines.append(f"{start} is lost")
                continue
            same = row["channels"] - len(row["changed"])
            hard = [row[key] for key in ("hard_max", "hard_mean")]
            lines.append(
                f"{start} {record['size']:8.3f} {row['seconds'][1]:6.2f} {row['rig_max']:8.1e}"
                f" {row['rig_mean']:8.1e} {record['hard']:5d}"
                + "".join(f" {'-':>8}" if value is None else f" {value:8.1e}" for value in hard)
                + f" {row['flesh_max']:7.3f} {row['seam']:7.3f} {row['jerk']['ratio']:6.1f}"
                f" {row['original_jerk']['ratio']:6.1f} {same:6d}/{row['channels']}"
            )
        about = f"{record['file']}: " + ("; ".join(record["failures"]) or "passes")
        if record.get("hard_rule", "no deltas") != "no deltas":
            about += f" (no vertex is without deltas: hard are those with {record['hard_rule']})"
        new = record.get("new_issues", {})
        about += "".join(f"; new {name}: {', '.join(new[name])}" for name in new)
        lines.append(f"  -> {about}")
    return "\n".join(lines)


def animated_characters() -> list[Path]:
    """Files among the assets that have clips and meshes."""
    files = [file for pattern in PATTERNS for file in sorted(ASSETS.glob(pattern))]
    return [f for f in files if (e := Evaluator(f)).clips and e.vertex_count]


def bake(file: Path, output: Path, tets: int | None) -> str | None:
    """Run the command on all clips, with the sources of this checkout; return its errors."""
    paths = [str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "supple.cli.main", "bake", str(file), "--all", "--quiet"]
    command += [] if tets is None else ["--tets", str(tets)]
    done = subprocess.run(
        [*command, "-o", str(output)], capture_output=True, text=True, env=environment
    )
    return done.stderr.strip() if done.returncode else None


def baked_pairs(folder: Path, only: str, tets: int | None) -> Iterator[tuple[Path, Path | str]]:
    """Originals with baked files, or with what hinders the bake."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in animated_characters():
        if not fnmatchcase(file.name, f"*{only}*"):
            continue
        output, start = folder / file.name, perf_counter()
        error = None if output.exists() else bake(file, output, tets)
        print(f"{file.name}: baked in {perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        yield file, error or output


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="pairs of ORIGINAL and BAKED")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="bake all characters into it")
    parser.add_argument("--only", default="", help="part of the names of characters for --all")
    parser.add_argument("--tets", type=int, help="tets of each bake, by default its own number")
    parser.add_argument("--json", type=Path, help="file for the figures")
    told = parser.parse_args()
    if bool(told.all) == bool(told.files) or len(told.files) % 2:
        parser.error("give pairs of files, or --all FOLDER")
    pairs: Iterator[tuple[Path, Path | str]] = (
        baked_pairs(told.all, told.only, told.tets)
        if told.all
        else zip(told.files[::2], told.files[1::2], strict=True)
    )
    output, records = told.json or (told.all and told.all / "motion.json"), []
    for original, baked in pairs:
        if isinstance(baked, str):
            records.append({"file": original.name, "failures": [f"cannot be baked: {baked}"]})
        else:
            records.append(judge(original, baked))
        if output:
            output.write_text(json.dumps(records, indent=1), encoding="utf-8")
    print(table(records))
    return int(any(record["failures"] for record in records))


if __name__ == "__main__":
    sys.exit(main())
