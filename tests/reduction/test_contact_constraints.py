"""What contacts forbid and what they allow."""

from __future__ import annotations

import numpy as np
import pytest

from supple.errors import SuppleError
from supple.mesh.boundary_contacts import BoundaryContacts, find_boundary_contacts
from supple.mesh.obstacles import Plane
from supple.mesh.tets import TetMesh
from supple.reduction.contact_constraints import contact_constraints, one_way
from supple.scenes.bodies.beam import beam

KINDS = ("two-sided", "one-sided", "fixed")


@pytest.fixture(scope="module")
def blocks() -> tuple[TetMesh, np.ndarray]:
    """Two blocks, apart at rest, and the upper one brought down and aside, touching.

    Its vertices meet the lower one's triangles, not their corners.
    """
    one = beam((1.0, 1.0, 1.0), (5, 5, 5))
    other = beam((0.8, 1.0, 0.8), (4, 4, 4))
    vertices = np.concatenate([one.vertices, other.vertices + np.array([0, 3, 0])])
    mesh = TetMesh(vertices, np.concatenate([one.tets, other.tets + len(one.vertices)]))
    posed = np.concatenate([one.vertices, other.vertices + np.array([0.13, 1.02, 0.07])])
    return mesh, posed


@pytest.fixture(scope="module")
def contacts(blocks: tuple[TetMesh, np.ndarray]) -> BoundaryContacts:
    return find_boundary_contacts(blocks[0], None, blocks[1])


def upper(blocks: tuple[TetMesh, np.ndarray]) -> np.ndarray:
    return blocks[0].vertices[:, 1] > 2


def test_rows_have_length_one_and_are_as_many_as_contacts(
    blocks: tuple[TetMesh, np.ndarray], contacts: BoundaryContacts
) -> None:
    n = len(blocks[0].vertices)
    rows = {"two-sided": len(one_way(contacts)), "one-sided": len(contacts), "fixed": None}
    rows["fixed"] = 3 * len(contacts)
    for kind in KINDS:
        matrix = contact_constraints(contacts, n, kind=kind)  # type: ignore[arg-type]
        assert matrix.shape == (rows[kind], 3 * n)
        assert np.allclose(np.sqrt((matrix.multiply(matrix)).sum(axis=1)), 1)


def test_two_sides_move_together_and_slide_but_do_not_approach(
    blocks: tuple[TetMesh, np.ndarray], contacts: BoundaryContacts
) -> None:
    _, posed = blocks
    above = upper(blocks)
    two_sided = contact_constraints(contacts, len(posed))
    for axis in range(3):
        together = np.zeros_like(posed)
        together[:, axis] = 1
        assert np.allclose(two_sided @ together.ravel(), 0, atol=1e-12)
    # The upper block slides, and both turn about one axis.
    for along in ([1, 0, 0], [0, 0, 1]):
        slide = np.where(above[:, None], along, 0.0)
        assert np.allclose(two_sided @ slide.ravel(), 0, atol=1e-12)
    turn = np.cross([0.3, 0.5, -0.7], posed)
    # Vertices are a gap away from what they touch, and the turn moves them by that much more.
    assert np.abs(two_sided @ turn.ravel()).max() <= np.abs(contacts.gaps).max()
    approach = np.where(above[:, None], [0, -1, 0], 0.0)
    assert (np.abs(two_sided @ approach.ravel()) > 0.5).all()


def test_one_sided_contacts_slide_only(
    blocks: tuple[TetMesh, np.ndarray], contacts: BoundaryContacts
) -> None:
    _, posed = blocks
    matrix = contact_constraints(contacts, len(posed), kind="one-sided")
    for along in ([1, 0, 0], [0, 0, 1]):
        assert np.allclose(matrix @ np.tile(along, len(posed)), 0, atol=1e-12)
    # Not even together.
    assert np.allclose(np.abs(matrix @ np.tile([0, 1, 0], len(posed))), 1)
    free = np.random.default_rng(1).normal(size=posed.shape)
    free[contacts.vertices, 1] = 0
    assert np.allclose(matrix @ free.ravel(), 0, atol=1e-12)


def test_fixed_contacts_do_not_move(
    blocks: tuple[TetMesh, np.ndarray], contacts: BoundaryContacts
) -> None:
    n = len(blocks[1])
    matrix = contact_constraints(contacts, n, kind="fixed")
    motion = np.random.default_rng(2).normal(size=(n, 3))
    still = matrix @ motion.ravel()
    assert np.array_equal(still.reshape(-1, 3), motion[contacts.vertices])


