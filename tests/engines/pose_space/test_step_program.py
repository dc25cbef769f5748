"""A pose-space step as a list of kernel calls, and the image of its memory."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_options, bending_bar
from helpers.model_samples import sample_model
from supple.compiled.memory_image import memory_image
from supple.compiled.program import KernelCall, Program
from supple.compiled.tables import ArgumentTable
from supple.engines.engine import ENGINES
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.step_program import step_program
from supple.errors import SuppleError
from supple.linalg.upper_triangle import cholesky


def bar_model() -> PoseSpaceModel:
    return supple.build(bending_bar(), **bar_options())


MODELS: dict[str, Any] = {
    "bar": bar_model,
    "frames": sample_model,
    "world": lambda: sample_model(1, "world"),
}


def roots(k: int) -> np.ndarray:
    """A root that turns and rises."""
    angle = 0.1 * np.sin(0.3 * k)
    root = np.eye(4)
    root[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    root[:3, 3] = [0, 0.02 * k, 0.1]
    return root


def run(program: Program, pose: Any, root: Any, *sections: str, forces: dict | None = None) -> Any:
    arrays = program.arrays
    arrays["pose"][:], arrays["root"][:] = pose, root
    arrays["force_count"][0] = len(forces or {})
    for row, (vertex, force) in enumerate((forces or {}).items()):
        arrays["force_vertices"][row], arrays["forces"][row] = vertex, force
    program.run("check", "place", *sections)
    program.run("surface")
    return arrays["skin"]


@pytest.mark.parametrize("name", MODELS)
def test_a_program_takes_the_steps_of_the_simulator_to_the_bit(name):
    model = MODELS[name]()
    program, simulator = step_program(model, dt=1 / 60), supple.Simulator(model, 1 / 60)
    first, last = model.pose_weights.poses[0], model.pose_weights.poses[-1]
    run(program, first, roots(0), "reset")
    simulator.reset(first, roots(0))
    for k in range(1, 40):
        part = np.sin(0.2 * k) ** 2
        pose, root = (1 - part) * first + part * last, roots(k)
        forces = {3: [0.0, 0.2, 0.1], 1: [0.1, 0, 0]} if k % 3 == 0 else None
        sections = ["forces", *(["loads"] if forces else []), "solve"]
        skin = run(program, pose, root, *sections, forces=forces)
        limits = simulator.step(pose, root, forces).limits
        np.testing.assert_array_equal(skin, simulator.surface())
        assert bool(program.arrays["limits"][0]) == bool(limits)
        if k == 12:
            run(program, first, roots(2), "teleport")
            simulator.teleport(first, roots(2))
        if k == 25:
            run(program, first, roots(2), "reset")
            simulator.reset(first, roots(2))
    assert np.abs(simulator.q).max() > 0
    np.testing.assert_array_equal(program.arrays["q"], simulator.q)


def test_inputs_are_refused_before_anything_changes():
    model = sample_model()
    program = step_program(model)
    pose = model.pose_weights.poses[0]
    run(program, pose, np.eye(4), "reset")
    before = program.arrays["q"].copy(), program.arrays["last_pose"].copy()
    for wrong, root, words in (
        (np.full(len(pose), np.nan), np.eye(4), "pose: an entry is not finite"),
        (np.full(len(pose), 1e40), np.eye(4), "pose: an entry is not finite"),
        (pose, np.diag([2.0, 1, 1, 1]), "not a rigid transform"),
        (pose, np.diag([-1.0, 1, 1, 1]), "not a rigid transform"),
        (pose, np.full((4, 4), np.inf), "not a rigid transform"),
    ):
        with pytest.raises(SuppleError, match=words):
            run(program, wrong, root, "forces", "solve")
    np.testing.assert_array_equal(program.arrays["q"], before[0])
    np.testing.assert_array_equal(program.arrays["last_pose"], before[1])
    rounded = roots(7).astype(np.float32).astype(np.float64)
    run(program, pose, rounded, "forces", "solve")
    placed = program.arrays["last_root"]
    np.testing.assert_allclose(placed, rounded, atol=1e-6)
    np.testing.assert_allclose(placed[:3, :3] @ placed[:3, :3].T, np.eye(3), atol=1e-14)
    for vertex, force in ((-1, 0.0), (10**6, 0.0), (0, np.nan)):
        with pytest.raises(SuppleError, match="force is not finite, or acts on a vertex"):
            run(program, pose, rounded, "forces", "loads", forces={vertex: [force] * 3})


def test_engines_without_a_program_are_refused():
    with pytest.raises(SuppleError, match="steps of the engine full run in Python only"):
        ENGINES["full"].step_program  # noqa: B018


@pytest.mark.parametrize("pointer", [4, 8])
def test_an_image_is_reproducible_and_its_digest_covers_it(pointer):
    model = sample_model()
    image = memory_image(step_program(model), pointer)
    assert image == memory_image(step_program(model), pointer)
    assert struct.unpack_from("<8sIIQ", image) == (b"supplive", 1, pointer, len(image))
    assert image[24:56] == hashlib.blake2b(image[56:], digest_size=32).digest()


def test_arrays_that_overlap_stay_so_and_those_that_change_are_not_shared():
    square = np.eye(16, 24)
    row, table = square[3], np.arange(5.0)
    call = KernelCall(cholesky, (square, (row, table)), (row,))
    bound = ArgumentTable((square, 2.5))
    call = KernelCall(cholesky, (call.arguments, bound), (row,))
    arrays = {"square": square, "row": row, "table": table}
    image = memory_image(Program("test", 0.1, {"all": [call]}, arrays, {}, {}), 8)
    head = struct.unpack_from("<8Q", image, 56)
    directory = struct.unpack_from("<16Q", image, 120)
    listed = [struct.unpack_from("<6Q", image, directory[6] + 48 * i) for i in range(3)]
    (_, first_shared, first, *_), (_, second_shared, second, *_), (_, shared, at, *_) = listed
    assert (first_shared, second_shared, shared) == (0, 0, 1)
    assert second - first == 3 * 24 * 8
    content = image[head[2] :][: head[3]].ljust(head[4], b"\0")  # zeros at the end are not stored
    stored = np.frombuffer(content, count=square.size, offset=first)
    np.testing.assert_array_equal(stored, square.ravel())
    np.testing.assert_array_equal(np.frombuffer(image, count=5, offset=head[0] + at), table)


def test_arrays_with_gaps_are_refused():
    call = KernelCall(cholesky, (np.eye(16, 24)[:, ::2],))
    with pytest.raises(SuppleError, match="not contiguous"):
        memory_image(Program("test", 0.1, {"all": [call]}, {}, {}, {}), 8)
