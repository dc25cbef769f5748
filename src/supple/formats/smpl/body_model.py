"""Body models in the layout of SMPL: arrays of a file, checked, and the rigs they make.

With shape coefficients β and rotations R_j of the joints relative to their parents, a body is
x = W(T + S β + P vec(R_j − 1), J, θ) + t: a template T, shape directions S, pose directions P for
all joints but the root, joints J = 𝒥 (T + S β) by a regressor, and linear blend skinning W.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.checks import checked_array, numbers
from supple.errors import FormatError, SuppleError
from supple.formats.smpl.archive_fields import read_fields
from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.saving import write_whole

_BODY = [
    "pelvis",
    "left_hip",
    "right_hip",
    "spine1",
    "left_knee",
    "right_knee",
    "spine2",
    "left_ankle",
    "right_ankle",
    "spine3",
    "left_foot",
    "right_foot",
    "neck",
    "left_collar",
    "right_collar",
    "head",
    "left_shoulder",
    "right_shoulder",
    "left_elbow",
    "right_elbow",
    "left_wrist",
    "right_wrist",
]
#: Fingers of every hand, in this order: the little finger before the ring finger.
_FINGERS = [f"{f}{k}" for f in ("index", "middle", "pinky", "ring", "thumb") for k in (1, 2, 3)]
_HANDS = [f"{side}_{finger}" for side in ("left", "right") for finger in _FINGERS]
_FACE = ["jaw", "left_eye", "right_eye"]


class JointLayout(NamedTuple):
    """Joints of a kind of body, in the order of its poses."""

    kind: str
    """SMPL, SMPL-H, SMPL-X or MANO; "" for another."""
    names: tuple[str, ...]


_LAYOUTS = (
    JointLayout("SMPL", (*_BODY, "left_hand", "right_hand")),
    JointLayout("SMPL-H", (*_BODY, *_HANDS)),
    JointLayout("SMPL-X", (*_BODY, *_FACE, *_HANDS)),
    JointLayout("MANO", ("wrist", *_FINGERS)),
)
#: The joints that SMPL, SMPL-H and SMPL-X have in common.
BODY_ONLY = JointLayout("body", tuple(_BODY))


def joint_layout(n_joints: int) -> JointLayout:
    """Return the layout of so many joints; of other bodies, joints are numbered.

    >>> joint_layout(52).names[22], joint_layout(16).names[7]
    ('left_index1', 'pinky1')
    """
    for layout in _LAYOUTS:
        if len(layout.names) == n_joints:
            return layout
    return JointLayout("", tuple(f"joint{k}" for k in range(n_joints)))


def layout_of_columns(columns: int) -> JointLayout | None:
    """Return the layout of poses with so many columns, None where none has."""
    for layout in (*_LAYOUTS, BODY_ONLY):
        if 3 * len(layout.names) == columns:
            return layout
    return None


#: Fields without which a file is no body.
NEEDED = ("v_template", "f", "weights", "J_regressor", "kintree_table")
BODY_FIELDS = (
    *NEEDED,
    "shapedirs",
    "posedirs",
    *(f"hands_{what}{side}" for what in ("mean", "components") for side in ("", "l", "r")),
)
MOST_VERTICES, MOST_JOINTS = 2_000_000, 1000
#: No number of a body is larger: products of some would overflow.
LARGEST = 1e9
#: A coefficient of shape is in standard deviations.
LARGEST_BETA = 100.0
#: Shape directions of SMPL-X come before those of expressions: 300 of 400, 10 of 20.
EXPRESSIONS_FROM = {400: 300, 20: 10}


@dataclass(frozen=True, eq=False)
class BodyModel:
    """A parametric body or hand: a template, its directions, joints and weights.

    Attributes
    ----------
    kind : str
        SMPL, SMPL-H, SMPL-X, MANO, or "" for another number of joints.
    template : (n, 3) array
    triangles : (m, 3) int array
    weights : (n, K) array
    regressor : (K, n) array
    parents : (K,) ints
        -1 for the root.
    shape_directions : (n, 3, b) array
        Displacement for each coefficient; those of expressions are the last.
    pose_directions : (n, 3, 9 (K − 1)) array
        Displacement for each entry of R − 1, joint after joint without the root; or no column.
    n_betas : int
        How many of the shape directions are the body's.
    hand_mean : (45,) array, optional
        The pose that a hand's numbers are counted from, unless they are flat.
    hand_components : (45, 45) array, optional
        Principal components of hand poses, one a row.
    """

    kind: str
    template: Floats
    triangles: Ints
    weights: Floats
    regressor: Floats
    parents: Ints
    shape_directions: Floats
    pose_directions: Floats
    n_betas: int
    hand_mean: Floats | None = None
    hand_components: Floats | None = None

    @property
    def n_joints(self) -> int:
        """Number of joints, K."""
        return len(self.parents)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, in the order of poses."""
        return joint_layout(self.n_joints).names

    def shaped(self, betas: ArrayLike = (), expression: ArrayLike = ()) -> Floats:
        """Return the template T + S β (n, 3), with coefficients of an expression, too."""
        spare = self.shape_directions.shape[2] - self.n_betas
        own = _coefficients("betas", betas, self.n_betas)
        face = _coefficients("expression", expression, spare)
        directions = self.shape_directions
        told = directions[:, :, : len(own)] @ own
        more = directions[:, :, self.n_betas : self.n_betas + len(face)] @ face
        return self.template + told + more

    def rig(
        self, betas: ArrayLike = (), expression: ArrayLike = ()
    ) -> SkinnedRig | PoseBlendShapeRig:
        """Return the rig of a body of this shape; its pose is the body's, (3 K,) axis-angle.

        The root's translation is not in the pose: Supple's motions have it in their roots.
        """
        points = self.shaped(betas, expression)
        places = self.regressor @ points
        local = places.copy()
        local[1:] -= places[self.parents[1:]]
        skeleton = Skeleton(self.joint_names, self.parents, local)
        bind = np.tile(np.eye(4), (self.n_joints, 1, 1))
        bind[:, :3, 3] = -places
        order = np.argsort(-self.weights, axis=1, kind="stable")
        most = max(int(np.count_nonzero(self.weights, axis=1).max()), 1)
        joints = order[:, :most]
        weights = np.take_along_axis(self.weights, joints, axis=1)
        skin = SkinnedRig(JointPose(skeleton), points, joints, weights, bind)
        if not self.pose_directions.shape[2]:
            return skin
        deltas = self.pose_directions.transpose(2, 0, 1).reshape(-1, 9, len(points), 3)
        driving = np.flatnonzero(deltas.any(axis=(1, 2, 3)))
        if not len(driving):
            return skin
        return PoseBlendShapeRig(skin, deltas[driving], driving + 1)

    def full_pose(self, pose: ArrayLike, *, flat_hand_mean: bool = False) -> Floats:
        """Return the rotations of all joints of a hand, (…, 48), from fewer numbers.

        Parameters
        ----------
        pose
            (…, 3 + k) the wrist, and k = 45 rotations of fingers, or k < 45 coefficients of the
            file's principal components.
        flat_hand_mean
            Whether fingers are counted from a flat hand; otherwise from the file's mean pose.
        """
        given = numbers("a hand's pose", pose)
        count = given.shape[-1] - 3 if given.ndim else -1
        if self.kind != "MANO" or not 0 <= count <= 45:
            raise SuppleError(f"a pose of shape {given.shape} is no hand's; give (…, 3 to 48)")
        wrist, fingers = given[..., :3], given[..., 3:]
        if count < 45:
            if self.hand_components is None:
                raise SuppleError("the hand has no principal components; give 48 numbers a pose")
            if count > len(self.hand_components):
                has = len(self.hand_components)
                raise SuppleError(f"the hand has {has} principal components, not {count}")
            fingers = fingers @ self.hand_components[:count]
        if not flat_hand_mean and self.hand_mean is not None:
            fingers = fingers + self.hand_mean
        return np.concatenate([wrist, fingers], axis=-1)

    def mirrored_shapes(self) -> BodyModel:
        """Return the body with shape directions mirrored in x.

        Left hands are often filed with the shape directions of the right hand.
        """
        directions = self.shape_directions * np.array([-1.0, 1.0, 1.0])[:, None]
        return BodyModel(**{**self.__dict__, "shape_directions": directions})

    def shapes_look_mirrored(self) -> bool:
        """Tell whether the first shape direction grows in x where it shrinks in y and z.

        The first one is the size: it moves every vertex away from the middle, or every one
        towards it. Of a left hand with a right hand's directions, x goes the other way.
        """
        if self.shape_directions.shape[2] == 0:
            return False
        away = self.template - self.template.mean(axis=0)
        along = (away * self.shape_directions[:, :, 0]).sum(axis=0) / (away**2).sum(axis=0)
        others = along[1:].mean()
        return bool(along[0] * others < 0 and abs(along[0]) > 0.25 * abs(others))


