"""New values of skeletal animations, written to a layer (in the writing process)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from supple.formats.usd.layers import Refused, Sdf, UsdSkel, Vt
from supple.formats.usd.prims import as_array
from supple.formats.usd.write.authoring import identifier
from supple.maths.key_reduction import Keys, reduced_keys
from supple.maths.rotations import continuous, multiply

#: Channels of an animation: widths, and neutral values.
CHANNELS = {
    "translations": (3, (0.0, 0.0, 0.0)),
    "rotations": (4, (0.0, 0.0, 0.0, 1.0)),
    "scales": (3, (1.0, 1.0, 1.0)),
}


def author_curves(stage: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Write new values of free joints and shapes; return counts of keys, samples, channels.

    Each of the request's ``edits`` has a ``skeleton``, its ``number``, and values to combine with
    its animation's values at the clip's codes: ``joints`` with ``rotations`` (t, j, 4) and
    ``scales`` (t, j, 3) to multiply by and ``translations`` (t, j, 3) to add, and ``shapes`` with
    ``weights`` (t, b) to add. For a motion that is ``new`` to the file they are the values
    themselves.
    """
    figures = {"n_keys": 0, "n_samples": 0, "channels": 0}
    for edit in request["edits"]:
        prim = _animation(stage, request, edit)
        kinds = [kind for kind in (_JointValues, _WeightValues) if edit[kind.edited]]
        # All old values are read before the first new ones hide them.
        for values in [kind(stage, prim, edit, request) for kind in kinds]:
            keys = values.key_indices()
            values.write(keys)
            figures["n_keys"] += len(keys) * len(values.columns)
            figures["n_samples"] += len(values.codes) * len(values.columns)
            figures["channels"] += len(values.columns)
    return figures


def _animation(stage: Any, request: dict[str, Any], edit: dict[str, Any]) -> Any:
    """Return the animation to change: the file's, the new one, or an additive one."""
    clip = request["clips"][0]
    if request["additive"]:
        name = identifier(f"{clip['animation_name']}_additive")
        path = Sdf.Path(edit["skeleton"]).AppendChild(name)
        return UsdSkel.Animation.Define(stage, path).GetPrim()
    path = clip["skeletons"][edit["number"]]["animation"]
    prim = stage.GetPrimAtPath(path) if path else None
    if not prim:
        raise Refused(f"has no animation of {edit['skeleton']} any more; load it again")
    return prim


class _Values:
    """Values of some channels of an animation, with additions.

    `codes` (t,) are the time codes of frames and of the file's values, `file_codes` codes of the
    file's values alone. `names` are the joints or shapes of the animation, `columns` the indices of
    those that are changed.
    """

    def __init__(
        self,
        prim: Any,
        edit: dict[str, Any],
        request: dict[str, Any],
        channels: Iterable[str],
        listed: Any,
        changed: list[str],
    ) -> None:
        self.prim, self.edit, self.request = prim, edit, request
        self.animation = UsdSkel.Animation(prim)
        self.frames: np.ndarray = request["clips"][0]["codes"]
        self.replaces = request["new"] or request["additive"]
        samples = [np.array(prim.GetAttribute(n).GetTimeSamples(), float) for n in channels]
        self.file_codes = np.round(np.concatenate(samples), 6)
        frames = np.round(self.frames, 6)
        codes = [frames] if self.replaces else [frames, self.file_codes]
        self.codes = np.unique(np.concatenate(codes))
        names = [] if self.replaces else [str(name) for name in listed or []]
        self.n_listed = len(names)
        self.names = [*names, *(name for name in changed if name not in names)]
        self.columns = [self.names.index(name) for name in changed]

    @property
    def has_new_names(self) -> bool:
        """Whether the animation gets joints or shapes that it did not have."""
        return len(self.names) > self.n_listed

    def _spread(self, added: np.ndarray, nothing: Any, rotation: bool = False) -> np.ndarray:
        """Return the additions at all time codes, (t, c): the neutral `nothing` outside frames."""
        spread = Keys(self.frames, added, None, rotation).at(self.codes)
        outside = (self.codes < self.frames[0] - 1e-6) | (self.codes > self.frames[-1] + 1e-6)
        spread[outside] = nothing
        return spread

    def _key_indices(self, tracks: list[tuple[np.ndarray, float, bool]]) -> np.ndarray:
        """Return indices of the time codes of keys: the file's keys, and keys of the tracks."""
        if self.request["keys"] == "every":
            return np.arange(len(self.codes))
        between = np.flatnonzero(~np.isin(self.codes, np.round(self.frames, 6)))
        chosen = {0, len(self.codes) - 1, *between.tolist()}
        if not self.replaces:  # other channels keep their keys
            chosen |= set(np.flatnonzero(np.isin(self.codes, self.file_codes)).tolist())
        for values, tolerance, rotation in tracks:
            keys = reduced_keys(
                self.codes, values, tolerance, "linear", rotation=rotation, kept=chosen
            )
            chosen |= set(np.searchsorted(self.codes, keys.times).tolist())
        return np.array(sorted(chosen))


