"""The journal of a batch: lines are whole or absent, wherever it is torn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supple.app.batch.journal import JOURNAL, Journal, decoded, encoded, read_journal
from supple.errors import SuppleError


def written(folder: Path) -> bytes:
    journal = Journal(folder / JOURNAL)
    for k in range(4):
        journal.add("done", job=f"job{k}", stamp="1-2", files={f"ä{k}.glb": k + 1}, note="\n\x1b")
    journal.add("failed", job="job1", stamp="1-2", line="x.glb: is damaged")
    journal.close()
    return (folder / JOURNAL).read_bytes()


def test_a_journal_torn_at_any_byte_has_all_whole_lines_and_goes_on(tmp_path):
    whole = written(tmp_path)
    for cut in range(len(whole) + 1):
        (tmp_path / JOURNAL).write_bytes(whole[:cut])
        ends = whole[:cut].count(b"\n") + (whole[cut : cut + 1] == b"\n")
        journal = Journal(tmp_path / JOURNAL)
        assert len(journal.state.done) + len(journal.state.failed) == min(ends, 4)
        journal.add("done", job="later", stamp="", files={"later.glb": 9})
        journal.close()
        told = read_journal(tmp_path / JOURNAL)
        assert told.done["later"] == ("", (("later.glb", 9),))
        assert told.damaged <= 1
        assert (tmp_path / JOURNAL).read_bytes().startswith(whole[:cut])


def test_the_last_line_about_a_job_counts(tmp_path):
    written(tmp_path)
    told = read_journal(tmp_path / JOURNAL)
    assert sorted(told.done) == ["job0", "job2", "job3"]
    assert told.failed["job1"]["line"] == "x.glb: is damaged"


def test_a_file_is_of_the_job_that_wrote_it_last(tmp_path):
    journal = Journal(tmp_path / JOURNAL)
    journal.add("done", job="soft", stamp="1", output="a", files={"a": 5, "a.bin": 6})
    journal.add("done", job="other", stamp="1", output="b", files={"b": 5})
    journal.add("failed", job="late", stamp="1", output="c", line="no")
    journal.add("done", job="firm", stamp="1", output="a", files={"a": 5})
    assert sorted(journal.state.done) == ["firm", "other"]
    journal.add("over", job="new", names=["c", "b", 7])  # killed then
    journal.close()
    told = read_journal(tmp_path / JOURNAL)
    assert sorted(told.done) == ["firm"]
    assert not told.failed


@pytest.mark.parametrize("place", range(0, 60, 7))
def test_a_line_with_one_other_bit_is_no_line(place):
    line = bytearray(encoded({"event": "done", "job": "a" * 40}))
    line[place] ^= 1
    assert decoded(bytes(line)) is None


def test_hostile_lines_are_passed_over(tmp_path):
    lines = [b"\x00" * 100, b"[" * 100_000, b'{"event":"done","job":"x"}', b"null", b"\xff\xfe"]
    lines += [encoded({"event": "done", "job": 7}), encoded({"event": "done", "job": "x"})]
    (tmp_path / JOURNAL).write_bytes(b"\n".join(lines))
    told = read_journal(tmp_path / JOURNAL)
    assert told.damaged == 5
    assert list(told.done) == ["x"]
    assert told.done["x"][1] == ()  # and so its job is not taken for done


def test_two_commands_do_not_write_one_journal(tmp_path):
    pytest.importorskip("fcntl", reason="there are no locks of files here")
    first = Journal(tmp_path / JOURNAL)
    with pytest.raises(SuppleError, match="another batch runs"):
        Journal(tmp_path / JOURNAL)
    first.close()
    Journal(tmp_path / JOURNAL).close()


def test_a_full_disk_is_a_one_line_error_and_earlier_entries_stay(tmp_path, monkeypatch):
    written(tmp_path)
    journal = Journal(tmp_path / JOURNAL)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr("supple.app.batch.journal._SYNCED", -1.0)
    with pytest.raises(SuppleError, match="no space left on device"):
        journal.add("done", job="late", stamp="", files={})
    monkeypatch.undo()
    journal.close()
    assert len(read_journal(tmp_path / JOURNAL).done) >= 3
