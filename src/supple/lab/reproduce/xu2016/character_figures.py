"""xu2016 figs 1, 2, 8, 9, 12 and 13: four characters in motion, alignment, and its tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes

from supple.app.pictures.drawing import FLESH, INK, draw_surface, save_picture, view_axes
from supple.app.pictures.model_sheet import draw_pose_tree, region_colours
from supple.arrays import Floats, Singles
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.build.reduced_poses import ReducedPoses
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.lab.bench.timing import RATE, motion_of
from supple.lab.reproduce.figures import frame_view, label_chart, new_figure
from supple.playback.character_models import scene_model
from supple.progress import Progress
from supple.reduction.cubature.samples import dense_basis
from supple.rig.skeleton.inverse_kinematics import InverseKinematics
from supple.rig.tets.vertex_frames import unrotate_basis
from supple.scenes.characters.character_scene import scene

_SMALL: dict[str, Any] = {"tets": 2_000, "elastic_cubature": 60, "inertial_cubature": 30}


@dataclass(frozen=True, eq=False)
class Take:
    """Skins of a motion: by the rig alone and simulated, (t, n, 3) in the root's frame."""

    model: PoseSpaceModel
    rig: Singles
    skin: Singles
    fps: float

    @classmethod
    def of(cls, model: PoseSpaceModel, poses: Floats, roots: Floats | None = None) -> Take:
        """Simulate poses (t, s) and roots at 90 Hz; `fps` counts whole steps with the skin."""
        places = np.broadcast_to(np.eye(4), (len(poses), 4, 4)) if roots is None else roots
        simulator = PoseSpaceSimulator(model, 1 / RATE)
        simulator.reset(poses[0], places[0])
        skin = np.array(simulator.surface())
        skins, rigs, taken = [], [], []
        for pose, place in zip(poses, places, strict=True):
            began = perf_counter()
            simulator.step(pose, place)
            simulator.surface(skin)
            taken.append(perf_counter() - began)
            rigs.append(model.rig(pose).astype(np.float32))
            skins.append(((skin - place[:3, 3]) @ place[:3, :3]).astype(np.float32))
        return cls(model, np.array(rigs), np.array(skins), 1 / float(np.median(taken)))

    @property
    def displacements(self) -> Floats:
        """Distances (t, n) of the skin from the rig's, in m."""
        return np.linalg.norm(self.skin - self.rig, axis=2)

    def liveliest(self, count: int) -> list[int]:
        """Return frames with the largest displacement in each of `count` equal spans."""
        size = np.sqrt((self.displacements**2).mean(axis=1))
        spans = np.array_split(np.arange(len(size)), count)
        return [int(span[np.argmax(size[span])]) for span in spans]

    def figures(self) -> dict[str, Any]:
        """Return numbers of the take for a result."""
        size = self.model.surface.size
        return {
            "frames_per_second": self.fps,
            "largest_displacement_percent": 100 * float(self.displacements.max()) / size,
            "tets": len(self.model.mesh.tets),
            "triangles": len(self.model.surface.triangles),
            "modes": self.model.n_modes,
            "parameters": len(self.model.rig.parameters),
        }


def _draw(axes: Axes, take: Take, frame: int, view: Floats, most: float, title: str) -> None:
    """Draw a simulated skin, coloured by its distance from the rig's."""
    share = np.clip(take.displacements[frame] / most, 0, 1)
    tint = colormaps["YlOrRd"](share[take.model.surface.triangles].mean(axis=1))[:, :3]
    _surface(axes, take.skin[frame], take.model, tint, view, title)


def _surface(
    axes: Axes, points: Any, model: PoseSpaceModel, colour: Any, view: Floats, title: str
) -> None:
    draw_surface(axes, points, model.surface.triangles, colour=colour, view=view, shadow=0.3)
    flat = np.asarray(points) @ view[:2].T
    middle, half = (flat.min(axis=0) + flat.max(axis=0)) / 2, 0.55 * np.ptp(flat, axis=0).max()
    frame_view(axes, middle - half, middle + half, title)


def _strip(
    path: Path, take: Take, title: str, view: Floats, first: Sequence[tuple[Any, Any, str]]
) -> None:
    """Write a picture of panels (points, colour, title), then of the liveliest frames."""
    frames = take.liveliest(4)
    figure = new_figure((3.0 * (len(first) + len(frames)), 3.6), title, 12)
    panels = figure.subplots(1, len(first) + len(frames))
    for axes, (points, colour, text) in zip(panels, first, strict=False):
        _surface(axes, points, take.model, colour, view, text)
    most = float(np.percentile(take.displacements, 99.8))
    for axes, frame in zip(panels[len(first) :], frames, strict=True):
        _draw(axes, take, frame, view, most, f"{frame / RATE:.2f} s")
    save_picture(figure, path)


