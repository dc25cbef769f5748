"""The page of a batch: whole from the journal at any time, and harmless whatever names are."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from helpers.browser_pages import running_browser
from supple.app.batch import batch_page
from supple.app.batch.batch_page import picture_file, write_batch_page
from supple.app.batch.journal import JOURNAL, Journal

WILD = "\"><script>alert(1)</script><img src=x onerror=alert(2)> '&amp;\udcff"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def told(folder: Path, count: int = 3) -> Journal:
    journal = Journal(folder / JOURNAL)
    for k in range(count):
        journal.add(
            "done",
            job=f"{k:020x}",
            command="bake",
            source=f"/in/{WILD}{k}.glb",
            output=f"{WILD}{k}.glb",
            options={WILD: [WILD]},
            stamp="",
            seconds=float(10 - k),
            peak_mb=300.5,
            files={f"{WILD}{k}.glb": 1000 * (k + 1)},
            warnings=[WILD] if k == 0 else [],
        )
    return journal


def parsed(folder: Path) -> Tags:
    tags = Tags()
    tags.feed(write_batch_page(folder).read_text())
    return tags


def test_names_of_any_kind_do_nothing_in_the_page(tmp_path):
    journal = told(tmp_path)
    journal.add("failed", job="f" * 20, source=WILD, output=WILD, line=WILD, warnings=[WILD])
    journal.add("failed", job="../../etc/passwd", source=7, output=None, line=[], warnings="x")
    journal.add("done", job="e" * 20, output="javascript:alert(1)", files={"x": "y"}, seconds="z")
    journal.close()
    tags = parsed(tmp_path)
    assert [tag for tag, _ in tags.found].count("script") == 1
    assert not [tag for tag, _ in tags.found if tag == "img"]
    for tag, attributes in tags.found:
        assert not any(name.startswith("on") for name in attributes), tag
        assert (attributes.get("href") or "./").startswith("./")
        assert "src" not in attributes
    policy = next(a["content"] or "" for _, a in tags.found if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]


def test_pictures_of_results_are_inside_the_page(tmp_path):
    told(tmp_path).close()
    place = picture_file(tmp_path, f"{0:020x}")
    place.parent.mkdir(parents=True)
    place.write_bytes(b"\xff\xd8picture")
    pictures = [a["src"] or "" for tag, a in parsed(tmp_path).found if tag == "img"]
    assert len(pictures) == 1
    assert pictures[0].startswith("data:image/jpeg;base64,")


def test_a_page_has_failures_first_and_no_more_rows_than_a_browser_shows(tmp_path, monkeypatch):
    monkeypatch.setattr(batch_page, "MOST_ROWS", 5)
    journal = told(tmp_path, 8)
    journal.add("failed", job="f" * 20, source="a.glb", output="a.glb", line="is damaged")
    journal.add("done", job="e" * 20, source="b.glb", output="b.glb", files={"b.glb": 5})
    journal.add("failed", job="e" * 20, source="b.glb", output="b.glb", line="is gone")
    journal.close()
    text = write_batch_page(tmp_path).read_text()
    assert text.count("<tr data-is") == 5
    assert text.index("is gone") > text.index("is damaged") > text.index("<tbody>")
    assert "10 jobs, 2 failed" in text
    assert "The page has 5 of them" in text
    assert re.search(r"is gone.*?<a href", text, re.DOTALL)


def test_a_result_of_other_settings_has_one_row(tmp_path):
    journal = Journal(tmp_path / JOURNAL)
    for key, flesh in (("a" * 20, "soft"), ("b" * 20, "firm")):
        journal.add("done", job=key, output="a.glb", options={"flesh": [flesh]}, files={"a.glb": 5})
    journal.close()
    text = write_batch_page(tmp_path).read_text()
    assert text.count("<tr data-is") == 1
    assert "flesh firm" in text
    assert "1 jobs, 0 failed" in text


browser = pytest.fixture(scope="module")(running_browser)


def test_rows_are_sorted_by_a_click_and_chosen_in_a_browser(tmp_path, browser):
    journal = told(tmp_path)
    journal.add("failed", job="f" * 20, source="a.glb", output="a.glb", line="is damaged")
    journal.close()
    page_file = write_batch_page(tmp_path)
    page = browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text))
    page.on("dialog", lambda dialog: problems.append("a dialog"))
    page.goto(page_file.as_uri())
    seconds = "[...document.querySelectorAll('tbody tr')].map(r => +r.cells[4].dataset.v)"
    page.click("th:nth-child(5) button")
    assert page.evaluate(seconds) == [0, 8, 9, 10]
    page.click("th:nth-child(5) button")
    assert page.evaluate(seconds) == [10, 9, 8, 0]
    page.select_option("#only", "failed")
    shown = "[...document.querySelectorAll('tbody tr')].filter(r => !r.hidden).length"
    assert page.evaluate(shown) == 1
    assert not problems
    page.close()


@pytest.mark.parametrize("torn", [True, False])
def test_a_page_can_be_made_while_a_batch_is_at_work(tmp_path, torn):
    journal = told(tmp_path)
    if torn:
        with (tmp_path / JOURNAL).open("ab") as file:
            file.write(b'{"event":"done","job":"torn')
    assert write_batch_page(tmp_path).read_text().count("<tr data-is") == 3
    journal.close()


def test_rows_of_bakes_have_how_far_flesh_moves_and_other_rows_have_none(tmp_path):
    journal = told(tmp_path, 1)
    figures = {"peak_part": 0.0231, "flesh_moves": f"moves {WILD}", "flesh_hard": "9 % of the skin"}
    journal.add("done", job="e" * 20, output="rat.glb", figures=figures)
    journal.add("done", job="d" * 20, output="odd.glb", figures=[1])
    journal.close()
    page = write_batch_page(tmp_path).read_text()
    assert 'data-v="2.31">2.31</td><td>moves &quot;&gt;&lt;script&gt;' in page
    assert "<small>hard: 9 % of the skin</small>" in page
    assert page.count('<td class="n" data-v="-1"></td><td></td>') == 2
