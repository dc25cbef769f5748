"""Every promise of SECURITY.md has tests, which are there."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.pickle_mutations import watched
from prove.corpus import read_seeds
from prove.fuzz import input_of
from prove.kinds import KINDS, defect_of

ROOT = Path(__file__).resolve().parents[2]
#: Tests of each promise, as file and function.
TESTS: dict[int, list[tuple[str, str]]] = {
    1: [
        ("prove/test_security.py", "test_nothing_in_a_file_runs"),
        (
            "formats/test_restricted_pickle.py",
            "test_anything_else_is_an_error_of_one_line_and_not_executed",
        ),
        (
            "formats/test_restricted_pickle.py",
            "test_mutated_pickles_neither_crash_nor_run_nor_grow",
        ),
        ("scenes/test_scenes.py", "test_a_cache_never_unpickles"),
        ("formats/test_hostile_usd.py", "test_nothing_is_imported_from_the_working_folder"),
    ],
    2: [
        ("formats/test_hostile_gltf.py", "test_buffers_are_never_opened_outside_the_folder"),
        ("formats/test_hostile_usd.py", "test_nothing_outside_the_files_folder_is_read"),
        ("formats/test_hostile_usd.py", "test_value_clips_are_not_followed"),
        (
            "formats/test_usd_removed_flesh.py",
            "test_a_changed_package_is_an_error_of_one_line",
        ),
        ("app/batch/test_batch_plan.py", "test_a_name_that_leads_out_of_the_folder_is_refused"),
        (
            "app/batch/test_batch_plan.py",
            "test_hostile_lists_are_refused_in_one_line_that_names_the_place",
        ),
    ],
    3: [
        ("prove/test_security.py", "test_nothing_in_a_file_runs"),
        ("formats/test_hostile_gltf.py", "test_buffers_are_never_opened_outside_the_folder"),
    ],
    4: [
        (
            "formats/test_hostile_gltf.py",
            "test_a_generated_broken_file_gives_an_error_that_names_the_mistake",
        ),
        ("formats/test_hostile_usd.py", "test_a_file_that_takes_too_much_memory_is_given_up"),
        ("formats/test_restricted_pickle.py", "test_nests_take_neither_the_stack_nor_the_memory"),
        (
            "formats/test_removed_flesh.py",
            "test_a_hostile_record_is_an_error_without_allocation",
        ),
        ("prove/test_fuzz.py", "test_hostile_inputs_are_read_or_refused_in_one_line"),
    ],
    5: [
        ("formats/test_hostile_usd.py", "test_a_file_that_crashes_usd_is_an_error_of_one_line"),
        ("formats/test_hostile_usd.py", "test_a_file_that_takes_forever_is_given_up"),
    ],
    6: [
        ("prove/test_fuzz.py", "test_hostile_inputs_are_read_or_refused_in_one_line"),
        ("prove/test_fuzz.py", "test_text_from_a_file_cannot_control_the_terminal"),
    ],
    7: [
        ("compiled/test_compiled_cache.py", "test_a_file_that_cannot_be_read_is_written_anew"),
        ("scenes/test_scenes.py", "test_a_cache_never_unpickles"),
    ],
    8: [
        (
            "prove/test_faults.py",
            "test_a_file_is_the_old_one_or_the_new_one_whatever_happens_when",
        ),
        (
            "prove/test_faults.py",
            "test_a_command_on_a_full_disk_ends_in_one_line_and_leaves_nothing",
        ),
    ],
    9: [
        ("app/test_report_page.py", "test_names_and_figures_are_shown_and_never_run"),
        ("app/batch/test_batch_page.py", "test_names_of_any_kind_do_nothing_in_the_page"),
    ],
    10: [("app/test_viewer.py", "test_it_serves_this_computer_only")],
    11: [
        ("app/test_viewer.py", "test_pages_of_other_sites_are_turned_away"),
        ("app/test_viewer.py", "test_pages_of_other_ports_of_this_computer_are_turned_away"),
        (
            "app/test_viewer.py",
            "test_a_page_of_another_site_that_came_before_the_guard_is_let_go",
        ),
    ],
    12: [
        ("app/test_viewer.py", "test_no_guest_can_share_the_page_with_the_world"),
        ("prove/test_security.py", "test_the_page_takes_no_upload"),
        (
            "prove/test_security.py",
            "test_pages_set_controls_to_values_of_their_kind_and_nothing_else_of_them",
        ),
    ],
    13: [
        ("app/test_viewer.py", "test_recordings_go_nowhere_but_their_folder"),
        ("app/test_viewer_anatomy.py", "test_no_file_is_written_outside_of_the_folder"),
    ],
}


def promises() -> dict[int, str]:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    return {int(n): line for n, line in re.findall(r"^(\d+)\. (.*)$", text, flags=re.MULTILINE)}


def test_every_promise_has_tests_that_are_there():
    assert list(promises()) == list(range(1, len(TESTS) + 1))
    for number, tests in TESTS.items():
        assert tests, promises()[number]
        for file, name in tests:
            tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
            found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert name in found, f"promise {number}: {file} has no {name}"


def test_nothing_in_a_file_runs(tmp_path):
    """An audit hook of Python's sees what is imported, compiled, run, or connected to."""
    quiet = {"glb", "gltf", "vrm", "bvh", "obj", "ply", "stl", "off", "veg", "msh", "stvk"}
    quiet |= {"supple-rig-space", "cub", "bou", "modal", "pc2", "mdd", "cache-npz", "anatomy"}
    quiet |= {"body-npz", "body-steps", "motion-npz", "bones", "research", "stiffness"}
    harmless = re.compile(
        r"open .*(/a\.|'/proc/|tmp)|os\.(listdir|scandir|stat)"
        r"|import \('(supple|numpy|scipy)[.']"
        # An array's header is a literal, which Python parses and does not run.
        r"|compile \(b?[\"']\s*\{"
    )
    for kind in sorted(quiet):
        seeds = read_seeds(kind, tmp_path / "corpus")
        path = tmp_path / f"a{KINDS[kind].suffix}"
        for seed in seeds:  # imports what it needs
            path.write_bytes(seed)
            defect_of(KINDS[kind], path)
        for number in range(len(seeds), len(seeds) + 10):
            path.write_bytes(input_of(kind, number, seeds))
            with watched() as seen:
                defect_of(KINDS[kind], path)
            ran = [each for each in seen if not harmless.match(each)]
            assert not ran, f"{kind} {number}: {ran[:3]}"