class _JointValues(_Values):
    """Transforms of joints."""

    edited = "joints"

    def __init__(
        self, stage: Any, prim: Any, edit: dict[str, Any], request: dict[str, Any]
    ) -> None:
        listed = UsdSkel.Animation(prim).GetJointsAttr().Get()
        super().__init__(prim, edit, request, CHANNELS, listed, edit["joints"])
        rest = self._rest(UsdSkel.Skeleton(stage.GetPrimAtPath(edit["skeleton"])))
        self.tables = {name: self._base(name, rest[name]) for name in CHANNELS}
        for name, (_, nothing) in CHANNELS.items():
            for k, place in enumerate(self.columns):
                self._add(name, place, edit[name][:, k], nothing)

    def _base(self, name: str, rest: np.ndarray) -> np.ndarray:
        """Return the animation's values at all codes, (t, j, c); rest values for new joints."""
        attribute, count, rows = self.prim.GetAttribute(name), self.n_listed, []
        for code in self.codes:
            row = as_array(attribute.Get(float(code)), np.float64, CHANNELS[name][0])
            fits = count and row is not None and len(row) == count
            rows.append(np.vstack([row, rest[count:]]) if fits else rest)  # type: ignore[list-item]
        return np.stack(rows)

    def _rest(self, skeleton: Any) -> dict[str, np.ndarray]:
        """Return the rest values (j, c) of each channel; neutral values without rest transforms."""
        joints = [str(joint) for joint in skeleton.GetJointsAttr().Get() or []]
        values = {
            name: np.tile(np.array(neutral), (len(self.names), 1))
            for name, (_, neutral) in CHANNELS.items()
        }
        matrices = skeleton.GetRestTransformsAttr().Get()
        if matrices is None or len(matrices) != len(joints):
            return values
        for channel, part in zip(CHANNELS, UsdSkel.DecomposeTransforms(matrices), strict=True):
            value = as_array(part, np.float64, CHANNELS[channel][0])
            for k, name in enumerate(self.names if value is not None else ()):
                if name in joints:
                    values[channel][k] = value[joints.index(name)]  # type: ignore[index]
        return values

    def _add(self, name: str, place: int, added: np.ndarray, nothing: Any) -> None:
        table = self.tables[name]
        if self.request["new"] and not self.request["additive"]:
            table[:, place] = added
        elif name == "rotations":
            table[:, place] = multiply(table[:, place], self._spread(added, nothing, True))
        elif name == "scales":
            table[:, place] *= self._spread(added, nothing)
        else:
            table[:, place] += self._spread(added, nothing)

    def key_indices(self) -> np.ndarray:
        """Return the indices of key codes."""
        return self._key_indices(
            [
                (self.tables[name][:, place], float(tolerance), name == "rotations")
                for name in CHANNELS
                for place, tolerance in zip(
                    self.columns, self.edit["tolerances"][name], strict=True
                )
            ]
        )

    def write(self, keys: np.ndarray) -> None:
        """Write the values at the keys; channels without changes are omitted."""
        if self.has_new_names:
            self.animation.CreateJointsAttr(Vt.TokenArray(self.names))
        for name, (_, nothing) in CHANNELS.items():
            changed = np.abs(self.edit[name] - nothing).max(initial=0) > 0
            if not (self.has_new_names or changed or self.request["new"]):
                continue
            attribute = getattr(self.animation, f"Create{name.capitalize()}Attr")()
            values = self.tables[name]
            if name == "rotations" and len(values) > 1:
                values = np.stack([continuous(each) for each in values.transpose(1, 0, 2)], axis=1)
            for k in keys:
                attribute.Set(_stored(name, values[k]), float(self.codes[k]))


class _WeightValues(_Values):
    """Weights of blend shapes."""

    edited = "shapes"

    def __init__(
        self, stage: Any, prim: Any, edit: dict[str, Any], request: dict[str, Any]
    ) -> None:
        listed = UsdSkel.Animation(prim).GetBlendShapesAttr().Get()
        super().__init__(prim, edit, request, ["blendShapeWeights"], listed, edit["shapes"])
        attribute, count = prim.GetAttribute("blendShapeWeights"), self.n_listed
        self.table = np.zeros((len(self.codes), len(self.names)))
        for row, code in zip(self.table, self.codes, strict=True):
            weights = as_array(attribute.Get(float(code)), np.float64) if count else None
            if weights is not None and len(weights) == count:
                row[:count] = weights
        self.table[:, self.columns] += self._spread(edit["weights"], 0.0)
        if edit["bounded"]:
            self.table[:, self.columns] = np.clip(self.table[:, self.columns], 0, 1)

    def key_indices(self) -> np.ndarray:
        """Return the indices of key codes."""
        pairs = zip(self.columns, self.edit["tolerances"]["weights"], strict=True)
        return self._key_indices([(self.table[:, [k]], float(most), False) for k, most in pairs])

    def write(self, keys: np.ndarray) -> None:
        """Write the values at the keys."""
        if self.has_new_names:
            self.animation.CreateBlendShapesAttr(Vt.TokenArray(self.names))
        attribute = self.animation.CreateBlendShapeWeightsAttr()
        for k in keys:
            row = Vt.FloatArray.FromNumpy(self.table[k].astype(np.float32))
            attribute.Set(row, float(self.codes[k]))


def _stored(name: str, values: np.ndarray) -> Any:
    rows = np.ascontiguousarray(values, np.float32)
    if name == "rotations":
        return Vt.QuatfArray.FromNumpy(rows)
    if name == "scales":
        return Vt.Vec3hArray.FromNumpy(np.ascontiguousarray(values, np.float16))
    return Vt.Vec3fArray.FromNumpy(rows)
