"""USD characters move as USD moves them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from supple.errors import SuppleError, SuppleWarning
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.skeleton.skinning import SkinnedRig

pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")

from pxr import Usd, UsdGeom, UsdSkel, Vt

from supple.formats.gltf.read.gltf import load_gltf
from supple.formats.usd.read.usd import load_usd
from supple.rig.character import Character

NO_UNIT = "does not define its unit"


def load(path: Path, *expected: str) -> Character:
    """The character; its warnings must be those expected and no others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        character = load_usd(path)
    messages = [str(w.message) for w in caught if issubclass(w.category, SuppleWarning)]
    assert tuple(messages) == character.warnings
    assert all(message.startswith(f"{path.name}: ") for message in messages)
    assert len(messages) == len(expected), messages
    for text in expected:
        assert any(text in message for message in messages), (text, messages)
    return character


def world(character: Character, name: str, key: int) -> np.ndarray:
    motion = character.motions[name]
    root = motion.roots[key]
    return character.rig(motion.poses[key]) @ root[:3, :3].T + root[:3, 3]


def in_supple(character: Character, points: np.ndarray) -> np.ndarray:
    matrix = character.source.from_stage
    return points @ matrix[:3, :3].T + matrix[:3, 3]


def world_of(prim: Usd.Prim, code: Usd.TimeCode, points: np.ndarray) -> np.ndarray:
    matrix = np.array(UsdGeom.XformCache(code).GetLocalToWorldTransform(prim))
    return points @ matrix[:3, :3] + matrix[3, :3]


def baked_points(stage: Usd.Stage, path: str, time_code: float) -> np.ndarray:
    """World points of a mesh whose deformation is in its points."""
    prim = stage.GetPrimAtPath(path)
    code = Usd.TimeCode(time_code)
    return world_of(prim, code, np.array(UsdGeom.Mesh(prim).GetPointsAttr().Get(code), float))


def largest_error(character: Character, motion: str, key: int, reference: dict) -> float:
    """Distance of any mesh point from where it should be, as a part of the size."""
    ours = world(character, motion, key)
    errors = []
    for mesh in character.source.meshes:
        used = mesh.welded >= 0
        wanted = in_supple(character, reference[mesh.path])
        errors.append(np.linalg.norm(ours[mesh.welded[used]] - wanted[used], axis=1).max())
    return max(errors) / character.surface.size


GOLDEN = {
    "lbs.usda": ("lbs.baked.usda", 30, ["4 prims are not a mesh", NO_UNIT]),
    "dqs.usda": ("dqs.baked.usda", 30, ["4 prims are not a mesh", NO_UNIT]),
    "blendshapesWithNormals.usda": (
        "blendshapesWithNormals.baked.usda", 17, ["36 open edges", NO_UNIT]
    ),
    "arm.usda": ("arm_baked.usda", 10, [NO_UNIT]),
}  # fmt: skip


@pytest.mark.parametrize("file", GOLDEN)
def test_skinning_equals_the_golden_output_at_every_time_sample(assets, file):
    baked, n_samples, expected = GOLDEN[file]
    character = load(assets / "usd_skel" / file, *expected)
    golden = Usd.Stage.Open(str(assets / "usd_skel" / baked))
    paths = [mesh.path for mesh in character.source.meshes]
    (name, motion), *_ = character.motions.items()
    first = character.source.time_codes[name][0]
    samples = UsdGeom.Mesh(golden.GetPrimAtPath(paths[0])).GetPointsAttr().GetTimeSamples()
    assert len(samples) == n_samples
    for code in samples:
        # Not all golden samples are keys of ours: blend weights are keyed at every other one.
        pose, root = motion.at((code - first) / character.source.time_codes_per_second)
        ours = character.rig(pose) @ root[:3, :3].T + root[:3, 3]
        for mesh in character.source.meshes:
            wanted = in_supple(character, baked_points(golden, mesh.path, code))
            error = np.linalg.norm(ours[mesh.welded] - wanted, axis=1).max()
            assert error < 1e-5 * character.surface.size, (code, mesh.path, error)


