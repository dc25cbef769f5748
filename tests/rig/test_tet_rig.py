"""The rig on the tets: both ways to carry it there, and corrections fitted at poses."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.own_deformer import Shear
from supple.errors import SuppleError, SuppleWarning
from supple.formats.load import load
from supple.formats.research import read_complementary
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.poses.example_poses import farthest_poses
from supple.rig.protocol import FunctionRig, Parameter
from supple.rig.skeleton.inverse_kinematics import HandleRig, InverseKinematics
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig, skinned_core
from supple.rig.tets.fitting import volume_ratios
from supple.rig.tets.shepard import ShepardRig, shepard_matrix
from supple.rig.tets.skinned_tets import SkinnedTetRig, harmonic_extension, rig_on_tets
from supple.rig.tets.surface_samples import SurfaceSamples
from supple.rig.tets.tet_body import fit_tet_body, with_poses_between
from supple.rig.tets.tet_rig import fit_tet_rig, start_rig
from supple.scenes.modelling.solids import polygonise, tapered_limb

SOME = np.array([3, 0, 77, 41, 77])


def skinned(surface: SurfaceMesh, turned: float = 0.0, method="linear") -> SkinnedRig:
    """Upper and lower arm along x, the elbow at 0; bound with the whole arm turned about z."""
    skeleton = Skeleton(["upper", "fore"], [-1, 0], [[-0.3, 0, 0], [0.3, 0, 0]])
    fore = np.clip(0.5 + surface.vertices[:, 0] / 0.12, 0, 1)
    joints = np.tile([0, 1], (len(fore), 1))
    cos, sin = np.cos(turned), np.sin(turned)
    turn = np.array([[cos, -sin, 0, 0.1], [sin, cos, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    bound = surface.vertices @ turn[:3, :3].T + turn[:3, 3]
    inverse_bind = np.linalg.inv(turn @ skeleton.rest_world())
    weights = np.column_stack([1 - fore, fore])
    return SkinnedRig(JointPose(skeleton), bound, joints, weights, inverse_bind, method)


@cache
def arm() -> tuple[SurfaceMesh, SkinnedRig, TetMesh, SurfaceSamples]:
    limb = tapered_limb((-0.3, 0, 0), (0.3, 0, 0), 0.07, 0.06)
    surface = polygonise(limb, ((-0.45, -0.15, -0.15), (0.45, 0.15, 0.15)), 0.02)
    mesh = tetrahedralise(surface, tets=3000)
    return surface, skinned(surface), mesh, SurfaceSamples.of(surface, mesh)


def bent(degrees: float, twist: float = 0.0) -> np.ndarray:
    pose = np.zeros(6)
    pose[3], pose[5] = np.radians(twist), np.radians(degrees)
    return pose


def inverted(mesh: TetMesh, positions: np.ndarray) -> int:
    return int((volume_ratios(mesh, positions) <= 0).sum())


def on_tets_by(make, monkeypatch):
    """Transfer a chain of a skin and a shear, whose rig of the tets `make` returns."""
    surface, rig, mesh, _ = arm()
    own = Shear(surface.vertices, name="lean")
    monkeypatch.setattr(Shear, "on_tets", lambda self, transfer: make(transfer), raising=False)
    return rig_on_tets(RigChain(rig, own), surface, mesh)


def test_a_deformer_that_names_its_parameters_alike_moves_tets_itself(monkeypatch):
    rig = on_tets_by(lambda transfer: Shear(transfer.vertices, name="lean"), monkeypatch)
    assert isinstance(rig, RigChain)
    assert [type(link) for link in rig.rigs] == [SkinnedRig, Shear]


def test_a_rig_of_tets_with_other_parameters_is_not_used_and_warns(monkeypatch):
    with pytest.warns(SuppleWarning, match=r"on_tets of a Shear returned .*'shear.rate'.*nearest"):
        rig = on_tets_by(lambda transfer: Shear(transfer.vertices), monkeypatch)
    assert isinstance(rig, ShepardRig)


def test_a_rig_of_tets_that_moves_them_at_rest_is_not_used_and_warns(monkeypatch):
    def lifted(transfer):
        rig: Any = Shear(transfer.vertices, name="lean")
        rig._move = lambda points, pose, subset: points + 0.1
        return rig

    with pytest.warns(SuppleWarning, match=r"moves tets at rest by 0\.1 m; .*nearest"):
        rig = on_tets_by(lifted, monkeypatch)
    assert isinstance(rig, ShepardRig)


def test_what_on_tets_returns_is_checked(monkeypatch):
    surface = arm()[0]
    count = len(surface.vertices)
    with pytest.raises(SuppleError, match=rf"on_tets of a Shear returned a rig of {count:,} vert"):
        on_tets_by(lambda transfer: Shear(surface.vertices, name="lean"), monkeypatch)
    with pytest.raises(SuppleError, match="on_tets of a Shear returned 3, which is not a rig"):
        on_tets_by(lambda transfer: 3, monkeypatch)
    with pytest.raises(SuppleError, match="the rig, a Shear, failed: AttributeError"):
        on_tets_by(lambda transfer: transfer.points, monkeypatch)


def test_shepard_weights_are_inverse_distances_to_the_four_nearest():
    rng = np.random.default_rng(0)
    points, surface = rng.normal(size=(40, 3)), rng.normal(size=(60, 3))
    matrix = shepard_matrix(points, surface).toarray()
    for point, row in zip(points, matrix, strict=True):
        distance = np.linalg.norm(surface - point, axis=1)
        nearest = np.argsort(distance)[:4]
        expected = np.zeros(60)
        expected[nearest] = (1 / distance[nearest]) / (1 / distance[nearest]).sum()
        np.testing.assert_allclose(row, expected, atol=1e-14)


def test_shepard_takes_the_value_of_a_vertex_it_lies_on_and_shares_between_doubles():
    surface = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0.0]])
    points = np.array([[0, 0, 0], [1, 0, 0], [1e-300, 0, 0]])
    rows = shepard_matrix(points, surface).toarray()
    np.testing.assert_allclose(rows[0], [1, 0, 0, 0])
    np.testing.assert_allclose(rows[1], [0, 0.5, 0.5, 0])
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    assert shepard_matrix([[0, 0, 0.0]], surface[:2]).shape == (1, 2)


@pytest.mark.parametrize("variant", ["shepard", "carried"])
def test_a_subset_of_tet_vertices_is_the_subset_of_all(variant):
    surface, rig, mesh, samples = arm()
    start = start_rig(rig, surface, mesh, variant, samples)
    pose = bent(70, 20)
    np.testing.assert_array_equal(start(pose, SOME), start(pose)[SOME])
    np.testing.assert_array_equal(start(pose, SOME[:2]), start(pose)[SOME[:2]])
    assert start(pose, []).shape == (0, 3)


def test_shepard_evaluates_the_rig_at_the_needed_vertices_only():
    surface, rig, mesh, _ = arm()
    asked: list[np.ndarray] = []

    def spied(pose, vertices):
        asked.append(vertices)
        return rig(pose, vertices)

    start = ShepardRig(
        FunctionRig(spied, rig.parameters, rig.n_vertices), surface.vertices, mesh.vertices
    )
    start(bent(30), SOME)
    needed = start.needed_surface_vertices(SOME)
    assert len(needed) <= 4 * len(np.unique(SOME))
    np.testing.assert_array_equal(asked[-1], needed)


@pytest.mark.parametrize("method", ["linear", "dual-quaternion"])
@pytest.mark.parametrize("turned", [0.0, 1.1])
@pytest.mark.parametrize("variant", ["shepard", "carried"])
def test_at_rest_the_tets_are_the_mesh_in_whatever_pose_they_were_bound(variant, turned, method):
    surface, _, mesh, samples = arm()
    rig = skinned(surface, turned, method)
    start = start_rig(rig, surface, mesh, variant, samples)
    np.testing.assert_allclose(start(rig.rest_pose), mesh.vertices, atol=1e-14)


@pytest.mark.parametrize("method", ["linear", "dual-quaternion"])
def test_carried_tets_turn_rigidly_when_the_whole_arm_does(method):
    surface, _, mesh, samples = arm()
    rig = skinned(surface, 0.4, method)
    pose = np.zeros(6)
    pose[:3] = [0.3, -1.0, 2.0]
    moved = SkinnedTetRig(rig, surface.vertices, mesh, samples)(pose)
    np.testing.assert_allclose(volume_ratios(mesh, moved), 1, atol=1e-9)
    before, after = (x[mesh.tets[:, 0]] - x[mesh.tets[:, 1]] for x in (mesh.vertices, moved))
    np.testing.assert_allclose(
        np.linalg.norm(after, axis=1), np.linalg.norm(before, axis=1), rtol=1e-9
    )


def test_extended_values_keep_constants_and_agree_with_the_surface_where_not_smoothed():
    surface, rig, mesh, samples = arm()
    ones = np.ones((len(surface.vertices), 1))
    np.testing.assert_allclose(harmonic_extension(mesh, samples, ones), 1, atol=1e-6)
    weights = rig.weight_matrix().toarray()
    extended = harmonic_extension(mesh, samples, weights, smoothness=1e-3)
    on_surface = (samples.of_tets @ extended)[: len(surface.vertices)]
    assert np.abs(on_surface - weights).mean() < 0.005
    assert extended.min() > -0.1
    assert extended.max() < 1.1
    np.testing.assert_allclose(extended.sum(axis=1), 1, atol=1e-6)


def test_carried_weights_are_a_partition_of_unity():
    surface, rig, mesh, samples = arm()
    carried = SkinnedTetRig(rig, surface.vertices, mesh, samples).skinned
    assert carried.weights.min() >= 0
    np.testing.assert_allclose(carried.weights.sum(axis=1), 1)


def test_tets_that_the_surface_does_not_touch_follow_the_nearest_of_it():
    surface, rig, mesh, _ = arm()
    crumb = np.array([[0.6, 0, 0], [0.61, 0, 0], [0.6, 0.01, 0], [0.6, 0, 0.01]])
    apart = TetMesh(
        np.vstack([mesh.vertices, crumb]),
        np.vstack([mesh.tets, len(mesh.vertices) + np.arange(4)]),
    )
    samples = SurfaceSamples.of(surface, apart)
    samples.of_tets[:, -4:] *= 0  # those at the limb's tip are extrapolated from it
    follows = SkinnedTetRig(rig, surface.vertices, apart, samples).skinned
    np.testing.assert_allclose(follows.weight_matrix().toarray()[-4:, 1], 1)


def test_an_arm_bent_by_120_degrees_inverts_far_fewer_carried_tets_than_shepards():
    surface, rig, mesh, samples = arm()
    pose = bent(120)
    shepard = inverted(mesh, start_rig(rig, surface, mesh, "shepard")(pose))
    carried = inverted(mesh, start_rig(rig, surface, mesh, "carried", samples)(pose))
    assert shepard > 300
    assert carried < shepard / 20


def test_deformers_after_skinning_are_transferred_too():
    surface, rig, mesh, samples = arm()
    shift = np.tile([0.0, 0.0, 0.05], (1, len(surface.vertices), 1))
    chain = BlendShapeRig(rig, shift, ["lift"])
    core = skinned_core(chain)
    assert core is not None
    assert core.rig is rig
    start = start_rig(chain, surface, mesh, "auto", samples)
    assert isinstance(start, SkinnedTetRig)
    pose = np.append(bent(40), 0.8)
    plain = SkinnedTetRig(rig, surface.vertices, mesh, samples)
    # Bending about z leaves a shift along z alone, so every tet vertex gets it whole.
    added = start(pose) - plain(bent(40))
    np.testing.assert_allclose(added, np.tile([0, 0, 0.04], (len(added), 1)), atol=1e-14)
    np.testing.assert_array_equal(start(pose, SOME), start(pose)[SOME])


def test_the_skeletons_part_of_a_chains_pose_is_found_wherever_it_stands():
    surface, rig, _, _ = arm()
    chain = RigChain(Bend(surface.vertices), rig)
    core = skinned_core(chain)
    assert core is not None
    names = [parameter.name for parameter in chain.parameters[core.entries]]
    assert names == [parameter.name for parameter in rig.parameters]
    assert skinned_core(Bend(surface.vertices)) is None
    assert skinned_core(RigChain(rig, rig)) is None


def handled(rig: SkinnedRig, extra: list[str]) -> HandleRig:
    chain = InverseKinematics(rig.joint_pose, "upper", "fore", offset=[0.25, -0.15, 0])
    return HandleRig(rig, chain, extra=extra)


# With three extras the handle's pose is as long as the skeleton's, and still another.
@pytest.mark.parametrize("extra", [["fore.rx"], ["fore.rx", "upper.rx", "upper.ry"]])
def test_a_rig_driven_by_a_handle_gets_tets_and_bones(extra):
    surface, rig, _, _ = arm()
    driven = handled(rig, extra)
    assert skinned_core(driven) is None
    mesh = tetrahedralise(surface, tets=600)
    fitted = fit_tet_rig(driven, surface, mesh, np.empty((0, 3 + len(extra))), variant="auto")
    assert isinstance(fitted.start, ShepardRig)
    np.testing.assert_allclose(fitted(fitted.rest_pose), mesh.vertices, atol=1e-8)
    pose = driven.rest_pose + np.append([-0.05, 0.05, 0.02], np.zeros(len(extra)))
    followed = shepard_matrix(mesh.vertices, surface.vertices)
    moved = mesh.vertices + followed @ (driven(pose) - surface.vertices)
    np.testing.assert_allclose(fitted(pose), moved, atol=1e-8)
    # The skeleton is there, though its pose is not the rig's: its bones hold the flesh.
    poses = np.empty((0, len(pose)))
    flesh = fit_tet_body(surface, driven, poses, tets=mesh)
    assert len(flesh.fixed) > 0
    np.testing.assert_array_equal(
        flesh.fixed, fit_tet_body(surface, rig, np.empty((0, 6)), tets=mesh).fixed
    )


def test_a_black_box_gets_shepards_variant_and_cannot_have_the_other():
    surface, rig, mesh, samples = arm()
    black_box = FunctionRig(rig, rig.parameters, rig.n_vertices)
    assert isinstance(start_rig(black_box, surface, mesh), ShepardRig)
    with pytest.raises(SuppleError, match="no skinning weights"):
        start_rig(black_box, surface, mesh, "carried", samples)
    with pytest.raises(SuppleError, match='no variant "best"'):
        start_rig(rig, surface, mesh, "best")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def fitted():
    surface, rig, mesh, _ = arm()
    poses = [bent(120), bent(0), bent(60, 50)]
    return fit_tet_rig(rig, surface, mesh, poses, names=["flexed", "straight", "twisted"])


def test_the_fitted_rig_is_the_fit_at_its_poses_and_the_mesh_at_rest(fitted):
    assert fitted.pose_names == ("neutral", "flexed", "twisted")
    np.testing.assert_allclose(fitted(fitted.rest_pose), fitted.mesh.vertices, atol=1e-12)
    for pose, fit in zip(fitted.poses[1:], fitted.fits, strict=True):
        np.testing.assert_allclose(fitted(pose), fit.positions, atol=1e-12)
    assert fitted.inversions(fitted.poses) == [pytest.approx([])] * 3
    np.testing.assert_array_equal(fitted(bent(90), SOME), fitted(bent(90))[SOME])


def test_fitting_repairs_the_tets_that_its_start_inverts(fitted):
    flexed = fitted.fits[0]
    start = volume_ratios(fitted.mesh, fitted.start(bent(120)))
    np.testing.assert_array_equal(flexed.inverted_before, np.flatnonzero(start <= 0))
    assert len(flexed.inverted_before) > 0
    assert volume_ratios(fitted.mesh, flexed.positions).min() >= 0.1


def test_inversions_between_poses_are_found():
    surface, rig, mesh, _ = arm()
    unfitted = fit_tet_rig(rig, surface, mesh, np.empty((0, 6)), variant="shepard")
    found = unfitted.inversions([bent(0), bent(120)])
    assert len(found[0]) == 0
    assert len(found[1]) == inverted(mesh, unfitted.start(bent(120))) > 300


def test_poses_are_added_until_no_tet_is_inverted_between():
    surface, rig, mesh, _ = arm()
    unfitted = fit_tet_rig(rig, surface, mesh, np.empty((0, 6)))
    between = np.array([bent(angle) for angle in np.linspace(0, 110, 12)])
    assert sum(map(len, unfitted.inversions(between))) > 0
    fitted = with_poses_between(unfitted, surface, between)
    assert sum(map(len, fitted.inversions(between))) == 0
    assert 1 < len(fitted.poses) <= 9
    assert len(fitted.fits) == len(fitted.poses) - 1
    np.testing.assert_allclose(fitted(fitted.rest_pose), mesh.vertices, atol=1e-12)
    # Nothing to do, nothing done.
    assert with_poses_between(fitted, surface, between) is fitted
    with pytest.warns(SuppleWarning, match="tets stay inverted at"):
        with_poses_between(unfitted, surface, between, most=0)


def test_a_pose_that_cannot_be_is_refused_by_name():
    surface, rig, _, _ = arm()
    mesh = tetrahedralise(surface, tets=300)
    black_box = FunctionRig(
        lambda pose: surface.vertices * pose[0], [Parameter("size", "1", 1.0)], rig.n_vertices
    )
    words = r'pose "mountain" inverts \d+ tets? near \(.*\); add a pose between, or raise'
    with pytest.raises(SuppleError, match=words):
        fit_tet_rig(black_box, surface, mesh, [[1e4]], names=["mountain"])


def test_a_pose_that_tets_hardly_follow_is_warned_about():
    surface, rig, _, _ = arm()
    mesh = tetrahedralise(surface, tets=300)
    flat = FunctionRig(
        lambda pose: surface.vertices * [1, 1 - pose[0], 1],
        [Parameter("flatten", "1")],
        rig.n_vertices,
    )
    with pytest.warns(SuppleWarning, match='pose "flat": tets are off the surface by'):
        fit_tet_rig(flat, surface, mesh, [[1.0]], names=["flat"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"poses": [bent(50), bent(50)], "names": ["a", "b"]}, '"a" and "b" are the same'),
        ({"poses": [bent(50)], "names": ["a", "b"]}, "2 names for 1 poses"),
        ({"poses": [[1.0, 2.0]]}, "poses: shape"),
        ({"poses": [np.full(6, np.nan)]}, "not finite"),
        ({"poses": [bent(50)], "gamma": 0.0}, "gamma is 0.0"),
    ],
)
def test_impossible_requests_are_errors(change, words):
    surface, rig, mesh, _ = arm()
    with pytest.raises(SuppleError, match=words):
        fit_tet_rig(rig, surface, mesh, **change)


def test_a_surface_that_is_not_at_rest_is_an_error():
    surface, rig, mesh, _ = arm()
    moved = SurfaceMesh(surface.vertices + 0.1, surface.triangles)
    with pytest.raises(SuppleError, match="from the rig's rest positions"):
        fit_tet_rig(rig, moved, mesh, [bent(20)])


def test_farthest_poses_are_few_and_different_and_do_not_count_whole_turns():
    _, rig, _, _ = arm()
    poses = np.array([bent(0), bent(360), bent(10), bent(90), bent(450), bent(-90), bent(45)])
    chosen = farthest_poses(rig, poses, 7)
    assert set(chosen[:2]) in ({3, 5}, {4, 5})
    assert len(chosen) == 4
    assert len(farthest_poses(rig, poses, 2)) == 2


def character(assets: Path, name: str):
    if name == "elephant":
        folder = assets / "complementary_dynamics" / "elephant"
        example = read_complementary(folder / "elephant.json")
        return example.surface, example.rig, example.motion.poses
    loaded = load(assets / "gltf_characters" / f"{name}.glb")
    return loaded.surface, loaded.rig, np.vstack([m.poses for m in loaded.motions.values()])


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
@pytest.mark.parametrize("name", ["mh_arm_flex", "q_Trex", "CesiumMan", "elephant"])
def test_real_characters_get_sound_tets_at_poses_of_their_clips(assets, name):
    surface, rig, poses = character(assets, name)
    chosen = poses[farthest_poses(rig, poses, 3)]
    flesh = fit_tet_body(surface, rig, chosen, tets=5000)
    assert flesh.rest_error() < 0.01 * surface.size
    assert len(flesh.tet_rig.fits) == len(chosen) == 3
    for pose, fit in zip(chosen, flesh.tet_rig.fits, strict=True):
        assert volume_ratios(flesh.mesh, flesh.tet_rig(pose)).min() >= 0.1 - 1e-9
        assert fit.surface_error < 0.01 * surface.size
        assert all((np.diff(energies) <= 0).all() for energies in fit.energies)
    assert 0 < len(flesh.fixed) < len(flesh.mesh.vertices)
