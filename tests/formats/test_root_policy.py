"""A character has the same parameters, motions and flesh, whether it comes as glTF or as USD."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

import supple
from helpers.build_samples import bar_mesh
from helpers.gltf_builder import FACES, OCTAHEDRON, Builder, turn
from supple.errors import SuppleWarning
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")

TIMES = np.arange(9) / 12
PATHS = {"translation": "translate", "rotation": "orient", "scale": "scale"}


@dataclass
class Node:
    """A node of both files; its track is by "translation" or "rotation", (t, 3 or 4)."""

    name: str
    parent: str = ""
    translation: Any = (0.0, 0.0, 0.0)
    rotation: Any = (0.0, 0.0, 0.0, 1.0)
    scale: float = 1.0
    track: dict[str, Any] = field(default_factory=dict)
    block: bool = False  # whether it shows a rigid block
    joint: bool = False

    def matrix(self) -> np.ndarray:
        matrix = np.eye(4)
        matrix[:3, :3] = self.scale * Rotation.from_quat(self.rotation).as_matrix()
        matrix[:3, 3] = self.translation
        return matrix


def worm(above: list[Node], bends: dict[str, Any] | None = None, more: Any = ()) -> list[Node]:
    """A bar along x on two joints under some nodes, and further nodes."""
    top = above[-1].name if above else ""
    shrink = float(np.prod([node.scale for node in above]))
    bends = bends or {}
    return [
        *above,
        Node("front", top, track=bends.get("front", {}), joint=True),
        Node("tail", "front", (0.5 / shrink, 0, 0), track=bends.get("tail", {}), joint=True),
        *more,
    ]


def world(nodes: list[Node], name: str) -> np.ndarray:
    by_name, matrix = {node.name: node for node in nodes}, np.eye(4)
    while name:
        matrix, name = by_name[name].matrix() @ matrix, by_name[name].parent
    return matrix


def skin(nodes: list[Node]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bar where the joints are at rest, in the world, and how much of it follows the tail."""
    surface, _ = bar_mesh().surface()
    share = np.clip(0.5 + (surface.vertices[:, 0] - 0.5) / 0.3, 0, 1)
    front = world(nodes, "front")
    turned = front[:3, :3] / np.cbrt(np.linalg.det(front[:3, :3]))
    return surface.vertices @ turned.T + front[:3, 3], surface.triangles, share


def as_gltf(nodes: list[Node], path: Path) -> Path:
    b = Builder()
    number = {node.name: k for k, node in enumerate(nodes)}
    for node in nodes:
        described: dict[str, Any] = {
            "name": node.name,
            "translation": list(map(float, node.translation)),
            "rotation": list(map(float, node.rotation)),
            "scale": [node.scale] * 3,
        }
        below = [number[other.name] for other in nodes if other.parent == node.name]
        b.add("nodes", described | ({"children": below} if below else {}))
    vertices, triangles, share = skin(nodes)
    zeros = np.zeros(len(share))
    attributes = {
        "POSITION": b.accessor(vertices),
        "JOINTS_0": b.accessor(np.tile([0, 1, 0, 0], (len(share), 1)), "B"),
        "WEIGHTS_0": b.accessor(np.column_stack([1 - share, share, zeros, zeros])),
    }
    shape = {"attributes": attributes, "indices": b.accessor(triangles.ravel(), "H")}
    mesh = b.add("meshes", {"primitives": [shape]})
    joints = [number["front"], number["tail"]]
    inverse = np.array([np.linalg.inv(world(nodes, name)) for name in ("front", "tail")])
    bind = b.accessor(inverse.transpose(0, 2, 1).reshape(2, 16))
    skinned = b.add("skins", {"joints": joints, "inverseBindMatrices": bind})
    shown = [b.add("nodes", {"name": "shown", "mesh": mesh, "skin": skinned})]
    if any(node.block for node in nodes):
        attributes = {"POSITION": b.accessor(0.2 * OCTAHEDRON)}
        block = {"attributes": attributes, "indices": b.accessor(FACES.ravel(), "H")}
        mesh = b.add("meshes", {"primitives": [block]})
        for node in nodes:
            if node.block:
                b.json["nodes"][number[node.name]]["mesh"] = mesh
    b.json["scenes"] = [{"nodes": [*shown, *(number[n.name] for n in nodes if not n.parent)]}]
    for node in nodes:
        for kind, values in node.track.items():
            b.animate(number[node.name], kind, TIMES, values)
    return b.save_glb(path)


