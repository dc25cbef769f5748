"""The independent glTF evaluator agrees with three.js, OpenUSD and exact motions.

Tolerances are parts of the characters' sizes. Found over all 27 animated files of the assets, three
clips each: within 4.5e-7 of three.js 0.187 and within 6e-7 of usd-core. The differences are
float32 rounding: three.js does not normalise quaternions of the file, the evaluator does.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers import synthetic_clips
from helpers.gltf_builder import Builder, skinned_octahedron, turn
from helpers.gltf_evaluator import Evaluator, Floats, play, rotations, slerp
from helpers.gltf_validation import issues
from helpers.synthetic_clips import BUILDERS, KEY_COUNT, ROOT, TURN_RATE, TURNS, Y, quaternion

PROJECT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-6
#: World positions of every so many vertices at some times of the first clip, as three.js 0.187
#: plays it: node tests/helpers/three_playback.mjs .npm/node_modules/three FILE 0 STEP TIMES
#: after npm install --prefix .npm three. The files have scaled joints under matrices; several
#: meshes and morph weights; STEP channels beside LINEAR ones.
THREE: dict[str, tuple[int, tuple[float, ...], str]] = {
    "gltf_characters/CesiumMan.glb": (
        164,
        (0.1, 0.77, 1.6),
        """
        0.02516188 0.93936437 0.11520674 -0.06651500 1.16714800 0.02515485 -0.12172403
        0.98742789 0.02695244 -0.06634176 1.35077339 0.20951181 -0.10371226 0.73605301
        -0.06943133 0.11265351 1.28785223 0.19647797 0.02814131 1.24898095 -0.06082984
        -0.31504084 0.61900200 -0.27719129 -0.10507122 1.18738059 0.19761718 0.06857394
        1.41093916 0.18355561 -0.12627510 1.44622457 0.12324693 -0.00700138 1.40650983
        -0.04935687 0.04366366 1.33883515 -0.05421993 -0.02469847 1.13481838 0.19091614
        -0.00238237 1.14209355 0.10283009 -0.14737612 1.29992668 0.20586014 -0.06509459
        1.18725202 -0.05687875 -0.19625026 1.25137036 0.20233699 -0.06874141 0.35149333
        0.05871382 -0.13286624 1.35841208 -0.05287574 0.01581594 0.93289026 0.10555091
        -0.06791845 1.16802651 0.01501739 -0.10553526 1.00610839 0.09811248 0.03901929
        1.35095017 0.17154383 -0.11088702 0.72271060 -0.05490161 0.18105886 1.23686088
        0.11954799 0.01936835 1.21670709 -0.10030871 -0.20480541 0.60974270 0.42397792
        -0.04706392 1.20542716 0.18963230 0.17235101 1.36616356 0.10412554 -0.01256765
        1.45731049 0.09316728 0.03578256 1.37722912 -0.09878264 0.06112395 1.29743467
        -0.10864002 0.01128776 1.13099396 0.16751692 0.01110006 1.12929063 0.07962827
        -0.05092245 1.32696310 0.19538375 -0.08258785 1.18611538 -0.06483135 -0.11070113
        1.29509691 0.21058632 -0.07082159 0.42770625 -0.16276792 -0.09408957 1.37009610
        -0.06342615 0.00674608 0.97053957 0.12793471 -0.11440061 1.19274701 0.05179148
        -0.12915138 1.00111164 0.05207039 -0.12324135 1.37321317 0.23981359 -0.10983087
        0.77526733 -0.06536375 0.05793894 1.31769447 0.22851493 -0.02120065 1.28061532
        -0.03084648 -0.20207283 0.51653539 -0.08743511 -0.15542260 1.20645483 0.22449138
        0.00971365 1.43911386 0.21684075 -0.18505359 1.46826329 0.15391754 -0.06195524
        1.43594705 -0.01754088 -0.00904631 1.37054031 -0.02254456 -0.07146150 1.15627675
        0.21668350 -0.04763278 1.16960533 0.12872939 -0.20231487 1.31901017 0.23417432
        -0.11213372 1.21524793 -0.02940508 -0.24924919 1.26816649 0.22910501 -0.07703993
        0.44177250 0.17468419 -0.18589010 1.38331989 -0.02372697
        """,
    ),
    "gltf_characters/RobotExpressive.glb": (
        361,
        (0.25, 1.1, 2.5),
        """
        0.46908116 0.22927801 0.20694393 0.53472848 1.77047146 0.07062056 0.68045918
        1.56876259 -0.05786485 -0.60226375 1.46343913 0.10435888 -0.36449284 1.40649522
        0.60508610 0.51497654 1.36497186 0.34221878 0.60956300 3.36097794 -0.60014642
        0.49615327 3.54795768 1.68440697 0.60432645 2.81541648 1.53249057 -0.43013937
        3.17227179 1.41327376 1.00628428 3.42657782 1.40023859 0.65192932 2.33434067
        0.26942378 -0.72741541 2.36326948 0.18127670 -0.94619205 1.93588988 0.18809026
        0.61356495 0.26722023 -0.18277158 -0.60254937 1.47378846 0.04034158 -0.55046727
        0.26572447 -0.06226064 -1.01935067 0.35378618 0.91202836 -0.92292812 0.14561232
        0.56315663 1.01011593 1.79485942 0.04405549 0.46908116 0.22927801 0.20694393
        0.53472848 1.77126925 0.07818350 0.68045919 1.57228243 -0.05447852 -0.60226375
        1.46360039 0.10551454 -0.36449284 1.39623141 0.60494599 0.51497654 1.36019641
        0.34127025 0.53227116 3.28528439 -0.63370207 0.09966392 4.01371086 1.49919588
        0.49054584 3.37012691 1.56558556 -0.58166659 3.24841150 1.34827547 0.64674483
        4.03056361 1.26226376 0.63039173 2.36163155 0.28869274 -0.72741539 2.36163192
        0.20117222 -1.14069790 2.38056149 0.19909675 0.61379514 0.26598450 -0.18121958
        -0.60218194 1.47548136 0.04172957 -0.55061889 0.26614961 -0.06138460 -2.47859860
        1.24414685 0.03798908 -2.64045504 1.44139847 -0.29252493 1.26706753 2.27295169
        0.05840995 0.46908116 0.22927801 0.20694393 0.53472848 1.77126925 0.07818350
        0.68045919 1.57228243 -0.05447852 -0.60226375 1.46360039 0.10551454 -0.36449284
        1.39623141 0.60494599 0.51497654 1.36019641 0.34127025 0.52150710 3.25667938
        -0.64689481 0.60391685 3.64825195 1.61294746 0.69757756 2.90409364 1.51885857
        -0.34273249 3.25838533 1.45632628 1.08772450 3.49724501 1.29855050 0.63046757
        2.36164301 0.28865902 -0.72741539 2.36163192 0.20117222 -1.14071192 2.38057274
        0.19925695 0.61370687 0.26607692 -0.18202226 -0.60217832 1.47543192 0.04167866
        -0.55038634 0.26618563 -0.06231911 -0.97090116 0.71076261 0.03648441 -1.22337649
        0.67389321 -0.29403343 1.15340886 2.27597062 0.05851584
        """,
    ),
    "untuned/m2m_kaiju.glb": (
        79,
        (0.2, 0.61, 1.0),
        """
        -0.08522611 2.04938178 0.51429240 0.03817939 0.57278350 -0.85794174 0.40401997
        0.47171740 -0.09995047 0.41451418 0.15184870 -1.99570466 0.38230564 0.62456031
        -0.16836543 0.15231370 1.36478901 0.51665787 0.30229387 1.39945562 0.37052885
        0.14025628 1.37752891 0.30999230 -0.05117440 1.96794113 0.41611200 0.19090730
        1.36715250 0.19010876 0.19931162 0.85435504 -0.47810432 -0.15859663 2.00482539
        0.30907030 -0.35773625 0.03076677 0.07204646 -0.12329875 2.00919099 0.45368018
        -0.56029159 0.01490395 0.01279808 -0.41212283 1.33530673 0.27460319 -0.59847990
        0.05707455 -0.04601233 -0.35910867 1.34510170 0.24533514 -0.31095591 1.37400237
        0.07298497 -0.18853069 1.64783005 0.13109143 0.49929587 1.61049413 0.59288275
        0.03210630 0.58592830 -0.86714100 0.42665092 0.45058509 -0.48778184 -0.29671510
        0.66452323 -2.09306573 0.40791764 0.60043377 -0.41986555 0.47082620 1.56957945
        0.09546954 0.28550424 1.56542241 0.00585049 0.22262758 1.33792006 0.09191140
        0.40629819 1.65038748 0.50808035 0.14226496 1.32608556 0.04572514 0.21943870
        0.86361143 -0.49372059 0.30014185 1.70865679 0.60653556 -0.42949827 0.03033337
        0.07018302 0.41756242 1.61812604 0.59262119 -0.61722225 0.01499247 -0.02633136
        0.18301809 1.15162769 0.76612707 -0.64347948 0.05725017 -0.09129454 0.15426702
        1.19645816 0.73568582 0.04659631 1.22225235 0.53310581 0.01415957 1.54183037
        0.48173205 0.08273785 1.81311250 0.78106549 0.04017692 0.58312376 -0.91141338
        0.43320830 0.39326517 -0.24528935 0.18797048 0.23502425 -2.11565656 0.40103702
        0.55621811 -0.28230501 0.32092330 1.19068485 0.34313542 0.36164769 1.30523577
        0.18615847 0.20188866 1.26517649 0.27310168 0.07916662 1.77211542 0.65561440
        0.19094214 1.29226593 0.16403021 0.19236084 0.84244888 -0.51411712 -0.06542171
        1.81470717 0.61514136 -0.34148881 0.03073707 0.07110753 0.02616758 1.78487137
        0.72871178 -0.54640749 0.01475094 0.02067497 -0.19857561 1.04219642 0.53917384
        -0.58712908 0.05689746 -0.03642839 -0.15852150 1.04828662 0.49311254 -0.21669108
        1.20622875 0.31698250 -0.18767491 1.52845978 0.36307399
        """,
    ),
}
FEATURES = (
    "gltf_feature_tests/MorphStressTest.glb",
    "gltf_feature_tests/AnimatedMorphCube.glb",
    "gltf_feature_tests/RecursiveSkeletons.glb",
    "gltf_characters/q_Puffer.glb",
    "rig_space/m2m_dragon.glb",
)


def size_of(file: Evaluator) -> float:
    return float(np.linalg.norm(np.ptp(file.positions(None, 0.0)[0], axis=0)))


def three_positions(path: Path, clip: int, step: int, times: list[float]) -> Floats:
    package = PROJECT / ".npm" / "node_modules" / "three"
    if shutil.which("node") is None or not package.is_dir():
        pytest.skip("no three.js; install nodejs and run npm install --prefix .npm three")
    script = PROJECT / "tests" / "helpers" / "three_playback.mjs"
    command = ["node", str(script), str(package), str(path), str(clip), str(step)]
    done = subprocess.run(
        [*command, *map(str, times)], capture_output=True, text=True, check=True, timeout=120
    )
    return np.array(json.loads(done.stdout))


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes a synthetic file once."""
    folder = tmp_path_factory.mktemp("clips")

    def written(name: str) -> Path:
        path = folder / f"{name}.glb"
        return path if path.exists() else BUILDERS[name](path)

    return written


