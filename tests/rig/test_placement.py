"""A placement has the rig's numbers, again and again, without allocating."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.own_deformer import Shear
from helpers.restored_rig import restored_rig
from supple.errors import SuppleError
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.twist import Twist
from supple.rig.placement.placement import (
    CalledPlacement,
    DeformingPlacement,
    Placement,
    placement,
    placement_calls,
)
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import FunctionRig, Parameter, Rig, checked_pose
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skin_placement import BlockPlacement, SkinnedPlacement
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.skeleton.skinning_kernels import decompose_transforms, dual_quaternions
from supple.rig.stored_rigs import stored_rig
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.skinned_tets import SkinnedTetPlacement, SkinnedTetRig
from supple.rig.tets.surface_samples import SurfaceSamples
from supple.rig.tets.tet_rig import TetRig, start_rig
from supple.scenes.modelling.solids import polygonise, tapered_limb

METHODS = ("linear", "dual-quaternion")
#: Sets of joints are few and blocks are made, or as many as vertices and they are not.
SETS = ("few", "many")
N, J, POSES = 1400, 6, 5


@cache
def skinned(method: str = "linear", sets: str = "few", pose: str = "moving") -> SkinnedRig:
    rng = np.random.default_rng(5)
    turns = rng.standard_normal((J, 4))
    skeleton = Skeleton(
        [f"j{j}" for j in range(J)], [-1, 0, 1, 1, 3, 0], 0.5 * rng.standard_normal((J, 3)), turns
    )
    kinds = {
        "moving": lambda: JointPose(skeleton, translating=[0, 3]),
        "scaling": lambda: JointPose(skeleton, translating=[0], scaling=[2, 4]),
        "partial": lambda: PartialJointPose(
            skeleton, ["j4.rz", "j1.rx", "j0.ty", "j5.ry"], translating=[0]
        ),
        "strange": lambda: HalvedPose(skeleton),
    }
    weights = rng.random((N, 4)) + 0.01
    weights[::7, 2:] = 0
    joints = rng.integers(0, J, (N, 4))
    if sets == "few":
        joints = np.array([[0, 1, 2, 3], [5, 1, 3, 4], [4, 3, 2, 5]])[rng.integers(0, 3, N)]
    bind = np.linalg.inv(skeleton.rest_world())
    points = rng.standard_normal((N, 3))
    return SkinnedRig(kinds[pose](), points, joints, weights, bind, method)


class HalvedPose(JointPose):
    """A meaning of the pose that the library does not know."""

    def matrices(self, pose):
        return super().matrices(0.5 * np.asarray(pose))


def random_pose(rig: Rig, seed: int = 1, size: float = 0.6) -> np.ndarray:
    return size * np.random.default_rng(seed).standard_normal(len(rig.parameters))


def sculpted(base: Rig, seed: int = 0, count: int = POSES, **options) -> PoseSpaceDeformation:
    rng = np.random.default_rng(seed)
    poses = 0.5 * rng.standard_normal((count, len(base.parameters)))
    poses[0] = base.rest_pose
    deltas = 0.1 * rng.standard_normal((count, base.n_vertices, 3))
    deltas[0] = 0
    deltas[2, : base.n_vertices // 2] = 0
    scales = rng.random(len(base.parameters)) + 0.5
    return PoseSpaceDeformation(base, poses, deltas, PoseWeights(poses, scales, **options))


def placed(placement: Placement, pose: np.ndarray, dtype=np.float64) -> np.ndarray:
    out = np.full((placement.n_points, 3), np.nan, dtype)
    placement.place(pose, out)
    return out


def assert_same(rig: Rig, pose: np.ndarray, vertices=None, atol: float = 3e-14) -> Placement:
    """The rig's own numbers, in double precision, in single, and in single from single tables."""
    wanted, made = rig(pose, vertices), placement(rig, vertices)
    np.testing.assert_allclose(placed(made, pose), wanted, rtol=0, atol=atol)
    size = max(1.0, np.abs(wanted).max(initial=0))
    coarse = placed(made, pose, np.float32)
    np.testing.assert_allclose(coarse, wanted, rtol=0, atol=size * 6.1e-8 + atol)
    single = placement(rig, vertices, single=True)
    for dtype in (np.float32, np.float64):
        np.testing.assert_allclose(placed(single, pose, dtype), wanted, rtol=0, atol=2e-6 * size)
    return made


