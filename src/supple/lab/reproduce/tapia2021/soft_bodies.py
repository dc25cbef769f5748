"""Models of the hand and the person with the sizes of tapia2021, takes, and pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from supple.app.pictures.drawing import INK, view_axes
from supple.app.pictures.render import Body, Camera, cavities, render
from supple.arrays import Floats
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.lab.bench.soft_skeleton.soft_cases import soft_options
from supple.lab.reproduce.figures import new_figure
from supple.linalg.blas import single_threaded
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.playback.character_models import scene_model_file
from supple.rig.motion.motion import Motion
from supple.scenes.contact.contact_scene import ContactScene
from supple.scenes.contact.props import collider_surface
from supple.scenes.modelling.keyframes import Timeline
from supple.scenes.modelling.lathe import joined

#: Handles and cubature of the paper's two bodies (§5.1, §5.2).
SIZES = {"hand": (87, 700), "human": (82, 500)}
#: Modes as in the paper, with its cubature, which needs no fit.
MODAL: dict[str, Any] = {"basis": "modal", "cubature_method": "paper"}
#: Options of a model that is built in a second, and duration of its motion.
QUICK: dict[str, Any] = {"tets": 1_500, "handles": 12, "cubature": 60, "points": 60}
QUICK_SECONDS = 0.12


def build_options(name: str, quick: bool = False) -> dict[str, Any]:
    """Return the build options of a scene's soft skeleton, with the paper's sizes."""
    handles, cubature = SIZES[name]
    options = soft_options(name) | {"handles": handles, "cubature": cubature}
    return options | (QUICK if quick else {})


_models: dict[str, SoftSkeletonModel] = {}


def model_of(name: str, quick: bool = False, **changes: Any) -> SoftSkeletonModel:
    """Return the soft skeleton of a scene with the paper's sizes; cached."""
    key = f"{name} {quick} {sorted(changes.items())}"
    if key not in _models:
        options = build_options(name, quick) | changes
        if quick:
            options |= {each: min(options[each], largest) for each, largest in QUICK.items()}
        with scene_model_file(name, engine="soft-skeleton", **options) as path:
            _models[key] = SoftSkeletonModel.load(path)
    return _models[key]


class Frame(NamedTuple):
    """State of the body at a time."""

    skin: Floats  # (n̄, 3) positions in the world
    unposed: Floats  # (n̄, 3) displacements of the flesh in the rest pose, residual included
    colliders: tuple[SurfaceMesh, ...]  # surfaces of obstacles and objects

    @property
    def far(self) -> Floats:
        """Lengths (n̄,) of the unposed displacements, in mm."""
        return 1e3 * np.linalg.norm(self.unposed, axis=1)


@dataclass(frozen=True, eq=False)
class Take:
    """Recorded simulation."""

    frames: dict[float, Frame]
    forces: Floats  # (t, 3) contact force on the body in N
    #: (t,) contacts, largest displacement of the flesh in m, deepest contact in m.
    contacts: Floats
    flesh: Floats
    depths: Floats
    parameters: Floats  # (t, s) poses of the bones
    targets: Floats
    limits: tuple[str, ...]


