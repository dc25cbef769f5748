"""The reduced model of one pose, before it knows of the others (xu2016 §5 to §7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.compiled import at_most_threads
from supple.elastic import ElasticBody, Material
from supple.errors import SuppleError
from supple.linalg.fortran import single_threaded
from supple.mesh import TetMesh
from supple.mesh.contact import Contacts, find_contacts
from supple.mesh.obstacles import Obstacle
from supple.reduction.contact_constraints import ContactKind, contact_constraints
from supple.reduction.pose_basis import pose_basis
from supple.reduction.region import Region

__all__ = ["PoseModel", "PoseTask", "reduce_pose", "reduced_stiffness"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PoseTask:
    """All that one pose's basis is computed from; can be sent to another process.

    Attributes
    ----------
    name
        For messages.
    mesh
        The tets at the neutral pose.
    material
        At this pose.
    rest
        (n, 3) Φ(p), the rest shape at this pose.
    regions, modes
        Where bases live, and how many columns each has.
    contacts
        How contact binds, or None to ignore it.
    obstacles
        What the body may rest against.
    """

    name: str
    mesh: TetMesh
    material: Material
    rest: Floats
    regions: tuple[Region, ...]
    modes: tuple[int, ...]
    contacts: ContactKind | None = "two-sided"
    obstacles: tuple[Obstacle, ...] = ()


@dataclass(frozen=True, eq=False)
class PoseModel:
    """What `reduce_pose` finds.

    Attributes
    ----------
    rest
        (n, 3) the rest shape.
    bases
        For each region (k, 3, r), mass-orthonormal within the region, in world space.
    stiffnesses
        For each region UᵀKU at rest, (r, r).
    contacts
        Where the body touches itself or obstacles; None when nobody looked.
    constraints
        Number of rows that hold it there.
    """

    rest: Floats
    bases: tuple[Floats, ...]
    stiffnesses: tuple[Floats, ...]
    contacts: Contacts | None
    constraints: int


def reduce_pose(task: PoseTask) -> PoseModel:
    """Modes, derivatives and their mass-PCA in every region, at one pose.

    One thread is enough for one pose: poses run beside each other.

    Raises
    ------
    SuppleError
        That names the pose.
    """
    try:
        return _reduced(task)
    except SuppleError as error:
        raise SuppleError(f'pose "{task.name}": {error}') from error


def _reduced(task: PoseTask) -> PoseModel:
    with single_threaded(), at_most_threads(1):  # also where this runs in a process of its own
        body = ElasticBody(task.mesh, task.material)
        stiffness = body.stiffness(task.rest, task.rest, out=body.pattern.zeros())
        contacts, rows = _contact_rows(task)
        masses = body.vertex_masses()
        bases = _region_bases(task, body, stiffness, masses, rows)
        stiffnesses = tuple(
            reduced_stiffness(stiffness, region, basis)
            for region, basis in zip(task.regions, bases, strict=True)
        )
    return PoseModel(task.rest, bases, stiffnesses, contacts, 0 if rows is None else rows.shape[0])


def _region_bases(
    task: PoseTask,
    body: ElasticBody,
    stiffness: sp.csr_array,
    masses: Floats,
    rows: sp.csr_array | None,
) -> tuple[Floats, ...]:
    """Of each region in turn, each with what those before it do not hold."""
    root = np.repeat(np.sqrt(masses), 3)[:, None]
    bases: list[Floats] = []
    together = np.empty((3 * len(masses), 0))
    for region, count in zip(task.regions, task.modes, strict=True):
        made = pose_basis(
            body,
            task.rest,
            stiffness,
            masses,
            region,
            count,
            constraints=rows,
            beside=together if bases else None,
        )
        bases.append(made.vectors)
        if len(bases) < len(task.regions):
            own = np.zeros((len(root), count))
            own[region.unknowns] = root[region.unknowns] * made.vectors.reshape(-1, count)
            frame, _ = np.linalg.qr(np.hstack([root * together, own]))
            together = frame / np.where(root > 0, root, 1.0)
    return tuple(bases)


def reduced_stiffness(stiffness: sp.csr_array, region: Region, basis: Floats) -> Floats:
    """UᵀKU of a region's basis (k, 3, r): symmetric, (r, r)."""
    columns = basis.reshape(-1, basis.shape[2])
    unknowns = region.unknowns
    product = columns.T @ (stiffness[unknowns][:, unknowns] @ columns)
    return (product + product.T) / 2


def _contact_rows(task: PoseTask) -> tuple[Contacts | None, sp.csr_array | None]:
    if task.contacts is None:
        return None, None
    found = find_contacts(task.mesh, None, task.rest, obstacles=task.obstacles)
    return found, contact_constraints(found, len(task.rest), kind=task.contacts)