def _coefficients(what: str, values: ArrayLike, most: int) -> Floats:
    given = np.atleast_1d(numbers(what, values))
    if given.ndim != 1 or len(given) > most:
        raise SuppleError(f"{what}: {given.size} numbers; this body has {most}")
    if not (np.abs(given) <= LARGEST_BETA).all():
        raise SuppleError(f"{what}: must be finite, and at most {LARGEST_BETA:g} each")
    return given


def read_body_model(path: str | Path) -> BodyModel:
    """Read a body model.

    Parameters
    ----------
    path : str or Path
        ``.npz`` or ``.pkl`` in the layout of SMPL, SMPL-H, SMPL-X or MANO. Nothing in it is run.

    Raises
    ------
    FormatError
        When fields are missing, damaged or do not fit each other.
    """
    path = Path(path)
    fields = read_fields(path, BODY_FIELDS)
    try:
        return body_of_fields(path.name, fields)
    except SuppleError as error:
        text = str(error)
        named = text if text.startswith(f"{path.name}: ") else f"{path.name}: {text}"
        raise FormatError(named) from None


@np.errstate(all="ignore")  # what overflows is not finite, and refused
def body_of_fields(name: str, fields: dict[str, Any]) -> BodyModel:
    """Return the body of a file's fields, checked; `name` is the file's, for messages."""
    missing = [field for field in NEEDED if not isinstance(fields.get(field), np.ndarray)]
    if missing:
        what = "is no body model" if len(missing) == len(NEEDED) else "is not a whole body model"
        raise FormatError(f"{name}: {what}: it has no {', '.join(missing)}")
    template = _shaped(fields, "v_template", (None, 3))
    count = len(template)
    if not 4 <= count <= MOST_VERTICES:
        raise FormatError(f"{name}: has {count:,} vertices")
    weights = _shaped(fields, "weights", (count, None))
    joints = weights.shape[1]
    if not 2 <= joints <= MOST_JOINTS:
        raise FormatError(f"{name}: has {joints} joints; a body has 2 at least")
    if (weights < 0).any():
        weights = np.where(weights < -1e-3, np.nan, np.maximum(weights, 0))
        if np.isnan(weights).any():
            raise FormatError(f"{name}: has negative weights")
    directions = _directions(fields, "shapedirs", count)
    poses = _directions(fields, "posedirs", count)
    if poses.shape[2] not in (0, 9 * (joints - 1)):
        wanted = f"{joints} joints have {9 * (joints - 1)}"
        raise FormatError(f"{name}: {poses.shape[2]} pose directions, and {wanted}")
    kind = joint_layout(joints).kind
    shapes = int(directions.shape[2])
    mean, components = _hand(fields, kind)
    return BodyModel(
        kind,
        template,
        _triangles(fields["f"], count),
        weights,
        _shaped(fields, "J_regressor", (joints, count)),
        _parents(fields["kintree_table"], joints),
        directions,
        poses,
        EXPRESSIONS_FROM.get(shapes, shapes) if kind == "SMPL-X" else shapes,
        mean,
        components,
    )