def recorded(
    shown: ContactScene,
    simulator: SoftSkeletonSimulator,
    times: Sequence[float],
    *,
    seconds: float | None = None,
    quick: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Take:
    """Play a scene from its start, by default until the last of `times`; record frames at `times`.

    With `quick` only a few steps are taken, and all frames equal the last.
    """
    length = QUICK_SECONDS if quick else (max(times) if seconds is None else seconds)
    dt, last = simulator.dt, float(shown.motion.times[-1])
    count = round(length / dt)
    frame_steps = {min(max(round(time / dt), 1), count): time for time in times}
    frames: dict[float, Frame] = {}
    rows: list[tuple[Any, ...]] = []
    limits: dict[str, None] = {}
    with single_threaded():
        for step, state in enumerate(shown.play(simulator, length), 1):
            read, displacements = state.readings, simulator.unposed()
            far = float(np.linalg.norm(displacements, axis=1).max())
            contact = read["contact_force"].copy(), read["contacts"], far, read["penetration"]
            pose = shown.motion.at(min(shown.start + step * dt, last))[0]
            rows.append((*contact, simulator.parameters, np.array(pose)))
            limits |= dict.fromkeys(state.limits)
            if step in frame_steps:
                frames[frame_steps[step]] = _frame(shown, simulator)
            if progress is not None:
                progress(step / count)
    for time in times:
        frames.setdefault(time, next(reversed(frames.values())))
    forces, contacts, flesh, depths, poses, goals = (
        np.array(column, np.float64) for column in zip(*rows, strict=True)
    )
    return Take(frames, forces, contacts, flesh, depths, poses, goals, tuple(limits))


def _frame(shown: ContactScene, simulator: SoftSkeletonSimulator) -> Frame:
    surfaces = map(collider_surface, (*shown.obstacles, *shown.objects))
    meshes = tuple(mesh for mesh in surfaces if mesh is not None)
    return Frame(simulator.surface().astype(np.float64), simulator.unposed(), meshes)


def touch_row(name: str, take: Take) -> dict[str, Any]:
    """Return contacts, forces and displacements of a take."""
    return {
        "scene": name,
        "most_contacts": int(take.contacts.max()),
        "largest_force_N": float(np.linalg.norm(take.forces, axis=1).max()),
        "last_force_N": float(np.linalg.norm(take.forces[-1])),
        "flesh_mm": 1e3 * float(take.flesh.max()),
        "deepest_mm": 1e3 * float(take.depths.max()),
        "limits": ", ".join(take.limits) or "none",
    }


def still(pose: Floats, seconds: float) -> Motion:
    """Return a motion that holds a pose for a number of seconds."""
    return Timeline(seconds, rate=90).held(pose, "still")


SKIN, COLLIDER = np.array([0.87, 0.70, 0.61]), np.array([0.56, 0.62, 0.70])
#: Colour maps of lengths and of signed values.
LENGTHS, SIGNED = "YlOrRd", "RdBu_r"
#: Width and height of a picture in pixels.
PIXELS = 340
#: Direction of the camera relative to the light, in degrees.
_FRONT = 20.0, 12.0
_PAPER = np.array([0.984, 0.98, 0.969])


def sheet(title: str, rows: int, columns: int, size: float = 2.7) -> tuple[Figure, Any]:
    """Return a figure and its (rows, columns) axes."""
    figure = new_figure((size * columns + 0.3, size * rows + 0.6), title)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.ravel():
        axes.set_axis_off()
    return figure, grid


def window_of(points: ArrayLike, margin: float = 1.1) -> tuple[Floats, float]:
    """Return the centre of points, and the width of a view of them in m."""
    listed = np.asarray(points, np.float64).reshape(-1, 3)
    low, high = listed.min(axis=0), listed.max(axis=0)
    return (low + high) / 2, margin * float((high - low).max())


def draw_body(
    axes: Axes,
    surface: SurfaceMesh,
    points: ArrayLike,
    caption: str = "",
    *,
    values: ArrayLike | None = None,
    largest: float = 1.0,
    signed: bool = False,
    colliders: Sequence[SurfaceMesh] = (),
    azimuth: float = 25.0,
    elevation: float = 9.0,
    window: tuple[Floats, float] | None = None,
) -> Camera:
    """Render the skin at `points`, and surfaces of `colliders` in grey, into axes.

    The field `values` (n̄,), of largest value `largest`, replaces the skin's colour. `window` is the
    centre and width in m of the view, by default of the whole body; angles are in degrees.
    Return the camera.
    """
    placed = np.ascontiguousarray(points, np.float64)
    colours = np.tile(SKIN, (len(placed), 1))
    if values is not None:
        colours = _coloured(np.asarray(values, np.float64), largest, signed)
    scene = joined([SurfaceMesh(placed, surface.triangles), *colliders])
    vertices, triangles = scene.vertices, scene.triangles
    grey = np.tile(COLLIDER, (len(vertices) - len(placed), 1))
    view = view_axes(azimuth, elevation)
    centre, across = window_of(placed) if window is None else window
    camera = Camera(view, np.asarray(centre, np.float64), PIXELS / across, (PIXELS, PIXELS))
    # The scene rotates instead of the camera, so that the light stays in front and above.
    front = view_axes(*_FRONT)
    vertices = (vertices - camera.centre) @ view.T @ front
    lit = Camera(front, np.zeros(3), camera.scale, camera.pixels)
    shaded = np.ones(len(vertices))
    shaded[: len(placed)] = cavities(SurfaceMesh(placed, surface.triangles))
    tones = np.concatenate([colours, grey])
    body = Body(vertices, triangles, vertex_normals(vertices, triangles), tones, shaded)
    picture, _ = render(body, lit, -50 * across, _PAPER)
    axes.imshow(picture)
    axes.set_axis_off()
    if caption:
        axes.set_title(caption, color=INK, fontsize=8.5, pad=2)
    return camera


def draw_flesh(
    axes: Axes, surface: SurfaceMesh, displacements: Floats, caption: str = "", **view: Any
) -> Camera:
    """Draw the skin at rest with displacements (n̄, 3), coloured by their lengths in mm."""
    far = 1e3 * np.linalg.norm(displacements, axis=1)
    return draw_body(axes, surface, surface.vertices + displacements, caption, values=far, **view)


def draw_frame(
    axes: Axes, surface: SurfaceMesh, frame: Frame, caption: str = "", **view: Any
) -> Camera:
    """Draw the posed skin of a frame, and the colliders."""
    return draw_body(axes, surface, frame.skin, caption, colliders=frame.colliders, **view)


def _coloured(values: Floats, largest: float, signed: bool) -> Floats:
    low = -largest if signed else 0.0
    share = np.clip((values - low) / max(largest - low, 1e-300), 0.0, 1.0)
    return np.asarray(matplotlib.colormaps[SIGNED if signed else LENGTHS](share))[:, :3]


def key_of(figure: Figure, axes: Any, largest: float, text: str, *, signed: bool = False) -> None:
    """Add a colour bar next to axes."""
    scale = Normalize(-largest if signed else 0.0, largest)
    bar = figure.colorbar(
        ScalarMappable(scale, SIGNED if signed else LENGTHS), ax=axes, shrink=0.6, pad=0.01
    )
    bar.set_label(text, color=INK, fontsize=8)
    bar.ax.tick_params(labelsize=7, colors=INK)
