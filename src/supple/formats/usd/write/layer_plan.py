"""Plan of the layer for a baked motion: meshes, skeletons and time codes of the stage."""

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

#: Most time codes around a baked part of a clip; longer clips have only their keys.
MOST_AROUND = 10_000


def layer_format(path: Path) -> str:
    """Return the format of a layer written for this path, "usda" or "usdc"."""
    return "usda" if path.suffix.lower() == ".usda" else "usdc"


def check_layer_target(path: Path, character: Character, motions: Sequence[str] = ()) -> None:
    """Raise FormatError if `path` is a file that the character's own USD file needs.

    A layer over that file would then be a layer over itself.
    """
    if isinstance(character.source, UsdSource):
        with opened_original(path, character.source) as original:
            _check_needed_files(path, original)


@contextmanager
def opened_original(path: Path, source: UsdSource) -> Iterator[Path]:
    """Yield the file below the layer at `path`; a file from a package is removed at exit."""
    if source.without and path.suffix.lower() != ".usdz":
        raise FormatError(
            f"{path.name}: {source.path.name} has the original inside; write a .usdz, or run "
            "supple bake --remove first"
        )
    if not source.path.is_file():
        raise FormatError(
            f"{path.name}: {source.path.name}, the file below it, is missing; load it again"
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
            reason = f"{source.name} needs it" if file != original else "it is the original"
            raise FormatError(f"{path.name}: cannot be replaced, as {reason}; use another name")


@dataclass
class ClipPlan:
    """A baked motion on the stage.

    `rows` are its frames among all motions' frames, `codes` their time codes, `clip_codes` codes
    of the file's clip that equals the motion, None without one; `skeletons` have the path of each
    skeleton, and of its animation or None.
    """

    name: str
    rows: slice
    codes: Floats
    clip_codes: Floats | None
    skeletons: list[dict[str, Any]]

    @property
    def range(self) -> Floats:
        """First and last time code of the motion and of its clip."""
        codes = self.codes if self.clip_codes is None else self.clip_codes
        return np.array([min(codes[0], self.codes[0]), max(codes[-1], self.codes[-1])])

    def request(self) -> dict[str, Any]:
        """Return the fields for the writing process."""
        return {
            "codes": self.codes,
            "rows": np.array([self.rows.start, self.rows.stop]),
            "skeletons": self.skeletons,
            "animation_name": self.name or "SoftMotion",
        }

    def _gap(self) -> float:
        return float(self.codes[1] - self.codes[0]) if len(self.codes) > 1 else 1.0

    def around(self) -> Floats:
        """Return codes of the clip outside the baked part: its keys, and steps of one frame."""
        if self.clip_codes is None:
            return np.zeros(0)
        gap, code_range = self._gap(), self.range
        first, last = self.codes[0] - 0.5 * gap, self.codes[-1] + 0.5 * gap
        parts = [self.clip_codes]
        if code_range[1] - code_range[0] <= MOST_AROUND * gap:
            steps = np.arange(1, whole_steps(code_range[0], code_range[1], 1 / gap) + 1)
            parts += [self.codes[0] - gap * steps, self.codes[-1] + gap * steps]
        codes = np.unique(np.round(np.concatenate(parts), 6))
        inside = (codes >= code_range[0]) & (codes <= code_range[1])
        return codes[inside & ((codes < first) | (codes > last))]

    def faded(self, weights: NDArray[np.float32]) -> tuple[Floats, NDArray[np.float32]]:
        """Return time codes (t,) and weights (t, b) of keys, with zeros where the clip continues.

        The zeros are one frame before the first key and one frame after the last.
        """
        clip_codes, gap = self.clip_codes, self._gap()
        keys, values = self.codes, weights
        nothing = np.zeros((1, weights.shape[1]), np.float32)
        if clip_codes is not None and clip_codes[0] < keys[0] - 0.5 * gap:
            keys, values = np.r_[keys[0] - gap, keys], np.vstack([nothing, values])
        if clip_codes is not None and clip_codes[-1] > keys[-1] + 0.5 * gap:
            keys, values = np.r_[keys, keys[-1] + gap], np.vstack([values, nothing])
        return keys, values


class LayerPlan:
    """Meshes of the stage, and plans of the motions of the layer over it.

    The stage is read again, since its file, `original`, may have changed. `shown` is the index of
    the clip that the stage plays: the file's first clip if it is baked, otherwise the first one.
    """

    def __init__(self, path: Path, bakes: Sequence[BakedMotion], original: Path) -> None:
        self.character = bakes[0].character
        source = self.character.source
        assert isinstance(source, UsdSource)
        self.source, self.source_path = source, original
        self.notes: list[str] = []
        if path.exists() and path.samefile(self.source_path):
            raise FormatError(f"{path.name}: is the character's own file; use another name")
        self.stage = stage = read_stage(self.source_path)
        self._check(path, stage)
        _check_needed_files(path, self.source_path)
        self.n_vertices = len(self.character.surface.vertices)
        self.clips = self._clips(bakes, stage)
        first = next(iter(source.time_codes), None)  # the motion that the stage plays
        names = [clip.name if clip.clip_codes is not None else None for clip in self.clips]
        self.shown = names.index(first) if first in names else 0
        self.meshes = self._meshes()
        self.sublayer = self._sublayer(path)
        self.package, self.format = path.suffix.lower() == ".usdz", layer_format(path)
        self.work = self.source_path.stat().st_size + sum(baked.frames.nbytes for baked in bakes)

    def _check(self, path: Path, stage: dict[str, Any]) -> None:
        name = self.source.path.name
        meshes = [(mesh["path"], len(mesh["points"])) for mesh in stage["meshes"]]
        if meshes != [(mesh.path, len(mesh.welded)) for mesh in self.source.meshes]:
            raise FormatError(f"{path.name}: the meshes of {name} changed; load it again")
        times = [clip["times"] for clip in stage["clips"]]
        loaded_times = list(self.source.time_codes.values())
        if len(times) != len(loaded_times) or not all(map(np.array_equal, times, loaded_times)):
            raise FormatError(f"{path.name}: the motions of {name} changed; load it again")

    def _clips(self, bakes: Sequence[BakedMotion], stage: dict[str, Any]) -> list[ClipPlan]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            unit = self.character.metres_per_unit
            character = staged_character(self.source_path, stage, unit)
        plans, first_row = [], 0
        for baked in bakes:
            name, clip_codes = baked.motion.name, self._clip_codes(baked, character)
            first = float(clip_codes[0]) if clip_codes is not None else 0.0
            # Rounded, so that keys coincide with those of the file.
            codes = np.round(first + baked.times * self.source.time_codes_per_second, 6)
            rows = slice(first_row, first_row := first_row + baked.n_frames)
            skeletons = self._skeletons(stage, name if clip_codes is not None else None)
            plans.append(ClipPlan(name, rows, codes, clip_codes, skeletons))
        return plans

    def _clip_codes(self, baked: BakedMotion, character: Character) -> Floats | None:
        """Return the time codes of the file's clip that equals the motion, None without one."""
        name = baked.motion.name
        clip, codes = character.motions.get(name), self.source.time_codes.get(name)
        if clip is None or codes is None:
            return None
        first, last = clip.times[0], clip.times[-1]
        same = plays(lambda t: clip.at(np.clip(t, first, last)), character.rig, baked)
        return codes if same else None

    def _skeletons(self, stage: dict[str, Any], name: str | None) -> list[dict[str, Any]]:
        """Return paths of each skeleton and of its animation in clip `name`, None without one."""
        names = list(self.source.time_codes)
        clip = stage["clips"][names.index(name)] if name is not None else None
        skeletons = []
        for number, skeleton in enumerate(stage["skeletons"]):
            animation = clip["animations"][number] if clip is not None else None
            played = None if animation is None else animation["path"]
            skeletons.append({"path": skeleton["path"], "animation": played})
        return skeletons

    def _meshes(self) -> list[dict[str, Any]]:
        """Return for each mesh the vertices that no earlier mesh has, and a point of each."""
        meshes, assigned = [], np.zeros(self.n_vertices, dtype=bool)
        for mesh in self.source.meshes:
            vertices, rows = np.unique(mesh.welded, return_index=True)
            new = (vertices >= 0) & ~assigned[np.maximum(vertices, 0)]
            vertices, rows = vertices[new], rows[new]
            assigned[vertices] = True
            points = {"n_points": len(mesh.welded), "welded": mesh.welded}
            meshes.append({"path": mesh.path, "rows": rows, "vertices": vertices, **points})
        return meshes

    def _sublayer(self, path: Path) -> str:
        """Return the path of the original, relative to the layer at `path`."""
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
                f"{path.name}: refers to {relative}, outside its folder, where Supple cannot read"
                f" it back; write it beside that file, or as .usdz"
            )
            return Path(relative).as_posix()
        return f"./{Path(relative).as_posix()}"

    def request(self, action: str) -> dict[str, Any]:
        """Return the fields of every request to the writing process."""
        return {
            "action": action,
            "path": str(self.source_path),
            "clips": [clip.request() for clip in self.clips],
            "shown": self.shown,
            "from_stage": self.source.from_stage,
            "n_vertices": self.n_vertices,
            "meshes": self.meshes,
        }

    def layer_request(self, action: str, cached: Sequence[bool]) -> dict[str, Any]:
        """Return the fields of requests that write a layer; `cached` meshes get a point cache."""
        inside = package_record(self.source_path) if self.package else {}
        meshes = zip(self.meshes, cached, strict=True)
        return {
            **self.request(action),
            "meshes": [{**mesh, "cached": has_cache} for mesh, has_cache in meshes],
            "format": self.format,
            "sublayer": self.sublayer,
            "record": {"original": self.sublayer, **inside},
            "package": self.package,
        }

    def author_request(
        self,
        cached: list[bool],
        names: list[str],
        weights: NDArray[np.float32],
        normals: bool,
        obstacles: list[dict[str, Any]],
    ) -> dict[str, Any]:
        """Return the request for the layer.

        `weights` (t, b) are blend weights of all frames, `obstacles` those of the clip that the
        stage plays.
        """
        clips = []
        for clip in self.clips:
            keys, values = clip.faded(weights[clip.rows])
            clips.append({**clip.request(), "keys": keys, "weights": values})
        ranges = np.array([clip.range for clip in self.clips])
        return {
            **self.layer_request("author", cached),
            "clips": clips,
            "names": names,
            "normals": normals,
            "obstacles": obstacles,
            "around": self.clips[self.shown].around(),
            "range": np.array([ranges[:, 0].min(), ranges[:, 1].max()]),
        }