# Independent authorities.


@pytest.mark.parametrize("name", THREE)
def test_stored_positions_of_three(assets: Path, name: str) -> None:
    step, times, text = THREE[name]
    expected = np.array(text.split(), np.float64).reshape(len(times), -1, 3)
    file = Evaluator(assets / name)
    found = file.positions(0, times)[:, ::step]
    assert found.shape == expected.shape
    assert expected.shape[1] >= 20
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * size_of(file))


@pytest.mark.parametrize("name", [*THREE, *FEATURES])
def test_three_plays_the_same(assets: Path, name: str) -> None:
    file = Evaluator(assets / name)
    times = [0.0, *np.round(file.duration(0) * np.array([0.13, 0.37, 0.72]), 4).tolist()]
    expected = three_positions(assets / name, 0, 1, times)
    found = file.positions(0, times)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * size_of(file))


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_three_plays_synthetic_clips_the_same(synthetic: Callable[[str], Path], name: str) -> None:
    path = synthetic(name)
    file = Evaluator(path)
    for clip in range(len(file.clips)):
        times = [0.0, *np.round(file.duration(clip) * np.array([0.13, 0.37, 0.72]), 4).tolist()]
        expected = three_positions(path, clip, 1, times)
        np.testing.assert_allclose(file.positions(clip, times), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["CesiumMan", "RiggedFigure"])
