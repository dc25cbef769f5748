"""Small sound files of every format that Supple reads, made by code: what mutations begin with.

They are made once, in a folder that `supple`'s own cache would be too good for: ``.prove/corpus``.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from helpers.gltf_builder import OCTAHEDRON, Builder, skinned_octahedron, turn
from helpers.smpl_samples import body_fields
from prove.arguments import calls, commands

__all__ = ["BETWEEN", "BUNDLE", "SEEDS", "read_seeds"]

TETS = np.array([[0, 2, 4, 5], [2, 1, 4, 5], [1, 3, 4, 5], [3, 0, 4, 5]])
FACES = np.array(
    [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
)


def _moving_octahedron(**primitive: Any) -> Builder:
    b = skinned_octahedron(**primitive)
    b.json["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": b.accessor(0.1 * OCTAHEDRON)}]
    b.json["meshes"][0]["weights"] = [0.0]
    b.animate(3, "rotation", [0, 0.5, 1], [turn(0, 0), turn(0, 1), turn(0, 0)])
    b.animate(2, "translation", [0, 1], [[0, -1, 0], [1, 0, 0]], "STEP")
    b.animate(0, "weights", [0, 1], [0.0, 1.0])
    b.animate(3, "scale", [0, 1], [[1, 1, 1]] * 6, "CUBICSPLINE")
    return b


def _painted_octahedron() -> Builder:
    """Textures, materials, vertex colours, sparse and normalised accessors, and extensions."""
    b = skinned_octahedron(material=0)
    attributes = b.json["meshes"][0]["primitives"][0]["attributes"]
    attributes["COLOR_0"] = b.accessor(np.full((6, 4), 200), "B", normalized=True)
    attributes["TEXCOORD_0"] = b.accessor(np.abs(OCTAHEDRON[:, :2]))
    attributes["NORMAL"] = b.accessor(OCTAHEDRON)
    attributes["_STIFFNESS"] = b.accessor(np.linspace(0.1, 2, 6))
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
        "0000000c49444154789c63f8cfc000000301010018dd8db00000000049454e44ae426082"
    )
    image = b.add("images", {"bufferView": b.view(png), "mimeType": "image/png"})
    b.add("samplers", {"wrapS": 33071})
    texture = b.add("textures", {"source": image, "sampler": 0})
    shade: dict[str, Any] = {
        "baseColorFactor": [1, 0.5, 0.2, 1],
        "baseColorTexture": {"index": texture},
    }
    moved = {"KHR_texture_transform": {"offset": [0.1, 0], "scale": [2, 2]}}
    shade["baseColorTexture"]["extensions"] = moved
    b.add("materials", {"pbrMetallicRoughness": shade, "doubleSided": True, "alphaMode": "BLEND"})
    b.json["extensionsUsed"] = ["KHR_texture_transform"]
    sparse = {
        "count": 2,
        "indices": {"bufferView": b.view(struct.pack("<HH", 1, 4)), "componentType": 5123},
        "values": {"bufferView": b.view(struct.pack("<6f", 1, 2, 3, 0, 1, 0))},
    }
    low, high = [0, 0, 0], [1, 2, 3]
    described = {"componentType": 5126, "count": 6, "type": "VEC3", "min": low, "max": high}
    place = b.add("accessors", described | {"sparse": sparse})
    b.json["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": place}]
    b.animate(3, "rotation", [0, 1], [turn(0, 0), turn(0, 1)])
    return b


def _saved(write: Callable[[Path], Any], suffix: str) -> bytes:
    """Return the bytes of what a function writes to a path."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        write(path)
        return path.read_bytes()


def _glb() -> list[bytes]:
    made = (_moving_octahedron(), _painted_octahedron(), skinned_octahedron())
    return [_saved(each.save_glb, ".glb") for each in made]