def _shaped(fields: dict[str, Any], name: str, shape: tuple[int | None, ...]) -> Floats:
    found = fields[name]
    if found.ndim != len(shape) or found.dtype.kind not in "iuf":
        wanted = tuple("any" if n is None else n for n in shape)
        raise FormatError(f'"{name}" has shape {found.shape}; expected {wanted}')
    exact = tuple(
        have if want is None else want for have, want in zip(found.shape, shape, strict=True)
    )
    return _bounded(name, checked_array(f'"{name}"', found, exact))


def _directions(fields: dict[str, Any], name: str, count: int) -> Floats:
    """Return directions (n, 3, k); some files have them flat, (3 n, k)."""
    found = fields.get(name)
    if not isinstance(found, np.ndarray):
        return np.zeros((count, 3, 0))
    if found.dtype.kind not in "iuf" or found.ndim not in (2, 3) or found.size % (3 * count):
        raise FormatError(f'"{name}" has shape {found.shape}; expected ({count}, 3, any)')
    if found.ndim == 2 and found.shape[0] != 3 * count:
        raise FormatError(f'"{name}" has shape {found.shape}; expected ({3 * count}, any)')
    whole = found.reshape(count, 3, -1)
    if found.ndim == 3 and found.shape != whole.shape:
        raise FormatError(f'"{name}" has shape {found.shape}; expected ({count}, 3, any)')
    return _bounded(name, checked_array(f'"{name}"', whole, whole.shape))