def test_usd_twin_moves_the_same(assets: Path, name: str) -> None:
    pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
    from pxr import Gf, Usd, UsdGeom, UsdSkel

    stage = Usd.Stage.Open(str(assets / "usd_skel" / f"{name}.usdz"))
    skeletal = next(prim for prim in stage.Traverse() if prim.IsA(UsdSkel.Root))
    UsdSkel.BakeSkinning(UsdSkel.Root(skeletal), Gf.Interval.GetFullInterval())
    mesh = next(UsdGeom.Mesh(prim) for prim in stage.Traverse() if prim.IsA(UsdGeom.Mesh))
    file = Evaluator(assets / "gltf_characters" / f"{name}.glb")
    # Keys of both files: between them USD interpolates the skinned points.
    for time in (0.5, 1.25):
        code = time * stage.GetTimeCodesPerSecond()
        place = np.array(mesh.ComputeLocalToWorldTransform(code))
        points = np.array(mesh.GetPointsAttr().Get(code), np.float64)
        expected = points @ place[:3, :3] + place[3, :3]
        np.testing.assert_allclose(
            file.positions(0, time)[0], expected, rtol=0, atol=TOLERANCE * size_of(file)
        )


def test_draco_twin_is_the_same_shape(assets: Path) -> None:
    pytest.importorskip("DracoPy", reason="Draco comes with the extra supple[draco]")
    folder = assets / "gltf_feature_tests"
    packed = Evaluator(folder / "RiggedSimple-Draco" / "RiggedSimple.gltf")
    plain = Evaluator(folder / "RiggedSimple.glb")
    times = [0.0, 0.5, 1.9]
    for a, b in zip(packed.positions(0, times), plain.positions(0, times), strict=True):
        gaps = np.linalg.norm(a[:, None] - b[None], axis=2)  # the orders of vertices differ
        assert max(gaps.min(axis=0).max(), gaps.min(axis=1).max()) < 1e-3 * size_of(plain)