def _vrm() -> list[bytes]:
    """What VRM 0.x and 1.0 add to the same character: expressions, and springs."""
    joints = [{"node": 2, "stiffness": 1, "hitRadius": 0.02}, {"node": 3}]
    binds = [{"node": 0, "index": 0, "weight": 0.8}]
    newer = {
        "VRMC_vrm": {
            "specVersion": "1.0",
            "humanoid": {"humanBones": {"hips": {"node": 1}, "spine": {"node": 2}}},
            "expressions": {"preset": {"happy": {"morphTargetBinds": binds}}},
            "firstPerson": {"meshAnnotations": [{"node": 0, "type": "both"}]},
        },
        "VRMC_springBone": {
            "specVersion": "1.0",
            "colliders": [{"node": 1, "shape": {"sphere": {"radius": 0.1}}}],
            "colliderGroups": [{"colliders": [0]}],
            "springs": [{"name": "Tail", "joints": joints, "colliderGroups": [0]}],
        },
    }
    groups = [{"name": "A", "binds": [{"mesh": 0, "index": 0, "weight": 100}]}]
    older = {
        "VRM": {
            "specVersion": "0.0",
            "blendShapeMaster": {"blendShapeGroups": groups},
            "firstPerson": {"meshAnnotations": [{"mesh": 0, "firstPersonFlag": "Auto"}]},
            "secondaryAnimation": {"boneGroups": [{"stiffiness": 1, "bones": [2, 3]}]},
        }
    }
    found = []
    for extensions in (older, newer):
        b = _moving_octahedron()
        b.json |= {"extensions": extensions, "extensionsUsed": list(extensions)}
        found.append(_saved(b.save_glb, ".vrm"))
    return found


def _gltf() -> list[bytes]:
    """One buffer each, inline."""
    found = []
    for b in (_moving_octahedron(), _painted_octahedron()):
        whole, starts = b"", []
        for data in b.buffers:
            starts.append(len(whole))
            whole += data + bytes(-len(data) % 4)
        for view in b.json["bufferViews"]:
            view |= {"byteOffset": starts[view["buffer"]], "buffer": 0}
        uri = "data:application/octet-stream;base64," + base64.b64encode(whole).decode()
        b.json["buffers"] = [{"byteLength": len(whole), "uri": uri}]
        found.append(json.dumps(b.json).encode())
    return found


def _usda() -> list[bytes]:
    from helpers.usd_samples import TWO_CLIPS

    plain = (
        '#usda 1.0\n(\n  metersPerUnit = 1\n  upAxis = "Y"\n)\ndef Mesh "Own"\n{\n'
        "  int[] faceVertexCounts = [3, 3, 3, 3]\n"
        "  int[] faceVertexIndices = [0,2,1, 0,1,3, 1,2,3, 2,0,3]\n"
        "  point3f[] points = [(0,0,0), (1,0,0), (0,1,0), (0,0,1)]\n"
        "  color3f[] primvars:displayColor = [(1,0,0)]\n"
        '  uniform token subdivisionScheme = "none"\n'
        "  double3 xformOp:translate = (0, 1, 0)\n"
        '  uniform token[] xformOpOrder = ["xformOp:translate"]\n}\n'
    )
    return [TWO_CLIPS.encode(), plain.encode()]


def _usdc() -> list[bytes]:
    from pxr import Sdf

    def export(text: bytes) -> bytes:
        layer = Sdf.Layer.CreateAnonymous(".usda")
        layer.ImportFromString(text.decode())
        return _saved(lambda path: layer.Export(str(path)), ".usdc")

    return [export(text) for text in _usda()]


def _usdz() -> list[bytes]:
    from pxr import UsdUtils

    def pack(path: Path) -> None:
        inner = path.with_name("inner.usda")
        inner.write_bytes(_usda()[0])
        UsdUtils.CreateNewUsdzPackage(str(inner), str(path))

    return [_saved(pack, ".usdz")]


BVH = b"""HIERARCHY
ROOT Hips
{
  OFFSET 0.0 90.0 0.0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
  JOINT Spine
  {
    OFFSET 0.0 12.0 1.0
    CHANNELS 3 Zrotation Xrotation Yrotation
    End Site
    {
      OFFSET 0.0 20.0 0.0
    }
  }
  JOINT Leg
  {
    OFFSET 9.0 -8.0 0.0
    CHANNELS 3 Zrotation Xrotation Yrotation
    End Site
    {
      OFFSET 0.0 -80.0 0.0
    }
  }
}
MOTION
Frames: 3
Frame Time: 0.033333
0 90 0 0 0 0 5 0 0 0 10 0
1 90 0 0 5 0 6 0 0 0 12 0
2 91 0 0 9 0 7 0 0 0 14 0
"""