def test_golden_files_use_the_skinning_methods_in_their_names(assets):
    linear = load(assets / "usd_skel/lbs.usda", "4 prims", NO_UNIT)
    dual = load(assets / "usd_skel/dqs.usda", "4 prims", NO_UNIT)
    assert isinstance(linear.rig, SkinnedRig)
    assert isinstance(dual.rig, SkinnedRig)
    assert (linear.rig.method, dual.rig.method) == ("linear", "dual-quaternion")
    apart = np.abs(world(linear, "Animation", -1) - world(dual, "Animation", -1)).max()
    assert apart > 1e-3 * linear.surface.size


def by_usd(path: Path, code: float) -> dict[str, np.ndarray]:
    """World points of every mesh by USD's own skinning: the independent evaluator."""
    stage, time = Usd.Stage.Open(str(path)), Usd.TimeCode(float(code))
    predicate, cache, result = Usd.TraverseInstanceProxies(), UsdSkel.Cache(), {}
    for root in stage.Traverse(predicate):
        if not root.IsA(UsdSkel.Root):
            continue
        cache.Populate(UsdSkel.Root(root), predicate)
        for binding in cache.ComputeSkelBindings(UsdSkel.Root(root), predicate):
            skeleton = cache.GetSkelQuery(binding.GetSkeleton())
            for target in binding.GetSkinningTargets():
                if target.GetPrim().IsA(UsdGeom.Mesh):
                    result[str(target.GetPrim().GetPath())] = skinned_by_usd(target, skeleton, time)
    for prim in stage.Traverse(predicate):
        if prim.IsA(UsdGeom.Mesh) and str(prim.GetPath()) not in result:
            result[str(prim.GetPath())] = baked_points(stage, str(prim.GetPath()), code)
    return result


def skinned_by_usd(
    target: UsdSkel.SkinningQuery, skeleton: UsdSkel.SkeletonQuery, time: Usd.TimeCode
) -> np.ndarray:
    prim = target.GetPrim()
    points = Vt.Vec3fArray(UsdGeom.Mesh(prim).GetPointsAttr().Get())
    if target.HasBlendShapes():
        shapes = UsdSkel.BlendShapeQuery(UsdSkel.BindingAPI(prim))
        weights = skeleton.GetAnimQuery().ComputeBlendShapeWeights(time)
        mapper = target.GetBlendShapeMapper()
        parts = shapes.ComputeSubShapeWeights(mapper.Remap(weights) if mapper else weights)
        indices = shapes.ComputeBlendShapePointIndices()
        assert shapes.ComputeDeformedPoints(
            *parts, indices, shapes.ComputeSubShapePointOffsets(), points
        )
    if not target.HasJointInfluences():
        return world_of(prim, time, np.array(points, float))
    assert target.ComputeSkinnedPoints(skeleton.ComputeSkinningTransforms(time), points, time)
    return world_of(skeleton.GetPrim(), time, np.array(points, float))


@pytest.mark.parametrize("file", ["CesiumMan.usdz", "RiggedFigure.usdz", "twoBends.usda"])
def test_real_characters_move_as_by_usds_own_skinning(assets, file):
    path = assets / "usd_skel" / file
    character = load(path)
    for name, codes in character.source.time_codes.items():
        for key in range(0, len(codes), 7):
            assert largest_error(character, name, key, by_usd(path, codes[key])) < 2e-6


CUBE = """
    int[] faceVertexCounts = [4, 4, 4, 4, 4, 4]
    int[] faceVertexIndices = [0, 2, 3, 1, 4, 5, 7, 6, 0, 1, 5, 4,
                               2, 6, 7, 3, 0, 4, 6, 2, 1, 3, 7, 5]
    point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0),
                        (0, 0, 2), (1, 0, 2), (0, 1, 2), (1, 1, 2)]
"""
SKIN = """
    int[] primvars:skel:jointIndices = [0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0] (
        elementSize = 2
        interpolation = "vertex"
    )
    float[] primvars:skel:jointWeights = [1, 0, 1, 0, 0.7, 0.3, 0.7, 0.3,
                                          0.5, 0.5, 1, 0, 0.25, 0.75, 1, 0] (
        elementSize = 2
        interpolation = "vertex"
    )
"""
IDENTITY = "((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))"
RAISED = "((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 1, 1))"
BENT = "((0, 1, 0, 0), (-1, 0, 0, 0), (0, 0, 1, 0), (0, 0, 1, 1))"
API = '(\n    prepend apiSchemas = ["SkelBindingAPI"]\n)'