def as_usd(nodes: list[Node], path: Path) -> Path:
    vertices, triangles, share = skin(nodes)
    base = next(node for node in nodes if node.joint).parent
    joints = [node for node in nodes if node.joint]
    local = [node.matrix() for node in joints]
    binds = [local[0], local[0] @ local[1]]
    weights = np.stack([1 - share, share], axis=1).ravel().tolist()
    rig = f"""
    def SkelRoot "Rig"
    {{
        def Skeleton "Skel" (prepend apiSchemas = ["SkelBindingAPI"])
        {{
            uniform token[] joints = ["front", "front/tail"]
            uniform matrix4d[] bindTransforms = [{_matrices(binds)}]
            uniform matrix4d[] restTransforms = [{_matrices(local)}]
            rel skel:animationSource = <Anim>
            def SkelAnimation "Anim"
            {{
                uniform token[] joints = ["front", "front/tail"]
                {_animated("float3[] translations", joints, "translation")}
                {_animated("quatf[] rotations", joints, "rotation")}
                half3[] scales = [(1,1,1), (1,1,1)]
            }}
        }}
        def Mesh "Body" (prepend apiSchemas = ["SkelBindingAPI"])
        {{
            rel skel:skeleton = <../Skel>
            matrix4d primvars:skel:geomBindTransform = {_matrix(np.linalg.inv(world(nodes, base)))}
            int[] primvars:skel:jointIndices = {[0, 1] * len(share)} (
                elementSize = 2
                interpolation = "vertex" )
            float[] primvars:skel:jointWeights = {weights} (
                elementSize = 2
                interpolation = "vertex" )
            {_mesh(vertices, triangles)}
        }}
    }}"""
    body = _prims(nodes, "", base, rig)
    head = '#usda 1.0\n( metersPerUnit = 1\n  upAxis = "Y"\n  timeCodesPerSecond = 12 )\n'
    path.write_text(head + body)
    return path


def _prims(nodes: list[Node], parent: str, base: str, rig: str) -> str:
    found = rig if parent == base else ""
    for node in nodes:
        if node.parent != parent or node.joint:
            continue
        block = f'def Mesh "Block"\n{{\n{_mesh(0.2 * OCTAHEDRON, FACES)}\n}}' if node.block else ""
        inner = _prims(nodes, node.name, base, rig)
        found += f'\ndef Xform "{node.name}"\n{{ {_ops(node)}\n{block}\n{inner}\n}}'
    return found


def _ops(node: Node) -> str:
    lines = []
    for kind, op in PATHS.items():
        name = {"translate": "double3", "orient": "quatd", "scale": "double3"}[op]
        rest = [node.scale] * 3 if kind == "scale" else getattr(node, kind)
        values = node.track.get(kind)
        if values is None:
            lines.append(f"{name} xformOp:{op} = {_tuple(kind, rest)}")
        else:
            keys = ", ".join(f"{k}: {_tuple(kind, v)}" for k, v in enumerate(values))
            lines.append(f"{name} xformOp:{op}.timeSamples = {{ {keys} }}")
    order = ", ".join(f'"xformOp:{op}"' for op in PATHS.values())
    return "\n".join([*lines, f"uniform token[] xformOpOrder = [{order}]"])


def _tuple(kind: str, value: Any) -> str:
    x = [float(v) for v in value]
    return str(tuple([x[3], *x[:3]] if kind == "rotation" else x))


def _animated(declared: str, joints: list[Node], kind: str) -> str:
    tracks = [j.track.get(kind, [getattr(j, kind)] * len(TIMES)) for j in joints]
    keys = (
        f"{k}: [{', '.join(_tuple(kind, track[k]) for track in tracks)}]" for k in range(len(TIMES))
    )
    return f"{declared}.timeSamples = {{ {', '.join(keys)} }}"