def _obj() -> list[bytes]:
    lines = ["# made by code", "mtllib a.mtl", "o body", "usemtl skin"]
    lines += [f"v {x} {y} {z}" for x, y, z in OCTAHEDRON] + ["vt 0 1", "vn 0 0 1"]
    lines += [f"f {a + 1}/1/1 {b + 1}/1/1 {c + 1}/1/1" for a, b, c in FACES[:6]]
    lines += ["f -6 -5 -1", "f 4//1 1//1 6//1", "f 1 2 3 4"]
    return ["\n".join(lines).encode()]


def _ply() -> list[bytes]:
    def head(kind: str) -> bytes:
        return (
            f"ply\nformat {kind} 1.0\ncomment a\nelement vertex 6\nproperty float x\n"
            "property float y\nproperty double z\nproperty uchar red\nelement face 8\n"
            "property list uchar int vertex_indices\nend_header\n"
        ).encode()

    text = [f"{x} {y} {z} 9" for x, y, z in OCTAHEDRON] + [f"3 {a} {b} {c}" for a, b, c in FACES]
    found = [head("ascii") + "\n".join(text).encode() + b"\n"]
    for name, order in (("binary_little_endian", "<"), ("binary_big_endian", ">")):
        body = b"".join(struct.pack(f"{order}ffdB", *row, 9) for row in OCTAHEDRON)
        body += b"".join(struct.pack(f"{order}Biii", 3, *row) for row in FACES.tolist())
        found.append(head(name) + body)
    return found


def _stl() -> list[bytes]:
    corners = OCTAHEDRON[FACES]
    binary = bytes(80) + struct.pack("<I", len(corners))
    binary += b"".join(struct.pack("<12fH", 0, 0, 1, *face.ravel(), 0) for face in corners)
    lines = ["solid body"]
    for face in corners:
        lines += ["facet normal 0 0 1", "outer loop"]
        lines += [f"vertex {x} {y} {z}" for x, y, z in face] + ["endloop", "endfacet"]
    return [binary, "\n".join([*lines, "endsolid body"]).encode()]


def _off() -> list[bytes]:
    lines = ["OFF", "6 8 0"] + [f"{x} {y} {z}" for x, y, z in OCTAHEDRON]
    return ["\n".join(lines + [f"3 {a} {b} {c}" for a, b, c in FACES]).encode()]


def _points() -> str:
    return "\n".join(f"{k + 1} {x} {y} {z}" for k, (x, y, z) in enumerate(OCTAHEDRON))


def _veg() -> list[bytes]:
    cells = "\n".join(f"{k + 1} " + " ".join(map(str, row + 1)) for k, row in enumerate(TETS))
    text = (
        f"*VERTICES\n6 3 0 0\n{_points()}\n*ELEMENTS\nTETS\n4 4 0\n{cells}\n"
        "*MATERIAL BODY\nENU, 1000, 10000000, 0.45\n*MATERIAL HARD\nMOONEYRIVLIN, 1000, 1, 2, 3\n"
        "*SET SOME\n1, 2\n*REGION\nallElements, BODY\n*REGION\nSOME, BODY\n"
    )
    boxes = (
        "*VERTICES\n8 3 0 0\n1 0 0 0\n2 1 0 0\n3 1 1 0\n4 0 1 0\n5 0 0 1\n6 1 0 1\n7 1 1 1\n"
        "8 0 1 1\n*ELEMENTS\nCUBIC\n1 8 0\n1 1 2 3 4 5 6 7 8\n"
    )
    return [text.encode(), boxes.encode()]


def _msh() -> list[bytes]:
    nodes = _points()
    cells = "\n".join(f"{k + 1} 4 2 1 1 " + " ".join(map(str, r + 1)) for k, r in enumerate(TETS))
    old = (
        '$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$PhysicalNames\n1\n3 1 "body"\n$EndPhysicalNames\n'
        f"$Nodes\n6\n{nodes}\n$EndNodes\n$Elements\n4\n{cells}\n$EndElements\n"
    )
    tags = "\n".join(str(k + 1) for k in range(6))
    places = "\n".join(f"{x} {y} {z}" for x, y, z in OCTAHEDRON)
    rows = "\n".join(f"{k + 1} " + " ".join(map(str, r + 1)) for k, r in enumerate(TETS))
    new = (
        "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Entities\n0 0 0 1\n1 -1 -1 -1 1 1 1 1 1 0\n"
        f"$EndEntities\n$Nodes\n1 6 1 6\n3 1 0 6\n{tags}\n{places}\n$EndNodes\n"
        f"$Elements\n1 4 1 4\n3 1 4 4\n{rows}\n$EndElements\n"
    )
    binary = b"$MeshFormat\n2.2 1 8\n" + struct.pack("<i", 1) + b"\n$EndMeshFormat\n$Nodes\n6\n"
    binary += b"".join(struct.pack("<i3d", k + 1, *row) for k, row in enumerate(OCTAHEDRON))
    binary += b"\n$EndNodes\n$Elements\n4\n" + struct.pack("<3i", 4, 4, 2)
    binary += b"".join(
        struct.pack("<7i", k + 1, 1, 1, *(r + 1).tolist()) for k, r in enumerate(TETS)
    )
    return [old.encode(), new.encode(), binary + b"\n$EndElements\n"]