def skeleton_text(name: str, rest: str = RAISED) -> str:
    """Two joints; the animation moves both, in channels keyed at different times."""
    return f"""
    def Skeleton "{name}" {API}
    {{
        uniform token[] joints = ["hip", "hip/knee"]
        uniform matrix4d[] bindTransforms = [{IDENTITY}, {RAISED}]
        uniform matrix4d[] restTransforms = [{IDENTITY}, {rest}]
        rel skel:animationSource = <Walk{name}>
        def SkelAnimation "Walk{name}"
        {{
            uniform token[] joints = ["hip/knee", "hip"]
            float3[] translations.timeSamples = {{
                1: [(0, 0, 1), (0, 0, 0)],
                4: [(0, 0.2, 1), (3, 0, 1)],
                9: [(0, 0, 1.1), (6, 2, 0)]
            }}
            quatf[] rotations.timeSamples = {{
                1: [(1, 0, 0, 0), (1, 0, 0, 0)],
                9: [(0.8, 0.6, 0, 0), (0.6, 0, 0, 0.8)]
            }}
            half3[] scales.timeSamples = {{
                1: [(1, 1, 1), (1, 1, 1)],
                9: [(1, 2, 1), (1, 1, 1)]
            }}
            uniform token[] blendShapes = ["smile", "puff"]
            float[] blendShapeWeights.timeSamples = {{
                1: [0, 0], 2: [0.25, -0.4], 3: [0.5, 1],
                5: [0.75, 0.2], 6: [1.4, 0.9], 9: [-0.3, 0.1]
            }}
        }}
    }}
"""


SHAPES = """
    uniform token[] skel:blendShapes = ["puff", "smile"]
    rel skel:blendShapeTargets = [<puff>, <smile>]
    def BlendShape "puff"
    {
        uniform vector3f[] offsets = [(0.3, 0, 0), (0, 0.2, 0.1)]
        uniform int[] pointIndices = [5, 2]
    }
    def BlendShape "smile"
    {
        uniform vector3f[] offsets = [(0.3, 0, 0), (0, 0.2, 0), (0, 0, 0.1), (0, 0, 0.2),
                                      (0, 0, 0), (0, 0, 0), (0, 0.5, 0), (0.1, 0, 0)]
        uniform vector3f[] inbetweens:half = [(0, 0.4, 0), (0, 0, 0), (0.1, 0, 0), (0, 0, 0),
                                      (0, 0, 0), (0, 0.3, 0), (0, 0, 0), (0, 0, 0)] (
            weight = 0.5
        )
    }
"""
BIND = "((0, 1.5, 0, 0), (-1.5, 0, 0, 0), (0, 0, 1.5, 0), (0.5, 0, 0.25, 1))"

STAGE = f"""#usda 1.0
(
    upAxis = "Z"
    metersPerUnit = 0.01
    startTimeCode = 1
    endTimeCode = 9
    timeCodesPerSecond = 12
)
def SkelRoot "Body" {API}
{{
    double3 xformOp:translate.timeSamples = {{ 1: (0, 0, 0), 9: (20, 5, 1) }}
    float xformOp:rotateZ.timeSamples = {{ 1: 0, 9: 120 }}
    float3 xformOp:scale = (2, 2, 2)
    uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ", "xformOp:scale"]
    rel skel:skeleton = <Rig>
    {skeleton_text("Rig", BENT)}
    def Mesh "Trunk" {API}
    {{
        matrix4d primvars:skel:geomBindTransform = {BIND}
        {CUBE} {SKIN} {SHAPES}
    }}
    def Mesh "Badge" {API}
    {{
        uniform token[] skel:joints = ["hip/knee", "hip"]
        int[] primvars:skel:jointIndices = [1, 0] (elementSize = 2
            interpolation = "constant")
        float[] primvars:skel:jointWeights = [0.4, 0.6] (elementSize = 2
            interpolation = "constant")
        {CUBE}
    }}
    def Xform "Holder"
    {{
        float3 xformOp:rotateXYZ = (10, 20, 30)
        uniform token[] xformOpOrder = ["xformOp:rotateXYZ"]
        def Mesh "Hat"
        {{
            float3 xformOp:scale = (1, 3, -1)
            uniform token[] xformOpOrder = ["xformOp:scale"]
            {CUBE}
        }}
    }}
}}
def SkelRoot "Second" {API}
{{
    float3 xformOp:translate = (0, 40, 0)
    float3 xformOp:rotateXYZ = (10, 20, 30)
    float3 xformOp:scale = (1, 3, 1)
    uniform token[] xformOpOrder = ["xformOp:scale", "xformOp:rotateXYZ", "xformOp:translate"]
    rel skel:skeleton = <Other>
    {skeleton_text("Other")}
    def Mesh "Tail" {API}
    {{
        {CUBE} {SKIN}
    }}
}}
def Mesh "Rock"
{{
    double3 xformOp:translate = (-30, 0, 2)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    uniform token orientation = "leftHanded"
    {CUBE}
}}
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A character in which every feature is used; and its path."""
    path = tmp_path_factory.mktemp("usd") / "odd.usda"
    path.write_text(STAGE)
    return load(path, "inside out"), path


