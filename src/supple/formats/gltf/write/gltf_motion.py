"""Baked motions as glTF: the character's own file with the motions added, or a new file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from supple.arrays import Floats, Singles
from supple.errors import warn
from supple.formats.file_bytes import reading
from supple.formats.gltf.accessors import Accessors, decode_draco
from supple.formats.gltf.container import Notes
from supple.formats.gltf.document import DRACO, Document
from supple.formats.gltf.gltf_file import GltfFile
from supple.formats.gltf.read.animation import Channel, GltfClip
from supple.formats.gltf.read.gltf import GltfSource
from supple.formats.gltf.write.animations import (
    NodeMotion,
    Times,
    Track,
    add_channel,
    faded,
    free_node,
    matching_clip,
    play_weights,
    widen_weights,
)
from supple.formats.gltf.write.morph_targets import (
    NewTargets,
    ShapedNodes,
    add_targets,
    fit_groups,
    normal_targets,
    played_names,
    remove_draco,
    target_names,
    unpack_draco,
    unshared_mesh,
    unused_names,
)
from supple.formats.gltf.write.new_file import new_scene, new_skin
from supple.formats.gltf.write.obstacle_nodes import ObstacleNodes
from supple.formats.gltf.write.source_file import FleshedFile, loaded_again
from supple.formats.gltf.write.vrm_extension import overlapping_springs, warn_of_springs
from supple.formats.morph_fit import Progress
from supple.formats.smpl.load_body import BodySource
from supple.rig.baked_motion import BakedMotion
from supple.rig.skeleton.skinning import skinned_core, skinned_rigs
from supple.saving import write_whole


def write_gltf(
    path: str | Path,
    baked: BakedMotion | Sequence[BakedMotion],
    *,
    error: float = 0.002,
    normals: bool = False,
    drop_springs: bool = False,
    with_obstacles: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write baked motions into a copy of the character's own glTF file, or into a new file.

    Parameters
    ----------
    path
        A ``.glb``, or a ``.gltf`` with everything in one file.
    baked
        One motion, or several of one character. A character from glTF gets a copy of its file; a
        body model a new file with joints and a skin; any other character a new file with a mesh,
        and all motion in morph targets.
    error
        Largest distance of any vertex from its simulated place, as a fraction of the size.
    normals
        Whether normals get morph targets as well; otherwise they rotate with the joints only. New
        files without joints always have them.
    drop_springs
        For a VRM: remove springs that move joints below this flesh; otherwise a warning names them.
    with_obstacles
        Whether the motions' obstacles and objects become nodes, which the same animations move.
    progress
        Called with the fraction done, 0 to 1, and the name of the step.

    Returns
    -------
    dict
        ``n_shapes`` added (the most of any mesh), ``error`` reached, ``bytes`` written,
        ``animation`` (``animations`` for several) and whether one is ``new``. For the character's
        own file also ``meshes`` with shapes, ``draco`` primitives that were decompressed, and
        ``springs`` of a VRM below the flesh.

    Notes
    -----
    The character's file keeps all its content, and the original is stored in it:
    `supple.formats.remove_flesh` restores it to the byte. Meshes gain morph targets, which all
    motions share, and each clip gains weights for them at the baked frames. Offsets are relative to
    the file's own animation at those times. A part of a clip fades in and out within a quarter of
    a second. A motion that the file does not have becomes a new animation.

    Raises
    ------
    FormatError
        If the character's file has changed since it was loaded, or the target cannot be written.
    """
    path = Path(path)
    bakes = [baked] if isinstance(baked, BakedMotion) else list(baked)
    source, report = bakes[0].character.source, progress or (lambda part, what: None)
    if not isinstance(source, GltfSource):
        core = skinned_core(bakes[0].character.rig) if isinstance(source, BodySource) else None
        if core is not None and core.rig.method == "linear":
            file, figures = new_skin(bakes, core, error, report, with_obstacles)
        else:
            file, figures = new_scene(bakes, error, report, with_obstacles)
        data = file.to_bytes(path)
        write_whole(path, data)
        if figures["error"] > error:
            missed = f"{figures['n_shapes']} shapes miss the simulation by {figures['error']:.2%}"
            warn(f"{path.name}: {missed} of the size, not {error:.2%}")
        return {**figures, "bytes": len(data)}
    writer = _Writer(bakes, source, error, report)
    writer.write(normals, with_obstacles)
    writer.clear_springs(path.name, drop_springs)
    report(1.0, "writing the file")
    dropped = drop_springs and bool(writer.springs)
    data = writer.fleshed.keep_original(writer.animations, dropped).to_bytes(path)
    write_whole(path, data)
    return {**writer.figures(), "bytes": len(data)}