def _bounded(name: str, array: Floats) -> Floats:
    if np.abs(array).max(initial=0.0) > LARGEST:
        raise FormatError(f'"{name}" has numbers beyond {LARGEST:.0e}')
    return array


def _triangles(faces: NDArray[Any], count: int) -> Ints:
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu" or not len(faces):
        raise FormatError(
            f'"f" has shape {faces.shape} of {faces.dtype}; expected (any, 3) indices'
        )
    if int(faces.min()) < 0 or int(faces.max()) >= count:
        raise FormatError(f'"f" names vertex {faces.max()}; there are {count:,}')
    return faces.astype(np.int64)


def _parents(table: NDArray[Any], joints: int) -> Ints:
    """Return parents; the root's entry is −1, 2³² − 1, or 0, and is not looked at."""
    if table.shape != (2, joints) or table.dtype.kind not in "iu":
        raise FormatError(f'"kintree_table" has shape {table.shape}; expected (2, {joints})')
    ids = table[1].astype(np.int64)
    place = {int(joint): k for k, joint in enumerate(ids)}
    parents = np.full(joints, -1, np.int64)
    for k in range(1, joints):
        parent = place.get(int(table[0, k]), -1)
        if not 0 <= parent < k:
            raise FormatError(f'"kintree_table" gives joint {k} a parent that is not before it')
        parents[k] = parent
    return parents


def _hand(fields: dict[str, Any], kind: str) -> tuple[Floats | None, Floats | None]:
    if kind != "MANO":
        return None, None
    mean, components = fields.get("hands_mean"), fields.get("hands_components")
    if mean is not None:
        mean = checked_array('"hands_mean"', mean, (45,))
    if components is not None:
        rows = len(components) if np.ndim(components) else 0
        components = checked_array('"hands_components"', components, (rows, 45))
    return mean, components


def write_body_model(path: str | Path, body: BodyModel) -> None:
    """Write a body model as an archive that `read_body_model` and other readers take.

    Parameters
    ----------
    path : str or Path
        Ends in ``.npz``; pickles are not written.
    body : BodyModel
        What is written, in the units and the order that it has.
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise FormatError(f"{path.name}: body models are written as .npz")
    table = np.array([body.parents, np.arange(body.n_joints)])
    table[0, 0] = 2**32 - 1  # as in the published files
    fields: dict[str, Floats] = {
        "v_template": body.template,
        "f": body.triangles.astype(np.uint32),
        "weights": body.weights,
        "J_regressor": body.regressor,
        "kintree_table": table,
        "shapedirs": body.shape_directions,
        "posedirs": body.pose_directions,
    }
    if body.hand_mean is not None:
        fields["hands_mean"] = body.hand_mean
    if body.hand_components is not None:
        fields["hands_components"] = body.hand_components
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **fields)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())