def test_every_feature_moves_as_by_usds_own_skinning(odd):
    character, path = odd
    (name, codes), *_ = character.source.time_codes.items()
    assert codes[0] == 1
    assert codes[-1] == 9
    for key, code in enumerate(codes):
        assert largest_error(character, name, key, by_usd(path, code)) < 1e-6


def test_lengths_are_metres_and_y_is_up(odd):
    character, _ = odd
    rock = next(mesh for mesh in character.source.meshes if mesh.path == "/Rock")
    low, high = np.sort(character.surface.vertices[rock.welded], axis=0)[[0, -1]]
    np.testing.assert_allclose(low, [-0.30, 0.02, -0.01], atol=1e-12)
    np.testing.assert_allclose(high, [-0.29, 0.04, 0.0], atol=1e-12)
    assert character.metres_per_unit == 0.01


def test_keys_of_all_channels_are_kept_in_seconds(odd):
    character, _ = odd
    codes = character.source.time_codes["odd"]
    assert set(codes) >= {1, 2, 3, 4, 5, 6, 9}
    np.testing.assert_allclose(character.motions["odd"].times, (codes - 1) / 12)


def test_in_betweens_and_shapes_are_parameters_of_the_rig(odd):
    character, _ = odd
    assert isinstance(character.rig, BlendShapeRig)
    assert character.rig.names == ("puff", "smile@0.5", "smile")


def test_the_rest_surface_is_the_bind_pose_though_the_file_rests_in_another(odd):
    character, path = odd
    stage = Usd.Stage.Open(str(path))
    trunk = stage.GetPrimAtPath("/Body/Trunk")
    points = np.array(UsdGeom.Mesh(trunk).GetPointsAttr().Get(), float)
    bind = np.array(trunk.GetAttribute("primvars:skel:geomBindTransform").Get())
    bound = points @ bind[:3, :3] + bind[3, :3]
    placed = world_of(stage.GetPrimAtPath("/Body"), Usd.TimeCode(1), bound)
    ours = character.surface.vertices[character.source.meshes[0].welded]
    np.testing.assert_allclose(ours, in_supple(character, placed), atol=1e-9)


def test_the_source_maps_every_point_of_every_prim(odd):
    character, _ = odd
    paths = [mesh.path for mesh in character.source.meshes]
    assert paths == ["/Body/Trunk", "/Body/Badge", "/Body/Holder/Hat", "/Second/Tail", "/Rock"]
    assert all(len(mesh.welded) == 8 for mesh in character.source.meshes)
    assert len(character.surface.vertices) == 40


def one_mesh(tmp_path: Path, body: str, head: str = "metersPerUnit = 1") -> Path:
    path = tmp_path / "one.usda"
    path.write_text(f'#usda 1.0\n(\n    {head}\n)\ndef Mesh "M"\n{{\n{body}\n}}\n')
    return path


def test_faces_point_outwards_whatever_the_orientation_and_mirrors(tmp_path):
    for left, scale in [(False, 1), (False, -1), (True, 1), (True, -1)]:
        body = (
            CUBE
            + f"""
            float3 xformOp:scale = (1, 1, {scale})
            uniform token[] xformOpOrder = ["xformOp:scale"]
            uniform token orientation = "{"leftHanded" if left else "rightHanded"}"
        """
        )
        path = one_mesh(tmp_path, body)
        expected = ["inside out"] if left else []
        assert (load(path, *expected).surface.volume() < 0) == left


