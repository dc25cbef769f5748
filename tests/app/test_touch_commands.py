"""Commands with soft skeletons: obstacles, how bones follow, and what is felt."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_options, bending_bar
from helpers.smpl_samples import body_fields, write_body
from helpers.soft_skeleton_samples import elbow, soft_elbow
from supple.app.contact_options import ContactOptions
from supple.cli.main import main
from supple.engines.engine import ENGINES
from supple.errors import SuppleError
from supple.formats.readings_table import COLUMNS, write_readings
from supple.mesh.obstacles import Plane
from supple.playback.bake_plan import bake_simulator
from supple.playback.obstacles.words import object_of, obstacle_of
from supple.rig.motion.motion import Motion


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The model file of an arm that bends upwards, in the current folder."""
    monkeypatch.chdir(tmp_path)
    soft_elbow().save("arm.supple")
    return "arm.supple"


CEILING = ["--obstacle", "plane:0,0.5,0,0,-1,0"]


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_bake_steps_a_model_file_by_its_own_engine_and_writes_what_is_felt(arm, capsys):
    main(["bake", arm, *CEILING, "--readings", "felt.csv", "-o", "arm.npz", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["engine"] == "soft-skeleton"
    assert told["readings"] == "felt.csv"
    table = rows("felt.csv")
    assert tuple(table[0]) == COLUMNS
    assert {row["kind"] for row in table} == {"body", "part", "thing", "joint", "contact"}
    last = [row for row in table if row["frame"] == str(told["frames"] - 1)]
    one = {row["kind"]: row for row in last}
    assert float(one["thing"]["fy"]) < 0, "the ceiling pushes down"
    contacts = [row for row in last if row["kind"] == "contact"]
    assert {row["touches"] for row in contacts} == {"obstacle 0"}
    pushed = sum(float(row["fy"]) for row in contacts)
    assert pushed == pytest.approx(float(one["body"]["fy"]), rel=1e-4)
    assert all(float(row["pressure"]) >= 0 and float(row["y"]) > 0.4 for row in contacts)


def test_weaker_tracking_gives_way_more_to_an_obstacle():
    ceiling = (Plane((0.0, 0.5, 0.0), (0.0, -1.0, 0.0)),)
    found = {}
    for frequency in (2.0, 8.0):
        told = {"obstacles": ceiling, "tracking": frequency}
        baked = supple.bake(elbow(), "Swing", soft_elbow(), simulation=told)
        found[frequency] = -baked.readings[-1]["contact_force"][1]
    assert 0 < found[2.0] < 0.5 * found[8.0]


def test_readings_of_a_bake_are_a_dict_for_every_frame():
    baked = supple.bake(elbow(), "Swing", soft_elbow())
    assert len(baked.readings) == baked.n_frames
    assert baked.readings[0] == {}
    last = baked.readings[-1]
    assert set(last["torques"]) == {"upper", "fore"}
    assert last["contacts"] == len(last["touching"]["points"]) == 0


def test_gravity_is_the_world_s_where_forces_are_read_in_newtons():
    assert np.allclose(bake_simulator(soft_elbow(), engine="soft-skeleton").gravity[1], -9.81)


def test_nothing_felt_is_not_written(tmp_path):
    plain = supple.bake(elbow(), "Swing", soft_elbow())
    unread = supple.BakedMotion(plain.character, plain.motion, plain.frames, plain.rate)
    with pytest.raises(SuppleError, match="have no readings"):
        write_readings(tmp_path / "felt.csv", unread)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--obstacle", "sphre:0,0,0,1"], "no sphre; did you mean sphere?"),
        (["--obstacle", "sphere:0,0,1"], "3 numbers; a sphere has 4"),
        (["--obstacle", "sphere:0,0,0,-1"], "it must be positive"),
        (["--obstacle", "plane:0,0,0,0,0,0"], "the normal of a plane is zero"),
        (["--obstacle", "box:nan,0,0,1,1,1"], "use numbers within"),
        (["--obstacle", "wall.obj"], "wall.obj: there is no such file"),
        (["--obstacle", "wall.png"], "use plane:, sphere:, capsule: or box:"),
        (["--obstacle"], "--obstacle"),
        (["--gravity", "1,2"], "use one number (downwards) or X,Y,Z"),
        (["--gravity", "down"], "use numbers with commas"),
        (["--friction", "-1"], "friction is -1"),
        (["--friction", "nan"], "--friction nan: use a number from 0 to 10"),
        (["--tracking", "nan"], "--tracking nan: use 0 (a limp body)"),
        (["--tracking", "1e9"], "use 0 (a limp body)"),
        (["--ground", "nan"], "--ground nan: use a height within"),
        (["--ground", "1e300"], "--ground 1e300: use a height within"),
        (["--ground", "high"], "--ground high: use a height within"),
        (["--obstacle", "sphere:hand,10%"], 'obstacle sphere:hand,10%: no joint "hand"'),
        (["--obstacle", "sphere:0,0,0,1e5"], "the body is inside it"),
        (["--obstacle", *(f"sphere:{k},0,0,0.01" for k in range(500))], "more than 64"),
        (["--with-obstacles"], "arm.npz: --with-obstacles is for .glb"),
        (["--readings", "felt.txt"], "felt.txt: readings are written to a .csv file"),
        (["--readings", "no/felt.csv"], "no"),
    ],
)
def test_invalid_requests_are_one_line_errors_and_leave_nothing(words, what, arm, capsys):
    before = sorted(Path().iterdir())
    with pytest.raises(SystemExit) as end:
        main(["bake", arm, *words, "-o", "arm.npz", "--quiet"])
    assert end.value.code == 1
    assert what in capsys.readouterr().err
    assert sorted(Path().iterdir()) == before