# Parts of the format that the assets lack.


def test_accessors_of_every_kind(tmp_path: Path) -> None:
    b = Builder()
    b.accessor([[127, -128, 0]], "b", normalized=True)
    b.accessor([[0, 255, 51]], "B", pad=5, normalized=True)
    b.accessor([[1, 2, 3], [4, 5, 6]], "H", pad=2)
    index, value = b.view(np.array([1], "<u2").tobytes()), b.view(np.array([7, 8], "<f4").tobytes())
    sparse = {
        "count": 1,
        "indices": {"bufferView": index, "componentType": 5123},
        "values": {"bufferView": value},
    }
    b.add("accessors", {"componentType": 5126, "count": 3, "type": "VEC2", "sparse": sparse})
    for path in (b.save_glb(tmp_path / "a.glb"), b.save_gltf(tmp_path / "a.gltf")):
        file = Evaluator(path)
        assert file.accessor(0).tolist() == [[1, -1, 0]]
        assert file.accessor(1).tolist() == [[0, 1, 0.2]]
        assert file.accessor(2).tolist() == [[1, 2, 3], [4, 5, 6]]
        assert file.accessor_bytes(2) == np.array([1, 2, 3, 4, 5, 6], "<u2").tobytes()
        assert file.accessor(3).tolist() == [[0, 0], [7, 8], [0, 0]]


def test_skinned_mesh_ignores_the_transform_of_its_node(tmp_path: Path) -> None:
    b = skinned_octahedron()
    b.animate(b.json["skins"][0]["joints"][1], "rotation", [0, 1], [turn(0, 0), turn(0, 1)])
    before = play(b.save_glb(tmp_path / "a.glb"), 0, [0.0, 0.3])
    mesh = next(node for node in b.json["nodes"] if "mesh" in node)
    mesh["translation"] = [5, 0, 0]
    assert np.array_equal(play(b.save_glb(tmp_path / "b.glb"), 0, [0.0, 0.3]), before)


