"""The layer that a baked motion becomes, planned: meshes, skeletons and time codes of the stage."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.errors import FormatError, SuppleWarning
from supple.formats.clip_match import plays
from supple.formats.usd.originals import file_before, package_record, root_entry
from supple.formats.usd.process import WRITING, read_stage, run_child
from supple.formats.usd.read.usd import UsdSource, staged_character
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.frame_counts import whole_steps

#: Time codes around a baked part of a clip; of longer clips only the keys.
MOST_AROUND = 10_000


def check_layer_target(path: Path, character: Character, motions: Sequence[str] = ()) -> None:
    """Refuse to write over a file that the character's own USD file needs, if it has one.

    A layer over that file would then be a layer over itself.
    """
    if isinstance(character.source, UsdSource):
        with opened_original(path, character.source) as original:
            _check_needed_files(path, original)


@contextmanager
def opened_original(path: Path, source: UsdSource) -> Iterator[Path]:
    """Give the file that a layer is written over; one inside a package is there for the while."""
    if source.without and path.suffix.lower() != ".usdz":
        raise FormatError(
            f"{path.name}: {source.path.name} has the original inside; write a .usdz, or take it "
            "out with supple bake --remove"
        )
    if not source.path.is_file():
        raise FormatError(
            f"{path.name}: {source.path.name}, which it is a layer over, is gone; load it again"
        )
    with file_before(source.path, source.without) as original:
        yield Path(os.path.abspath(original))


def _check_needed_files(path: Path, source: Path) -> None:
    original = Path(os.path.abspath(source))
    request = {"action": "files", "path": str(original)}
    with tempfile.TemporaryDirectory(prefix="supple-usd-") as folder:
        answer = run_child(WRITING, source.name, Path(folder), request, original.stat().st_size)
    for file in [original, *map(Path, answer["files"])]:
        same = os.path.realpath(path) == os.path.realpath(file)
        if same or (path.exists() and file.exists() and path.samefile(file)):
            whose = f"{source.name} needs it" if file != original else "it is what is baked"
            raise FormatError(f"{path.name}: cannot be written over, {whose}; choose another name")


@dataclass
class ClipPlan:
    """A baked motion as the stage plays it.

    Attributes
    ----------
    name
        The motion's.
    rows
        Its frames among those of all motions.
    codes
        Time codes of its frames.
    known
        Time codes of the file's clip that it is, None if it is no clip.
    skeletons
        Path of each skeleton, and of the animation that plays the motion on it, None for none.
    """

    name: str
    rows: slice
    codes: Floats
    known: Floats | None
    skeletons: list[dict[str, Any]]

    @property
    def range(self) -> Floats:
        """First and last time code of the motion, and of its clip."""
        known = self.codes if self.known is None else self.known
        return np.array([min(known[0], self.codes[0]), max(known[-1], self.codes[-1])])

    def request(self) -> dict[str, Any]:
        """Return the fields by which the writing process knows it."""
        return {
            "codes": self.codes,
            "rows": np.array([self.rows.start, self.rows.stop]),
            "skeletons": self.skeletons,
            "animation_name": self.name or "SoftMotion",
        }

    def _gap(self) -> float:
        return float(self.codes[1] - self.codes[0]) if len(self.codes) > 1 else 1.0

    def around(self) -> Floats:
        """Return time codes of the clip before and after the baked part, as dense as in it."""
        if self.known is None:
            return np.zeros(0)
        gap, whole = self._gap(), self.range
        first, last = self.codes[0] - 0.5 * gap, self.codes[-1] + 0.5 * gap
        parts = [self.known]
        if whole[1] - whole[0] <= MOST_AROUND * gap:
            steps = np.arange(1, whole_steps(whole[0], whole[1], 1 / gap) + 1)
            parts += [self.codes[0] - gap * steps, self.codes[-1] + gap * steps]
        codes = np.unique(np.round(np.concatenate(parts), 6))
        inside = (codes >= whole[0]) & (codes <= whole[1])
        return codes[inside & ((codes < first) | (codes > last))]

    def faded(self, weights: NDArray[np.float32]) -> tuple[Floats, NDArray[np.float32]]:
        """Add a weight of zero a frame before and after the keys, where the clip goes on there."""
        known, gap = self.known, self._gap()
        keys, values = self.codes, weights
        nothing = np.zeros((1, weights.shape[1]), np.float32)
        if known is not None and known[0] < keys[0] - 0.5 * gap:
            keys, values = np.r_[keys[0] - gap, keys], np.vstack([nothing, values])
        if known is not None and known[-1] > keys[-1] + 0.5 * gap:
            keys, values = np.r_[keys, keys[-1] + gap], np.vstack([values, nothing])
        return keys, values


class LayerPlan:
    """Meshes of the stage, and the motions that a layer over it plays.

    The stage is read once more: its file, `original`, may have changed since the character was
    loaded.

    Attributes
    ----------
    clips
        A plan for each motion.
    shown
        The one that the stage plays by itself: the only motion, or of several the file's own.
    stage
        The stage, as `read_stage` has it.
    """

    def __init__(self, path: Path, bakes: Sequence[BakedMotion], original: Path) -> None:
        self.character = bakes[0].character
        source = self.character.source
        assert isinstance(source, UsdSource)
        self.source, self.source_path = source, original
        self.notes: list[str] = []
        if path.exists() and path.samefile(self.source_path):
            raise FormatError(f"{path.name}: is the character's own file; choose another name")
        self.stage = stage = read_stage(self.source_path)
        self._check(path, stage)
        _check_needed_files(path, self.source_path)
        self.n_vertices = len(self.character.surface.vertices)
        self.clips = self._clips(bakes, stage)
        first = next(iter(source.time_codes), None)  # that is what the stage plays
        names = [clip.name if clip.known is not None else None for clip in self.clips]
        self.shown = names.index(first) if first in names else 0
        self.meshes = self._meshes()
        self.sublayer = self._sublayer(path)
        self.package = path.suffix.lower() == ".usdz"
        self.work = self.source_path.stat().st_size + sum(baked.frames.nbytes for baked in bakes)

    def _check(self, path: Path, stage: dict[str, Any]) -> None:
        found = [(mesh["path"], len(mesh["points"])) for mesh in stage["meshes"]]
        if found != [(mesh.path, len(mesh.welded)) for mesh in self.source.meshes]:
            raise FormatError(
                f"{path.name}: {self.source.path.name} has other meshes than when it was loaded;"
                f" load it again"
            )
        times = [clip["times"] for clip in stage["clips"]]
        known = list(self.source.time_codes.values())
        if len(times) != len(known) or not all(map(np.array_equal, times, known)):
            raise FormatError(
                f"{path.name}: {self.source.path.name} has other motions than when it was loaded;"
                f" load it again"
            )

    def _clips(self, bakes: Sequence[BakedMotion], stage: dict[str, Any]) -> list[ClipPlan]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            unit = self.character.metres_per_unit
            character = staged_character(self.source_path, stage, unit)
        plans, begin = [], 0
        for baked in bakes:
            name, known = baked.motion.name, self._known(baked, character)
            first = float(known[0]) if known is not None else 0.0
            # Keys of the file are round numbers, and those that fall on them should be as well.
            codes = np.round(first + baked.times * self.source.time_codes_per_second, 6)
            rows = slice(begin, begin := begin + baked.n_frames)
            skeletons = self._skeletons(stage, name if known is not None else None)
            plans.append(ClipPlan(name, rows, codes, known, skeletons))
        return plans

    def _known(self, baked: BakedMotion, character: Character) -> Floats | None:
        """Return the time codes of the file's clip that the motion is, None if it is no clip."""
        name = baked.motion.name
        clip, codes = character.motions.get(name), self.source.time_codes.get(name)
        if clip is None or codes is None:
            return None
        first, last = clip.times[0], clip.times[-1]
        same = plays(lambda t: clip.at(np.clip(t, first, last)), character.rig, baked)
        return codes if same else None

    def _skeletons(self, stage: dict[str, Any], name: str | None) -> list[dict[str, Any]]:
        """Return each skeleton with the animation that plays a clip of the file, None for none."""
        names = list(self.source.time_codes)
        clip = stage["clips"][names.index(name)] if name is not None else None
        found = []
        for number, skeleton in enumerate(stage["skeletons"]):
            animation = clip["animations"][number] if clip is not None else None
            played = None if animation is None else animation["path"]
            found.append({"path": skeleton["path"], "animation": played})
        return found

    def _meshes(self) -> list[dict[str, Any]]:
        """Return each mesh with the first point of every vertex: the others go where it goes."""
        meshes, seen = [], np.zeros(self.n_vertices, dtype=bool)
        for mesh in self.source.meshes:
            vertices, rows = np.unique(mesh.welded, return_index=True)
            new = (vertices >= 0) & ~seen[np.maximum(vertices, 0)]
            vertices, rows = vertices[new], rows[new]
            seen[vertices] = True
            meshes.append(
                {
                    "path": mesh.path,
                    "n_points": len(mesh.welded),
                    "rows": rows,
                    "vertices": vertices,
                    "welded": mesh.welded,
                }
            )
        return meshes

    def _sublayer(self, path: Path) -> str:
        """Return the path of the original as the layer names it."""
        if path.suffix.lower() == ".usdz":
            return root_entry(self.source_path)
        folder = Path(os.path.realpath(path.parent))
        original = Path(os.path.realpath(self.source_path))
        try:
            relative = os.path.relpath(original, folder)
        except ValueError:  # on another drive
            relative = str(original)
        if not original.is_relative_to(folder):
            self.notes.append(
                f"{path.name}: refers to {relative}, outside its folder; Supple reads it only from"
                f" there: write it beside that file, or as .usdz"
            )
            return Path(relative).as_posix()
        return f"./{Path(relative).as_posix()}"

    def record(self) -> dict[str, str]:
        """Return what the layer says of the original."""
        inside = package_record(self.source_path) if self.package else {}
        return {"original": self.sublayer, **inside}

    def request(self, action: str) -> dict[str, Any]:
        """Return the fields that every request to the writing process has."""
        return {
            "action": action,
            "path": str(self.source_path),
            "clips": [clip.request() for clip in self.clips],
            "shown": self.shown,
            "from_stage": self.source.from_stage,
            "n_vertices": self.n_vertices,
            "meshes": self.meshes,
        }

    def author_request(
        self,
        kind: str,
        cached: list[bool],
        names: list[str],
        weights: NDArray[np.float32],
        normals: bool,
    ) -> dict[str, Any]:
        """Return the request for the layer itself; `weights` are those of all frames, (t, b)."""
        meshes = [
            {**mesh, "cached": whole} for mesh, whole in zip(self.meshes, cached, strict=True)
        ]
        clips = []
        for clip in self.clips:
            keys, values = clip.faded(weights[clip.rows])
            clips.append({**clip.request(), "keys": keys, "weights": values})
        ranges = np.array([clip.range for clip in self.clips])
        return {
            **self.request("author"),
            "meshes": meshes,
            "clips": clips,
            "format": kind,
            "names": names,
            "normals": normals,
            "around": self.clips[self.shown].around(),
            "range": np.array([ranges[:, 0].min(), ranges[:, 1].max()]),
            "sublayer": self.sublayer,
            "record": self.record(),
            "package": self.package,
        }
