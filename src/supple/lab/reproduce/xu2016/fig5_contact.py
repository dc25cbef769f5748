"""xu2016 fig. 5: bases with contact constraints prevent self-penetration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.app.pictures.drawing import save_picture
from supple.arrays import Floats
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.step_options import PAPERS_INTEGRATOR
from supple.lab.reproduce.figures import Tell
from supple.lab.reproduce.xu2016.fig5_sections import (
    Slice,
    Touching,
    contact_picture,
    penetration,
    touching_skin,
)
from supple.mesh.boundary_contacts import find_boundary_contacts
from supple.playback.character_models import scene_model
from supple.reduction.contact_constraints import contact_constraints
from supple.rig.tets.vertex_frames import rotate_basis
from supple.scenes.characters.character_scene import Scene, scene

#: Pressures on all touching skin in Pa.
_PRESSURES = (300.0, 1000.0, 2000.0, 3000.0, 4000.0)
#: Allowed penetration in parts of the size, and factor by which the other basis exceeds it.
_ALLOWED, _DEEPER = 0.002, 5.0
_STEPS = 90
#: Time span of the arm's motion in which it flexes twice, and frames between measurements.
_FLEXING, _EVERY = (0.6, 1.9), 6
#: Weight of the flexed pose above which its contact is expected.
_NEAR = 0.6
_QUICK: dict[str, Any] = {
    "tets": 1500,
    "modes": (5, 5, 5),
    "elastic_cubature": 40,
    "inertial_cubature": 15,
}


@dataclass(frozen=True, eq=False)
class _Case:
    """Pose with self-contact, and two models of it."""

    scene: Scene
    pose: str
    bound: PoseSpaceModel
    free: PoseSpaceModel
    touching: Touching
    skin: Floats
    depths: Floats  # penetration of the pose itself

    @property
    def models(self) -> dict[str, PoseSpaceModel]:
        return {"with": self.bound, "without": self.free}

    def deepest(self, posed: NDArray, before: Floats | None = None) -> float:
        """Return the deepest penetration beyond that of the rest shape, in parts of the size."""
        surface = self.bound.surface
        deeper = penetration(surface, posed) - (self.depths if before is None else before)
        return max(float(deeper.max()), 0.0) / surface.size


def run(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Press touching skins together, with and without contact constraints in the basis."""
    tell(0.02, "the arm")
    arm = _arm_case(quick, tell)
    pressures = (2000.0, 10_000.0) if quick else _PRESSURES
    rows: list[dict[str, Any]] = []
    skins: dict[str, NDArray] = {}
    for at, pressure in enumerate(pressures):
        tell(0.4 + 0.2 * at / len(pressures), f"{pressure / 1000:g} kPa")
        row, skins = _pressed(arm, pressure, None, 40 if quick else _STEPS)
        rows.append({"pressure_kpa": pressure / 1000, **row})
    others = [] if quick else [*_one_sided(arm), *_in_motion(arm, tell), *_hug(tell)]
    tell(0.95, "drawing")
    slices = {name: Slice.through(arm.touching, arm.skin, skin) for name, skin in skins.items()}
    picture = contact_picture(arm.bound, arm.skin, arm.touching.vertices, slices, rows)
    save_picture(picture, folder / "fig5.png")
    return _figures(arm, rows, others)