def test_an_option_that_an_engine_lacks_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_body(tmp_path / "body.npz", body_fields())
    for words, what in (
        (
            ["--tracking", "2"],
            "--tracking: pose-space has no such option",
        ),
        (
            ["--engine", "rig-space", "--readings", "a.csv"],
            "--readings: rig-space has no contacts; use --engine pose-space or soft-skeleton",
        ),
        (
            ["--engine", "rig-space", "--object", "sphere:0,9,0,1"],
            "--object: rig-space has no such option",
        ),
    ):
        with pytest.raises(SystemExit):
            main(["bake", "body.npz", *words, "--quiet"])
        assert what in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["body.npz"]


def test_a_mesh_can_stand_in_the_way(tmp_path):
    corners = [[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]
    faces = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    lines = [f"v {x} {y} {z}" for x, y, z in corners]
    lines += ["f " + " ".join(str(k + 1) for k in face) for face in faces]
    file = tmp_path / "crate.obj"
    file.write_text("\n".join(lines))
    crate: Any = obstacle_of(str(file))
    inside = crate.distances(np.array([[0.5, 0.5, 0.9], [0.5, 0.5, 1.2]]))[0]
    assert inside == pytest.approx([-0.1, 0.2], abs=0.02)
    file.write_text("\n".join(lines[:-2]))
    with pytest.raises(SuppleError, match=r"crate\.obj"), pytest.warns(supple.SuppleWarning):
        obstacle_of(str(file))


def test_options_of_the_command_are_those_of_the_simulator():
    row = ENGINES["soft-skeleton"]
    told = ContactOptions(obstacle=["sphere:0,1,0,0.2"], ground=["-0.3"], tracking=2.0, root="free")
    found = told.stepping(row)
    assert [type(each).__name__ for each in found["obstacles"]] == ["Sphere", "Plane"]
    assert (found["tracking"], found["root"]) == (2.0, "free")
    assert ContactOptions(gravity="1.6").stepping(row) == {"gravity": [0.0, -1.6, 0.0]}
    assert ContactOptions(self_contact=False).stepping(row) == {"self_contact": False}
    pose_space = ContactOptions(self_contact=True).stepping(ENGINES["pose-space"])
    assert pose_space == {"self_contact": True}
    with pytest.raises(SuppleError, match="--self-contact: rig-space has no such option"):
        ContactOptions(self_contact=True).stepping(ENGINES["rig-space"])
    assert ContactOptions().stepping(row) == {}


def test_info_describes_a_model_of_any_engine(arm, capsys):
    main(["info", arm])
    said = capsys.readouterr().out
    assert "soft-skeleton" in said
    assert "handles" in said


@pytest.mark.parametrize(
    ("word", "what"),
    [
        ("sphere:0,0,0", "object sphere:0,0,0: 3 numbers; a sphere has 4"),
        ("sphere:0,0,0,-1", "object sphere:0,0,0,-1: the radius of a sphere is -1"),
        ("sphere:0,0,0,nan", "object sphere:0,0,0,nan: use numbers within"),
        ("sphere:0,9,0,0.1,0kg", "the mass of an object is 0; it must be positive"),
        ("sphere:0,9,0,0.1,lotskg", '"lots" is not a number'),
        ("sphere:0,9,0,0.1@0,900,0", "moves at 900 m/s; use at most 100"),
        ("plane:0,0,0,0,1,0", "a plane has no mass; give it as an obstacle"),
        ("ball:0,0,0,1", "object ball:0,0,0,1: no ball; use plane"),
    ],
)
def test_a_bad_object_is_one_line(word, what, arm, capsys):
    with pytest.raises(SystemExit) as end:
        main(["bake", arm, "--object", word, "-o", "arm.npz", "--quiet"])
    assert end.value.code == 1
    error = capsys.readouterr().err
    assert what in " ".join(error.split())
    assert not Path("arm.npz").exists()


def test_objects_and_readings_are_there_for_pose_space(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    motion = Motion(np.arange(31) / 30, np.zeros((31, 1)), name="still")
    character = replace(bending_bar(cells=(12, 3, 3)), motions={"still": motion})
    options = bar_options((12, 3, 3), modes=16, elastic_cubature=40)
    supple.build(character, **options).save("bar.supple")
    ball = "sphere:0.5,0.27,0.083,0.1,1kg"
    floor = ["--obstacle", "plane:0,0,0,0,1,0"]
    words = ["--object", ball, *floor, "--readings", "felt.csv", "--report", "page.html"]
    main(["bake", "bar.supple", *words, "-o", "bar.npz", "--json"])
    assert json.loads(capsys.readouterr().out)["engine"] == "pose-space"
    table = rows("felt.csv")
    assert {row["kind"] for row in table} == {"body", "thing", "contact"}
    on_ball = [row for row in table if row["kind"] == "thing" and row["name"] == "sphere"]
    assert len(on_ball) > 10
    assert all(float(row["fy"]) < 0 for row in on_ball[:5]), "the ball presses"
    assert "sphere" in Path("page.html").read_text()


def test_words_of_objects_have_mass_velocity_and_place():
    ball = object_of("sphere:0,2,0,0.1,2kg@0,-1,0")
    assert ball is not None
    assert (ball.mass, ball.kinematic) == (2.0, False)
    np.testing.assert_allclose(ball.velocity, [0, -1, 0])
    np.testing.assert_allclose(ball.centre, [0, 2, 0])
    wooden = object_of("box:0,0,0,0.1,0.1,0.1")
    assert wooden is not None
    assert wooden.mass == pytest.approx(4.0)
    assert object_of("sphere:head,0,5%,0,1%") is None, "its place depends on the character"
