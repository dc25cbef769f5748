"""Layers: clothes follow the skin below, plates move as one piece, skirts are soft on their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from anatomy.layer_depth import covers, depths, most_through
from helpers.dressed_characters import Piece, dressed
from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.body_plan import BodyPlan, plan_body
from supple.anatomy.layers import layered_embedding
from supple.anatomy.loose_parts import RIDING
from supple.anatomy.region_entries import EDITED, RegionEntry
from supple.errors import FormatError, SuppleWarning
from supple.formats.load import load
from supple.mesh.embedding import embed_parts
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.playback.baking import bake
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.skeleton.skinning import SkinnedRig

Floats = NDArray[np.float64]

#: Depth beyond the rig's at which skin counts as coming through, in % of the size.
THROUGH = 0.1
PIECES = ("shirt", "armour", "bag", "hat", "skirt")


def clothed(assets: Path, *names: str) -> Character:
    """Return a man with the named pieces."""
    man = load(assets / "gltf_characters" / "CesiumMan.glb")
    rig, places = man.rig, man.surface.vertices
    assert isinstance(rig, SkinnedRig)
    lead = rig.joints[np.arange(len(places)), rig.weights.argmax(axis=1)]
    joints = np.array(rig.skeleton.names)[lead]
    torso, leg = (np.array([word in joint for joint in joints]) for word in ("torso", "leg"))
    facing = vertex_normals(places, man.surface.triangles)[:, 2]
    height = places[:, 1]
    belly = torso & (facing > 0.3) & (height > 0.78) & (height < 1.02)
    pieces = {
        "shirt": Piece("shirt", torso & (height > 0.75), 0.002),
        "armour": Piece("armour", belly, 0.005, "Skeleton_torso_joint_2"),
        "bag": Piece("bag", torso & (facing < -0.3) & (height > 0.95), 0.005, "torso_joint_3"),
        "hat": Piece("hat", height > 1.38, 0.003, "Skeleton_neck_joint_2"),
        "skirt": Piece(
            "skirt", (leg | torso) & (height > 0.35) & (height < 0.8), 0.003, None, 0.72, 0.6
        ),
    }
    return dressed(man, [pieces[name] for name in names])


@pytest.fixture(scope="module")
def man(assets: Path) -> Character:
    return clothed(assets, *PIECES)


@pytest.fixture(scope="module")
def plan(man: Character) -> BodyPlan:
    return plan_body(man, 4000)


def displacements(character: Character, plan: BodyPlan, *, layered: bool = True) -> Floats:
    """Displace flesh by waves as long as the body, and return displacements of the skin (n̄, 3)."""
    mesh, surface = plan.mesh, character.surface
    owners = np.arange(len(surface.vertices))
    embedding = embed_parts(surface, surface.vertices, owners, mesh)
    if layered:
        embedding = layered_embedding(embedding, surface, mesh, plan.anatomy.followed)
    waves = np.sin(8 / surface.size * mesh.vertices[:, [1, 2, 0]] + [0, 1, 2])
    moved = 0.02 * surface.size * waves
    moved[mesh.tets[mesh.sets[RIDING]]] = 0.0
    return np.asarray(embedding @ moved)


def still(character: Character, frames: Floats) -> BakedMotion:
    """Return a bake of a still motion with the given skin in its frames."""
    motion = next(iter(character.motions.values()))
    pose = np.tile(character.rig.rest_pose, (len(frames), 1))
    roots = np.tile(np.eye(4), (len(frames), 1, 1))
    times = np.arange(len(frames)) / 30
    own = replace(motion, times=times, poses=pose, roots=roots, tracks=None, cuts=())
    return BakedMotion(character, own, frames.astype(np.float32), 30.0)


def most_change(character: Character, moved: Floats) -> float:
    """Return the largest change of a distance to shirt, armour and bag, in % of the size."""
    baked = still(character, (character.surface.vertices + moved)[None])
    worn = [character.labels[f"mesh:{name}"] for name in ("shirt", "armour", "bag")]
    tight = [
        each
        for each in covers(character.surface)
        if np.isin(each.triangles, np.concatenate(worn)).all()
    ]
    return max(depths(baked, each).change.max() for each in tight)


def test_skin_moved_through_its_cover_is_measured(assets: Path):
    character = clothed(assets, "shirt")
    size, skin = character.surface.size, character.labels["mesh:skin"]
    normals = vertex_normals(character.surface.vertices, character.surface.triangles)
    frame = character.surface.vertices.copy()
    frame[skin] += 0.005 * size * normals[skin]
    assert most_through(still(character, frame[None])) == pytest.approx(0.3, abs=0.1)
    frame[skin] -= 0.004 * size * normals[skin]
    assert most_through(still(character, frame[None])) == 0.0


def test_skin_beyond_the_cover_of_the_other_side_of_a_fold_is_not_through_its_own():
    along = np.linspace(-0.5, 0.5, 101)
    sheet = np.stack([np.repeat(along, 2), np.zeros(202), np.tile([0.0, 0.2], 101)], axis=1)
    first = 2 * np.arange(100)[:, None]
    strip = np.concatenate([first + np.array([0, 1, 2]), first + np.array([1, 3, 2])])
    rest = np.concatenate([sheet, sheet + np.array([0.0, 0.003, 0.0])])
    surface = SurfaceMesh(rest, np.concatenate([strip, strip + 202]))
    # Both halves bend upwards by 90°, and the covers of both sides overlap.
    left, lift = rest[:, 0] < 0, rest[:, 1]
    bent = np.stack([np.where(left, lift, 0.001 - lift), np.abs(rest[:, 0]), rest[:, 2]], axis=1)
    pushed = bent - 0.01 * left[:, None] * [1.0, 0.0, 0.0]
    baked: Any = SimpleNamespace(
        character=SimpleNamespace(surface=surface),
        frames=pushed[None],
        rig_frame=lambda _: bent,
    )
    assert most_through(baked) == 0.0


def test_clothes_and_plates_keep_their_distance_from_moving_skin(man: Character, plan: BodyPlan):
    assert most_change(man, displacements(man, plan, layered=False)) > 3 * THROUGH
    assert most_change(man, displacements(man, plan)) < THROUGH


def test_a_plate_moves_as_one_piece_with_the_flesh_below(man: Character, plan: BodyPlan):
    moved = displacements(man, plan)
    for name in ("mesh:armour", "mesh:bag"):
        piece = moved[man.labels[name]]
        assert plan.anatomy.layers[name].feel == "hard"
        assert np.ptp(piece, axis=0).max() < 1e-9
        assert np.linalg.norm(piece[0]) > 1e-3 * man.surface.size


def test_a_plate_does_not_hold_the_flesh_below(assets: Path, man: Character):
    bare = anatomy_of(clothed(assets, "shirt"))
    anatomy = anatomy_of(man)
    skin = man.labels["mesh:skin"]
    np.testing.assert_array_equal(anatomy.hard[skin], bare.hard[: len(skin)])


def test_the_hem_of_a_skirt_is_soft_on_its_own(man: Character, plan: BodyPlan):
    assert plan.anatomy.followed is not None
    skirt = man.labels["mesh:skirt"]
    places = man.surface.vertices[skirt]
    skin = man.surface.vertices[man.labels["mesh:skin"]]
    gap = cKDTree(skin).query(places)[0] / man.surface.size
    away = np.linalg.norm(plan.anatomy.followed[skirt] - places, axis=1) / man.surface.size
    assert (gap > 0.055).sum() > 10
    assert away[gap > 0.055].max() < 1e-9
    assert np.median(away[places[:, 1] > 0.7]) > 1e-3


def test_a_hat_on_a_skull_is_no_layer(man: Character, plan: BodyPlan):
    assert "mesh:hat" not in plan.anatomy.layers
    assert plan.anatomy.followed is not None
    hat = man.labels["mesh:hat"]
    np.testing.assert_allclose(plan.anatomy.followed[hat], man.surface.vertices[hat], atol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["q_Rat", "q_Husky", "q_Cow", "CesiumMan"])
def test_a_character_without_layers_keeps_its_embedding(assets: Path, name: str):
    anatomy = anatomy_of(load(assets / "gltf_characters" / f"{name}.glb"))
    assert not anatomy.layers
    assert anatomy.followed is None


def test_layers_are_named_with_the_skin_that_they_follow(man: Character):
    layers = anatomy_of(man).layers
    assert layers["mesh:shirt"].feel == "over"
    assert "follows it" in layers["mesh:shirt"].reasons[0]
    assert "moves with its flesh" in layers["mesh:bag"].reasons[0]


def test_an_anatomy_file_changes_layers(assets: Path, tmp_path: Path):
    man, file = clothed(assets, "shirt", "bag"), tmp_path / "man.anatomy.json"
    detected = anatomy_of(man)
    detected.save(file)
    same = Anatomy.load(file, man)
    assert same.layers == detected.layers
    np.testing.assert_array_equal(same.followed, detected.followed)
    line = '"mesh:shirt": {"feel": "soft"}, "mesh:bag": {"feel": "apart"}'
    file.write_text(f'{{"supple_anatomy": 1, "regions": {{{line}}}}}')
    changed = Anatomy.load(file, man)
    assert changed.followed is None
    assert changed.layers["mesh:bag"].reasons == (EDITED,)
    assert changed.apart[man.labels["mesh:bag"]].all()
    assert not changed.apart[man.labels["mesh:shirt"]].any()


def test_a_shirt_told_to_be_hard_is_a_plate(man: Character):
    entry = RegionEntry("prop", 0.0, "hard")
    anatomy = anatomy_of(man, entries={"mesh:shirt": entry})
    assert anatomy.followed is not None
    shirt = anatomy.followed[man.labels["mesh:shirt"]]
    assert np.ptp(shirt, axis=0).max() < 1e-9


def test_an_anatomy_file_with_an_unknown_layer_or_feel_is_refused(man: Character, tmp_path: Path):
    file = tmp_path / "man.anatomy.json"
    file.write_text('{"supple_anatomy": 1, "regions": {"mesh:shirt": {"feel": "firm"}}}')
    with pytest.raises(FormatError, match="over, hard, soft, apart"):
        Anatomy.load(file, man)
    lines = '"mesh:sock": {"feel": "over"}, "mesh:shirt": {"feel": "over"}'
    file.write_text(f'{{"supple_anatomy": 1, "regions": {{{lines}}}}}')
    with pytest.warns(SuppleWarning, match="mesh:sock"):
        Anatomy.load(file, man)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("quality", ["live", "final"])
def test_skin_does_not_come_through_clothes(man: Character, quality: str):
    small: dict[str, Any] = {"tets": 1200} | (
        {"modes": 12, "most_poses": 2} if quality == "live" else {}
    )
    baked = bake(man, end=0.6, quality=quality, progress=False, keep=False, **small)
    rig = np.stack([baked.rig_frame(frame) for frame in range(baked.n_frames)])
    assert np.abs(baked.frames - rig).max() > 2e-3 * man.surface.size
    assert most_through(baked) <= THROUGH
