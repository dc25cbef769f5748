"""Commands take body models, with a file for their motion and numbers for their shape."""

from __future__ import annotations

import json

import numpy as np
import pytest

import supple
from helpers.smpl_samples import body_fields, write_body
from supple.app.options import body_options
from supple.cli.main import main


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A body and a motion of it in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_body(tmp_path / "body.npz", body_fields())
    np.savez("walk.npz", poses=np.zeros((31, 156)), trans=np.zeros((31, 3)), mocap_framerate=30)
    return tmp_path


def told(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def test_info_describes_a_body_and_its_motion(files, capsys):
    main(["info", "body.npz", "--motion", "walk.npz", "--betas", "-1,2", "--json"])
    body = told(capsys)
    assert body["format"] == "body model"
    assert body["joints"][:2] == ["pelvis", "left_hip"]
    assert body["clips"][0]["seconds"] == 1.0
    wide = body["size"]
    main(["info", "body.npz", "--json"])
    assert told(capsys)["size"] != wide
    main(["info", "walk.npz", "--json"])
    motion = told(capsys)
    assert motion["format"] == "motion of a body model (SMPL-H, z up)"
    assert motion["clips"][0]["keys"] == 31


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["bake", "walk.npz"], "walk.npz: is a motion; load its body"),
        (["bake", "body.npz", "--motion", "run.npz"], "run.npz: there is no such file"),
        (["bake", "body.npz", "--betas", "tall"], "--betas tall: use numbers with commas"),
        (["bake", "body.npz", "--betas", "motion"], "no motion with betas"),
        (["bake", "body.npz", "--betas", ",".join("1" * 11)], "11 numbers; this body has 10"),
        (["bake", "bear", "--betas", "1"], "bear: is not a body model"),
        (["build", "body.npz", "--motion", "Run"], "--motion Run: use a motion file"),
        (["info", "body.npz", "--motion", "Run"], "--motion Run: use a motion file"),
        (["info", "walk.npz", "--betas", "1"], "walk.npz: is a motion"),
    ],
)
def test_invalid_requests_are_one_line_errors_and_leave_nothing(words, what, files, capsys):
    before = sorted(files.iterdir())
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 1
    error = capsys.readouterr().err.strip()
    assert what in error
    assert "\n" not in error
    assert sorted(files.iterdir()) == before


def test_words_are_numbers_or_the_motion_s_own():
    assert body_options("Run", None) == {}
    assert body_options("a/run.npz", " 1, -2 3") == {"motion": "a/run.npz", "betas": [1, -2, 3]}
    assert body_options(None, "motion") == {"betas": "motion"}


def test_a_body_is_built_with_all_of_its_rig_and_baked(tmp_path, monkeypatch, assets, capsys):
    monkeypatch.chdir(tmp_path)
    motion = str(assets / "motion_smpl" / "cmu_01_01_amass_smplx_layout.npz")
    body = [str(assets / "parametric" / "openbody_1200.npz"), "--motion", motion, "--betas", "1"]
    small = ["--poses", "2", "--modes", "12", "--tets", "1500"]
    main(["build", *body, *small, "-o", "me.supple", "--quiet"])
    model = supple.load_model("me.supple")
    rig = supple.load(body[0], betas=[1.0]).rig
    pose = np.random.default_rng(1).standard_normal(72) * 0.4
    np.testing.assert_allclose(model.rig(pose), rig(pose), atol=1e-5)
    main(["bake", *body, "--model", "me.supple", "--to", "0.4", "-o", "me.glb", "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert figures["error"] <= 0.002
    assert supple.load("me.glb", flesh=True).motions.keys() == {"cmu_01_01_amass_smplx_layout"}
