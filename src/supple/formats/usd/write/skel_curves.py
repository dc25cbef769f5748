"""New values of skeletal animations, written to a layer (in the writing process)."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.formats.usd.layers import Refused, Sdf, UsdSkel, Vt
from supple.formats.usd.prims import as_array
from supple.maths.key_reduction import Keys, reduced_keys
from supple.maths.rotations import continuous, multiply

#: Channels of an animation: widths, and neutral values.
CHANNELS = {
    "translations": (3, (0.0, 0.0, 0.0)),
    "rotations": (4, (0.0, 0.0, 0.0, 1.0)),
    "scales": (3, (1.0, 1.0, 1.0)),
}


def author_curves(stage: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Write new values of free joints and shapes to animations; return numbers of keys.

    A request's ``edits`` have the ``skeleton`` and ``animation`` of each, and values to add at the
    clip's codes: ``joints`` with ``rotations`` (t, j, 4), ``translations`` and ``scales`` (t, j,
    3), and ``shapes`` with ``weights`` (t, b). For a motion that is ``new`` to the file they are
    the values themselves.
    """
    figures = {"n_keys": 0, "n_samples": 0, "channels": 0}
    for edit in request["edits"]:
        prim = _animation(stage, request, edit)
        channels: list[_JointValues | _WeightValues] = []
        if edit["joints"]:
            channels.append(_JointValues(stage, prim, edit, request))
        if edit["shapes"]:
            channels.append(_WeightValues(stage, prim, edit, request))
        for channel in channels:
            keys = channel.chosen()
            channel.write(keys)
            figures["n_keys"] += len(keys) * channel.width
            figures["n_samples"] += len(channel.codes) * channel.width
            figures["channels"] += channel.width
    return figures


def _animation(stage: Any, request: dict[str, Any], edit: dict[str, Any]) -> Any:
    """Return the animation to change: the file's, the new one, or an additive one."""
    path = request["clips"][0]["skeletons"][edit["number"]]["animation"]
    if request["additive"]:
        name = request["clips"][0]["animation_name"]
        identifier = "".join(c if c.isascii() and c.isalnum() else "_" for c in f"{name}_additive")
        parent = Sdf.Path(edit["skeleton"])
        identifier = identifier if not identifier[0].isdigit() else f"_{identifier}"
        return UsdSkel.Animation.Define(stage, parent.AppendChild(identifier)).GetPrim()
    prim = stage.GetPrimAtPath(path) if path else None
    if not prim:
        raise Refused(f"has no animation of {edit['skeleton']} any more; load it again")
    return prim


class _Values:
    """Values of an animation at all its codes, with additions."""

    width = 1
    codes: np.ndarray
    """(t,) time codes of frames and of the file's values."""
    own: np.ndarray
    """Time codes of the file's values."""

    def __init__(self, stage: Any, prim: Any, edit: dict[str, Any], request: Any) -> None:
        self.stage, self.prim, self.edit, self.request = stage, prim, edit, request
        self.frames: np.ndarray = request["clips"][0]["codes"]
        self.replaces = request["new"] or request["additive"]
        self.animation = UsdSkel.Animation(prim)

    def _codes(self, names: tuple[str, ...]) -> np.ndarray:
        """Return the codes of frames and of the file's values."""
        file_codes = (
            [] if self.replaces else [self.prim.GetAttribute(n).GetTimeSamples() for n in names]
        )
        times = np.concatenate([self.frames, *(np.array(each, float) for each in file_codes)])
        return np.unique(np.round(times, 6))

    def _spread(self, added: np.ndarray, nothing: Any, rotation: bool = False) -> np.ndarray:
        """Return what is added at all codes, (t, c): `nothing` outside the frames."""
        spread = Keys(self.frames, added, None, rotation).at(self.codes)
        outside = (self.codes < self.frames[0] - 1e-6) | (self.codes > self.frames[-1] + 1e-6)
        spread[outside] = nothing
        return spread

    def _key_codes(self, tracks: list[tuple[np.ndarray, float, bool]]) -> np.ndarray:
        """Return the indices of key codes: the file's, and those that the tracks need."""
        if self.request["keys"] == "every":
            return np.arange(len(self.codes))
        file_codes = np.flatnonzero(~np.isin(self.codes, np.round(self.frames, 6)))
        chosen = {0, len(self.codes) - 1, *file_codes.tolist()}
        if not self.replaces:  # other channels keep their keys
            chosen |= set(np.flatnonzero(np.isin(self.codes, self.own)).tolist())
        for values, tolerance, rotation in tracks:
            keys = reduced_keys(
                self.codes, values, tolerance, "linear", rotation=rotation, kept=chosen
            )
            chosen |= set(np.searchsorted(self.codes, keys.times).tolist())
        return np.array(sorted(chosen))


