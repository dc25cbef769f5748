"""A format is one file and one row: everything that chooses among formats asks the tables."""

import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import supple
from helpers.baked_samples import swinging_x
from supple.app.baking import checked_target
from supple.app.info.info import describe
from supple.errors import SuppleError
from supple.formats.meshes.read_mesh import read_surface, read_tets
from supple.formats.registry import (
    BAKED_MOTIONS,
    CHARACTERS,
    SURFACES,
    TETS,
    BakedMotionFormat,
    CharacterFormat,
    FormatTable,
    MeshFormat,
    imported,
)
from supple.formats.save import written_files
from supple.playback.character_sources import source_kind

WRITER = '''
    """Baked motions as a table: frame, vertex, x, y, z."""

    from __future__ import annotations

    from pathlib import Path
    from typing import Any

    from supple.rig.baked_motion import BakedMotion
    from supple.saving import write_whole


    def write_table(
        path: str | Path, baked: BakedMotion, *, digits: int = 6
    ) -> dict[str, Any]:
        """Write a line for each vertex of each frame, positions in metres."""
        lines = ["frame,vertex,x,y,z"]
        for number, frame in enumerate(baked.frames):
            for vertex, place in enumerate(frame.tolist()):
                numbers = ",".join(f"{value:.{digits}g}" for value in place)
                lines.append(f"{number},{vertex},{numbers}")
        text = "\\n".join(lines) + "\\n"
        write_whole(Path(path), text.encode())
        return {"n_frames": baked.n_frames, "bytes": len(text)}
'''

READER = '''
    """Props: a surface, as Wavefront has it, that nods about one joint."""

    from __future__ import annotations

    from pathlib import Path

    import numpy as np

    from supple.formats.file_bytes import read_bytes, reading
    from supple.formats.meshes.obj import parse_obj
    from supple.mesh.surface import SurfaceMesh
    from supple.rig.character import Character
    from supple.rig.motion.motion import Motion
    from supple.rig.skeleton.joint_pose import JointPose
    from supple.rig.skeleton.joints import Skeleton
    from supple.rig.skeleton.skinning import SkinnedRig


    def load_prop(path: Path) -> Character:
        """Read a prop; errors begin with the file's name."""
        with reading(path.name):
            surface = SurfaceMesh(*parse_obj(path, read_bytes(path, (".prop",))))
            pose = JointPose(Skeleton(["root"], np.array([-1]), np.zeros((1, 3))))
            count = len(surface.vertices)
            joints, weights = np.zeros((count, 1), int), np.ones((count, 1))
            rig = SkinnedRig(pose, surface.vertices, joints, weights, np.eye(4)[None])
            nod = Motion(np.arange(3) / 2, 0.5 * np.outer([0, 1, 0], [1, 0, 0]), name="nod")
            return Character(path.stem, surface, rig, {"nod": nod})
'''

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Add one file and one row."""
    monkeypatch.syspath_prepend(tmp_path)

    def add(table: FormatTable, row, text: str) -> None:
        module = (getattr(row, "writer", "") or getattr(row, "reader", "") or row.parser).split(
            ":"
        )[0]
        (tmp_path / f"{module}.py").write_text(dedent(text))
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.setattr(table, "rows", [*table.rows, row])

    return add


def test_a_writer_of_baked_motions_is_one_file_and_one_row(add, tmp_path):
    baked = swinging_x(3)
    with pytest.raises(SuppleError, match=r'cannot save a motion in "\.csv" files'):
        supple.save(tmp_path / "x.csv", baked)
    add(BAKED_MOTIONS, BakedMotionFormat((".csv",), "table_motion:write_table"), WRITER)
    figures = supple.save(tmp_path / "x.csv", baked, digits=9)
    table = np.loadtxt(tmp_path / "x.csv", delimiter=",", skiprows=1, dtype=np.float32)
    np.testing.assert_array_equal(table[:, 2:].reshape(baked.frames.shape), baked.frames)
    assert figures["bytes"] == (tmp_path / "x.csv").stat().st_size
    assert written_files("x.csv") == [Path("x.csv")]
    assert checked_target("rat.glb", tmp_path / "y.csv") == tmp_path / "y.csv"
    with pytest.raises(SuppleError, match=r'this format has no option "points"; it has digits'):
        supple.save(tmp_path / "x.csv", baked, points="cache")
    with pytest.raises(SuppleError, match=r"use one of .*\.abc, \.csv"):
        supple.save(tmp_path / "x.xyz", baked)


def test_a_reader_of_characters_is_one_file_and_one_row(add, tmp_path):
    file = tmp_path / "drop.prop"
    file.write_text(TETRAHEDRON)
    with pytest.raises(SuppleError, match=r'cannot read characters from "\.prop" files'):
        supple.load(file)
    add(CHARACTERS, CharacterFormat("Prop", (".prop",), "prop:load_prop"), READER)
    character = supple.load(file)
    assert list(character.motions) == ["nod"]
    assert character.rig(character.rig.rest_pose).shape == (4, 3)
    found = describe(file)
    assert found["format"] == "Prop"
    assert found["joints"] == ["root"]
    assert checked_target(str(file), None) == Path("drop_soft.glb")
    file.write_text("v 0 0 nowhere\n")
    with pytest.raises(SuppleError, match=r"^drop\.prop: line 1 "):
        supple.load(file)


def test_surfaces_and_tets_are_one_file_and_one_row_too(add, tmp_path):
    parsers = """
        import numpy as np

        TET = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])

        def parse_surface(path, data):
            return TET, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])

        def parse_tets(path, data):
            return TET, np.array([[0, 1, 2, 3]]), [], {"all": np.array([0])}
    """
    add(SURFACES, MeshFormat((".s",), "one_tet:parse_surface"), parsers)
    add(TETS, MeshFormat((".t",), "one_tet:parse_tets"), parsers)
    for suffix in (".s", ".t"):
        (tmp_path / f"a{suffix}").write_text("anything")
    assert len(read_surface(tmp_path / "a.s").triangles) == 4
    assert list(read_tets(tmp_path / "a.t").sets) == ["all"]
    assert source_kind("a.s") == source_kind("a.t") == "mesh"
    assert describe(tmp_path / "a.t")["tets"]["tets"] == 1


@pytest.mark.parametrize("table", [CHARACTERS, BAKED_MOTIONS, SURFACES, TETS])
def test_every_row_names_existing_functions_and_unique_suffixes(table):
    suffixes = table.suffixes()
    assert len(set(suffixes)) == len(suffixes)
    for row in table.rows:
        assert all(suffix == suffix.lower() and suffix[0] == "." for suffix in row.suffixes)
        fields = ("reader", "writer", "parser", "mesh_beside", "several", "target_check")
        for name in (getattr(row, field, "") for field in fields):
            assert isinstance(name, bool) or not name or callable(imported(name))
