"""Progress for programs that start a command."""

from __future__ import annotations

import json

import pytest

from supple.playback.progress_bar import build_log, task_bar, working


def test_progress_is_lines_of_json_also_for_quiet_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("SUPPLE_PROGRESS", "lines")
    with working("reading", quiet=True), build_log(quiet=True) as log:
        log.began("filling")
        log.report(0.5, "tets")
        log.report(0.501, "tets")  # too little to be told
        log.ended("filling")
    with task_bar(quiet=True) as report:
        report(0.25, "simulating")
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(each["part"], each["what"]) for each in told] == [
        (0.0, "reading"),
        (0.0, "filling"),
        (0.5, "filling"),
        (0.25, "simulating"),
    ]


def test_no_progress_is_reported_by_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("SUPPLE_PROGRESS", raising=False)
    with working("reading", quiet=True), task_bar(quiet=True) as report:
        report(0.25, "simulating")
    assert not capsys.readouterr().err