def test_quantised_morphs_weights_and_pointers(tmp_path: Path) -> None:
    """Integer positions under a node's scale; weights of mesh, node and clip, in this order."""
    b = Builder()
    points = b.accessor([[100, 0, 0], [0, 100, 0], [0, 0, 100]], "h", pad=2)
    delta = b.accessor([[10, 0, 0], [0, 0, 0], [0, 0, 0]], "b", pad=1)
    primitive = {"attributes": {"POSITION": points}, "targets": [{"POSITION": delta}]}
    b.add("meshes", {"primitives": [primitive], "weights": [1]})
    b.add("nodes", {"mesh": 0, "scale": [0.01, 0.01, 0.01], "translation": [0, 1, 0]})
    b.add("nodes", {"mesh": 0, "weights": [2]})
    b.animate(1, "weights", [0, 1], [2, 4])
    b.animate(0, "rotation", [1, 2], [turn(2, 0), turn(2, np.pi / 2)])
    clip = b.json["animations"][0]
    pointer = {"KHR_animation_pointer": {"pointer": "/nodes/0/rotation"}}
    clip["channels"][1]["target"] = {"path": "pointer", "extensions": pointer}
    path = b.save_glb(tmp_path / "a.glb")
    np.testing.assert_allclose(play(path, None, 0)[0, [0, 3]], [[1.1, 1.0, 0.0], [120.0, 0.0, 0.0]])
    plain = Evaluator(path).positions(None, 0, targets={1: 1})
    np.testing.assert_allclose(plain[0, [0, 3]], [[1.0, 1.0, 0.0], [120.0, 0.0, 0.0]])
    found = play(path, "clip", [0.5, 2])
    np.testing.assert_allclose(found[0, [0, 3]], [[1.1, 1.0, 0.0], [130.0, 0.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(found[1, [0, 3]], [[0.0, 2.1, 0.0], [140.0, 0.0, 0.0]], atol=1e-7)


def test_unsupported_features_are_named(tmp_path: Path) -> None:
    b = skinned_octahedron()
    b.json["extensionsUsed"] = ["EXT_meshopt_compression"]
    with pytest.raises(ValueError, match="EXT_meshopt_compression is not supported"):
        Evaluator(b.save_glb(tmp_path / "a.glb"))


def test_slerp_at_all_angles() -> None:
    for degrees in (0, 1e-7, 1e-3, 1, 90, 179, 180):
        a, b = quaternion(Y, 0), quaternion(Y, degrees)
        between = slerp(a, b, np.array([[0.25]]))
        np.testing.assert_allclose(between, quaternion(Y, degrees / 4), atol=1e-15)
        np.testing.assert_allclose(slerp(a, -b, np.array([[0.25]])), between, atol=1e-15)


# Synthetic clips.


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_synthetic_files_are_valid(synthetic: Callable[[str], Path], name: str) -> None:
    codes = set(issues(synthetic(name), least=3)[0])
    assert codes == (
        {"ACCESSOR_ANIMATION_INPUT_NON_INCREASING"} if name == "equal_times" else set()
    )


@pytest.mark.parametrize("clip", range(4))
def test_turning_is_exact_between_keys(synthetic: Callable[[str], Path], clip: int) -> None:
    file = Evaluator(synthetic("turning"))
    keys = np.frombuffer(file.channels(clip)[0].input, "<f4").astype(np.float64)
    assert keys[-1] == TURNS / TURN_RATE
    times = np.sort(np.concatenate([keys, (keys[1:] + keys[:-1]) / 2]))
    turns = rotations(quaternion(Y, 360 * TURN_RATE * times))
    expected = np.einsum("tij,nj->tni", turns, file.positions(None, 0)[0])
    np.testing.assert_allclose(file.positions(clip, times), expected, atol=2e-6)


def test_swings_pass_half_turns(synthetic: Callable[[str], Path]) -> None:
    file = Evaluator(synthetic("swinging"))
    times = np.linspace(0, 1, 13)
    for name, axis, angles in (
        ("joint", synthetic_clips.Z, np.interp(times * 6, [0, 4, 8], [0, 180, 0])),
        (
            "root",
            Y,
            np.interp(times * 6, [0, 1, 2, 3, 4, 5, 6], [120, 165, 210, 240, 210, 165, 120]),
        ),
    ):
        joint = synthetic_clips.MIDDLE if name == "joint" else ROOT
        found = file.world_matrices(name, times)[:, joint, :3, :3]
        np.testing.assert_allclose(found, rotations(quaternion(axis, angles)), atol=1e-6)
    signs = np.frombuffer(file.channels("root")[0].output, "<f4").reshape(-1, 4)[:, 1]
    assert signs.min() < 0 < signs.max()


def test_signs_of_quaternions_do_not_matter(synthetic: Callable[[str], Path]) -> None:
    file = Evaluator(synthetic("flipping_signs"))
    times = np.linspace(0, 2, 97)
    a, b = file.positions("plain", times), file.positions("flipped", times)
    np.testing.assert_allclose(a, b, atol=1e-12)
    assert file.channels("plain")[0].output != file.channels("flipped")[0].output


@pytest.mark.parametrize("name", ["equal_times", "one_ulp_apart"])
def test_jump_between_coincident_keys(synthetic: Callable[[str], Path], name: str) -> None:
    file = Evaluator(synthetic(name))
    roots = file.world_matrices("jump", [0.5, 1 - 1e-6, 1 + 2e-7, 1.5])[:, ROOT]
    np.testing.assert_allclose(roots[:, 0, 3], [0, 0, 0.3, 0.3], atol=1e-7)
    expected = rotations(quaternion(Y, [0, 0, 90, 90]))
    np.testing.assert_allclose(roots[:, :3, :3], expected, atol=1e-6)


def test_steps_hold_beside_linear_channels(synthetic: Callable[[str], Path]) -> None:
    file = Evaluator(synthetic("step_beside_linear"))
    times = np.array([0, 0.49, 0.5, 0.75, 1.01])
    pose = file.pose("step", times)
    expected = quaternion(synthetic_clips.Z, [0, 0, 30, 30, -30])
    np.testing.assert_allclose(pose[synthetic_clips.MIDDLE, "rotation"], expected, atol=1e-7)
    heights = pose[ROOT, "translation"][:, 1]
    np.testing.assert_allclose(heights, [0, 0.098, 0.1, 0.15, 0.198], atol=1e-7)


def test_one_key_holds_before_and_after(synthetic: Callable[[str], Path]) -> None:
    file = Evaluator(synthetic("one_key"))
    assert file.duration("pose") == 0
    for clip in ("pose", "beside"):
        turns = file.pose(clip, np.array([0, 0.5, 3]))[synthetic_clips.MIDDLE, "rotation"]
        expected = np.tile(quaternion(synthetic_clips.Z, 30), (3, 1))
        np.testing.assert_allclose(turns, expected, atol=1e-7)


def test_cubic_is_exact(synthetic: Callable[[str], Path]) -> None:
    file = Evaluator(synthetic("cubic"))
    times = np.linspace(0, 2, 33)
    heights = file.pose("cubic", times)[ROOT, "translation"][:, 1]
    np.testing.assert_allclose(heights, times**3 - 2 * times**2, atol=1e-6)
    turns = file.pose("cubic", times)[synthetic_clips.MIDDLE, "rotation"]
    np.testing.assert_allclose(np.linalg.norm(turns, axis=1), 1)


def test_many_keys(synthetic: Callable[[str], Path]) -> None:
    file = Evaluator(synthetic("many_keys"))
    channel = file.channels("many")[0]
    assert len(channel.input) == 4 * KEY_COUNT
    times = np.linspace(0, 5, 41)
    turns = file.pose("many", times)[synthetic_clips.MIDDLE, "rotation"]
    expected = quaternion(synthetic_clips.Z, 30 * np.sin(2 * np.pi * times))
    np.testing.assert_allclose(turns, expected, atol=1e-6)
