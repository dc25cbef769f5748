"""Mutated pickles of body models, and a check that reading one executes nothing."""

from __future__ import annotations

import pickle
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any

import numpy as np

from helpers.smpl_samples import body_fields
from supple.errors import FormatError, SuppleError
from supple.formats.smpl.body_model import BODY_FIELDS, body_of_fields
from supple.formats.smpl.restricted_pickle import read_pickle

#: What nothing that reads bytes has reason to do.
WATCHED = (
    "import",
    "exec",
    "compile",
    "open",
    "os.",
    "subprocess.",
    "socket.",
    "ctypes.",
    "pickle.find_class",
    "code.",
    "shutil.",
)
#: Steps of a pickle's machine that are put in place of others.
STEPS = (
    b"(.012FGIJKLMNPQRSTUVXabcdeghijloprstu]})"
    b"\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96"
)
#: Words with meaning that are put in.
PIECES = (
    b"cos\nsystem\n",
    b"cposix\nsystem\n(S'true'\ntR",
    b"c__builtin__\neval\n",
    b"cbuiltins\ngetattr\n",
    b"\x8c\x02os\x8c\x06system\x93",
    b"cnumpy\nload\n",
    b"cnumpy.core.multiarray\n_reconstruct\n",
    b"cscipy.sparse.csc\ncsc_matrix\n",
    b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x8b\xff\xff\xff\x7f",
    b"r\xff\xff\xff\xff",
    b"\x95\xff\xff\xff\xff\xff\xff\xff\xff",
    b"(" * 50,
    b"]" * 50 + b"a" * 49,
    b"2" * 50,
)

_seen: list[str] | None = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is not None and event.startswith(WATCHED):
        _seen.append(f"{event} {str(arguments)[:100]}")


_hooked: list[bool] = []


@contextmanager
def watched() -> Iterator[list[str]]:
    """Record audit events of imports, compilation, files and processes."""
    global _seen
    if not _hooked:  # hooks stay for good
        sys.addaudithook(_hook)
        _hooked.append(True)
    _seen = []
    try:
        yield _seen
    finally:
        _seen = None


def sample_pickles() -> list[bytes]:
    """Return small bodies as pickles of all protocols."""
    fields = body_fields(4 * 4, shapes=2)
    small = {name: fields[name] for name in ("f", "weights", "kintree_table", "hands_mean")}
    small |= {"v_template": fields["v_template"].astype(np.float32), "bs_type": "lrotmin"}
    small["J_regressor"] = fields["J_regressor"].astype(np.float32)
    return [pickle.dumps(small, protocol=version) for version in range(5)]


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Change some bytes of a pickle: steps, lengths, pieces; mostly near where its steps are."""
    found = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        kind = int(rng.integers(6))
        # Arrays are most of the bytes, and harmless: the head and the tail have the steps.
        edge = min(len(found), 400)
        place = int(rng.integers(edge)) if rng.random() < 0.7 else int(rng.integers(len(found)))
        if rng.random() < 0.2:
            place = len(found) - 1 - place
        if kind == 0:
            found[place] = int(rng.integers(256))
        elif kind == 1:
            found[place] = STEPS[int(rng.integers(len(STEPS)))]
        elif kind == 2:
            found[place:place] = PIECES[int(rng.integers(len(PIECES)))]
        elif kind == 3:
            del found[place : place + int(rng.integers(1, 9))]
        elif kind == 4:
            other = int(rng.integers(len(found)))
            found[place:place] = found[other : other + int(rng.integers(1, 60))]
        else:
            del found[max(place, 1) :]
        if not found:
            found = bytearray(b".")
    return bytes(found)


def try_mutations(seeds: Sequence[bytes], count: int, seed: int = 0) -> dict[str, Any]:
    """Read mutated pickles; raise AssertionError if one executes code or fails unexpectedly.

    Returns
    -------
    dict
        How many were read and refused, the slowest in seconds, and the growth in MB.
    """
    rng = np.random.default_rng(seed)
    for data in seeds:  # codecs are imported when they are first used
        read_pickle(data, "seed.pkl", BODY_FIELDS)
    begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures: dict[str, Any] = {"read": 0, "refused": 0, "slowest_s": 0.0}
    for k in range(count):
        data = mutated(seeds[k % len(seeds)], rng)
        started = perf_counter()
        with watched() as seen:
            try:
                fields = read_pickle(data, "mutated.pkl", BODY_FIELDS)
                figures["read"] += 1
                lines = 0
            except FormatError as error:
                figures["refused"] += 1
                fields, lines = {}, str(error).count("\n")
        assert not lines, f"mutation {k} of seed {seed}: an error of several lines"
        assert not seen, f"mutation {k} of seed {seed}: {seen[:3]}"
        with suppress(SuppleError):
            body_of_fields("mutated.pkl", fields)
        figures["slowest_s"] = max(figures["slowest_s"], perf_counter() - started)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin
    return figures | {"grown_mb": round(grown / 1024, 1)}