@cache
def surface_and_tets() -> tuple[SurfaceMesh, TetMesh]:
    limb = tapered_limb((-0.3, 0, 0), (0.3, 0, 0), 0.07, 0.06)
    surface = polygonise(limb, ((-0.45, -0.15, -0.15), (0.45, 0.15, 0.15)), 0.03)
    return surface, tetrahedralise(surface, tets=1500)


@cache
def limb_rig(method: str = "linear") -> SkinnedRig:
    surface, _ = surface_and_tets()
    skeleton = Skeleton(["upper", "fore"], [-1, 0], [[-0.3, 0, 0], [0.3, 0, 0]])
    fore = np.clip(0.5 + surface.vertices[:, 0] / 0.12, 0, 1)
    joints, weights = np.tile([0, 1], (len(fore), 1)), np.column_stack([1 - fore, fore])
    bind = np.linalg.inv(skeleton.rest_world())
    return SkinnedRig(JointPose(skeleton), surface.vertices, joints, weights, bind, method)


def tet_rig(rig: Rig, variant="carried", seed=7, weights: PoseWeights | None = None) -> TetRig:
    """A rig on tets with corrections that nobody fitted: what they are does not matter here."""
    surface, mesh = surface_and_tets()
    rng = np.random.default_rng(seed)
    if weights is None:
        poses = 0.5 * rng.standard_normal((4, len(rig.parameters)))
        poses[0] = rig.rest_pose
        weights = PoseWeights(poses)
    away = 0.02 * rng.standard_normal((weights.n_poses, *mesh.vertices.shape))
    away[0] = 0
    return TetRig.fitted(mesh, start_rig(rig, surface, mesh, variant), weights, away)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("kind", ["moving", "scaling", "partial", "strange"])
def test_skinned_vertices_are_the_rigs(method, sets, kind):
    rig = skinned(method, sets, kind)
    made = assert_same(rig, random_pose(rig))
    assert isinstance(made, BlockPlacement if sets == "few" else SkinnedPlacement)
    assert_same(rig, rig.rest_pose)
    for seed in range(3):  # the same one again, with what the last pose left in its scratch
        pose = random_pose(rig, seed, 2.0)
        np.testing.assert_allclose(placed(made, pose), rig(pose), rtol=0, atol=1e-13)


@pytest.mark.parametrize("sets", SETS)
def test_stretched_joints_stretch_and_the_next_pose_does_not(sets):
    rig = skinned("dual-quaternion", sets, "scaling")
    made = placement(rig)
    stretched = random_pose(rig, 3)
    rigid = stretched.copy()
    rigid[-6:] = 0
    for pose in (stretched, rigid, stretched):
        np.testing.assert_allclose(placed(made, pose), rig(pose), rtol=0, atol=1e-13)
    assert np.abs(rig(stretched) - rig(rigid)).max() > 0.1