def test_the_page_takes_no_upload(tmp_path):
    from helpers.build_samples import stepped_model
    from helpers.viewer_guest import Guest
    from supple.app.viewer.page import Page
    from supple.app.viewer.session.character_actor import CharacterActor
    from supple.app.viewer.session.session import Session

    session = Session(CharacterActor(stepped_model("bar")))
    with Page(session, port=0, folder=tmp_path) as page, Guest(page.address) as guest:
        guest.look()
        guest.count(0.3)
        control = next(iter(page.server.gui._gui_input_handle_from_uuid))
        for number in range(3):
            guest.say(
                "FileTransferStartUpload",
                source_component_uuid=control,
                transfer_uuid=f"a{number}",
                filename="../a.glb",
                mime_type="model/gltf-binary",
                part_count=100,
                size_bytes=10**9,
            )
            guest.say(
                "FileTransferPart",
                source_component_uuid=control,
                transfer_uuid=f"a{number}",
                part_index=0,
                content=b"a" * 1000,
            )
        guest.count(0.5)
        assert not page.server.gui._current_file_upload_states
        for client in page.server.get_clients().values():
            assert not client.gui._current_file_upload_states


def test_pages_set_controls_to_values_of_their_kind_and_nothing_else_of_them(tmp_path):
    from helpers.build_samples import stepped_model
    from helpers.viewer_guest import Guest
    from supple.app.viewer.page import Page
    from supple.app.viewer.session.character_actor import CharacterActor
    from supple.app.viewer.session.session import Session

    session = Session(CharacterActor(stepped_model("bar")))
    with Page(session, port=0, folder=tmp_path) as page, Guest(page.address) as guest:
        guest.look()
        guest.count(0.3)
        controls = page.server.gui._gui_input_handle_from_uuid
        kept = {uuid: (each._impl.value, each._impl.update_cb) for uuid, each in controls.items()}
        assert {type(value) for value, _ in kept.values()} >= {str, bool, float}
        for uuid in kept:
            own = controls[uuid]
            worse = [{"value": None}, {"value": {"a": 1}}, {"value": [0.1]}, {"update_cb": []}]
            worse += [{"value": "no such"}] if hasattr(own._impl.props, "options") else []
            worse += [{"value": float("nan")}] if isinstance(kept[uuid][0], float) else []
            if isinstance(own._impl.value, float):
                worse += [{"value": float("inf")}, {"value": 2**53}, {"value": -1e308}]
            for updates in worse:
                guest.say("GuiUpdateMessage", uuid=uuid, updates=updates)
        colour = page.show.colour
        guest.say("GuiUpdateMessage", uuid=colour._impl.uuid, updates={"value": "region"})
        guest.count(0.5)
        assert page.scene.colouring == "region"
        assert page.clock.failure is None
        for own in controls.values():
            if isinstance(own._impl.value, float):
                assert abs(own._impl.value) <= 1e6
        del kept[colour._impl.uuid]
        for uuid, (value, listeners) in kept.items():
            if uuid in controls and not isinstance(value, float):  # the clock's slider moves
                assert controls[uuid]._impl.value == value
            assert uuid not in controls or controls[uuid]._impl.update_cb is listeners


def test_dependencies_are_those_of_the_constraints_and_none_is_under_the_gpl():
    run = [sys.executable, str(ROOT / "tools" / "audit_dependencies.py"), "--offline"]
    ended = subprocess.run(run, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "none under the GPL" in ended.stdout
    assert "vulnerabilities were not looked for" in ended.stdout


@pytest.mark.parametrize(
    ("licence", "forbidden"),
    [
        ("GPL-3.0-or-later", True),
        ("GNU Affero General Public License v3", True),
        ("AGPLv3", True),
        ("GPLv2+ or MIT", False),
        ("LGPL-2.1", False),
        ("MIT AND BSD-3-Clause", False),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", False),
        ("", False),
    ],
)
def test_licences_are_distinguished(licence, forbidden):
    audit = runpy.run_path(str(ROOT / "tools" / "audit_dependencies.py"))
    assert audit["forbids"](licence) == forbidden
