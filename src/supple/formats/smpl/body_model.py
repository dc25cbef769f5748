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
from supple.formats.smpl.archive_fields import named_errors, read_fields
from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.saving import write_whole

_BODY = [
    "pelvis", "left_hip", "right_hip", "spine1", "left_knee", "right_knee", "spine2", "left_ankle",
    "right_ankle", "spine3", "left_foot", "right_foot", "neck", "left_collar", "right_collar",
    "head", "left_shoulder", "right_shoulder", "left_elbow", "right_elbow", "left_wrist",
    "right_wrist",
]  # fmt: skip
#: Fingers of a hand in order: the little finger is before the ring finger.
_FINGERS = [f"{f}{k}" for f in ("index", "middle", "pinky", "ring", "thumb") for k in (1, 2, 3)]
_HANDS = [f"{side}_{finger}" for side in ("left", "right") for finger in _FINGERS]
_FACE = ["jaw", "left_eye", "right_eye"]


class JointLayout(NamedTuple):
    """Joints of a kind of body, in the order of its poses."""

    kind: str
    """SMPL, SMPL-H, SMPL-X or MANO; "" for others."""
    names: tuple[str, ...]


_LAYOUTS = (
    JointLayout("SMPL", (*_BODY, "left_hand", "right_hand")),
    JointLayout("SMPL-H", (*_BODY, *_HANDS)),
    JointLayout("SMPL-X", (*_BODY, *_FACE, *_HANDS)),
    JointLayout("MANO", ("wrist", *_FINGERS)),
)
#: Joints that SMPL, SMPL-H and SMPL-X share.
BODY_ONLY = JointLayout("body", tuple(_BODY))


def joint_layout(n_joints: int) -> JointLayout:
    """Return the layout with this number of joints; joints of other bodies are numbered.

    >>> joint_layout(52).names[22], joint_layout(16).names[7]
    ('left_index1', 'pinky1')
    """
    other = JointLayout("", tuple(f"joint{k}" for k in range(n_joints)))
    return next((layout for layout in _LAYOUTS if len(layout.names) == n_joints), other)


def layout_of_columns(columns: int) -> JointLayout | None:
    """Return the layout of poses with this number of columns, three per joint; None if unknown."""
    layouts = (*_LAYOUTS, BODY_ONLY)
    return next((each for each in layouts if 3 * len(each.names) == columns), None)


#: Required fields of a body.
NEEDED = ("v_template", "f", "weights", "J_regressor", "kintree_table")
BODY_FIELDS = (*NEEDED, "shapedirs", "posedirs", "hands_mean", "hands_components")
MOST_VERTICES, MOST_JOINTS = 2_000_000, 1000
#: Largest number of a body; products of larger ones would overflow.
LARGEST = 1e9
#: Largest coefficient of shape, in standard deviations.
LARGEST_BETA = 100.0
#: Number of shape directions of SMPL-X before those of expressions, by their total.
EXPRESSIONS_FROM = {400: 300, 20: 10}


