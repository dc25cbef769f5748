"""Displacement of flesh from the rig in a bake: its size and place, and advice if it is small."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.hard_parts import MOSTLY_HARD, SOFTER, HardSkin, hard_parts, listed_parts
from supple.anatomy.skin_regions import leading_joints
from supple.arrays import Bools, Floats, Ints
from supple.engines.common.flesh_fields import FleshFields
from supple.errors import SuppleError, warn
from supple.playback.bake_model import GivenAnatomy
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.joint_names import normalised_name
from supple.rig.skeleton.skinning import skinned_rigs
from supple.rig.stored_rigs import GIVEN, stored_rig
from supple.user_cache import Arrays, cached, content_hash, running_cache

#: Peaks relative to the size below which flesh counts as still, and above which as too soft.
STILL, TOO_MUCH = 0.002, 0.2
#: Acceleration of the rig, in sizes per s², below which it explains still flesh: a whale that swims
#: slowly has 0.3, walking animals 3 and more.
CALM = 1.0
#: The same for a rig that does not move at all.
UNMOVED = 1e-3
#: Part of the steps in which the rig jumps, above which that explains still flesh.
JUMPY = 0.02
#: Most regions that a report lists.
LISTED = 3
#: Weight of fixed tet vertices from which a vertex of the skin is hard.
FIXED = 0.95
_HARD_PARTS = running_cache(".hard.npz", 100)


@dataclass(frozen=True, eq=False)
class FleshMotion:
    """Displacement of the skin from the rig over the frames of a bake.

    Attributes
    ----------
    size
        Size of the character in metres.
    peaks
        (n̄,) largest displacement of each vertex in metres.
    time
        Seconds in the clip at which the largest displacement occurs.
    rms
        Root mean square of the displacement over vertices and frames, in metres.
    accelerations
        (n̄,) largest acceleration of each vertex by the rig alone, in m/s².
    """

    size: float
    peaks: Floats
    time: float
    rms: float
    accelerations: Floats

    @classmethod
    def of(cls, baked: BakedMotion) -> FleshMotion:
        """Measure a bake; the rig is evaluated frame by frame."""
        count, vertices = baked.frames.shape[:2]
        squares, changes = np.zeros(vertices), np.zeros(vertices)
        total, largest, at = 0.0, -1.0, 0
        recent: list[Floats] = []
        for frame in range(count):
            rig = baked.rig_frame(frame)
            displacements = baked.frames[frame] - rig
            square = np.einsum("ni,ni->n", displacements, displacements)
            np.maximum(squares, square, out=squares)
            total += float(square.sum())
            if (most := float(square.max())) > largest:
                largest, at = most, frame
            recent = [rig] if frame in baked.motion.cuts else [*recent[-2:], rig]
            if len(recent) == 3:
                change = recent[2] - 2 * recent[1] + recent[0]
                np.maximum(changes, np.einsum("ni,ni->n", change, change), out=changes)
        return cls(
            baked.character.surface.size,
            np.sqrt(squares),
            float(baked.times[at]),
            float(np.sqrt(total / max(count * vertices, 1))),
            np.sqrt(changes) * baked.rate**2,
        )

    @property
    def peak(self) -> float:
        """Largest displacement in metres."""
        return float(self.peaks.max(initial=0.0))

    @property
    def part(self) -> float:
        """Largest displacement relative to the size."""
        return self.peak / max(self.size, 1e-300)

    def acceleration(self, soft: Bools) -> float:
        """Return the 95th percentile of the accelerations in m/s² at vertices in a mask (n̄,)."""
        chosen = self.accelerations[soft] if soft.any() else self.accelerations
        return float(np.quantile(chosen, 0.95)) if len(chosen) else 0.0

    def figures(self, regions: SkinNames) -> dict[str, Any]:
        """Return the figures for the report of a bake."""
        return {
            "peak": _rounded(self.peak),
            "peak_part": _rounded(self.part),
            "peak_time": _rounded(self.time),
            "rms": _rounded(self.rms),
            "moved": [
                {"region": name, "peak": _rounded(peak)} for name, peak in regions.top(self.peaks)
            ],
        }


@dataclass(frozen=True, eq=False)
class SkinNames:
    """Names of regions of a skin, as in the character's file.

    `of_vertex` (n̄,) is an index into `names`: joints, or meshes of a skin without joints.
    """

    names: Sequence[str]
    of_vertex: Ints

    @classmethod
    def of(cls, character: Character) -> SkinNames:
        """Choose the names of regions: joints if the rig is one skin, otherwise meshes, if any."""
        count = len(character.surface.vertices)
        skinned = skinned_rigs(character.rig)
        if len(skinned) == 1 and skinned[0].n_vertices == count:
            rig = skinned[0]
            return cls(rig.skeleton.names, leading_joints(rig.weight_matrix())[0])
        meshes = {
            label.partition(":")[2]: vertices
            for label, vertices in character.labels.items()
            if label.startswith("mesh:")
        }
        of_vertex = np.full(count, -1)
        for number, vertices in enumerate(meshes.values()):
            of_vertex[vertices] = number
        return cls(list(meshes), of_vertex)

    def top(self, values: Floats, most: int = LISTED) -> list[tuple[str, float]]:
        """Return the names with the largest values (n̄,), largest first.

        Of joints whose names differ by a number or the side, such as joints of a tail or two
        thighs, only the one with the largest value is listed.
        """
        largest = np.zeros(len(self.names))
        named = self.of_vertex >= 0
        np.maximum.at(largest, self.of_vertex[named], values[named])
        by_plain_name: dict[str, tuple[str, float]] = {}
        for region in np.argsort(-largest, kind="stable"):
            name, value = self.names[region], float(largest[region])
            plain = re.sub(r"\d+", "", normalised_name(name)[1]) or name
            if value > 0:
                by_plain_name.setdefault(plain, (name, value))
            if len(by_plain_name) == most:
                break
        return list(by_plain_name.values())


def report_flesh(bakes: Sequence[BakedMotion], model: Any, anatomy: GivenAnatomy) -> None:
    """Add to each report how far flesh moves, where, and which skin is hard; warn of still flesh.

    `anatomy` is from the model's build. The reports get the figures of `FleshMotion` and
    `HardSkin`, and ``"advice"``, a reason and what to try, if flesh hardly moves or moves too much.
    """
    if not bakes:
        return
    character = bakes[0].character
    regions = SkinNames.of(character)
    try:
        hard = hard_skin(character, model, anatomy)
    except SuppleError as error:  # the bakes are complete
        warn(f"{character.name}: hard skin is unknown: {error}")
        hard = None
    for baked in bakes:
        motion = FleshMotion.of(baked)
        baked.report.update(motion.figures(regions))
        baked.report.update({} if hard is None else hard.figures())
        if baked.n_frames < 3:
            continue  # flesh starts undeformed, and has no time to move
        if motion.part > TOO_MUCH:
            advice = "if that is too much, use firm flesh or more damping"
            baked.report["advice"] = advice
            far = f"flesh moves by up to {100 * motion.part:.0f} % of the size"
            when = f"at {motion.time:.2f} s"
            warn(f'motion "{baked.motion.name}": {far} {when}; {advice}')
        elif motion.part < STILL:
            advice = _still_advice(motion, hard, baked.report)
            baked.report["advice"] = advice
            still = f"flesh moves by at most {100 * motion.part:.2g} % of the size"
            warn(f'motion "{baked.motion.name}": {still}: {advice}')


def _still_advice(motion: FleshMotion, hard: HardSkin | None, report: Mapping[str, Any]) -> str:
    """Return the reason why flesh hardly moves, and what to try.

    `report` is that of the bake: the limits that acted, and the factor by which flesh was made
    stiffer for a violent motion.
    """
    stiffened, steps = float(report.get("stiffness", 1.0)), int(report.get("steps", 0))
    jumps = int(report.get("limits", {}).get("teleport", 0))
    if jumps > JUMPY * steps:
        return f"the rig jumps in {jumps} of {steps} steps, without inertia; use keys without jumps"
    if hard is not None and hard.mask.all():
        return f"all of the skin is held hard; {_softer(hard)}"
    if stiffened > 1:
        stiffening = f"it was made {stiffened:g} times as stiff, as the motion is violent"
        return f"{stiffening}; use a slower motion, or final quality"
    if motion.accelerations.max(initial=0.0) < UNMOVED * motion.size:
        return "the motion does not move the rig; use a livelier motion"
    soft = np.ones(len(motion.peaks), bool) if hard is None else ~hard.mask
    if motion.acceleration(soft) < CALM * motion.size:
        calm = "the motion hardly accelerates the body"
        return f"{calm}; use a livelier motion, or soft or jelly flesh"
    if hard is not None and hard.share > MOSTLY_HARD:
        return f"{hard.text()}; {_softer(hard)}"
    return "the flesh is too stiff for this motion; use soft or jelly flesh"


def _softer(hard: HardSkin) -> str:
    if hard.parts:
        return SOFTER
    return "build a model with fewer fixed vertices"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def hard_skin(character: Character, model: Any, anatomy: GivenAnatomy) -> HardSkin | None:
    """Return the hard skin of a model; None if neither the model nor an anatomy determines it.

    Skin is hard if its tet vertices are fixed. The anatomy gives names and reasons of parts.
    """
    fixed = fixed_skin(model)
    parts = None if anatomy is None else _kept_parts(character, anatomy)
    if fixed is None and parts is None:
        return None
    areas = character.surface.vertex_areas()
    areas = areas / max(float(areas.sum()), 1e-300)
    if parts is None:
        assert fixed is not None
        return HardSkin(fixed, float(areas[fixed].sum()))
    of_vertex = parts["of_vertex"]
    hard = of_vertex >= 0 if fixed is None else fixed
    shares = np.bincount(of_vertex[hard] + 1, areas[hard], len(parts["names"]) + 1)
    return HardSkin(hard, float(areas[hard].sum()), tuple(listed_parts(parts, shares)))


def fixed_skin(model: Any) -> Bools | None:
    """Return the mask (n̄,) of skin on fixed tet vertices; None for engines without them."""
    if not isinstance(model, FleshFields):
        return None
    fixed = np.zeros(len(model.mesh.vertices), bool)
    fixed[model.fixed] = True
    weights: Floats = np.abs(model.embedding_weights)
    on_bone = (weights * fixed[model.embedding_vertices]).sum(axis=1)
    mask: Bools = on_bone >= FIXED * weights.sum(axis=1)
    return mask


def _kept_parts(character: Character, anatomy: GivenAnatomy) -> Arrays | None:
    """Return `hard_parts` from the cache, or compute them; None for several skeletons."""
    if len(skinned_rigs(character.rig)) > 1:
        return None
    if isinstance(anatomy, Anatomy):
        return hard_parts(anatomy, character)
    entries = anatomy if isinstance(anatomy, Mapping) else {}
    header, arrays = stored_rig(character.rig)
    black_box = any(part["kind"] == GIVEN for part in header["parts"])
    mesh, others = character.surface, (character.labels, character.painted, dict(entries))
    content = None
    if not black_box:
        content = content_hash(mesh.vertices, mesh.triangles, header, arrays, *others)
    made: Arrays = cached(
        _HARD_PARTS,
        "parts",
        lambda: hard_parts(anatomy_of(character, entries=entries), character),
        content,
    ).value
    return made