@settings(max_examples=25, deadline=None)
@given(
    pose=arrays(np.float64, 3 * J + 6, elements=st.floats(-7, 7)),
    vertices=st.lists(st.integers(0, N - 1), max_size=60),
    method=st.sampled_from(METHODS),
)
def test_any_pose_of_any_vertices_is_the_rigs(pose, vertices, method):
    rig = sculpted(skinned(method))
    np.testing.assert_allclose(
        placed(placement(rig, vertices), pose), rig(pose, vertices), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("options", [{}, {"kind": "affine"}])
def test_corrections_are_added(method, sets, options):
    rig = sculpted(skinned(method, sets), **options)
    assert_same(rig, random_pose(rig))
    assert_same(rig, rig.poses[1].copy())
    assert_same(rig, rig.poses[1] + 1e-6)  # small weights count, too
    assert_same(rig, rig.rest_pose)


@pytest.mark.parametrize("sets", SETS)
def test_corrections_of_corrections_are_added_whether_their_weights_are_equal_or_not(sets):
    first = sculpted(skinned(sets=sets))
    again = PoseSpaceDeformation(
        first, first.poses, 0.5 * first.corrections[::-1], first.pose_weights.scales
    )
    other = sculpted(again, seed=9, count=3)
    assert_same(again, random_pose(again))
    assert_same(other, random_pose(other), [5, 3, 1000, 3])


def test_vertices_may_be_listed_in_any_order_more_than_once_and_not_at_all():
    rig = sculpted(skinned())
    pose = random_pose(rig)
    vertices = np.random.default_rng(2).integers(0, N, 3 * N)
    assert_same(rig, pose, vertices)
    assert_same(rig, pose, [7, 7, 3])
    assert placed(placement(rig, []), pose).shape == (0, 3)
    assert placement(rig, vertices).n_points == 3 * N
    listed = np.array([4, 2])
    made = placement(rig, listed)
    listed[:] = 0  # it is the caller's
    np.testing.assert_allclose(placed(made, pose), rig(pose, [4, 2]), atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sets", SETS)
def test_blend_shapes_displace_what_is_skinned_and_corrected(method, sets):
    rng = np.random.default_rng(4)
    deltas = 0.2 * rng.standard_normal((3, N, 3))
    deltas[1] = 0
    inner = sculpted(skinned(method, sets))
    for base in (skinned(method, sets), inner):
        rig = BlendShapeRig(base, deltas, "abc", rest=[0.3, 0, 0])
        made = assert_same(rig, random_pose(rig))
        assert isinstance(made, DeformingPlacement)
        assert_same(rig, rig.rest_pose, [9, 1, 9])
        assert_same(sculpted(rig, 3), random_pose(rig), np.arange(0, N, 3))
        twice = BlendShapeRig(rig, deltas[::-1], "def")
        assert_same(twice, random_pose(twice))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["skinned", "corrected", "shaped", "corrected shapes"])
def test_tets_that_are_skinned_themselves_are_the_rigs(method, kind):
    surface, mesh = surface_and_tets()
    rig: Rig = limb_rig(method)
    if "shape" in kind:
        deltas = 0.02 * np.random.default_rng(1).standard_normal((2, rig.n_vertices, 3))
        rig = BlendShapeRig(rig, deltas, "ab")  # type: ignore[arg-type]
    if "corrected" in kind:
        rig = sculpted(rig)
    carried = SkinnedTetRig(rig, surface.vertices, mesh, SurfaceSamples.of(surface, mesh))
    some = np.random.default_rng(0).integers(0, carried.n_vertices, 90)
    pose = random_pose(rig)
    for vertices in (None, some):
        made = assert_same(carried, pose, vertices)
        assert isinstance(made, SkinnedTetPlacement) == ("shape" in kind)
        assert_same(tet_rig(rig), pose, vertices)
        assert_same(tet_rig(rig), rig.rest_pose, vertices)


def test_tets_and_surface_of_equal_weights_share_them():
    rig = sculpted(limb_rig())
    alike = tet_rig(rig, weights=PoseWeights(rig.poses, rig.pose_weights.scales))
    other = tet_rig(rig, weights=PoseWeights(rig.poses, 1.01 * rig.pose_weights.scales))
    counts = [
        len(assert_same(each, random_pose(rig))._coefficients.at(rig.rest_pose.copy()))  # type: ignore[attr-defined]
        for each in (alike, other)
    ]
    assert counts[1] - counts[0] == POSES


def test_tets_that_follow_surface_vertices_are_the_rigs():
    rig = sculpted(limb_rig())
    shepard = tet_rig(rig, "shepard")
    assert isinstance(shepard.start, ShepardRig)
    assert_same(shepard, random_pose(rig), [3, 3, 50])
    plain = TetRig(shepard.mesh, shepard.start, shepard.pose_weights, shepard.away())
    assert_same(plain, random_pose(rig), [3, 3, 50])


@pytest.mark.parametrize("method", METHODS)
def test_rigs_restored_from_a_file_are_placed_alike(method):
    rig = tet_rig(sculpted(limb_rig(method)))
    restored = restored_rig(*stored_rig(rig))
    assert type(restored.start).__name__ == "SkinnedTetRig"  # type: ignore[attr-defined]
    assert not isinstance(assert_same(restored, random_pose(rig)), CalledPlacement)


def test_second_differences_in_time_are_the_rigs():
    """A float32 step in a table would show as metres per second squared."""
    rig, h = tet_rig(sculpted(limb_rig())), 1 / 90
    made, rest = placement(rig), random_pose(rig, 8, 0.3)
    poses = [rest * np.sin(2 * t) for t in (0.5 - h, 0.5, 0.5 + h)]
    frames = [placed(made, pose) for pose in poses], [rig(pose) for pose in poses]
    second = [(before - 2 * now + after) / h**2 for before, now, after in frames]
    np.testing.assert_allclose(second[0], second[1], rtol=0, atol=1e-10)
    assert np.abs(second[1]).max() > 0.1


def several() -> list[Rig]:
    shapes = np.random.default_rng(1).standard_normal((2, N, 3))
    return [
        sculpted(skinned("linear", "few")),
        sculpted(skinned("linear", "many")),
        sculpted(skinned("dual-quaternion", "few")),
        sculpted(skinned("dual-quaternion", "many", "partial")),
        sculpted(BlendShapeRig(skinned(), shapes, "ab")),
        tet_rig(sculpted(limb_rig())),
        tet_rig(BlendShapeRig(limb_rig(), 0.01 * shapes[:, : limb_rig().n_vertices], "ab")),
    ]


@pytest.mark.parametrize("which", range(7))
def test_placing_allocates_nothing(which):
    rig = several()[which]
    pose = checked_pose(rig.parameters, random_pose(rig))
    for made, dtype in (
        (placement(rig), np.float64),
        (placement(rig), np.float32),
        (placement(rig, single=True), np.float32),
    ):
        out = np.empty((made.n_points, 3), dtype)
        made.place(pose, out)
        tracemalloc.start()
        try:
            made.place(pose, out)
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            for _ in range(200):
                made.place(pose, out)
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < 500
        assert peak - before < 4000  # views; one row of positions per vertex would be 30 kB


@pytest.mark.parametrize("which", range(7))
def test_forks_share_tables_and_nothing_else_and_threads_agree_to_the_bit(which):
    rig = several()[which]
    first = placement(rig)
    forks = [first, first.fork(), first.fork().fork()]
    poses = [random_pose(rig, seed) for seed in range(len(forks))]
    alone = [placed(first, pose) for pose in poses]

    def again(k: int) -> bool:
        return all(np.array_equal(placed(forks[k], poses[k]), alone[k]) for _ in range(60))

    with ThreadPoolExecutor(len(forks)) as pool:
        assert all(pool.map(again, range(len(forks))))
    assert kept_bytes(first.fork) < 0.75 * kept_bytes(lambda: placement(rig))


def kept_bytes(make) -> int:
    make()
    tracemalloc.start()
    try:
        made = make()
        return tracemalloc.get_traced_memory()[0] if made else 0
    finally:
        tracemalloc.stop()


def test_a_placement_that_deforms_can_be_forked_and_write_where_it_reads():
    rig = sculpted(skinned())
    pose, points = random_pose(rig), np.random.default_rng(3).standard_normal((N, 3))
    for made in (placement(rig), placement(rig).fork(), placement(rig, single=True)):
        assert isinstance(made, DeformingPlacement)
        out = points.copy()
        made.deform(out, pose, out)
        np.testing.assert_allclose(out, rig.deform(points, pose), rtol=0, atol=1e-7)
    made = placement(rig)
    out = np.empty((N, 3))
    made.deform(points, pose, out)  # type: ignore[attr-defined]
    np.testing.assert_allclose(out, rig.deform(points, pose), rtol=0, atol=1e-13)


def test_a_pose_is_not_written_and_may_be_read_only():
    rig = sculpted(skinned())
    made, pose = placement(rig), random_pose(rig)
    before = pose.copy()
    wanted = placed(made, pose)
    assert np.array_equal(pose, before)
    pose.flags.writeable = False
    assert np.array_equal(placed(made, pose), wanted)


def sliding(function) -> FunctionRig:
    return FunctionRig(function, [Parameter("slide", "m")], 3)


def test_a_black_box_is_called():
    def slide(pose, vertices=None):
        pose *= 1.0  # what it does to its argument stays with it
        return (np.arange(9.0).reshape(3, 3) + pose[0])[
            slice(None) if vertices is None else vertices
        ]

    rig = sliding(slide)
    made = assert_same(rig, np.array([0.5]), [2, 0, 2])
    assert isinstance(made, CalledPlacement)
    assert_same(sculpted(rig), np.array([0.3]), [1, 1])
    assert not isinstance(placement(sculpted(rig)), DeformingPlacement)
    assert np.array_equal(placed(made.fork(), np.array([0.5])), rig([0.5], [2, 0, 2]))


class Lifted(SkinnedRig):
    """Someone's own skinning, which inherits a placement that is not its own."""

    def __call__(self, pose, vertices=None, *, out=None):
        return super().__call__(pose, vertices) + 1.0


class Doubled(PoseSpaceDeformation):
    """Someone's own weights."""

    def weights(self, pose):
        return 2 * super().weights(pose)


def test_a_subclass_that_replaces_the_rig_is_called():
    plain = skinned()
    args = (plain.joint_pose, plain.vertices, plain.joints, plain.weights, plain.inverse_bind)
    lifted = Lifted(*args)
    assert isinstance(assert_same(lifted, random_pose(plain)), CalledPlacement)
    assert_same(sculpted(lifted), random_pose(plain))
    inner = sculpted(plain)
    doubled = Doubled(plain, inner.poses, inner.corrections, inner.pose_weights)
    assert_same(doubled, random_pose(plain))
    assert_same(sculpted(doubled), random_pose(plain))


class Careless:
    """A rig by its shape only."""

    parameters, n_vertices, rest_pose = (Parameter("a", "1"),), 2, np.zeros(1)

    def __init__(self, result) -> None:
        self.result = result

    def __call__(self, pose, vertices=None):
        return self.result()


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda: 1 / 0, "the rig, a Careless, failed: ZeroDivisionError"),
        (lambda: np.zeros((3, 3)), "shape"),
        (lambda: np.full((2, 3), np.nan), "not finite"),
        (lambda: "nothing", "must be numbers"),
    ],
)
def test_a_black_box_that_fails_is_an_error_and_leaves_positions_alone(result, words):
    made, out = placement(Careless(result)), np.ones((2, 3))
    with pytest.raises(SuppleError, match=words):
        made.place(np.zeros(1), out)
    assert (out == 1).all()


