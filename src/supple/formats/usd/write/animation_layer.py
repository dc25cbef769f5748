"""Free curves in USD: a layer over the character's own file, with new values of its animations."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.errors import FormatError, warn
from supple.formats.curve_keys import checked_keys, error_of, track_reach, within_error
from supple.formats.usd.process import WRITING, check_library, run_child
from supple.formats.usd.read.joint_forest import Branch, JointForest, read_joints
from supple.formats.usd.read.skinned_surface import read_meshes
from supple.formats.usd.read.usd import UsdSource
from supple.formats.usd.write.layer_plan import LayerPlan, opened_original
from supple.formats.usd.write.usd_motion import deliver
from supple.maths.key_reduction import KeyKind
from supple.maths.rotations import continuous, from_matrix, inverse, multiply, rotate, scaling
from supple.rig.free_curves import FreeCurves, FreeJoint
from supple.rig.skeleton.skinning import skinned_core

#: Channels and their neutral values.
NEUTRAL = {"translations": (0.0,) * 3, "rotations": (0.0, 0.0, 0.0, 1.0), "scales": (1.0,) * 3}


def write_usd_curves(
    path: str | Path,
    curves: FreeCurves,
    *,
    keys: KeyKind = "linear",
    error: float | None = None,
    additive: bool = False,
) -> dict[str, Any]:
    """Write curves as a layer over the character's own USD file, which is unchanged.

    Parameters
    ----------
    path
        A ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` (with the original inside).
    curves
        Curves of a character that was loaded from USD.
    keys, error
        ``"every"`` writes a key at every frame. ``"linear"`` writes the file's own keys, and as few
        more as keep points within `error`, a fraction of the size; see `error_of`. All joints share
        one list of time codes.
    additive
        Leave the animation unchanged; add an unplayed one with only the motion that physics adds.

    Returns
    -------
    dict
        ``animation``, whether it is ``new``, ``keys``, ``channels``, ``n_keys`` of ``n_samples``,
        ``bytes``, ``sublayer``, and the ``error``: the largest distance of any point from the
        simulation, as UsdSkel plays the result, as a fraction of the size.
    """
    path = Path(path)
    check_library(path.name)
    if not isinstance(curves.character.source, UsdSource):
        raise FormatError(
            f"{path.name}: {curves.character.name} was not loaded from USD, so its curves cannot be"
            " saved there; use .csv or .json"
        )
    if checked_keys(keys) == "spline":
        raise FormatError(f"{path.name}: USD has no splines for joints; use keys linear or every")
    tolerance = error_of(error, curves)
    with (
        opened_original(path, curves.character.source) as original,
        tempfile.TemporaryDirectory(prefix="supple-usd-") as folder,
    ):
        layer = _CurveLayer(path, curves, original, Path(folder), keys, additive)
        answer, reached = within_error(curves, tolerance, keys, layer.made)
        size = deliver(path, Path(folder), layer.plan.source_path, answer["files"])
    for note in layer.plan.notes:
        warn(note)
    counts = {name: int(answer[name]) for name in ("channels", "n_keys", "n_samples")}
    figures = {"animation": layer.name, "new": layer.new, "keys": keys, **counts}
    return {**figures, "error": reached, "bytes": size, "sublayer": layer.plan.sublayer}


class _CurveLayer:
    """A layer with curves, written again for each tolerance of its keys."""

    def __init__(
        self,
        path: Path,
        curves: FreeCurves,
        original: Path,
        folder: Path,
        keys: KeyKind,
        additive: bool,
    ) -> None:
        self.path, self.curves, self.folder, self.additive = path, curves, folder, additive
        self.keys = keys
        baked = curves.baked()
        self.plan = LayerPlan(path, [baked], original)
        np.save(folder / "frames.npy", baked.frames)
        self.clip = self.plan.clips[0]
        self.new = self.clip.clip_codes is None
        self.name = self.clip.name or "curves"
        self.forest: JointForest = read_joints(self.plan.stage, self.plan.source.from_stage)
        surface = read_meshes(self.plan.stage, self.forest, self.plan.source.from_stage)
        self.shapes = surface.shapes
        skeletons = enumerate(self.clip.skeletons)
        edits = [self._edit(number, skeleton["path"]) for number, skeleton in skeletons]
        self._edits = [edit for edit in edits if edit["joints"] or edit["shapes"]]
        if not self._edits:
            raise FormatError(f"{path.name}: no free parameter is a channel of the file")

    def made(self, metres: float) -> tuple[dict[str, Any], float]:
        """Write the layer with keys within `metres`; return answer and error relative to size."""
        size = self.curves.character.surface.size
        edits = []
        for edit in self._edits:
            reach = edit["reach"].items()
            tolerances = {name: metres / np.maximum(each, 1e-3 * size) for name, each in reach}
            edits.append({**edit, "reach": None, "tolerances": tolerances})
        request = {
            **self.plan.layer_request("curves", [False] * len(self.plan.meshes)),
            "edits": edits,
            "keys": self.keys,
            "new": self.new,
            "additive": self.additive,
        }
        answer = run_child(WRITING, self.path.name, self.folder, request, self.plan.work)
        return answer, float(answer["error_metres"]) / size

    def _edit(self, number: int, skeleton: str) -> dict[str, Any]:
        """Return the changes of a skeleton's animation: joints and shapes."""
        branch = next((b for b in self.forest.branches if b.number == number), None)
        edit: dict[str, Any] = {"number": number, "skeleton": skeleton, "joints": []}
        edit |= {"reach": {name: np.empty(0) for name in NEUTRAL}}
        edit |= {name: np.empty((self.curves.n_frames, 0, len(s))) for name, s in NEUTRAL.items()}
        if branch is not None and len(branch.order):
            replaces = self.new and not self.additive
            edit |= self._all_joints(branch) if replaces else self._free_joints(branch)
        weights, reach = self._weights(skeleton)
        edit["reach"]["weights"] = reach
        return edit | weights

    def _token(self, branch: Branch, joint: int) -> str:
        return branch.joints[branch.order[joint - branch.first]]

    def _free_joints(self, branch: Branch) -> dict[str, Any]:
        """Return a skeleton's free joints, what curves add at the frames, and their reach."""
        last = branch.first + len(branch.order)
        joints = [j for j in self.curves.joints if branch.first <= j.joint < last]
        added: dict[str, list[Floats]] = {name: [] for name in NEUTRAL}
        reach: dict[str, list[float]] = {name: [] for name in NEUTRAL}
        for joint in joints:
            parts = {"translations": joint.move, "rotations": joint.turn, "scales": joint.scale}
            for name, columns in parts.items():
                value, largest_reach = np.tile(NEUTRAL[name], (self.curves.n_frames, 1)), 0.0
                if columns is not None:
                    value = self._added(name, joint, branch)
                    largest_reach = float(track_reach(self.curves, columns).max())
                added[name].append(value)
                reach[name].append(largest_reach * (branch.unit if name == "translations" else 1.0))
        return {
            "joints": [self._token(branch, joint.joint) for joint in joints],
            "reach": {name: np.array(each) for name, each in reach.items()},
            **{name: np.stack(each, axis=1) for name, each in added.items() if each},
        }

    def _added(self, name: str, joint: FreeJoint, branch: Branch) -> Floats:
        if name == "rotations":
            return self.curves.turned(joint)
        columns = joint.move if name == "translations" else joint.scale
        assert columns is not None
        difference = self.curves.poses[:, columns] - self.curves.keyed[:, columns]
        if name == "scales":
            return np.exp(difference)
        if self.forest.parents[joint.joint] < 0 and np.abs(difference).max() > 0:
            raise FormatError(
                f'{self.path.name}: the offset of root joint "{joint.name}" is root motion in USD;'
                " exclude it from free"
            )
        return difference / branch.unit

    def _all_joints(self, branch: Branch) -> dict[str, Any]:
        """Return transforms of all joints of a skeleton, for a motion that is not in the file."""
        core = skinned_core(self.curves.character.rig)
        if core is None or not branch.folded or branch.above >= 0:
            raise FormatError(
                f'{self.path.name}: motion "{self.name}" is not in the file, whose skeleton moves'
                " as a whole; use .csv or .json"
            )
        poses = self.curves.poses[:, core.entries]
        translations, rotations, scales = (
            part.copy() for part in core.rig.joint_pose.unpack(poses)
        )
        frame = self.plan.source.from_stage @ self.plan.stage["rest_frames"][branch.number]
        frame = frame @ scaling(1 / branch.unit)
        frame_inverse = inverse(from_matrix(frame[:3, :3]))
        root = continuous(from_matrix(self.curves.roots[:, :3, :3]))
        rows = range(branch.first, branch.first + len(branch.order))
        for joint in rows:
            if self.forest.parents[joint] < 0:
                position = rotate(root, translations[:, joint]) + self.curves.roots[:, :3, 3]
                translations[:, joint] = rotate(frame_inverse, position - frame[:3, 3])
                rotations[:, joint] = multiply(frame_inverse, multiply(root, rotations[:, joint]))
        size = self.curves.character.surface.size
        reach = {"translations": branch.unit, "rotations": size, "scales": size}
        return {
            "joints": [self._token(branch, joint) for joint in rows],
            "translations": translations[:, rows] / branch.unit,
            "rotations": rotations[:, rows],
            "scales": scales[:, rows],
            "reach": {name: np.full(len(rows), each) for name, each in reach.items()},
        }

    def _weights(self, skeleton: str) -> tuple[dict[str, Any], Floats]:
        """Return additions to shape weights of a skeleton's animation, and the weights' reach."""
        curves = self.curves
        first = len(curves.character.rig.parameters) - sum(len(k[2]) for k in self.shapes.keys)
        free = {int(column) - first for column in curves.columns}
        names, columns, start = [], [], 0
        for driver, name, levels in self.shapes.keys:
            indices = range(start, start + len(levels))
            start += len(levels)
            if driver != skeleton or not free & set(indices):
                continue
            if len(levels) > 1:
                raise FormatError(
                    f'{self.path.name}: shape "{name}" has in-betweens, which cannot be free;'
                    " exclude it from free"
                )
            names.append(name)
            columns.append(first + indices[0])
        added = (curves.poses - curves.keyed)[:, columns]
        if self.new and not self.additive:
            added = curves.poses[:, columns]
        played = curves.poses[:, columns]
        inside = played.size and played.min() >= -1e-6 and played.max() <= 1 + 1e-6
        bounded = bool(inside) and not self.additive
        reach = track_reach(curves, np.array(columns, np.int64))
        return {"shapes": names, "weights": added, "bounded": bounded}, reach