def _clip_take(name: str, quick: bool, seconds: float) -> Take:
    shown = scene(name)
    model = build(shown.character, **(shown.recipe() | _SMALL)) if quick else scene_model(name)
    keys = motion_of(model).smooth.resample(RATE)
    count = min(len(keys.poses), round((0.3 if quick else seconds) * RATE))
    return Take.of(model, keys.poses[:count], keys.roots[:count])


def fig1(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Play the gorilla's motion in real time."""
    take = _clip_take("gorilla", quick, 5.0)
    rest = (take.rig[0], FLESH, "the rig alone")
    _strip(folder / "fig1.png", take, "The gorilla in motion", view_axes(20, 8), [rest])
    return _result("Fig. 1: the gorilla in real time", take, 750)


def fig2(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Play the bear's key-framed motion, and show its regions."""
    take = _clip_take("bear", quick, 5.0)
    triangles = take.model.surface.triangles
    regions = region_colours(take.model)[triangles].mean(axis=1)
    first = [(take.model.surface.vertices, regions, "regions"), (take.rig[-1], FLESH, "the rig")]
    _strip(folder / "fig2.png", take, "The bear: regions, rig and flesh", view_axes(18, 8), first)
    counts = {region.name: len(region.vertices) for region in take.model.regions}
    return _result("Fig. 2: the bear's regions and motion", take, 700) | {"regions": counts}


def fig13(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Bend the X to and fro by its one parameter, and push it."""
    shown = scene("x")
    model = build(shown.character, **(shown.recipe() | _SMALL)) if quick else scene_model("x")
    times = np.arange(30 if quick else 270) / RATE
    bend = float(np.abs(shown.poses).max()) * np.sin(2 * np.pi * times / 1.5)
    take = Take.of(model, bend[:, None])
    named = zip(shown.pose_names, shown.poses, strict=True)
    poses = [(model.rig(pose), FLESH, name) for name, pose in named]
    _strip(folder / "fig13.png", take, "The X: poses, and bent in motion", view_axes(25, 35), poses)
    return _result("Fig. 13: the X, bent by one parameter", take, 1700)


def fig12(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Drive the arm by a handle of inverse kinematics at its hand, with muscles that stiffen."""
    shown = scene("arm")
    model = build(shown.character, **(shown.recipe() | _SMALL)) if quick else scene_model("arm")
    rig: Any = model.rig
    skin = rig.base
    hand = np.array([0.32, 0.0, 0.0])
    chain = InverseKinematics(skin.joint_pose, "upper arm", "forearm", offset=hand)
    poses, errors, solve_s = [], [], []
    pose = shown.pose("flexed") / 3
    for at in np.arange(20 if quick else 360) / RATE:
        phase = 2 * np.pi * at / 2.0
        target = [
            0.42 + 0.10 * np.cos(phase),
            0.28 + 0.16 * np.sin(phase),
            0.08 * np.sin(2 * phase),
        ]
        began = perf_counter()
        solution = chain.solve(target, pose=pose, softness=0.05)
        solve_s.append(perf_counter() - began)
        pose = solution.pose
        poses.append(pose)
        errors.append(solution.error)
    take = Take.of(model, np.array(poses))
    young = np.asarray(shown.young)
    stiffer = np.log(young[shown.pose_names.index("flexed")] / young[0])
    tint = colormaps["Blues"](stiffer / stiffer.max())[:, :3][model.surface.triangles].mean(axis=1)
    first = [(model.rig(shown.pose("flexed")), tint, "stiffer where it flexes")]
    title = "The arm, driven by a handle at its hand"
    _strip(folder / "fig12.png", take, title, view_axes(-12, 40), first)
    weights = np.array([model.pose_weights(each) for each in poses])
    return _result("Fig. 12: the arm by inverse kinematics", take, 1100) | {
        "handle_error_mm": 1000 * float(np.median(errors)),
        "solution_ms": 1000 * float(np.median(solve_s)),
        "muscle_stiffening": float((weights @ (young.max(axis=1) / young[0].max())).max()),
    }


def _result(title: str, take: Take, paper: float) -> dict[str, Any]:
    return {
        "title": title,
        "message": f"{take.fps:.0f} frames per second on one core, with the skin; in the paper "
        f"{paper:.0f} on eight threads. The flesh swings by up to "
        f"{take.figures()['largest_displacement_percent']:.2g} % of the size.",
        **take.figures(),
        "paper_frames_per_second": paper,
        "note": "Medians of whole steps at 90 Hz. Colours: distance from the rig's skin.",
    }


def fig8(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Align bases of the arm at rest and flexed, in contact, and compare columns before and after.

    Columns are compared in the neutral pose's frames: a column's share in the other basis is the
    mass product with its partner, and blends halfway must stay independent.
    """
    shown, poses = scene("arm"), ["neutral", "flexed"]
    changes = {"poses": {"flexed": shown.pose("flexed")}, "young": np.asarray(shown.young)[0]}
    changes |= _SMALL if quick else {"elastic_cubature": 60, "inertial_cubature": 30}
    progress(0.0, "the arm at two poses")
    model = build(shown.character, **(shown.recipe() | changes))
    progress(0.6, "aligning")
    reduced = ReducedPoses.of_model(model)
    aligned = reduced.aligned("frames")
    count, mass = len(reduced.mesh.vertices), np.repeat(reduced.mass, 3)[:, None]

    def columns(bases: Any) -> Floats:
        return dense_basis(bases, reduced.regions, count).reshape(3 * count, -1)

    first = columns(aligned.bases[0])
    unaligned = columns(_unrotated(reduced, aligned))
    second = columns(aligned.bases[1])
    own = columns(reduced.models[0].bases)
    before, after = own.T @ (mass * unaligned), first.T @ (mass * second)
    rows: list[dict[str, Any]] = [
        {
            "columns": name,
            "matched": float(np.median(np.abs(np.diagonal(product)))),
            "least_eigenvalue_halfway": _least(one + two, mass),
        }
        for name, product, one, two in (
            ("direct", before, own, unaligned),
            ("aligned", after, first, second),
        )
    ]
    figure = new_figure((9.0, 4.2), "Products of the columns at rest and flexed, in contact", 12)
    for axes, product, name in zip(
        figure.subplots(1, 2), (before, after), ("before alignment", "after"), strict=True
    ):
        axes.imshow(np.abs(product), cmap="Blues", vmin=0, vmax=1)
        label_chart(axes, "column, flexed", "column, at rest", name)
        axes.grid(False)
    save_picture(figure, folder / "fig8.png")
    return {
        "title": "Fig. 8: bases of the arm at rest and in contact, aligned",
        "message": f"The median column matches its partner by {100 * rows[0]['matched']:.0f} % "
        f"before alignment and by {100 * rows[1]['matched']:.0f} % after; the least eigenvalue of "
        f"the blend's mass matrix rises from {rows[0]['least_eigenvalue_halfway']:.1g} to "
        f"{rows[1]['least_eigenvalue_halfway']:.1g}.",
        "rows": rows,
        "poses": poses,
        "contacts": model.report["contacts"]["flexed"],
        "note": "Absolute mass products of unit columns, in frames that rotate with the flesh. "
        "Eigenvalue: of the mass matrix of the normalised columns halfway, region by region.",
    }


def _unrotated(reduced: ReducedPoses, aligned: Any) -> tuple[Floats, ...]:
    """Return the second pose's own columns in the neutral pose's frames, not aligned."""
    quaternions = aligned.rotations[1]
    return tuple(
        unrotate_basis(quaternions[region.vertices], basis)
        for region, basis in zip(reduced.regions, reduced.models[1].bases, strict=True)
    )


def _least(blend: Floats, mass: Floats) -> float:
    gram = blend.T @ (mass * blend)
    lengths = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    return float(np.linalg.eigvalsh(gram / np.outer(lengths, lengths))[0])


def fig9(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Draw the tree by which the arm's ten poses are aligned."""
    shown = scene("arm")
    model = build(shown.character, **(shown.recipe() | _SMALL)) if quick else scene_model("arm")
    figure = new_figure((13.0, 6.4), "The tree of alignments of the arm's poses", 13)
    parts: Any = figure.subfigures(1, 2, width_ratios=(1, 1.3))
    pictures, tree = parts
    panels = pictures.subplots(4, 3).ravel()
    view = view_axes(-12.0, 40.0)
    for axes, pose, name in zip(panels, model.poses, model.pose_names, strict=False):
        _surface(axes, model.rig(pose), model, FLESH, view, name)
    for axes in panels[model.n_poses :]:
        axes.set_axis_off()
    axes = tree.subplots()
    draw_pose_tree(axes, model)
    axes.set_axis_off()
    axes.set_title("parents above and to the left; frequency ratio halfway", color=INK, fontsize=10)
    save_picture(figure, folder / "fig9.png")
    names = model.pose_names
    edges = [[names[p], name] for p, name in zip(model.parents, names, strict=True) if p >= 0]
    return {
        "title": "Fig. 9: the alignment tree of the arm",
        "message": f"{len(names)} poses, each aligned to the nearest one that is already in the "
        f"tree, from {names[int(np.argmin(model.parents))]}.",
        "poses": len(names),
        "paper_poses": 10,
        "edges": edges,
        "worst_frequency_ratio": model.report["mid_pose_frequency_ratio"],
    }
