"""Kinds of hostile input: what reads it, what it begins with, how it is changed."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from helpers.pickle_mutations import mutated
from prove import arguments
from prove import mutations as change
from prove.corpus import BETWEEN, BUNDLE
from supple.errors import SuppleError, SuppleWarning

__all__ = ["KINDS", "Kind", "defect_of"]

Change = Callable[[bytes, Random], bytes]
#: What readers say of an error that nobody foresaw. Text that is no number and archives that do not
#: fit are expected; of these a check of ours is missing, unless another library parses the file.
MISSED = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError)
UNFORESEEN = re.compile(r": is damaged (and cannot be read )?\((?!not )")


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes
    ----------
    suffix : str
        Of its file.
    change : callable
        From the bytes of a sound file to those of another.
    read : callable
        Reads the file; what it returns is looked at by `look`.
    foreign : bool
        Whether a library that is not ours parses it, so that errors nobody foresaw are expected.
    share : float
        Part of all inputs, before kinds are weighed against each other.
    strict : bool
        Whether every error must be foreseen.
    """

    suffix: str
    change: Change
    read: Callable[[Path], Any]
    foreign: bool = False
    share: float = 1.0
    strict: bool = False


def defect_of(kind: Kind, path: Path) -> tuple[str, bool]:
    """Read a file: "" where it is read or refused as it should be, else what went wrong; read."""
    read = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            wrong = look(kind.read(path))
            read = True
        except SuppleError as error:
            wrong = _of_message(error, kind)
        except MemoryError:
            wrong = "MemoryError"
        except Exception as error:
            wrong = f"{type(error).__name__}: {_where(error)}: {str(error)[:120]}"
    for each in caught:
        if not issubclass(each.category, SuppleWarning | ResourceWarning):
            place = f"{Path(each.filename).name}:{each.lineno}"
            wrong = wrong or f"{each.category.__name__}: {place}: {str(each.message)[:100]}"
        elif "\n" in str(each.message):
            wrong = wrong or f"a warning of several lines: {each.message}"
        elif issubclass(each.category, ResourceWarning):
            wrong = wrong or f"ResourceWarning: {each.message}"
    return wrong, read


def _of_message(error: SuppleError, kind: Kind) -> str:
    text, cause = str(error), error.__cause__
    if "\n" in text or "\r" in text:
        return f"an error of several lines: {text[:120]!r}"
    if len(text) > 1000:
        return f"an error of {len(text)} characters: {text[:120]!r}"
    if not text.isprintable():
        return f"an error that cannot be printed: {text[:120]!r}"
    missed = isinstance(cause, MISSED) and not isinstance(cause, UnicodeError)
    if UNFORESEEN.search(text) and (missed or kind.strict) and not kind.foreign and cause:
        return f"unforeseen {type(cause).__name__}: {_where(cause)}: {text[:160]}"
    return ""


def _where(error: BaseException) -> str:
    """Return the last line of ours that an error came through."""
    found, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "src/supple/" in file:
            found = f"{Path(file).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def look(value: Any) -> str:
    """Say what is wrong with something that was read: numbers that are none where one computes."""
    surface = getattr(value, "surface", None) or value
    for name in ("vertices", "times"):
        array = getattr(surface, name, None)
        if isinstance(array, np.ndarray) and not np.isfinite(array).all():
            return f"was read with {name} that are not finite"
    for name, motion in (getattr(value, "motions", None) or {}).items():
        if not np.isfinite(motion.poses).all():
            return f"was read with a motion that is not finite: {name!r}"
    return ""


def _reader(module: str, name: str, **options: Any) -> Callable[[Path], Any]:
    """Return a function that is imported when it is first called."""

    def read(path: Path) -> Any:
        from importlib import import_module

        return getattr(import_module(module), name)(path, **options)

    return read


# Model files


def _sealed_model(arrays: dict[str, Any], texts: dict[str, Any]) -> bytes:
    from supple.engines.common.model_file import checksum
    from supple.tensors import packed_tensors, unpacked_tensors

    texts.pop("checksum", None)
    plain, _, block = unpacked_tensors(packed_tensors(arrays, texts))
    return packed_tensors(arrays, texts | {"checksum": checksum(texts["header"], plain, block)})


def _sealed_stvk(arrays: dict[str, Any], texts: dict[str, Any]) -> bytes:
    from supple.engines.common.model_file import array_checksum
    from supple.tensors import packed_tensors

    return packed_tensors(arrays, texts | {"checksum": array_checksum(arrays)})


def _tensors(seal: Callable[[dict[str, Any], dict[str, Any]], bytes]) -> Change:
    return partial(change.changed_tensors, seal=seal)


# Files that are read for a character


@cache
def _character() -> Any:
    from helpers.build_samples import jointed_arm

    return jointed_arm()


def _read_anatomy(path: Path) -> Any:
    from supple.anatomy.region_entries import entries_for, read_entries

    read_entries(path)
    return entries_for(_character(), path)


def _read_stiffness(path: Path) -> Any:
    from supple.anatomy.flesh_presets import stiffness_factors
    from supple.app.model_request import read_stiffness

    return stiffness_factors(_character(), read_stiffness(str(path), _character()))