@dataclass
class _Played:
    """A baked motion, and the file's own animation at its frames: `poses` and `roots`.

    `rows` are its frames among all motions' frames, `when` their times in the file in float32, and
    `clip` is the file's clip that equals it, if any.
    """

    baked: BakedMotion
    rows: slice
    when: Floats
    clip: GltfClip | None
    poses: Floats
    roots: Floats


class _Writer:
    """Writer that adds motions to a copy of the character's file."""

    def __init__(
        self, bakes: Sequence[BakedMotion], source: GltfSource, error: float, progress: Progress
    ) -> None:
        self.bakes, self.error, self.progress = bakes, error, progress
        self.character = bakes[0].character
        data = source.read()
        self.loaded = loaded_again(self.character, source)
        self.source: GltfSource = self.loaded.source
        with reading(source.path.name):
            self.document = Document(source.path, data, Notes(source.path.name))
            self.accessors = Accessors(self.document)
            self.fleshed = FleshedFile(source, data)
        self.file: GltfFile = self.fleshed.file
        self.played: list[_Played] = []
        self.fits: list[ShapedNodes] = []
        self.decoded = 0
        self.animations: list[str] = []
        self.springs: list[str] = []

    @cached_property
    def motion(self) -> NodeMotion:
        return NodeMotion(self.document, self.source, self.loaded.metres_per_unit)

    def write(self, normals: bool, with_obstacles: bool) -> None:
        starts = np.cumsum([0, *(baked.n_frames for baked in self.bakes)])
        for baked, (first, last) in zip(self.bakes, pairwise(starts), strict=True):
            self.played.append(self._as_played(baked, slice(first, last)))
        alone = len(self.bakes) == 1  # no copy of the frames
        frames = self.bakes[0].frames if alone else np.concatenate([b.frames for b in self.bakes])
        poses = np.concatenate([played.poses for played in self.played])
        roots = np.concatenate([played.roots for played in self.played])
        rig, size = self.loaded.rig, self.character.surface.size
        self.fits = fit_groups(
            frames, rig, self.source, poses, roots, size, self.error, self.progress
        )
        shaped = [fit for fit in self.fits if len(fit.shapes)]
        normal_shapes = self._normals(shaped, frames, poses, roots) if normals else {}
        before: dict[int, int] = {}
        for fit in shaped:
            for node in fit.nodes:
                before[node] = self._add_targets(fit, node, normal_shapes)
        if self.decoded:
            remove_draco(self.file)
        self._animate(shaped, before, with_obstacles)
        reached = max(fit.reached for fit in self.fits)
        if reached > self.error:
            what = f"{self.source.path.name}: morph targets miss the simulation by {reached:.2%}"
            warn(f"{what} of the size (limit {self.error:.2%}), where joints flatten the skin")

    def figures(self) -> dict[str, Any]:
        return {
            "n_shapes": max(len(fit.shapes) for fit in self.fits),
            "error": max(fit.reached for fit in self.fits),
            **played_names(self.animations),
            "new": any(played.clip is None for played in self.played),
            "meshes": sum(len(fit.nodes) for fit in self.fits if len(fit.shapes)),
            "draco": self.decoded,
            **({"springs": self.springs} if self.springs else {}),
        }

    def clear_springs(self, name: str, drop: bool) -> None:
        """Remove springs of a VRM that move joints below the flesh, or warn of them."""
        flesh = np.zeros(self.loaded.rig.n_vertices)
        for fit in self.fits:
            ranges = np.ptp(fit.weights, axis=0) if len(fit.weights) else np.zeros(len(fit.shapes))
            reach = np.tensordot(ranges, np.linalg.norm(fit.shapes, axis=2), axes=1)
            flesh[fit.vertices] = reach > self.error * self.character.surface.size
        below_flesh: set[int] = set()
        for rig in skinned_rigs(self.loaded.rig):
            flesh_weight = rig.weight_matrix().T @ flesh
            below_flesh.update(
                self.source.joint_nodes[: len(flesh_weight)][flesh_weight > 0].tolist()
            )
        self.springs = overlapping_springs(self.file, below_flesh, drop)
        if not drop:
            warn_of_springs(name, self.springs)

    def _as_played(self, baked: BakedMotion, rows: slice) -> _Played:
        when = baked.times.astype(np.float32).astype(np.float64)
        clip = matching_clip(self.loaded, baked, when)
        if clip is not None:
            poses, roots = clip.sample(when)
        else:
            poses, roots = self.motion.playable(baked.motion.poses), baked.motion.roots
        return _Played(baked, rows, when, clip, poses, roots)

    def _normals(
        self, shaped: list[ShapedNodes], frames: Singles, poses: Floats, roots: Floats
    ) -> dict[int, Singles]:
        """Return morph targets of normals by index of primitive, for primitives with normals."""
        fit_of = {node: fit for fit in shaped for node in fit.nodes}
        indices, parts = [], []
        for index, primitive in enumerate(self.source.primitives):
            normals = self._file_normals(primitive.mesh, primitive.primitive)
            if primitive.node in fit_of and normals is not None:
                indices.append(index)
                parts.append((fit_of[primitive.node], primitive, normals))
        triangles = self.character.surface.triangles
        targets = normal_targets(frames, triangles, self.loaded.rig, poses, roots, parts)
        return dict(zip(indices, targets, strict=True))

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

    def _add_targets(self, fit: ShapedNodes, node: int, normals: dict[int, Singles]) -> int:
        """Add targets to a node's mesh, and return its previous number of targets."""
        shared = self.file.part("meshes")[self.file.part("nodes")[node]["mesh"]]
        self.decoded += unpack_draco(self.file, self.document, self.accessors, shared)
        mesh = unshared_mesh(self.file, node)
        new = {}
        for index, primitive in enumerate(self.source.primitives):
            if primitive.node == node:
                from_bind = np.linalg.inv(primitive.to_bind[:3, :3])
                shapes = fit.of_vertices(primitive.welded).astype(np.float64)
                # The same order of summation for every vertex: welded ones get the same bits.
                offsets = sum(shapes[:, :, k, None] * from_bind[:, k] for k in range(3))
                new[primitive.primitive] = NewTargets(
                    np.asarray(offsets, np.float32), normals.get(index)
                )
        names = target_names(self.bakes, len(fit.shapes))
        before = add_targets(self.file, mesh, new, names)
        node_json = self.file.part("nodes")[node]
        if "weights" in node_json:
            weights = [*node_json["weights"], *[0.0] * before][:before]
            node_json["weights"] = [*weights, *[0.0] * len(names)]
        return before

    def _animate(
        self, shaped: list[ShapedNodes], before: dict[int, int], with_obstacles: bool
    ) -> None:
        """Animate the new weights, and obstacles, in each motion's clip, or in a new animation."""
        times = Times(self.file)
        replaced: dict[int, set[int]] = {}
        bakes = self.bakes if with_obstacles else []
        obstacles = ObstacleNodes(self.file, bakes, self.loaded.metres_per_unit)
        for number, played in enumerate(self.played):
            tracks = self._tracks(played, shaped)
            animation = self._play(played, tracks, before, times)
            obstacles.animate(animation, number, played.when, times)
            if played.clip is None and animation["channels"]:
                self.file.add("animations", animation)
            if played.clip is not None:
                replaced[played.clip.animation] = set(tracks)
        gained = {node: len(fit.shapes) for fit in shaped for node in fit.nodes}
        for number, other in enumerate(self.file.part("animations")):
            if number < len(self.document.part("animations")):
                nodes = replaced.get(number, set())
                widen_weights(self.file, self.accessors, other, gained, nodes)

    def _tracks(self, played: _Played, shaped: list[ShapedNodes]) -> dict[int, Track]:
        """Return the tracks of the new weights of each node."""
        tracks: dict[int, Track] = {}
        for fit in shaped:
            track = Track(played.when, fit.weights[played.rows].astype(np.float64))
            if played.clip is not None:
                gap = 1.5 / played.baked.rate
                track = faded(track, played.clip.start, played.clip.end, gap)
            tracks |= dict.fromkeys(fit.nodes, track)
        return tracks

    def _play(
        self, played: _Played, tracks: dict[int, Track], before: dict[int, int], times: Times
    ) -> dict[str, Any]:
        """Animate weights in the clip of a motion, and return it; a new one is not added yet."""
        clip, when = played.clip, played.when
        if clip is not None:
            animation = self.file.part("animations")[clip.animation]
            self.animations.append(clip.name)
        else:
            animation = self._new_animation(played.baked.motion.name or "soft")
            if played.baked.motion.name in self.source.clips:
                what = f'its clip "{played.baked.motion.name}" differs from the baked motion'
                added = animation["name"]
                warn(f'{self.source.path.name}: {what}, which becomes a new clip "{added}"')
            for node, path, keys in self.motion.tracks(played.poses, played.roots):
                free_node(self.file, self.motion.forest, node)
                add_channel(animation, node, path, times.sampler(when, keys))
        old = self._old_weights(played)
        for node in dict.fromkeys([*tracks, *(old if clip is None else ())]):
            track = tracks.get(node) or Track(when, np.zeros((len(when), 0)))
            rest = self._rest_weights(node, before.get(node, 0))
            play_weights(times, animation, node, track, old.get(node), rest)
        return animation

    def _new_animation(self, motion_name: str) -> dict[str, Any]:
        names = [*(str(a.get("name")) for a in self.file.part("animations")), *self.animations]
        name = unused_names([motion_name], names)[0]
        self.animations.append(name)
        return {"name": name, "channels": [], "samplers": []}

    def _old_weights(self, played: _Played) -> dict[int, Channel]:
        """Return channels, by node, that animate weights of the file's own targets."""
        if played.clip is not None:
            return {c.node: c for c in played.clip.channels if c.path == "weights"}
        shapes, poses = self.source.shapes, played.poses
        values = poses[:, poses.shape[1] - len(shapes) :]
        rest = self.loaded.rig.rest_pose[poses.shape[1] - len(shapes) :]
        channels = {}
        for node in dict.fromkeys(node for node, _ in shapes):
            of_node = [k for k, (owner, _) in enumerate(shapes) if owner == node]
            if (values[:, of_node] != rest[of_node]).any():
                channels[node] = Channel(node, "weights", "LINEAR", played.when, values[:, of_node])
        return channels

    def _rest_weights(self, node: int, before: int) -> list[float]:
        node_json = self.file.part("nodes")[node]
        mesh = self.file.part("meshes")[node_json["mesh"]]
        weights = node_json.get("weights", mesh.get("weights", []))
        return [*weights, *[0.0] * before][:before]