def _figures(
    arm: _Case, rows: list[dict[str, Any]], others: list[dict[str, Any]]
) -> dict[str, Any]:
    strong = next(
        (row for row in rows if row["without_percent"] >= 100 * _DEEPER * _ALLOWED), rows[-1]
    )
    contacts = find_boundary_contacts(
        arm.bound.mesh, None, arm.bound.tet_rig(arm.scene.pose(arm.pose))
    )
    worst = max(row["with_percent"] for row in rows)
    held = strong["with_percent"] < 100 * _ALLOWED and strong["without_percent"] >= max(
        100 * _DEEPER * _ALLOWED, _DEEPER * strong["with_percent"]
    )
    return {
        "title": "Fig. 5: a flexed arm whose skins press on each other",
        "message": _message(strong, rows, others),
        "contact_points": {"ours": len(contacts), "paper": 197},
        "constraint_rows": {
            "ours": contact_constraints(contacts, len(arm.bound.mesh.vertices)).shape[0],
            "paper": 54,
        },
        "constraints_left_by_the_basis": {
            name: _left_open(model, arm.pose) for name, model in arm.models.items()
        },
        "deepest_percent_of_size": {
            "pressure_kpa": strong["pressure_kpa"],
            "with": strong["with_percent"],
            "without": strong["without_percent"],
            "allowed_with": 100 * _ALLOWED,
            "at_any_pressure_with": worst,
        },
        "held": held,
        "rows": rows,
        **({"other_loads": others} if others else {}),
        "note": "Penetration of the skin beyond that of the pose itself, in percent of the "
        "body's diagonal; the pressure acts on all touching skin, towards the touched part, "
        "for a second. The paper has a picture only. Constraints left: largest |C U| over the "
        "largest |U| on the touching skin.",
    }


def _message(
    strong: dict[str, Any], rows: list[dict[str, Any]], others: list[dict[str, Any]]
) -> str:
    """Return a summary of the results, with the loads under which skins penetrate."""
    inside, outside = strong["without_percent"], strong["with_percent"]
    text = (
        f"Pressed with {strong['pressure_kpa']:g} kPa, the skins penetrate by {outside:.2g} % of "
        f"the size with contact constraints in the basis, and by {inside:.2g} % without."
    )
    loads = [f"{row['pressure_kpa']:g} kPa" for row in rows if _penetrates(row)]
    loads += [row["load"] for row in others if _penetrates(row)]
    if loads:
        text += f" With them they exceed {100 * _ALLOWED:g} % under: {'; '.join(loads)}."
    if inside < max(100 * _ALLOWED, _DEEPER * outside):
        text += " These forces do not distinguish the two bases."
    return text


def _penetrates(row: dict[str, Any]) -> bool:
    return row["with_percent"] >= 100 * _ALLOWED


def _arm_case(quick: bool, tell: Tell) -> _Case:
    arm, flexed = scene("arm"), "flexed"
    if not quick:
        bound = scene_model("arm")
        tell(0.15, "the arm without contact")
        return _case(arm, flexed, bound, scene_model("arm", contacts=None))
    return _two_poses(arm, flexed, _QUICK)


def _two_poses(chosen: Scene, pose: str, changes: dict[str, Any]) -> _Case:
    """Build models of the neutral pose and one other pose."""
    recipe = chosen.recipe() | {"poses": {n: chosen.pose(n) for n in (chosen.pose_names[0], pose)}}
    if chosen.young is not None:
        recipe["young"] = chosen.young[[0, chosen.pose_names.index(pose)]]
    still = replace(chosen.character, motions={})  # tets are not fitted to unused motions
    bound = build(still, **(recipe | changes))
    apart = {"tets": bound.mesh, "contacts": None}
    free = build(still, **(recipe | changes | apart))
    return _case(chosen, pose, bound, free)


def _case(chosen: Scene, pose: str, bound: PoseSpaceModel, free: PoseSpaceModel) -> _Case:
    skin = np.asarray(bound.rig(chosen.pose(pose)), np.float64)
    corners = bound.mesh.vertices[bound.mesh.boundary()]
    edge = float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).mean())
    touching = touching_skin(
        bound.surface, skin, 0.5 * edge
    )  # the distance of contacts of the tets
    return _Case(chosen, pose, bound, free, touching, skin, penetration(bound.surface, skin))


def _pressed(
    case: _Case, pressure: float, only: NDArray[np.bool_] | None, steps: int
) -> tuple[dict[str, float], dict[str, NDArray]]:
    """Return the deepest penetration with each basis under a constant pressure, and the skins."""
    forces = case.touching.pressed(pressure, only)
    row: dict[str, float] = {}
    skins: dict[str, NDArray] = {}
    for name, model in case.models.items():
        simulator = PoseSpaceSimulator(model, integrator=PAPERS_INTEGRATOR)
        simulator.reset(case.scene.pose(case.pose))
        for _ in range(steps):
            simulator.step(forces=forces)
        skins[name] = simulator.surface()
        row[f"{name}_percent"] = 100 * case.deepest(skins[name])
        displacements = np.linalg.norm(skins[name] - case.skin, axis=1)
        row[f"{name}_moved_mm"] = 1000 * float(displacements.max())
    return row, skins