class _JointValues(_Values):
    """Transforms of joints."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.codes = self._codes(tuple(CHANNELS))
        self.own = self._own(tuple(CHANNELS))
        listed = (
            [] if self.replaces else [str(j) for j in self.animation.GetJointsAttr().Get() or []]
        )
        added = [name for name in self.edit["joints"] if name not in listed]
        self.names, self.has_new_names = [*listed, *added], bool(added)
        self.columns = [self.names.index(name) for name in self.edit["joints"]]
        self.width = len(self.columns)
        self.tables = {name: self._base(name, len(listed)) for name in CHANNELS}
        for name, (_, nothing) in CHANNELS.items():
            for k, place in enumerate(self.columns):
                self._add(name, place, self.edit[name][:, k], nothing)

    def _own(self, names: tuple[str, ...]) -> np.ndarray:
        codes = [np.array(self.prim.GetAttribute(n).GetTimeSamples(), float) for n in names]
        return np.round(np.concatenate(codes), 6)

    def _base(self, name: str, count: int) -> np.ndarray:
        """Return the animation's values at all codes, (t, j, c); rest values for new joints."""
        width = CHANNELS[name][0]
        rest = self._rest()[name]
        attribute, rows = self.prim.GetAttribute(name), []
        for code in self.codes:
            row = as_array(attribute.Get(float(code)), np.float64, width) if count else None
            if row is not None and len(row) == count:
                rows.append(np.vstack([row, rest[count:]]))
            else:
                rows.append(rest)
        return np.stack(rows)

    def _rest(self) -> dict[str, np.ndarray]:
        skeleton = UsdSkel.Skeleton(self.stage.GetPrimAtPath(self.edit["skeleton"]))
        joints = [str(joint) for joint in skeleton.GetJointsAttr().Get() or []]
        values = {
            name: np.tile(np.array(still), (len(self.names), 1))
            for name, (_, still) in CHANNELS.items()
        }
        matrices = skeleton.GetRestTransformsAttr().Get()
        if matrices is None or len(matrices) != len(joints):
            return values
        parts = UsdSkel.DecomposeTransforms(matrices)
        for k, name in enumerate(self.names):
            if name in joints:
                for channel, part in zip(CHANNELS, parts, strict=True):
                    value = as_array(part, np.float64, CHANNELS[channel][0])
                    if value is not None:
                        values[channel][k] = value[joints.index(name)]
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

    def chosen(self) -> np.ndarray:
        """Return the indices of key codes."""
        tracks = []
        for name in CHANNELS:
            tolerance = self.edit["tolerances"][name]
            for k, place in enumerate(self.columns):
                values = self.tables[name][:, place]
                tracks.append((values, float(tolerance[k]), name == "rotations"))
        return self._key_codes(tracks)

    def write(self, chosen: np.ndarray) -> None:
        """Write the values; channels without changes are omitted."""
        if self.has_new_names:
            self.animation.CreateJointsAttr(Vt.TokenArray(self.names))
        changed = {
            name
            for name, (_, nothing) in CHANNELS.items()
            if self.has_new_names or np.abs(self.edit[name] - nothing).max(initial=0) > 0
        }
        for name in CHANNELS:
            if name not in changed and not self.request["new"]:
                continue
            attribute = getattr(self.animation, f"Create{name.capitalize()}Attr")()
            values = self.tables[name]
            if name == "rotations" and len(values) > 1:
                values = np.stack([continuous(each) for each in values.transpose(1, 0, 2)], axis=1)
            for k in chosen:
                attribute.Set(_stored(name, values[k]), float(self.codes[k]))


class _WeightValues(_Values):
    """Weights of blend shapes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.codes = self._codes(("blendShapeWeights",))
        attribute = self.prim.GetAttribute("blendShapeWeights")
        self.own = np.round(np.array(attribute.GetTimeSamples(), float), 6)
        listed = [] if self.replaces else self.animation.GetBlendShapesAttr().Get() or []
        names = [str(name) for name in listed]
        added = [name for name in self.edit["shapes"] if name not in names]
        self.names, self.has_new_names = [*names, *added], bool(added)
        self.columns = [self.names.index(name) for name in self.edit["shapes"]]
        self.width = len(self.columns)
        self.table = np.zeros((len(self.codes), len(self.names)))
        for row, code in zip(self.table, self.codes, strict=True):
            weights = as_array(attribute.Get(float(code)), np.float64) if names else None
            if weights is not None and len(weights) == len(names):
                row[: len(names)] = weights
        self.table[:, self.columns] += self._spread(self.edit["weights"], 0.0)
        if self.edit["bounded"]:
            self.table[:, self.columns] = np.clip(self.table[:, self.columns], 0, 1)

    def chosen(self) -> np.ndarray:
        """Return the indices of key codes."""
        tolerance = self.edit["tolerances"]["weights"]
        tracks = [
            (self.table[:, [place]], float(tolerance[k]), False)
            for k, place in enumerate(self.columns)
        ]
        return self._key_codes(tracks)

    def write(self, chosen: np.ndarray) -> None:
        """Author the values."""
        if self.has_new_names:
            self.animation.CreateBlendShapesAttr(Vt.TokenArray(self.names))
        attribute = self.animation.CreateBlendShapeWeightsAttr()
        for k in chosen:
            row = Vt.FloatArray.FromNumpy(self.table[k].astype(np.float32))
            attribute.Set(row, float(self.codes[k]))


def _stored(name: str, values: np.ndarray) -> Any:
    rows = np.ascontiguousarray(values, np.float32)
    if name == "rotations":
        return Vt.QuatfArray.FromNumpy(rows)
    if name == "scales":
        return Vt.Vec3hArray.FromNumpy(np.ascontiguousarray(values, np.float16))
    return Vt.Vec3fArray.FromNumpy(rows)