def test_hollow_polygons_keep_their_shape(tmp_path):
    # An arrow head (one hollow corner) and a comb (two), with areas 0.5 and 3.
    head = "(0, 0, 0), (1, 1, 0), (0, 0.5, 0), (-1, 1, 0)"
    comb = "(0,0,1), (4,0,1), (4,1,1), (3,0.5,1), (2,1,1), (1,0.5,1), (0,1,1)"
    body = f"""
        int[] faceVertexCounts = [4, 7]
        int[] faceVertexIndices = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        point3f[] points = [{head}, {comb}]
    """
    surface = load(one_mesh(tmp_path, body), "open edges").surface
    assert len(surface.triangles) == 7
    np.testing.assert_allclose(surface.areas()[:2].sum(), 0.5)
    np.testing.assert_allclose(surface.areas()[2:].sum(), 3.0)
    assert (surface.areas() > 0).all()


def test_faces_marked_as_holes_are_left_out(tmp_path):
    path = one_mesh(tmp_path, CUBE + "int[] holeIndices = [2]")
    assert len(load(path, "4 open edges").surface.triangles) == 10


def test_baked_points_give_a_warning_and_no_rig(assets):
    texts = ["10 samples of points, a baked cache", "skinned outside a SkelRoot", NO_UNIT]
    character = load(assets / "usd_skel/arm_baked.usda", *texts)
    assert isinstance(character.rig, SkinnedRig)
    assert character.rig.skeleton.names == ("world",)


def test_references_beside_the_file_are_followed_and_instances_are_copies(tmp_path):
    (tmp_path / "part.usda").write_text(
        f'#usda 1.0\n(\n    defaultPrim = "P"\n)\ndef Xform "P"\n{{\ndef Mesh "M"\n{{{CUBE}}}\n}}\n'
    )
    path = tmp_path / "whole.usda"
    instances = "".join(
        f"""def "I{i}" (
            instanceable = true
            references = @./part.usda@
        )
        {{
            double3 xformOp:translate = ({5 * i}, 0, 0)
            uniform token[] xformOpOrder = ["xformOp:translate"]
        }}
        """
        for i in range(3)
    )
    path.write_text(f"#usda 1.0\n(\n    metersPerUnit = 1\n)\n{instances}")
    surface = load(path).surface
    assert len(surface.vertices) == 24
    np.testing.assert_allclose(surface.bounds, [[0, 0, 0], [11, 1, 2]])


def test_animations_that_are_not_bound_are_motions_too(tmp_path):
    free = skeleton_text("Rig").replace("rel skel:animationSource = <WalkRig>", "")
    path = tmp_path / "free.usda"
    path.write_text(
        f'#usda 1.0\n(\n    metersPerUnit = 1\n)\ndef SkelRoot "R" {API}\n{{\n'
        f'rel skel:skeleton = <Rig>\n{free}\ndef Mesh "M" {API}\n{{\n{CUBE}{SKIN}\n}}\n}}\n'
    )
    assert list(load(path).motions) == ["WalkRig"]


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr("supple.formats.usd.process.find_spec", lambda name: None)
    with pytest.raises(SuppleError, match=r"one\.usda: .*pip install 'supple\[usd\]'"):
        load_usd(one_mesh(tmp_path, CUBE))


@pytest.mark.parametrize("name", ["CesiumMan", "RiggedFigure"])
def test_a_character_is_the_same_from_glb_and_usdz(assets, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        ours = load_usd(assets / f"usd_skel/{name}.usdz")
        theirs = load_gltf(assets / f"gltf_characters/{name}.glb")
    mine, its = ours.source.meshes[0].welded, theirs.source.primitives[0].welded
    assert len(mine) == len(its)
    size = ours.surface.size
    rest = ours.surface.vertices[mine] - theirs.surface.vertices[its]
    assert np.abs(rest).max() < 1e-6 * size
    (name, usd), (_, glb) = *ours.motions.items(), *theirs.motions.items()
    start = ours.source.time_codes[name][0] / ours.source.time_codes_per_second
    assert start == pytest.approx(glb.times[0], abs=1e-6)
    assert usd.duration == pytest.approx(glb.duration, abs=1e-6)
    for time in np.linspace(0, usd.duration, 25):
        places = []
        for character, motion, welded in [(ours, usd, mine), (theirs, glb, its)]:
            pose, root = motion.at(min(motion.times[0] + time, motion.times[-1]))
            places.append((character.rig(pose) @ root[:3, :3].T + root[:3, 3])[welded])
        assert np.abs(places[0] - places[1]).max() < 1e-5 * size