@dataclass(frozen=True, eq=False)
class BodyModel:
    """A parametric body or hand: template, directions, joints and weights.

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
        Displacement for each coefficient; those of expressions are last.
    pose_directions : (n, 3, 9 (K − 1)) array
        Displacement for each entry of R − 1, joint by joint without the root; or no columns.
    n_betas : int
        Number of shape directions that are not expressions.
    hand_mean : (45,) array, optional
        Mean hand pose, which is added to poses unless they are relative to a flat hand.
    hand_components : (45, 45) array, optional
        Principal components of hand poses, one per row.
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
        """Return rest vertices (n, 3): template, plus directions times `betas` and `expression`."""
        n_expressions = self.shape_directions.shape[2] - self.n_betas
        shape_values = _coefficients("betas", betas, self.n_betas)
        expression_values = _coefficients("expression", expression, n_expressions)
        shapes = self.shape_directions[:, :, : len(shape_values)]
        expressions = self.shape_directions[:, :, self.n_betas :][:, :, : len(expression_values)]
        return self.template + shapes @ shape_values + expressions @ expression_values

    def rig(
        self, betas: ArrayLike = (), expression: ArrayLike = ()
    ) -> SkinnedRig | PoseBlendShapeRig:
        """Return the rig of a body of this shape; its pose is (3 K,) axis-angle.

        The root's translation is not in the pose: motions have it in their roots.
        """
        points = self.shaped(betas, expression)
        positions = self.regressor @ points
        local = positions.copy()
        local[1:] -= positions[self.parents[1:]]
        skeleton = Skeleton(self.joint_names, self.parents, local)
        bind = np.tile(np.eye(4), (self.n_joints, 1, 1))
        bind[:, :3, 3] = -positions
        order = np.argsort(-self.weights, axis=1, kind="stable")
        n_influences = max(int(np.count_nonzero(self.weights, axis=1).max()), 1)
        joints = order[:, :n_influences]
        weights = np.take_along_axis(self.weights, joints, axis=1)
        skin = SkinnedRig(JointPose(skeleton), points, joints, weights, bind)
        if not self.pose_directions.shape[2]:
            return skin
        deltas = self.pose_directions.transpose(2, 0, 1).reshape(-1, 9, len(points), 3)
        driving_joints = np.flatnonzero(deltas.any(axis=(1, 2, 3)))
        if not len(driving_joints):
            return skin
        return PoseBlendShapeRig(skin, deltas[driving_joints], driving_joints + 1)

    def full_pose(self, pose: ArrayLike, *, flat_hand_mean: bool = False) -> Floats:
        """Return axis-angle rotations of all joints of a hand, (…, 48), for MANO.

        Parameters
        ----------
        pose
            (…, 3 + k) the wrist, and k = 45 rotations of fingers, or k < 45 coefficients of the
            file's principal components.
        flat_hand_mean
            Whether fingers are relative to a flat hand; otherwise to the file's mean pose.
        """
        values = numbers("a hand's pose", pose)
        count = values.shape[-1] - 3 if values.ndim else -1
        if self.kind != "MANO" or not 0 <= count <= 45:
            raise SuppleError(f"a hand's pose has shape {values.shape}; expected (…, 3 to 48)")
        wrist, fingers = values[..., :3], values[..., 3:]
        if count < 45:
            if self.hand_components is None:
                raise SuppleError("the hand has no principal components; give 48 numbers per pose")
            if count > len(self.hand_components):
                has = len(self.hand_components)
                raise SuppleError(f"the hand has {has} principal components, not {count}")
            fingers = fingers @ self.hand_components[:count]
        if not flat_hand_mean and self.hand_mean is not None:
            fingers = fingers + self.hand_mean
        return np.concatenate([wrist, fingers], axis=-1)

    def mirrored_shapes(self) -> BodyModel:
        """Return the body with shape directions mirrored in x.

        Files of left hands often have the shape directions of the right hand.
        """
        directions = self.shape_directions * np.array([-1.0, 1.0, 1.0])[:, None]
        return BodyModel(**{**self.__dict__, "shape_directions": directions})

    def shapes_look_mirrored(self) -> bool:
        """Return whether the first shape direction grows in x where it shrinks in y and z.

        The first direction is the size: it moves all vertices away from the centre, or all towards
        it. For a left hand with a right hand's directions, x has the opposite sign.
        """
        if self.shape_directions.shape[2] == 0:
            return False
        from_centre = self.template - self.template.mean(axis=0)
        growth = (from_centre * self.shape_directions[:, :, 0]).sum(axis=0)
        growth = growth / (from_centre**2).sum(axis=0)
        growth_yz = growth[1:].mean()
        return bool(growth[0] * growth_yz < 0 and abs(growth[0]) > 0.25 * abs(growth_yz))


def _coefficients(what: str, values: ArrayLike, most: int) -> Floats:
    coefficients = np.atleast_1d(numbers(what, values))
    if coefficients.ndim != 1 or len(coefficients) > most:
        raise SuppleError(f"{what}: {coefficients.size} numbers; this body has {most} coefficients")
    if not (np.abs(coefficients) <= LARGEST_BETA).all():
        raise SuppleError(f"{what}: must be finite, and at most {LARGEST_BETA:g} in magnitude")
    return coefficients


def read_body_model(path: str | Path) -> BodyModel:
    """Read a body model.

    Parameters
    ----------
    path : str or Path
        ``.npz`` or ``.pkl`` in the layout of SMPL, SMPL-H, SMPL-X or MANO; nothing in it runs.

    Raises
    ------
    FormatError
        When fields are missing, damaged or inconsistent.
    """
    path = Path(path)
    fields = read_fields(path, BODY_FIELDS)
    with named_errors(path.name):
        return body_of_fields(path.name, fields)


@np.errstate(all="ignore")  # numbers that overflow are not finite, which is an error
def body_of_fields(name: str, fields: dict[str, Any]) -> BodyModel:
    """Return the body of a file's fields, checked; `name` is the file's name, for messages."""
    missing = [field for field in NEEDED if not isinstance(fields.get(field), np.ndarray)]
    if missing:
        what = "is not a body model" if len(missing) == len(NEEDED) else "is incomplete"
        raise FormatError(f"{name}: {what}: it has no {', '.join(missing)}")
    template = _shaped(fields, "v_template", (None, 3))
    count = len(template)
    if not 4 <= count <= MOST_VERTICES:
        raise FormatError(f"{name}: has {count:,} vertices; use 4 to {MOST_VERTICES:,}")
    weights = _shaped(fields, "weights", (count, None))
    joints = weights.shape[1]
    if not 2 <= joints <= MOST_JOINTS:
        raise FormatError(f"{name}: has {joints} joints; use 2 to {MOST_JOINTS:,}")
    if (weights < 0).any():
        weights = np.where(weights < -1e-3, np.nan, np.maximum(weights, 0))
        if np.isnan(weights).any():
            raise FormatError(f"{name}: has negative weights; save it again")
    directions = _directions(fields, "shapedirs", count)
    poses = _directions(fields, "posedirs", count)
    if poses.shape[2] not in (0, 9 * (joints - 1)):
        expected = f"{joints} joints have {9 * (joints - 1)}"
        raise FormatError(f"{name}: has {poses.shape[2]} pose directions, but {expected}")
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
    array = fields[name]
    if array.ndim != len(shape) or array.dtype.kind not in "iuf":
        expected = tuple("any" if n is None else n for n in shape)
        raise FormatError(f'"{name}" has shape {array.shape}; expected {expected}')
    exact = tuple(
        have if want is None else want for have, want in zip(array.shape, shape, strict=True)
    )
    return _bounded(name, checked_array(f'"{name}"', array, exact))


def _directions(fields: dict[str, Any], name: str, count: int) -> Floats:
    """Return directions (n, 3, k); some files store them as (3 n, k)."""
    array = fields.get(name)
    if not isinstance(array, np.ndarray):
        return np.zeros((count, 3, 0))
    leading = (count, 3) if array.ndim == 3 else (3 * count,)
    if array.dtype.kind not in "iuf" or array.shape[:-1] != leading:
        raise FormatError(f'"{name}" has shape {array.shape}; expected {(*leading, "any")}')
    reshaped = array.reshape(count, 3, -1)
    return _bounded(name, checked_array(f'"{name}"', reshaped, reshaped.shape))


def _bounded(name: str, array: Floats) -> Floats:
    if np.abs(array).max(initial=0.0) > LARGEST:
        raise FormatError(f'"{name}" has numbers above {LARGEST:.0e}')
    return array


def _triangles(faces: NDArray[Any], count: int) -> Ints:
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu" or not len(faces):
        raise FormatError(
            f'"f" has shape {faces.shape} of {faces.dtype}; expected (any, 3) indices'
        )
    if int(faces.min()) < 0 or int(faces.max()) >= count:
        raise FormatError(f'"f" refers to vertex {faces.max()}, but there are {count:,}')
    return faces.astype(np.int64)


def _parents(table: NDArray[Any], joints: int) -> Ints:
    """Return the parent of each joint, −1 for the root, whose entry in the table is ignored."""
    if table.shape != (2, joints) or table.dtype.kind not in "iu":
        raise FormatError(f'"kintree_table" has shape {table.shape}; expected (2, {joints})')
    ids = table[1].astype(np.int64)
    index_of = {int(joint): k for k, joint in enumerate(ids)}
    parents = np.full(joints, -1, np.int64)
    for k in range(1, joints):
        parent = index_of.get(int(table[0, k]), -1)
        if not 0 <= parent < k:
            raise FormatError(f'"kintree_table" lists joint {k} before its parent')
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
    """Write a body model as an archive that `read_body_model` and other readers accept.

    Parameters
    ----------
    path : str or Path
        Path that ends in ``.npz``; pickles are not written.
    body : BodyModel
        Body to write, without conversion.
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise FormatError(f"{path.name}: body models are written as .npz; use that suffix")
    table = np.array([body.parents, np.arange(body.n_joints)])
    table[0, 0] = 2**32 - 1  # as in the published files
    fields: dict[str, Floats | None] = {
        "v_template": body.template,
        "f": body.triangles.astype(np.uint32),
        "weights": body.weights,
        "J_regressor": body.regressor,
        "kintree_table": table,
        "shapedirs": body.shape_directions,
        "posedirs": body.pose_directions,
        "hands_mean": body.hand_mean,
        "hands_components": body.hand_components,
    }
    fields = {name: array for name, array in fields.items() if array is not None}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **fields)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())