def _matrix(matrix: np.ndarray) -> str:
    return str(tuple(tuple(float(v) for v in row) for row in matrix.T))


def _matrices(matrices: list[np.ndarray]) -> str:
    return ", ".join(map(_matrix, matrices))


def _mesh(points: np.ndarray, triangles: np.ndarray) -> str:
    listed = ", ".join(str(tuple(map(float, point))) for point in points)
    return (
        f"int[] faceVertexCounts = {[3] * len(triangles)}\n"
        f"int[] faceVertexIndices = {triangles.ravel().tolist()}\n"
        f"point3f[] points = [{listed}]"
    )


def loaded(path: Path) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        return supple.load(path)


SWAY = np.sin(2 * np.pi * TIMES / TIMES[-1])
WALK = {
    "translation": np.column_stack([TIMES, 0.2 * SWAY, 0.5 * TIMES**2]),
    "rotation": np.array([turn(1, angle) for angle in 0.8 * SWAY]),
}
WAG = {"tail": {"rotation": np.array([turn(2, angle) for angle in 0.5 * SWAY])}}
HELD = {"translation": np.tile([0.1, 0.2, 0.3], (9, 1))}
QUARTER = turn(0, -np.pi / 2)

CASES: dict[str, tuple[list[Node], list[str], bool]] = {
    # A change of axes and of unit above the skeleton is no joint.
    "turned armature": (
        worm([Node("up", rotation=turn(0, -1.1)), Node("rig", "up", (0.3, 0, 0), scale=0.01)], WAG),
        ["front", "tail"],
        False,
    ),
    "held armature": (
        worm([Node("rig", translation=(0.1, 0.2, 0.3), track=HELD)], WAG),
        ["front", "tail"],
        False,
    ),
    "walk of the armature": (
        worm([Node("rig", rotation=turn(1, 0.0), track=WALK)], WAG),
        ["rig", "front", "tail"],
        True,
    ),
    "walk of the first joint": (
        worm([Node("rig", rotation=QUARTER)], WAG | {"front": WALK}),
        ["front", "tail"],
        True,
    ),
    "two that move above": (
        worm([Node("path", track=WALK), Node("rig", "path", track=WALK)], WAG),
        ["path", "rig", "front", "tail"],
        True,
    ),
    "half of it stands": (worm([], WAG), ["front", "tail"], False),
    "a block on a plinth": (
        worm([], WAG, [Node("plinth", translation=(0, -1, 0), rotation=QUARTER, block=True)]),
        ["front", "tail", "world"],
        False,
    ),
    "a block carried along": (
        worm(
            [Node("rig", track=WALK)],
            WAG,
            [Node("group", "rig", (0.1, 0, 0)), Node("hat", "group", (0, 1, 0), block=True)],
        ),
        ["rig", "front", "tail", "hat"],
        True,
    ),
}


@pytest.fixture(params=CASES, scope="module")
def pair(request, tmp_path_factory) -> tuple[Character, Character, list[str], bool]:
    nodes, joints, roots = CASES[request.param]
    folder = tmp_path_factory.mktemp("pair")
    both = (loaded(as_gltf(nodes, folder / "a.glb")), loaded(as_usd(nodes, folder / "a.usda")))
    return *both, joints, roots


def shown(character: Character, motion: Motion) -> np.ndarray:
    """The skin in the world at all keys, (t, n, 3)."""
    still = BakedMotion(character, motion, np.empty(0, np.float32), 12.0)
    return np.array([still.rig_frame(k) for k in range(motion.n_frames)])


def matched(one: Character, other: Character) -> np.ndarray:
    """The vertex of the other for each of one's: files list meshes in orders of their own."""
    far, same = cKDTree(other.surface.vertices).query(one.surface.vertices)
    assert len(np.unique(same)) == len(same) == len(other.surface.vertices)
    assert far.max() < 1e-5
    return same


