"""Curves in real files: nothing new for the validator, the simulated skin, bounds, rates."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.gltf_validation import new_issues
from helpers.spring_engine import spring_engine
from supple.formats.save import remove_curves

pytestmark = pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")

#: Files, their free parameters, and the animation that has curves.
FILES = {
    "q_Husky.glb": (["Tail*.r*"], "AnimalArmature|Gallop", 0.02),
    "m2m_dragon.glb": (["tail*.r*"], "Fly Flap", 0.05),
    "sumo_soft_shapes.glb": (["*-*"], "jumps", 2.0),
    "ict_head_expressions.glb": (["*"], "shaken", 2.0),
}
#: One of joints and one of shapes that are written at a second rate as well.
TWICE = ("q_Husky.glb", "ict_head_expressions.glb")


@pytest.fixture(scope="module", autouse=True)
def springs():
    with spring_engine() as name:
        yield name


def skins(character, name, times):
    poses, roots = character.source.clips[name].sample(times)
    some = np.arange(0, character.rig.n_vertices, 7)
    placed = [character.rig(pose, some) for pose in poses]
    return np.stack([p @ r[:3, :3].T + r[:3, 3] for p, r in zip(placed, roots, strict=True)])


@pytest.mark.parametrize("name", FILES)
def test_curves_in_real_files(assets, tmp_path, name):
    file = next(assets.rglob(name), None)
    if file is None:
        pytest.skip(f"no {name} among the assets")
    character, (free, clip, push) = supple.load(file), FILES[name]
    if free == ["*"]:
        free = [each.name for each in character.rig.parameters if each.unit == "1"]
    how: dict[str, Any] = {"engine": "springs", "free": free, "anatomy": None, "push": push}
    found = []
    for rate in (24, 60) if name in TWICE else (24,):
        target = tmp_path / f"{rate}.glb"
        end = 0.9 if clip in ("jumps", "shaken") else None
        # Their keys are at 24 frames a second, but for the sumo's.
        own = None if rate == 24 else rate
        curves = supple.curves(character, rate=own, end=end, **how)
        figures = supple.save(target, curves, keys="every" if rate == 60 else "linear")
        assert figures["animation"] == clip
        again = supple.load(target)
        found.append(skins(again, clip, np.linspace(curves.times[0], curves.times[-1], 33)))
        if own is None:
            assert np.abs(curves.added).max() > 0.01
            assert figures["simulation_error"] <= 0.002
            assert not new_issues(file, target)
            _check_bounds(again, clip, curves)
            remove_curves(tmp_path / "back.glb", target)
            assert (tmp_path / "back.glb").read_bytes() == Path(file).read_bytes()
    off = np.linalg.norm(found[0] - found[-1], axis=2).max()
    assert off <= 0.01 * character.surface.size


def _check_bounds(again, clip, curves):
    names = [each.name for each in again.rig.parameters]
    own = [names.index(n) for n in curves.free if again.rig.parameters[names.index(n)].unit == "1"]
    if own:
        times = np.linspace(curves.times[0], curves.times[-1], 997)
        weights = again.source.clips[clip].sample(times)[0][:, own]
        assert weights.min() >= 0
        assert weights.max() <= 1
