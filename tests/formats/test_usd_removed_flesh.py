"""Flesh that Supple baked over a USD file comes off again: on reading, and to the byte."""

from __future__ import annotations

import shutil
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.spring_engine import spring_engine
from supple.errors import FormatError, SuppleWarning
from supple.formats import remove_curves, remove_flesh
from supple.formats.save import check_target
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
from pxr import Sdf, Usd

from helpers.usd_samples import TWO_CLIPS, complaints


def loaded(path: Path, **options: Any) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        return supple.load(path, **options)


def with_flesh(character: Character) -> BakedMotion:
    """The first motion, with waves on the skin."""
    motion = next(iter(character.motions.values())).slice(0.0, 0.2).resample(30.0)
    size, places = character.surface.size, character.surface.vertices
    still = BakedMotion(character, motion, np.empty(0, np.float32), 30.0)
    frames = [
        still.rig_frame(k) + 0.02 * size * np.sin(9 * places / size + 5 * t) * np.sin(3 * t + 0.3)
        for k, t in enumerate(motion.times)
    ]
    return BakedMotion(character, motion, np.array(frames, np.float32), 30.0)


def saved(path: Path, made: Any, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        supple.save(path, made, **options)
    return path


def assert_replaced_and_removed(source: Path, suffix: str, **options: Any) -> Path:
    """Twice baked equals once baked, in place too; removed equals the original."""
    folder = source.parent
    once = saved(folder / f"once{suffix}", with_flesh(loaded(source)), **options)
    twice = saved(folder / f"twice{suffix}", with_flesh(loaded(once)), **options)
    assert twice.read_bytes() == once.read_bytes()
    saved(twice, with_flesh(loaded(twice)), **options)
    assert twice.read_bytes() == once.read_bytes()
    remove_flesh(folder / f"back{source.suffix}", once)
    assert (folder / f"back{source.suffix}").read_bytes() == source.read_bytes()
    return once


@pytest.fixture
def two_clips(tmp_path) -> Path:
    (tmp_path / "two.usda").write_text(TWO_CLIPS)
    return tmp_path / "two.usda"


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usdz"])
def test_twice_baked_equals_once_baked_and_removed_equals_original(two_clips, suffix):
    once = assert_replaced_and_removed(two_clips, suffix)
    assert complaints(once) <= complaints(two_clips)


def test_point_caches_are_replaced_too(two_clips):
    assert_replaced_and_removed(two_clips, ".usda", points="cache")


@pytest.mark.parametrize("suffix", [".usdc", ".usdz"])
def test_a_package_is_restored_to_the_byte(assets, tmp_path, suffix):
    source = Path(shutil.copy(assets / "usd_skel" / "CesiumMan.usdz", tmp_path))
    assert_replaced_and_removed(source, suffix)


def test_the_layer_below_is_read_and_this_is_reported(two_clips, tmp_path):
    for name in ("soft.usda", "soft.usdz"):
        once = saved(tmp_path / name, with_flesh(supple.load(two_clips)))
        with pytest.warns(SuppleWarning, match=f"^{name}: has flesh that Supple baked") as said:
            again = supple.load(once)
        assert len(said) == 1
        assert list(again.motions) == ["Stand", "Nod"]
        assert len(again.rig.parameters) == len(supple.load(two_clips).rig.parameters)
        kept = supple.load(once, flesh=True)
        assert len(kept.rig.parameters) > len(again.rig.parameters)


def test_wrong_suffixes_are_errors_of_one_line(two_clips, tmp_path):
    layer = saved(tmp_path / "soft.usda", with_flesh(supple.load(two_clips)))
    package = saved(tmp_path / "soft.usdz", with_flesh(supple.load(two_clips)))
    with pytest.raises(FormatError, match="has no flesh from Supple to remove"):
        remove_flesh(tmp_path / "back.usda", two_clips)
    with pytest.raises(FormatError, match=r"two\.usda, which is unchanged beside it"):
        remove_flesh(tmp_path / "back.usdc", layer)
    with pytest.raises(FormatError, match=r"two\.usda, which is inside it; use a name"):
        remove_flesh(tmp_path / "back.usdz", package)
    inside = loaded(package)
    with pytest.raises(FormatError, match=r"soft\.usdz has the original inside; write a"):
        check_target(tmp_path / "more.usda", inside)
    with pytest.raises(FormatError, match=r"soft\.usdz has the original inside; write a"):
        supple.save(tmp_path / "more.usda", with_flesh(inside))
    two_clips.unlink()
    with pytest.raises(FormatError, match=r"two\.usda, the file below it, is not beside it"):
        supple.load(layer)
    loaded(package)  # which has it


def test_files_needed_by_the_original_are_reported(two_clips, tmp_path):
    (tmp_path / "main.usda").write_text("#usda 1.0\n(subLayers = [@./two.usda@])\n")
    once = saved(tmp_path / "soft.usdz", with_flesh(loaded(tmp_path / "main.usda")))
    twice = saved(tmp_path / "more.usdz", with_flesh(loaded(once)))
    assert twice.read_bytes() == once.read_bytes()
    with pytest.warns(SuppleWarning, match=r"1 file that main\.usda needs is in soft\.usdz; unzip"):
        remove_flesh(tmp_path / "back.usda", once)
    assert (tmp_path / "back.usda").read_bytes() == (tmp_path / "main.usda").read_bytes()


def test_flesh_over_curves_is_removed_first_and_also_with_the_curves(two_clips, tmp_path):
    with spring_engine() as name:
        curves = supple.curves(
            supple.load(two_clips), engine=name, free=["top.r*"], anatomy=None, push=0.3
        )
        for suffix in (".usda", ".usdz"):
            file = saved(tmp_path / f"curves{suffix}", curves)
            once = assert_replaced_and_removed(file, suffix)
            assert Sdf.Layer.FindOrOpen(str(once)).customLayerData.keys() == {"supple_flesh"}
            with pytest.warns(
                SuppleWarning, match="flesh, added after the curves, removed as well"
            ):
                remove_curves(tmp_path / "bare.usda", once)
            assert (tmp_path / "bare.usda").read_text() == TWO_CLIPS
            bare = loaded(once, curves=False)
            anew = supple.curves(bare, engine=name, free=["top.r*"], anatomy=None, push=0.3)
            saved(tmp_path / f"anew{suffix}", anew)
            assert (tmp_path / f"anew{suffix}").read_bytes() == file.read_bytes()


def test_flesh_without_a_record_is_warned_of(two_clips, tmp_path):
    once = saved(tmp_path / "soft.usda", with_flesh(supple.load(two_clips)))
    flat = tmp_path / "flat.usda"
    Usd.Stage.Open(str(once)).Flatten().Export(str(flat))
    with pytest.warns(SuppleWarning, match='"supple_soft_000", which Supple may have baked'):
        supple.load(flat)


def test_layers_over_each_other_come_to_an_end(two_clips, tmp_path):
    once = saved(tmp_path / "soft.usda", with_flesh(supple.load(two_clips))).read_text()
    (tmp_path / "a.usda").write_text(once.replace("two.usda", "b.usda"))
    (tmp_path / "b.usda").write_text(once.replace("two.usda", "a.usda"))
    with pytest.raises(FormatError, match="is a layer over itself"):
        supple.load(tmp_path / "a.usda")
    (tmp_path / "c.usda").write_text(once.replace("two.usda", "c.usda"))
    with pytest.raises(FormatError, match="is not beside it"):
        supple.load(tmp_path / "c.usda")


def test_a_changed_package_is_an_error_of_one_line(two_clips, tmp_path):
    once = saved(tmp_path / "soft.usdz", with_flesh(supple.load(two_clips)))
    with zipfile.ZipFile(once) as archive:
        parts = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    leading = tmp_path.parent / "leads_out.usda"
    for name, change in (("two.usda", b"#usda 1.0\n"), ("../leads_out.usda", b"#usda 1.0\n")):
        bad = tmp_path / "bad.usdz"
        with zipfile.ZipFile(bad, "w", zipfile.ZIP_STORED) as archive:
            for part, data in {**parts, name: change}.items():
                info = zipfile.ZipInfo(part)
                begin = archive.fp.tell() + 30 + len(part)  # type: ignore[union-attr]
                short = -(begin + 4) % 64
                info.extra = struct.pack("<HH", 0x1986, short) + bytes(short)
                archive.writestr(info, data)
        if name == "two.usda":
            with pytest.raises(FormatError, match="no longer contains"):
                remove_flesh(tmp_path / "back.usda", bad)
        else:
            remove_flesh(tmp_path / "back.usda", bad)
            assert not leading.exists()
            assert (tmp_path / "back.usda").read_text() == TWO_CLIPS