def test_both_files_give_the_same_parameters(pair):
    gltf, usd, joints, _ = pair
    names = [parameter.name for parameter in gltf.rig.parameters]
    assert names == [parameter.name for parameter in usd.rig.parameters]
    assert [name[:-3] for name in names if name.endswith(".rx")] == joints
    matched(gltf, usd)


def test_both_files_give_the_same_motions(pair):
    gltf, usd, _, roots = pair
    (one,), (other,) = gltf.motions.values(), usd.motions.values()
    np.testing.assert_allclose(one.times, other.times, atol=1e-6)
    np.testing.assert_allclose(one.poses, other.poses, atol=1e-5)
    np.testing.assert_allclose(one.roots, other.roots, atol=1e-5)
    assert (np.abs(one.roots - np.eye(4)).max() > 0.1) == roots
    there = shown(usd, other)[:, matched(gltf, usd)]
    np.testing.assert_allclose(shown(gltf, one), there, atol=1e-5)


@pytest.mark.parametrize("name", ["turned armature", "walk of the armature"])
def test_both_files_give_the_same_flesh(tmp_path, name):
    nodes = CASES[name][0]
    both = [loaded(as_gltf(nodes, tmp_path / "a.glb")), loaded(as_usd(nodes, tmp_path / "a.usda"))]
    # All tets: modes of a bar come in pairs, which rounding turns.
    how: dict[str, Any] = {"tets": 300, "engine": "full", "young": 1e5, "rate": 12.0}
    # The tail swings as far to both sides: rounding would choose which side is an example first.
    examples = [each.sampled_poses()[[3, 7]] for each in both]
    bakes = [supple.bake(c, **how, poses=p) for c, p in zip(both, examples, strict=True)]
    added = [each.frames - shown(each.character, each.motion) for each in bakes]
    assert np.abs(added[0]).max() > 1e-3
    np.testing.assert_allclose(added[0], added[1], atol=0.005 * np.abs(added[0]).max())


def test_the_walking_man_is_equal_in_both_formats(assets):
    gltf = loaded(assets / "gltf_characters" / "CesiumMan.glb")
    usd = loaded(assets / "usd_skel" / "CesiumMan.usdz")
    assert [p.name for p in gltf.rig.parameters] == [p.name for p in usd.rig.parameters]
    (one,), (other,) = gltf.motions.values(), usd.motions.values()
    np.testing.assert_allclose(one.times - one.times[0], other.times, atol=1e-5)
    np.testing.assert_allclose(one.roots, other.roots, atol=1e-4)
    off = shown(gltf, one) - shown(usd, other)[:, matched(gltf, usd)]
    assert np.abs(off).max() < 1e-3 * gltf.surface.size


def test_parts_without_a_joint_follow_a_new_motion(tmp_path):
    from helpers.gltf_reference import Reference

    nodes = worm(
        [Node("up", rotation=QUARTER, scale=0.5)],
        WAG,
        [Node("hat", "up", (0, 2, 0), turn(1, 0.4), block=True), Node("pin", "hat", block=True)],
    )
    character = loaded(as_gltf(nodes, tmp_path / "a.glb"))
    assert character.source.joint_nodes.tolist()[-1] == -1
    own = character.motions["clip"]
    roots = np.tile(np.eye(4), (len(TIMES), 1, 1))
    roots[:, :3, :3] = Rotation.from_rotvec(0.7 * SWAY[:, None] * [0.6, 0.8, 0]).as_matrix()
    roots[:, :3, 3] = np.column_stack([TIMES, -TIMES, SWAY])
    poses = own.poses.copy()
    poses[:, 6:9] = 0.3 * SWAY[:, None]  # the hat turns about where it is
    motion = Motion(TIMES, poses, roots, "dance")
    frames = shown(character, motion).astype(np.float32)
    supple.save(tmp_path / "b.glb", BakedMotion(character, motion, frames, 12.0))
    played = Reference(tmp_path / "b.glb")
    for k, time in enumerate(TIMES):
        places = played.positions(1, float(np.float32(time)))
        for primitive in character.source.primitives:
            there = places[primitive.node, primitive.primitive]
            np.testing.assert_allclose(there, frames[k][primitive.welded], atol=1e-4)