def _one_sided(case: _Case) -> list[dict[str, Any]]:
    """Press on one of the two parts only, so that it pushes the other away."""
    rows = []
    for name in ("upper arm", "forearm"):
        part = case.scene.parts[case.touching.vertices] == case.scene.part_names.index(name)
        row, _ = _pressed(case, _PRESSURES[-2], part, _STEPS)
        load = f"{_PRESSURES[-2] / 1000:g} kPa on the {name} only"
        rows.append({"load": load, **_percents(row)})
    return rows


def _in_motion(case: _Case, tell: Tell) -> list[dict[str, Any]]:
    """Play the scene's flexing motion; return penetration in all of it, and near the pose.

    Between poses there are no contact constraints, and the rig's shape penetrates itself.
    """
    (motion,) = case.scene.character.motions.values()
    keys = motion.smooth.resample(90.0)
    first, last = np.searchsorted(keys.times - keys.times[0], _FLEXING)
    flexed = case.bound.pose_names.index(case.pose)
    whole: dict[str, Any] = {"load": "the arm's flexing motion"}
    near: dict[str, Any] = {"load": f"of that, where the flexed pose counts > {_NEAR:g}"}
    for at, (name, model) in enumerate(case.models.items()):
        tell(0.65 + 0.05 * at, f"flexing, {name} contact")
        simulator = PoseSpaceSimulator(model, integrator=PAPERS_INTEGRATOR)
        simulator.reset(keys.poses[first], keys.roots[first])
        for frame in range(first + 1, last):
            simulator.step(keys.poses[frame], keys.roots[frame])
            if (frame - first) % _EVERY:
                continue
            rotation, offset = keys.roots[frame][:3, :3], keys.roots[frame][:3, 3]
            before = penetration(model.surface, case.bound.rig(keys.poses[frame]))
            depths = {
                f"{name}_percent": case.deepest((simulator.surface() - offset) @ rotation, before),
                "rig_itself_percent": float(before.max()) / model.surface.size,
            }
            for row in (whole, near) if simulator.weights[flexed] > _NEAR else (whole,):
                row |= {key: max(row.get(key, 0.0), 100 * each) for key, each in depths.items()}
    return [whole, near]


def _hug(tell: Tell) -> list[dict[str, Any]]:
    """Press the bear's arms on its body."""
    tell(0.75, "the bear's hug")
    case = _two_poses(scene("bear"), "hug", {})
    rows = []
    for pressure in (_PRESSURES[1], _PRESSURES[3]):
        row, _ = _pressed(case, pressure, None, _STEPS)
        rows.append({"load": f"bear, hug, {pressure / 1000:g} kPa", **_percents(row)})
    return rows


def _percents(row: dict[str, float]) -> dict[str, float]:
    return {name: row[name] for name in ("with_percent", "without_percent")}


def _left_open(model: PoseSpaceModel, pose: str) -> float:
    """Return the largest |C U| at a pose relative to the largest |U|: violated constraints."""
    at = model.pose_names.index(pose)
    rest = model.tet_rig(model.poses[at])
    rows = contact_constraints(
        find_boundary_contacts(model.mesh, None, rest), len(model.mesh.vertices)
    )
    involved = np.unique(rows.indices // 3)
    broken = largest = 0.0
    for vertices, bases in zip(model.basis_vertices, model.bases, strict=True):
        columns = np.zeros((len(model.mesh.vertices), 3, bases.shape[-1]))
        columns[vertices] = bases[at]
        if model.rotations is not None:  # bases are stored in the neutral pose's frames
            rotations = model.rotations[at, np.searchsorted(model.rotation_vertices, vertices)]
            columns[vertices] = rotate_basis(rotations, columns[vertices])
        open_ = np.abs(rows @ columns.reshape(-1, bases.shape[-1]))
        broken = max(broken, float(open_.max(initial=0.0)))
        largest = max(largest, float(np.abs(columns[involved]).max(initial=0.0)))
    return broken / max(largest, 1e-300)
