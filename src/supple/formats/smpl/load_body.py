"""Characters from body models and their motion files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.errors import FormatError, SuppleError, warn
from supple.formats.smpl.archive_fields import PICKLES, archive_names, read_fields
from supple.formats.smpl.body_model import BodyModel, read_body_model
from supple.formats.smpl.body_motion import MotionFile, read_body_motion
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs

#: Most edges of a hole that is closed; the cost is quadratic.
LONGEST_RIM = 2_000
IS_MOTION = "is a motion; load its body, with this file as the motion"


@dataclass(frozen=True, eq=False)
class BodySource:
    """The body model of a character, and its shape."""

    path: Path
    body: BodyModel
    betas: Floats
    expression: Floats


def load_body(
    path: Path,
    *,
    motion: str | Path | None = None,
    betas: ArrayLike | str = (),
    expression: ArrayLike = (),
    rate: float | None = None,
    up: str | None = None,
    mirror_shapes: bool | None = None,
    closed: bool = False,
) -> Character:
    """Read a body or a hand, with shape and motion.

    Parameters
    ----------
    path : Path
        ``.npz`` or ``.pkl`` in the layout of SMPL, SMPL-H, SMPL-X or MANO.
    motion : str or Path, optional
        A motion of AMASS, a clip of a hand, or a ``.smpl`` file; see `read_body_motion`.
    betas : (b,) array or "motion"
        Coefficients of shape, at most as many as the body has; "motion" for those in `motion`.
    expression : (e,) array
        Coefficients of a facial expression, for SMPL-X.
    rate, up
        Frame rate and upward axis of the motion, in place of the file's values.
    mirror_shapes : bool, optional
        Whether to mirror shape directions in x: files of left hands often have a right hand's.
        By default only for a MANO file named "left" whose directions look mirrored.
    closed : bool
        Whether to close holes, such as a hand's at the wrist, by triangles between their vertices.
        Filling with tets always closes them.
    """
    if is_motion(path):
        raise FormatError(f"{path.name}: {IS_MOTION}")
    body = read_body_model(path)
    motion_file = None if motion is None else read_body_motion(motion, rate=rate, up=up)
    if isinstance(betas, str):
        betas = _motions_betas(path.name, betas, motion_file, body)
    try:
        return body_character(path, body, motion_file, betas, expression, mirror_shapes, closed)
    except SuppleError as error:
        text = str(error)
        names = (f"{path.name}: ", *(() if motion_file is None else (f"{motion_file.name}: ",)))
        raise type(error)(text if text.startswith(names) else f"{path.name}: {text}") from None


def is_motion(path: Path) -> bool:
    """Return whether a file holds a body's motion rather than a body."""
    if path.suffix.lower() == ".smpl":
        return True
    if path.suffix.lower() in PICKLES:
        names = set(read_fields(path, ("v_template", "poses", "pose_body")))
    else:
        names = archive_names(path)
    return "v_template" not in names and bool(names & {"poses", "pose_body", "bodyPose"})


def _motions_betas(name: str, word: str, motion_file: MotionFile | None, body: BodyModel) -> Floats:
    if word != "motion":
        raise SuppleError(f'{name}: betas cannot be "{word[:40]}"; give numbers, or "motion"')
    if motion_file is None or not len(motion_file.betas):
        raise SuppleError(f"{name}: there is no motion with betas; give numbers")
    return motion_file.betas[: body.n_betas]


def body_character(
    path: Path,
    body: BodyModel,
    motion: MotionFile | None,
    betas: ArrayLike,
    expression: ArrayLike,
    mirror_shapes: bool | None,
    closed: bool,
) -> Character:
    """Return the character of a body with a shape; arguments as for `load_body`."""
    notes: list[str] = []
    if mirror_shapes is None:
        is_left_hand = body.kind == "MANO" and "left" in path.stem.lower()
        mirror_shapes = is_left_hand and body.shapes_look_mirrored()
        if mirror_shapes:
            notes.append(
                f"{path.name}: has the shape directions of a right hand; they are mirrored"
                f" (mirror_shapes=False keeps them)"
            )
    if mirror_shapes:
        body = body.mirrored_shapes()
    rig = body.rig(betas, expression)
    (skin,) = skinned_rigs(rig)
    triangles = body.triangles
    if closed:
        triangles = np.vstack([triangles, hole_triangles(skin.vertices, triangles)])
    surface = SurfaceMesh(skin.vertices, triangles)
    notes += [f"{path.name}: {defect.message}; continuing" for defect in surface.defects()]
    motions = {}
    if motion is not None:
        body_motion = motion.motion(body, skin.joint_pose)
        motions[body_motion.name] = body_motion
    for note in notes:
        warn(note)
    source = BodySource(path, body, np.atleast_1d(betas), np.atleast_1d(expression))
    return Character(path.stem, surface, rig, motions, source, warnings=tuple(notes))


def hole_triangles(vertices: Floats, triangles: Ints) -> Ints:
    """Return triangles (k, 3) that close the holes of a surface, between vertices of their rims.

    Ears are clipped from the rim, shortest new edge first: n − 2 triangles for n edges.
    """
    edges = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    edge_set = {(int(a), int(b)) for a, b in edges}
    next_vertex: dict[int, int] = {}
    for a, b in sorted(edge_set):
        if (b, a) not in edge_set:
            if b in next_vertex:
                raise SuppleError(f"two holes meet at vertex {b}; close them in a modeller")
            next_vertex[b] = a
    new_triangles: list[tuple[int, int, int]] = []
    while next_vertex:
        first = min(next_vertex)
        rim, vertex = [first], next_vertex.pop(first)
        while vertex != first:
            rim.append(vertex)
            if vertex not in next_vertex:
                raise SuppleError(f"a hole's rim ends at vertex {vertex}; close it in a modeller")
            vertex = next_vertex.pop(vertex)
        if len(rim) > LONGEST_RIM:
            count = f"{len(rim):,} edges, more than {LONGEST_RIM:,}"
            raise SuppleError(f"a hole has {count}; close it in a modeller")
        while len(rim) > 2:
            before, after = np.roll(rim, 1), np.roll(rim, -1)
            lengths = np.linalg.norm(vertices[before] - vertices[after], axis=1)
            if len(rim) > 3:  # an edge that the surface has already would have three triangles
                ends = zip(before.tolist(), after.tolist(), strict=True)
                lengths[[(a, b) in edge_set or (b, a) in edge_set for a, b in ends]] = np.inf
            ear = int(np.argmin(lengths))
            cut = (int(before[ear]), rim[ear], int(after[ear]))
            new_triangles.append(cut)
            edge_set.add((cut[0], cut[2]))
            del rim[ear]
    return np.array(new_triangles, np.int64).reshape(-1, 3)