@pytest.mark.parametrize(
    ("vertices", "words"),
    [([0, N], f"vertex {N} does not exist"), ([-1], "vertex -1"), ([[0]], "list"), ([0.5], "list")],
)
def test_vertices_that_are_not_there_are_errors(vertices, words):
    with pytest.raises(SuppleError, match=words):
        placement(skinned(), vertices)


def test_invalid_rigs_are_errors():
    with pytest.raises(SuppleError, match="int is not a rig"):
        placement(3)  # type: ignore[arg-type]


def test_a_deformer_without_a_placement_also_moves_given_points():
    points = np.random.default_rng(5).standard_normal((6, 3))
    rig, listed = Shear(points), [4, 1, 4]
    made = assert_same(rig, np.array([0.3]), listed)
    assert isinstance(made, DeformingPlacement)
    moved, pose = points[listed] + 1, np.array([0.2])
    wanted = rig.deform(moved, pose, listed)
    made.deform(moved, pose, moved)
    assert np.array_equal(moved, wanted)
    assert isinstance(made.fork(), DeformingPlacement)
    chain = RigChain(Twist(points), rig)
    made = assert_same(chain, np.array([0.3, 0.1, 0.5]), listed)
    assert not isinstance(made, CalledPlacement)


def test_an_error_in_a_link_names_its_class(monkeypatch):
    points = np.random.default_rng(5).standard_normal((6, 3))
    chain, pose = RigChain(Twist(points), Shear(points)), np.zeros(3)
    made = placement(chain)
    monkeypatch.setattr(Shear, "_move", lambda *arguments: 1 / 0)
    for call in (lambda: chain(pose), lambda: made.place(pose, np.empty((6, 3)))):
        with pytest.raises(SuppleError, match="the rig, a Shear, failed: ZeroDivisionError"):
            call()
    monkeypatch.setattr(Shear, "_move", lambda *arguments: np.zeros((5, 3)))
    with pytest.raises(SuppleError, match=r"_move of a Shear returned an array of shape \(5, 3\)"):
        made.place(pose, np.empty((6, 3)))
    monkeypatch.setattr(Shear, "deform", lambda *arguments: np.zeros((5, 3)))
    with pytest.raises(SuppleError, match=r"positions of the rig, a Shear: shape \(5, 3\)"):
        made.place(pose, np.empty((6, 3)))


