"""What is handed in where something else belongs is quoted on one line, and not all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from supple.checks import shown
from supple.elastic.material import Material
from supple.engines.full.factory import FullSimulator
from supple.engines.full.full_character import FullCharacterSimulator
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.free.simulator import FreeStvkSimulator
from supple.engines.stvk.haptics.haptic_ball import HapticBall
from supple.engines.stvk.haptics.sphere_tree import SphereTree
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.errors import SuppleError
from supple.formats.meshes.veg import read_bou, write_bou
from supple.formats.vega.reduced_files import (
    CubicForce,
    read_cub,
    read_modal_matrix,
    write_cub,
    write_modal_matrix,
)
from supple.formats.vega.vega_model import read_vega, write_vega
from supple.playback.bake_model import check_model
from supple.playback.player import Player
from supple.scenes.bodies.beam import beam

ROWS: Any = np.zeros((9, 9))  # whose repr has a line for each
MESH = beam(cells=(1, 1, 1))
SPRING = CubicForce([[4.0]], [[0.0]], [[1.0]])
RAGGED: Any = [[0], [0, 1]]
NOTHING: Any = None
NUMBER: Any = 5
TEXT: Any = "x"

QUOTED: dict[str, Callable[[Any], object]] = {
    "StvkSimulator": StvkSimulator,
    "FreeStvkSimulator": FreeStvkSimulator,
    "FullSimulator": FullSimulator,
    "FullCharacterSimulator": FullCharacterSimulator,
    "SphereTree": SphereTree,
    "HapticBall": lambda x: HapticBall(x, radius=1, mass=1, position=(0, 0, 0)),
    "Player": lambda x: Player(x, "walk"),
    "baked model": lambda x: check_model(NOTHING, x),
    "CubicModel": lambda x: CubicModel(np.zeros((1, 3)), surface=x, surface_basis=x),
    "mesh": lambda x: StvkModel.build(x),
    "material": lambda x: StvkModel.build(MESH, x),
    "surface": lambda x: StvkModel.build(MESH, modes=2, surface=x),
    "modes": lambda x: StvkModel.build(MESH, modes=x),
    "kind of basis": lambda x: StvkModel.build(MESH, basis=x),
    "write_vega": lambda x: write_vega("a.cub", x),
    "write_cub": lambda x: write_cub("a.cub", x),
    "read_vega": read_vega,
}


@pytest.mark.parametrize("what", QUOTED)
def test_an_array_in_the_wrong_place_is_a_one_line_error(what):
    with pytest.raises(SuppleError, match=r"array\(\[\[0\., 0\., ") as refused:
        QUOTED[what](ROWS)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250


def test_shown_values_are_short_and_keep_single_spaces():
    assert shown("walk") == "'walk'"
    assert shown(np.eye(2)) == "array([[1., 0.], [0., 1.]])"
    assert len(shown("x" * 1000)) == 60


REFUSED: dict[str, Callable[[], object]] = {
    "groups of two lengths": lambda: StvkModel.build(MESH, modes=2, groups=RAGGED),
    "fixed of two lengths": lambda: StvkModel.build(MESH, modes=2, fixed=RAGGED),
    "vertices of two lengths": lambda: write_bou("a.bou", RAGGED),
    "no cub": lambda: read_vega(NOTHING),
    "number for a cub": lambda: read_vega(NUMBER),
    "number for a mesh": lambda: read_vega(SPRING, np.ones((3, 3, 1)), NUMBER),
    "text for a force": lambda: write_cub("a.cub", TEXT),
    "no path of a cub": lambda: read_cub(NOTHING),
    "no path to write a cub": lambda: write_cub(NOTHING, SPRING),
    "no path of modes": lambda: read_modal_matrix(NOTHING),
    "no path to write modes": lambda: write_modal_matrix(NOTHING, np.ones((3, 1))),
    "no path of vertices": lambda: read_bou(NOTHING),
    "no path to write vertices": lambda: write_bou(NOTHING, [1]),
    "no path to write a model": lambda: write_vega(NOTHING, CubicModel([[2.0, 0.0, 3.0]])),
    "no path of a model": lambda: StvkModel.load(NOTHING),
    "no path to save a model": lambda: StvkModel.build(MESH, Material("stvk"), 1).save(NOTHING),
}


@pytest.mark.parametrize("what", REFUSED)
def test_lists_and_paths_that_are_none_are_refused_in_one_line(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SuppleError) as refused:
        REFUSED[what]()
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
