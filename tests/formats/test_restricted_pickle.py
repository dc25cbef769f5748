"""Pickles of body models are read without running them, within memory the file is worth."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from helpers.pickle_mutations import sample_pickles, try_mutations, watched
from helpers.smpl_samples import body_fields
from supple.errors import FormatError
from supple.formats.smpl.restricted_pickle import read_pickle

ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
DOUBLES = b"cnumpy\ndtype\n(S'f8'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb"


@pytest.mark.parametrize("protocol", range(5))
def test_arrays_are_those_that_were_pickled(protocol):
    fields = body_fields()
    fields["f"] = np.asfortranarray(fields["f"])
    fields["note"], fields["version"] = "lrotmin", np.float64(1.5)
    found = read_pickle(pickle.dumps(fields, protocol=protocol), "a.pkl", fields)
    for name, wanted in fields.items():
        np.testing.assert_array_equal(found[name], wanted)


def test_unneeded_objects_are_skipped():
    fields = {"f": np.eye(3), "joint2num": np.array({"wrist": 20}, dtype=object)}
    data = pickle.dumps(fields, protocol=2)
    np.testing.assert_array_equal(read_pickle(data, "a.pkl", ["f"])["f"], np.eye(3))
    with pytest.raises(FormatError, match="an array of objects"):
        read_pickle(data, "a.pkl", ["joint2num"])


@pytest.mark.parametrize("form", ["csc", "csr", "coo"])
def test_sparse_matrices_are_made_anew_and_checked(form):
    matrix = sp.random(5, 9, 0.4, random_state=1).asformat(form)
    matrix = {"csc": sp.csc_matrix, "csr": sp.csr_matrix, "coo": sp.coo_matrix}[form](matrix)
    data = pickle.dumps({"J_regressor": matrix}, protocol=2)
    found = read_pickle(data, "a.pkl", ["J_regressor"])["J_regressor"]
    np.testing.assert_array_equal(found, matrix.toarray())
    matrix = sp.csc_matrix(np.eye(3))
    matrix.indices[1] = 7
    with pytest.raises(FormatError, match="entry outside"):
        read_pickle(pickle.dumps({"a": matrix}, protocol=2), "a.pkl", ["a"])


def test_columns_of_a_sparse_matrix_that_wrap_around_are_refused():
    """Their differences look right, and made NumPy write beyond an array."""
    matrix = sp.csc_matrix(np.eye(4))
    matrix.indptr = np.array([0, 2**62, -(2**63), -(2**62), 4], np.int64)
    with pytest.raises(FormatError, match="do not match"):
        read_pickle(pickle.dumps({"a": matrix}, protocol=2), "a.pkl", ["a"])


@pytest.mark.parametrize("name", ["SMPL", "MANO"])
def test_old_pickles_with_chumpy_are_their_plain_arrays(name, assets):
    folder = assets / "parametric" / "toy_pickles"
    (file,) = folder.glob(f"toy_{name}*_py2.pkl")
    with np.load(folder / f"toy_{name}_expected.npz") as wanted:
        found = read_pickle(file.read_bytes(), file.name, wanted.files)
        for field in wanted.files:
            np.testing.assert_array_equal(found[field], wanted[field])


def test_hostile_pickles_give_errors_with_the_name_that_they_import(assets):
    files = sorted((assets / "parametric" / "toy_pickles").glob("hostile_*.pkl"))
    assert len(files) == 3
    for file in files:
        data = file.read_bytes()
        with (
            watched() as seen,
            pytest.raises(FormatError, match=r"which is not (allowed|supported)"),
        ):
            read_pickle(data, file.name, ["f"])
        assert not seen


class _Runs:
    def __reduce__(self):
        return os.system, ("true",)


HOSTILE = {
    "a call": pickle.dumps({"f": _Runs()}),
    "a call, old": pickle.dumps({"f": _Runs()}, protocol=0),
    "objects": pickle.dumps({"f": np.array([{}, None], dtype=object)}),
    "structures": pickle.dumps({"f": np.zeros(2, dtype="f8,i4")}),
    "a subclass": pickle.dumps({"f": np.ma.zeros(3)}),
    "a function": pickle.dumps({"f": len}),
    "a slice": pickle.dumps({"f": slice(3)}),
    "bytes that are not there": b"\x80\x04}\x8e" + struct.pack("<Q", 2**62) + b"x.",
    "a string that is not there": b"\x80\x02}T" + struct.pack("<i", -5) + b"x.",
    "a number of gigabytes": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b".",
    "digits": b"L" + b"9" * 100_000 + b"L\n.",
    "a frame": b"\x80\x04\x95" + struct.pack("<Q", 2**63) + b".",
    "not hold a dict": pickle.dumps([1, 2]),
    "persistent": b"\x80\x02}Pabc\n.",
    "extensions": b"\x80\x02\x82\x01.",
    "a buffer": b"\x80\x05\x97.",
    "a new protocol": b"\x80\x09}.",
    "nothing": b".",
    "an empty stack": b"0.",
    "a huge array": b"}S'f'\n"
    + ARRAY
    + b"(I1\n(L549755813887L\nt"
    + DOUBLES
    + b"I00\nS'abc'\ntbs.",
    "nests of wrapped arrays": b"\x80\x02}U\x01f" + b"cchumpy.ch\nCh\n)\x81q\x01}U\x01xh\x01sbs.",
    "a key of objects": b"\x80\x02}))s.",
    "encoding again and again": b"\x80\x02}(V"
    + b"a" * 500
    + b"\nq\x010"
    + 30 * b"c_codecs\nencode\nh\x01X\x06\0\0\0latin1\x86R0"
    + b"1.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_anything_else_is_an_error_of_one_line_and_not_executed(name):
    with watched() as seen, pytest.raises(FormatError) as error:
        read_pickle(HOSTILE[name], "a.pkl", ["f"])
    assert not seen
    assert str(error.value).startswith("a.pkl: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02" + b"(" * 40_000 + b"t" * 40_000 + b".",
        b"\x80\x02" + b"]" * 40_000 + b"a" * 39_999 + b".",
        b"\x80\x02" + b"}" + b"K\x01}" * 40_000 + b"s" * 40_000 + b".",
        b"\x80\x02]r\xff\xff\xff\xff" + b"(j\xff\xff\xff\xff" * 1000 + b"l" * 1000 + b".",
        b"\x80\x02]" + b"2" * 100_000 + b".",
    ],
)
def test_nests_take_neither_the_stack_nor_the_memory(data):
    tracemalloc.start()
    try:
        with contextlib.suppress(FormatError):
            read_pickle(data, "a.pkl", ["f"])
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def test_a_machine_that_does_not_end_is_stopped(monkeypatch):
    monkeypatch.setattr("supple.formats.smpl.restricted_pickle.MOST_STEPS", 1000)
    with pytest.raises(FormatError, match="more than 1,000 steps"):
        read_pickle(b"N0" * 1000 + b".", "a.pkl", ["f"])


def test_mutated_pickles_neither_crash_nor_run_nor_grow():
    figures = try_mutations(sample_pickles(), 3000)
    assert figures["read"] > 100
    assert figures["refused"] > 1000
    assert figures["grown_mb"] < 200
    assert figures["slowest_s"] < 2