def called(rig: Rig, poses: list[np.ndarray], dtype, single: bool = False) -> list[np.ndarray]:
    """Positions by the calls that a placement lists, from the same arrays at every pose."""
    made = placement(rig, single=single)
    given, out = np.zeros(len(rig.parameters)), np.zeros((made.n_points, 3), dtype)
    calls, frames = placement_calls(made, given, out), []
    for pose in poses:
        given[:] = pose
        assert not any(call.run() for call in calls)
        frames.append(out.copy())
    return frames


@pytest.mark.parametrize("which", range(7))
def test_calls_that_are_listed_once_place_the_same_bits_at_every_pose(which):
    rig = several()[which]
    poses = [random_pose(rig, seed, size) for seed, size in ((1, 0.6), (2, 2.0), (1, 0.6))]
    for dtype, single in ((np.float64, False), (np.float32, True)):
        made = placement(rig, single=single)
        frames = called(rig, poses, dtype, single)
        for frame, pose in zip(frames, poses, strict=True):
            np.testing.assert_array_equal(frame, placed(made, pose, dtype))


@pytest.mark.parametrize("sets", SETS)
def test_calls_decompose_stretched_and_mirrored_joints(sets):
    rig = skinned("dual-quaternion", sets, "scaling")
    poses = [random_pose(rig, 3), rig.rest_pose, random_pose(rig, 5, 1.5)]
    for frame, pose in zip(called(rig, poses, np.float64), poses, strict=True):
        np.testing.assert_allclose(frame, rig(pose), rtol=0, atol=1e-12)


