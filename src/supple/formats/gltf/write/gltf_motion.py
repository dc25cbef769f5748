"""Baked motions as glTF: the character's own file with the motion in it, or a new file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from supple.arrays import Floats, Singles
from supple.errors import FormatError, SuppleError, SuppleWarning, warn
from supple.formats.clip_match import plays
from supple.formats.file_bytes import read_bytes, reading
from supple.formats.gltf.accessors import Accessors
from supple.formats.gltf.document import DRACO, Document
from supple.formats.gltf.draco import decode_draco
from supple.formats.gltf.notes import Notes
from supple.formats.gltf.read.animation import Channel
from supple.formats.gltf.read.clips import GltfClip
from supple.formats.gltf.read.gltf import GltfSource, load_gltf
from supple.formats.gltf.write.gltf_file import GltfFile, open_to_add
from supple.formats.gltf.write.morph_targets import (
    NewTargets,
    add_targets,
    forget_draco,
    own_mesh,
    unpack_draco,
    unused_names,
)
from supple.formats.gltf.write.new_scene import new_scene
from supple.formats.gltf.write.node_animation import NodeMotion
from supple.formats.gltf.write.offsets import ShapedNodes, fit_groups, normal_targets
from supple.formats.gltf.write.weight_tracks import Times, Track, faded, play_weights, widen_weights
from supple.formats.morph_fit import Progress
from supple.formats.registry import GLTF_SUFFIXES
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.skeleton.skinning import SkinnedRig
from supple.saving import write_whole

__all__ = ["write_gltf"]


def write_gltf(
    path: str | Path,
    baked: BakedMotion,
    *,
    error: float = 0.002,
    normals: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write a baked motion into a copy of the character's own glTF file, or into a new file.

    Parameters
    ----------
    path
        A ``.glb``, or a ``.gltf`` with everything in one file.
    baked
        A character that was loaded from a glTF file gets that file back, with the motion in it;
        any other becomes a new file of one mesh, with all its motion in morph targets.
    error
        How far any vertex may be from its simulated place at any frame, as part of the size.
    normals
        Whether normals get morph targets, too; without, they turn with the joints only. In a new
        file they always do: no joint turns them.
    progress
        Called with the part done, 0 to 1, and what is being done.

    Returns
    -------
    dict
        ``n_shapes`` added (the most of any mesh), ``error`` reached, ``bytes`` written,
        ``animation`` and whether it is ``new``. Of the character's own file also ``meshes`` with
        shapes, and ``draco`` primitives that had to be decompressed.

    Notes
    -----
    The character's file keeps everything it has; meshes gain morph targets, the clip gains weights
    for them at the baked frames. Offsets are relative to what the file itself plays at those times,
    with its own interpolation. A part of a clip fades in and out within a quarter of a second. A
    motion the file does not have, or has otherwise, becomes a new animation.

    Raises
    ------
    FormatError
        If the character's file is no longer what was loaded, or the target cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in GLTF_SUFFIXES:
        raise FormatError(f'{path.name}: "{path.suffix}" is not glTF; use .glb or .gltf')
    source, tell = baked.character.source, progress or (lambda part, what: None)
    if not isinstance(source, GltfSource):
        file, figures = new_scene(baked, error, tell)
        size = _write_file(path, file)
        if figures["error"] > error:
            missed = f"{figures['n_shapes']} shapes miss the simulation by {figures['error']:.2%}"
            warn(f"{path.name}: {missed} of the size")
        return {**figures, "bytes": size}
    writer = _Writer(baked, source, error, tell)
    writer.write(normals)
    tell(1.0, "writing the file")
    size = _write_file(path, writer.file)
    return {**writer.figures(), "bytes": size}


def _write_file(path: Path, file: GltfFile) -> int:
    """Write the file as its suffix says, and return the number of bytes."""
    whole = file.glb() if path.suffix.lower() == ".glb" else file.gltf()
    write_whole(path, whole)
    return len(whole)


class _Writer:
    """The character's own file while it gains a motion."""

    def __init__(
        self, baked: BakedMotion, source: GltfSource, error: float, progress: Progress
    ) -> None:
        self.baked, self.error, self.progress = baked, error, progress
        data = read_bytes(source.path, GLTF_SUFFIXES)
        self.loaded = _as_loaded(baked.character, source)
        self.source: GltfSource = self.loaded.source
        with reading(source.path.name):
            self.document = Document(source.path, data, Notes(source.path.name))
            self.accessors = Accessors(self.document)
            self.file = open_to_add(source.path, data)
        self.when = baked.times.astype(np.float32).astype(np.float64)
        self.clip = self._clip()
        self.motion: NodeMotion | None = None
        self.fits: list[ShapedNodes] = []
        self.decoded = 0
        self.animation = ""

    def write(self, normals: bool) -> None:
        poses, roots = self._played()
        self.fits = fit_groups(
            self.baked, self.loaded.rig, self.source, poses, roots, self.error, self.progress
        )
        shaped = [fit for fit in self.fits if len(fit.shapes)]
        turned = self._normals(shaped, poses, roots) if normals else {}
        before: dict[int, int] = {}
        for fit in shaped:
            for node in fit.nodes:
                before[node] = self._add_targets(fit, node, turned)
        if self.decoded:
            forget_draco(self.file)
        self._animate(shaped, before, poses, roots)
        reached = max(fit.reached for fit in self.fits)
        if reached > self.error:
            what = f"{self.source.path.name}: morph targets miss the simulation by {reached:.2%}"
            warn(f"{what} of the size where joints flatten the skin, more than {self.error:.2%}")

    def figures(self) -> dict[str, Any]:
        return {
            "n_shapes": max(len(fit.shapes) for fit in self.fits),
            "error": max(fit.reached for fit in self.fits),
            "animation": self.animation,
            "new": self.clip is None,
            "meshes": sum(len(fit.nodes) for fit in self.fits if len(fit.shapes)),
            "draco": self.decoded,
        }

    def _clip(self) -> GltfClip | None:
        """Return the file's clip that the motion is, None if it is no clip."""
        clip = self.source.clips.get(self.baked.motion.name)
        if clip is None:
            return None
        # A motion that goes on after the clip's end is another, even if it has its name.
        gap = 1.5 / self.baked.rate
        inside = self.when[0] >= clip.start - gap and self.when[-1] <= clip.end + gap
        return clip if inside and plays(clip.sample, self.loaded.rig, self.baked) else None

    def _played(self) -> tuple[Floats, Floats]:
        """Return poses and roots that the file plays at the baked frames."""
        if self.clip is not None:
            return self.clip.sample(self.when)
        metres = self.loaded.metres_per_unit
        self.motion = NodeMotion(self.document, self.source, metres)
        return self.motion.playable(self.baked.motion.poses), self.baked.motion.roots

    def _normals(
        self, shaped: list[ShapedNodes], poses: Floats, roots: Floats
    ) -> dict[int, Singles]:
        """Return targets of normals by place in the source's list, for primitives with normals."""
        fit_of = {node: fit for fit in shaped for node in fit.nodes}
        places, parts = [], []
        for index, primitive in enumerate(self.source.primitives):
            own = self._file_normals(primitive.mesh, primitive.primitive)
            if primitive.node in fit_of and own is not None:
                places.append(index)
                parts.append((fit_of[primitive.node], primitive, own))
        found = normal_targets(self.baked, self.loaded.rig, poses, roots, parts)
        return dict(zip(places, found, strict=True))

    def _file_normals(self, mesh: int, number: int) -> Floats | None:
        primitive = self.document.part("meshes")[mesh]["primitives"][number]
        if "NORMAL" not in primitive["attributes"]:
            return None
        if DRACO in primitive.get("extensions", {}):
            count = self.accessors.count(primitive["attributes"]["POSITION"])
            decoded, _ = decode_draco(self.document, primitive, count)
            if "NORMAL" in decoded:
                return decoded["NORMAL"].astype(np.float64)
        return self.accessors.floats(primitive["attributes"]["NORMAL"])

    def _add_targets(self, fit: ShapedNodes, node: int, turned: dict[int, Singles]) -> int:
        """Add targets to a node's mesh, and return how many it had."""
        shared = self.file.part("meshes")[self.file.part("nodes")[node]["mesh"]]
        self.decoded += unpack_draco(self.file, self.document, self.accessors, shared)
        mesh = own_mesh(self.file, node)
        new = {}
        for index, primitive in enumerate(self.source.primitives):
            if primitive.node == node:
                back = np.linalg.inv(primitive.to_bind[:3, :3])
                shapes = fit.of_vertices(primitive.welded).astype(np.float64)
                # Summed the same way for every vertex: welded ones get the same bits.
                own = sum(shapes[:, :, k, None] * back[:, k] for k in range(3))
                new[primitive.primitive] = NewTargets(
                    np.asarray(own, np.float32), turned.get(index)
                )
        name = self.baked.motion.name or "soft"
        names = [f"{name} soft {number + 1}" for number in range(len(fit.shapes))]
        before = add_targets(self.file, mesh, new, names)
        described = self.file.part("nodes")[node]
        if "weights" in described:
            given = [*described["weights"], *[0.0] * before][:before]
            described["weights"] = [*given, *[0.0] * len(names)]
        return before

    def _animate(
        self, shaped: list[ShapedNodes], before: dict[int, int], poses: Floats, roots: Floats
    ) -> None:
        times = Times(self.file)
        tracks: dict[int, Track] = {}
        for fit in shaped:
            track = Track(self.when, fit.weights.astype(np.float64))
            if self.clip is not None:
                gap = 1.5 / self.baked.rate
                track = faded(track, self.clip.start, self.clip.end, gap)
            tracks |= dict.fromkeys(fit.nodes, track)
        index = -1
        if self.clip is not None:
            index = self.clip.animation
            animation = self.file.part("animations")[index]
            self.animation = self.clip.name
        else:
            animation = self._new_animation()
            assert self.motion is not None
            self.motion.animate(self.file, times, animation, self.when, poses, roots)
        old = self._old_weights(poses)
        for node in dict.fromkeys([*tracks, *(old if self.clip is None else ())]):
            track = tracks.get(node) or Track(self.when, np.zeros((len(self.when), 0)))
            rest = self._rest_weights(node, before.get(node, 0))
            play_weights(self.file, times, animation, node, track, old.get(node), rest)
        if self.clip is None and animation["channels"]:
            self.file.add("animations", animation)
        gained = {node: len(fit.shapes) for fit in shaped for node in fit.nodes}
        for number, other in enumerate(self.file.part("animations")):
            if number < len(self.document.part("animations")):
                played = set(tracks) if number == index else set()
                widen_weights(self.file, self.accessors, other, gained, played)

    def _new_animation(self) -> dict[str, Any]:
        taken = [str(a.get("name")) for a in self.file.part("animations")]
        self.animation = unused_names([self.baked.motion.name or "soft"], taken)[0]
        return {"name": self.animation, "channels": [], "samplers": []}

    def _old_weights(self, poses: Floats) -> dict[int, Channel]:
        """Return channels, by node, that move weights of targets which the file had before."""
        if self.clip is not None:
            return {c.node: c for c in self.clip.channels if c.path == "weights"}
        shapes = self.source.shapes
        values = poses[:, poses.shape[1] - len(shapes) :]
        rest = self.loaded.rig.rest_pose[poses.shape[1] - len(shapes) :]
        found = {}
        for node in dict.fromkeys(node for node, _ in shapes):
            mine = [k for k, (owner, _) in enumerate(shapes) if owner == node]
            if (values[:, mine] != rest[mine]).any():
                found[node] = Channel(node, "weights", "LINEAR", self.when, values[:, mine])
        return found

    def _rest_weights(self, node: int, before: int) -> list[float]:
        described = self.file.part("nodes")[node]
        mesh = self.file.part("meshes")[described["mesh"]]
        given = described.get("weights", mesh.get("weights", []))
        return [*given, *[0.0] * before][:before]