def _medit() -> list[bytes]:
    rows = "\n".join(f"{x} {y} {z} 0" for x, y, z in OCTAHEDRON)
    cells = "\n".join(" ".join(map(str, row + 1)) + " 1" for row in TETS)
    text = (
        f"MeshVersionFormatted 2\nDimension 3\nVertices\n6\n{rows}\nTetrahedra\n4\n{cells}\nEnd\n"
    )
    return [text.encode()]


def _vtk() -> list[bytes]:
    rows = "\n".join(f"{x} {y} {z}" for x, y, z in OCTAHEDRON)
    cells = "\n".join("4 " + " ".join(map(str, row)) for row in TETS)
    text = (
        "# vtk DataFile Version 3.0\na\nASCII\nDATASET UNSTRUCTURED_GRID\n"
        f"POINTS 6 double\n{rows}\n"
        f"CELLS 4 20\n{cells}\nCELL_TYPES 4\n10\n10\n10\n10\n"
    )
    return [text.encode()]


def _models(kind: str) -> list[bytes]:
    from supple.engines.factory import build

    if kind == "pose-space":
        from helpers.build_samples import bar_options, bending_bar

        cells = (3, 1, 1)
        few = {"modes": 4, "elastic_cubature": 6, "inertial_cubature": 4}
        model = build(bending_bar(cells=cells), **bar_options(cells, **few))
    elif kind == "rig-space":
        from helpers.rig_space_samples import rig_space_options, rising_bar

        cells = (3, 1, 1)
        model = build(rising_bar(cells), engine=kind, **rig_space_options(cells, cubature=8))
    elif kind == "soft-skeleton":
        from helpers.soft_skeleton_samples import elbow, soft_skeleton_options

        small = (8, 3, 3)
        model = build(elbow(small), engine=kind, **soft_skeleton_options(small, handles=6))
    else:
        from supple.scenes.bodies.beam import beam

        model = build(beam(cells=(3, 1, 1)), engine="stvk", modes=3)
    return [_saved(model.save, ".stvk" if kind == "stvk" else ".supple")]


def _cub() -> list[bytes]:
    from supple.formats.vega.reduced_files import CubicForce, write_cub

    force = CubicForce(np.eye(2), np.ones((2, 3)), np.ones((2, 4)))
    return [_saved(lambda path: write_cub(path, force), ".cub")]


def _modal() -> list[bytes]:
    from supple.formats.vega.reduced_files import write_modal_matrix

    return [_saved(lambda path: write_modal_matrix(path, np.ones((18, 2))), ".U")]


def _anatomy() -> list[bytes]:
    from supple.anatomy.region_entries import RegionEntry, write_entries

    entries = {
        "upper": RegionEntry("limb", 0.5, "normal", ("it is thick",)),
        "fore": RegionEntry("limb", 0.1, "hard"),
    }
    return [_saved(lambda path: write_entries(path, "body", entries), ".json")]


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _body(joints: int) -> dict[str, Any]:
    fields = body_fields(joints, shapes=2)
    fields["posedirs"] = fields["posedirs"].astype(np.float32)
    return fields


def _motions() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {
            "poses": 0.1 * rng.standard_normal((5, 72)),
            "trans": np.zeros((5, 3)),
            "betas": np.zeros(10),
            "mocap_framerate": np.array(30.0),
            "gender": np.array("neutral"),
        },
        {
            "root_orient": np.zeros((4, 3)),
            "pose_body": np.zeros((4, 63)),
            "pose_hand": np.zeros((4, 90)),
            "trans": np.zeros((4, 3)),
            "mocap_frame_rate": np.array(60.0),
        },
    ]