def test_transforms_are_decomposed_without_numpy_as_with_it():
    matrices = np.random.default_rng(2).standard_normal((40, 4, 4))
    matrices[:5, :3, :3] = np.eye(3)
    mirrored = np.linalg.det(matrices[:, :3, :3]) < 0
    assert 5 < mirrored.sum() < 35
    wanted, wanted_stretches, _ = dual_quaternions(matrices)
    found, found_stretches = np.zeros((40, 8)), np.zeros((40, 4, 4))
    flag = np.zeros(1, np.int64)
    decompose_transforms(matrices, found, found_stretches, flag, np.zeros((5, 3, 3)))
    assert flag[0] == 1
    signs = np.sign((found[:, :4] * wanted[:, :4]).sum(axis=1))[:, None]
    np.testing.assert_allclose(signs * found, wanted, atol=1e-12)
    np.testing.assert_allclose(found_stretches[:, :3, :3], wanted_stretches, atol=1e-12)
    decompose_transforms(matrices[:5], found[:5], found_stretches[:5], flag, np.zeros((5, 3, 3)))
    assert flag[0] == 0


def test_rigs_that_only_python_evaluates_are_refused():
    black_box = FunctionRig(lambda pose: np.zeros((3, 3)), [Parameter("a", "1")], 3)
    out = np.zeros((N, 3))
    for rig in (black_box, skinned(pose="strange")):
        with pytest.raises(SuppleError, match="only Python can evaluate the rig"):
            placement_calls(placement(rig), np.zeros(len(rig.parameters)), out)