def test_touching_patches_count_once_and_stay_flexible(
    blocks: tuple[TetMesh, np.ndarray], contacts: BoundaryContacts
) -> None:
    _, posed = blocks
    kept = contacts[one_way(contacts)]
    # Vertices of one side, none of which another contact touches.
    assert len(kept) < 0.7 * len(contacts)
    assert not np.isin(kept.vertices, kept.others[kept.barycentric > 1e-6]).any()
    # But what touches is still held everywhere: a left-out vertex has kept contacts around it.
    left_out = np.setdiff1d(contacts.vertices, kept.vertices)
    assert np.isin(left_out, kept.others).all()
    two_sided = contact_constraints(contacts, len(posed)).toarray()
    assert np.linalg.svd(two_sided, compute_uv=False).min() > 0.5
    # Were both ways kept, nearly dependent rows would be.
    both = np.zeros((len(contacts), len(posed)))
    both[np.arange(len(contacts)), contacts.vertices] = 1
    np.add.at(both, (np.arange(len(contacts))[:, None], contacts.others), -contacts.barycentric)
    assert np.linalg.svd(both, compute_uv=False).min() < 0.25


def test_the_finer_side_touches_the_coarser() -> None:
    coarse, fine = beam((1.0, 1.0, 1.0), (3, 3, 3)), beam((0.8, 1.0, 0.8), (8, 8, 8))
    for first, second in ((coarse, fine), (fine, coarse)):
        lifted = second.vertices + np.array([0, 3, 0])
        tets = np.concatenate([first.tets, second.tets + len(first.vertices)])
        mesh = TetMesh(np.concatenate([first.vertices, lifted]), tets)
        shift = np.array([0.13, 0.0, 0.07]) * (1 if first is coarse else -1) + [0, 1.01, 0]
        posed = np.concatenate([first.vertices, second.vertices + shift])
        contacts = find_boundary_contacts(mesh, None, posed)
        kept = contacts[one_way(contacts)]
        assert len(kept) == 81
        assert len(contacts) > 81
        assert ((kept.vertices >= len(first.vertices)) == (second is fine)).all()


def test_obstacles_do_not_move_along(blocks: tuple[TetMesh, np.ndarray]) -> None:
    mesh, posed = blocks
    ground = Plane((0, 0, 0), (0, 1, 0))
    contacts = find_boundary_contacts(mesh, None, posed, obstacles=[ground])
    on_ground = contacts[contacts.obstacles == 0]
    assert len(on_ground) == 36
    for kind in ("two-sided", "one-sided"):
        matrix = contact_constraints(on_ground, len(posed), kind=kind)
        assert np.allclose(matrix @ np.tile([0, 1, 0], len(posed)), 1)
        assert np.allclose(matrix @ np.tile([1, 0, 1], len(posed)), 0)
    everything = contact_constraints(contacts, len(posed))
    own = len(one_way(contacts)) - 36
    lift = everything @ np.tile([0, 1, 0], len(posed))
    assert np.allclose(lift, np.repeat([0, 1], [own, 36]), atol=1e-12)
    # A vertex that touches several things is fixed once.
    twice = find_boundary_contacts(mesh, None, posed, obstacles=[ground, ground])
    fixed = contact_constraints(twice[twice.obstacles >= 0], len(posed), kind="fixed")
    assert fixed.shape[0] == 3 * 36


def test_without_contacts_there_are_no_rows(blocks: tuple[TetMesh, np.ndarray]) -> None:
    mesh, _ = blocks
    none = find_boundary_contacts(mesh, None, mesh.vertices)
    for kind in KINDS:
        rows = contact_constraints(none, len(mesh.vertices), kind=kind)  # type: ignore[arg-type]
        assert rows.shape == (0, 3 * len(mesh.vertices))


def test_invalid_arguments_are_named(contacts: BoundaryContacts) -> None:
    with pytest.raises(SuppleError, match="two-sided, one-sided, fixed"):
        contact_constraints(contacts, 1000, kind="sticky")  # type: ignore[arg-type]
    with pytest.raises(SuppleError, match="there are 10 vertices"):
        contact_constraints(contacts, 10)