def _bones() -> bytes:
    return _npz(
        vertices=OCTAHEDRON,
        faces=FACES,
        bone=np.zeros(len(OCTAHEDRON), np.int64),
        bone_names=np.array(["femur"]),
        bone_joint=np.array([1]),
    )


def _pc2() -> bytes:
    head = b"POINTCACHE2\0" + struct.pack("<iiffi", 1, 6, 0.0, 1.0, 2)
    return head + np.tile(OCTAHEDRON, (2, 1)).astype("<f4").tobytes()


def _mdd() -> bytes:
    head = struct.pack(">ii2f", 2, 6, 0.0, 0.1)
    return head + np.tile(OCTAHEDRON, (2, 1)).astype(">f4").tobytes()


def _rigged_json() -> list[bytes]:
    bones = [np.eye(4)[:3].tolist(), np.eye(4)[:3].tolist()]
    content = {
        "V": OCTAHEDRON.tolist(),
        "F": FACES.tolist(),
        "W": np.tile([0.5, 0.5], (6, 1)).tolist(),
        "pI": [-1, 0],
        "p0": bones,
    }
    return [json.dumps(content).encode()]


#: Files that stand for one input, one after the other, and what is between them.
BUNDLE, BETWEEN = ("a.json", "a.mesh", "a.tgf", "a.dmat", "a.txt"), b"\n=====\n"


def _complementary() -> list[bytes]:
    """The files of an example of Complementary Dynamics, as one."""
    keys = ("mesh_file", "handle_file", "weight_file", "anim_file")
    example: dict[str, Any] = dict(zip(keys, BUNDLE[1:], strict=True)) | {"dt": 0.04}
    graph = b"1 0 0 0\n2 0 1 0\n3 1 1 0\n#\n1 2\n2 3\n"
    weights = ("2 6\n" + "0.5\n" * 12).encode()
    numbers = "2 2\n" + "0 0 0\n" * 4 + "0 10 0\n" * 8
    return [
        BETWEEN.join([json.dumps(example).encode(), *_medit(), graph, weights, numbers.encode()])
    ]


STIFFNESS = {"default": 1.0, "joints": {"upper": 0.5, "fo*": 2.0}, "vertices": {"0": 3.0, "4-7": 2}}

#: What makes the seeds of a kind, in order.
SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "glb": _glb,
    "vrm": _vrm,
    "gltf": _gltf,
    "usda": _usda,
    "usdc": _usdc,
    "usdz": _usdz,
    "bvh": lambda: [BVH],
    "obj": _obj,
    "ply": _ply,
    "stl": _stl,
    "off": _off,
    "veg": _veg,
    "msh": _msh,
    "mesh": _medit,
    "vtk": _vtk,
    "supple-pose-space": lambda: _models("pose-space"),
    "supple-rig-space": lambda: _models("rig-space"),
    "supple-soft-skeleton": lambda: _models("soft-skeleton"),
    "stvk": lambda: _models("stvk"),
    "cub": _cub,
    "bou": lambda: [b"1,2,3,\n4,6,\n"],
    "modal": _modal,
    "anatomy": _anatomy,
    "stiffness": lambda: [json.dumps(STIFFNESS).encode()],
    "pc2": lambda: [_pc2()],
    "mdd": lambda: [_mdd()],
    "cache-npz": lambda: [_npz(frames=np.tile(OCTAHEDRON, (2, 1, 1)), times=np.array([0.0, 0.1]))],
    "body-npz": lambda: [_npz(**_body(16)), _npz(**_body(24))],
    "body-pkl": lambda: [pickle.dumps(_body(16), protocol=2)],
    "body-steps": lambda: [pickle.dumps(_body(16), protocol=p) for p in range(5)],
    "motion-npz": lambda: [_npz(**each) for each in _motions()],
    "motion-pkl": lambda: [pickle.dumps(each, protocol=2) for each in _motions()],
    "bones": lambda: [_bones()],
    "research": _rigged_json,
    "complementary": _complementary,
    "api": calls,
    "commands": commands,
}


def read_seeds(kind: str, folder: Path) -> list[bytes]:
    """Return the sound files of a kind, made if they are not there."""
    place = folder / kind
    if not place.is_dir():
        made = SEEDS[kind]()
        beside = folder / f".{kind}.part"
        beside.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(made):
            (beside / str(number)).write_bytes(data)
        beside.replace(place)
    return [(place / str(k)).read_bytes() for k in range(len(list(place.iterdir())))]