def _pickle_steps(data: bytes, rng: Random) -> bytes:
    return mutated(data, np.random.default_rng(rng.randrange(2**32)))


_load = _reader("supple.formats.load", "load")
_model = _reader("supple.engines.factory", "load_model")
_surface = _reader("supple.formats.meshes.read_mesh", "read_surface")
_tets = _reader("supple.formats.meshes.read_mesh", "read_tets")
_cache = _reader("supple.formats.point_cache", "read_point_cache")
_motion = _reader("supple.formats.smpl.body_motion", "read_body_motion")


def _veg(path: Path) -> Any:
    from supple.formats.meshes.veg import read_veg, read_veg_hexes

    read_hexes = b"CUBIC" in path.read_bytes()
    return (read_veg_hexes if read_hexes else read_veg)(path)


def _vrm(path: Path) -> Any:
    """Read a character, and do with VRM's extensions what a bake does when it is written."""
    from supple.formats.gltf.gltf_file import GltfFile
    from supple.formats.gltf.write.vrm_extension import copy_binds, overlapping_springs

    character, data = _load(path), path.read_bytes()
    if data[:4] == b"glTF":  # a file that begins otherwise is JSON alone
        data = data[20 : 20 + int.from_bytes(data[12:16], "little")]
    file = GltfFile(json.loads(data))
    copy_binds(file, 0, len(file.part("meshes")))
    overlapping_springs(file, set(range(len(file.part("nodes")))), drop=True)
    return character


def _bundle(path: Path) -> Any:
    """Read files that are one input."""
    parts = path.read_bytes().split(BETWEEN)
    for name in BUNDLE:
        path.with_name(name).unlink(missing_ok=True)
    for name, part in zip(BUNDLE, parts, strict=False):
        path.with_name(name).write_bytes(part)
    return _load(path.with_name(BUNDLE[0]))


_words, _bytes = change.changed_words, change.changed_bytes
_text = change.mostly(_words, _bytes, 0.1)
_either = change.mostly(_bytes, _words, 0.4)

KINDS: dict[str, Kind] = {
    "glb": Kind(".glb", change.changed_glb, _load, share=3, strict=True),
    "vrm": Kind(".vrm", change.changed_glb, _vrm, strict=True),
    "gltf": Kind(".gltf", change.changed_json, _load, share=2, strict=True),
    "usda": Kind(".usda", _text, _load, foreign=True, share=0.2),
    "usdc": Kind(".usdc", _bytes, _load, foreign=True, share=0.1),
    "usdz": Kind(
        ".usdz", change.mostly(change.changed_zip, _bytes, 0.3), _load, foreign=True, share=0.1
    ),
    "bvh": Kind(".bvh", _text, _reader("supple.formats.bvh", "read_bvh")),
    "obj": Kind(".obj", _text, _surface),
    "ply": Kind(".ply", _either, _surface),
    "stl": Kind(".stl", _either, _surface),
    "off": Kind(".off", _text, _surface),
    "veg": Kind(".veg", _text, _veg),
    "msh": Kind(".msh", _either, _tets),
    "mesh": Kind(".mesh", _text, _tets, foreign=True),
    "vtk": Kind(".vtk", _text, _tets, foreign=True),
    "supple-pose-space": Kind(".supple", _tensors(_sealed_model), _model, share=2),
    "supple-rig-space": Kind(".supple", _tensors(_sealed_model), _model),
    "supple-soft-skeleton": Kind(".supple", _tensors(_sealed_model), _model),
    "stvk": Kind(".stvk", _tensors(_sealed_stvk), _model),
    "cub": Kind(".cub", _bytes, _reader("supple.formats.vega.reduced_files", "read_cub")),
    "bou": Kind(".bou", _text, _reader("supple.formats.meshes.veg", "read_bou", n_vertices=8)),
    "modal": Kind(".U", _bytes, _reader("supple.formats.vega.reduced_files", "read_modal_matrix")),
    "anatomy": Kind(".json", change.changed_json, _read_anatomy),
    "stiffness": Kind(".json", change.changed_json, _read_stiffness),
    "pc2": Kind(".pc2", _bytes, _cache),
    "mdd": Kind(".mdd", _bytes, _cache),
    "cache-npz": Kind(".npz", change.changed_npz, _cache),
    "body-npz": Kind(".npz", change.changed_npz, _load),
    "body-pkl": Kind(".pkl", change.changed_fields, _load),
    "body-steps": Kind(".pkl", _pickle_steps, _load),
    "motion-npz": Kind(".npz", change.changed_npz, _motion),
    "motion-pkl": Kind(".pkl", change.changed_fields, _motion),
    "bones": Kind(
        ".npz", change.changed_npz, _reader("supple.formats.smpl.bone_file", "read_bone_meshes")
    ),
    "research": Kind(".json", change.changed_json, _load),
    "complementary": Kind(".bundle", _text, _bundle),
    "api": Kind(".json", arguments.changed_call, arguments.run_call),
    "commands": Kind(".json", arguments.changed_command, arguments.run_command, share=0.03),
}