# The file a character came from, read again: it must still be what was loaded.


def _as_loaded(character: Character, source: GltfSource) -> Character:
    """Load the character's file again.

    Its rig is the file's own, whatever has been put around the one that was baked.

    Raises
    ------
    FormatError
        If the file is gone, is damaged, or holds another character than was loaded.
    """
    name = source.path.name
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            again = load_gltf(source.path, character.metres_per_unit)
    except SuppleError as error:
        raise FormatError(f"{error}; it was sound when it was loaded, leave it there") from error
    if not _same(character, source, again):
        raise FormatError(f"{name}: has changed since it was loaded; load and bake it again")
    if any(primitive.node < 0 for primitive in source.primitives):
        raise FormatError(f"{name}: no node shows its mesh, so no animation can move it; add one")
    return again


def _same(character: Character, source: GltfSource, again: Character) -> bool:
    now = again.source
    if not again.has_mesh or len(source.primitives) != len(now.primitives):
        return False
    pairs: list[tuple[Any, Any]] = [(source.joint_nodes, now.joint_nodes)]
    for one, other in zip(source.primitives, now.primitives, strict=True):
        if (one.node, one.mesh, one.primitive) != (other.node, other.mesh, other.primitive):
            return False
        pairs += [(one.welded, other.welded), (one.to_bind, other.to_bind)]
    if source.clips.keys() != now.clips.keys():
        return False
    for name, clip in source.clips.items():
        if len(clip.channels) != len(now.clips[name].channels):
            return False
        for mine, its in zip(clip.channels, now.clips[name].channels, strict=True):
            if _kind(mine) != _kind(its):
                return False
            pairs += [(mine.times, its.times), (mine.values, its.values)]
    if isinstance(character.rig, SkinnedRig | BlendShapeRig):
        pairs += zip(_skin(character.rig), _skin(again.rig), strict=False)
    return all(np.array_equal(one, other) for one, other in pairs)


def _kind(channel: Channel) -> tuple[int, str, str]:
    return channel.node, channel.path, channel.interpolation


def _skin(rig: Any) -> list[Any]:
    """Return the arrays that a skinned rig is made of."""
    parts: list[Any] = []
    while isinstance(rig, BlendShapeRig):
        parts.append(rig.deltas)
        rig = rig.base
    if isinstance(rig, SkinnedRig):
        parts += [rig.vertices, rig.joints, rig.weights, rig.inverse_bind]
    return parts
