"""Tables of contacts: colliders, flesh below the skin, and the contact system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from supple.arrays import Bools, Floats, Ints, ShortInts, Singles
from supple.compiled.simd import LANES
from supple.engines.common.contact.readings import Contacts
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.linalg.sparse import same_entries

#: Starts, indices and values of a sparse matrix.
SparseArrays = tuple[Ints, ShortInts, Singles]
#: Largest number of contacts at a time; further ones are dropped.
MAX_CONTACTS = 256


class Colliders(NamedTuple):
    """Colliders: each is a free object, a bone, or neither."""

    objects: Ints  # (colliders,) index of the free object, or −1
    bones: Ints  # (colliders,) index of the bone, or −1
    owners: Ints  # (s,) the collider of each sample
    centres: Floats  # (O, 3) centres of mass of the free objects
    rotations: Floats  # (colliders, 3, 3) from local axes to the world
    translations: Floats  # (colliders, 3) from local axes to the world
    hardness: Floats  # (colliders,) contact stiffness of free objects, N/m; 0 for others
    moves: Floats  # (colliders, 3) displacement of kinematic objects since the step began


class SkinFlesh(NamedTuple):
    """Properties of the flesh below the skin that contact forces depend on."""

    thickness: Floats  # (n̄,) distance from the skin to the bone below, m
    spread: SparseArrays  # CSR (n̄, p): weights of the outer flesh vertices at each skin vertex
    flexibility: SparseArrays  # CSR (p, p): ΔC, the normal flexibility that the handles lack, m/N
    motion: SparseArrays  # CSC (p, p), values (…, 3): motion by 1 N along the normal of one vertex


class ContactLaw(NamedTuple):
    """Coefficients of the contact forces."""

    hardness: float  # stiffness k of the skin on a collider, N/m³
    friction: float  # coefficient μ of Coulomb's law
    damping: float  # β/h: contact is damped as flesh is


class ObjectSamples(NamedTuple):
    """Balls that approximate the surfaces of the free objects."""

    centres: Floats  # (s, 3) in the world
    radii: Floats  # (s,) in m; 0 for a point of the surface
    owners: Ints  # (s,) the collider that each belongs to


class ContactSet(NamedTuple):
    """Contacts in arrays of fixed length.

    A point's number is its index for a skin vertex; n̄ + s for sample s of the S samples of objects;
    and n̄ + S + FINEST² t + k for part k of triangle t of the skin.
    """

    total: Ints  # (1,) number of contacts
    full: Bools  # (1,) whether some contacts exceeded the storage
    nearest: Floats  # (1,) lower bound of the gap of skin to obstacles and objects, m; 0 if unknown
    points: Ints  # point numbers, for friction; see above
    corners: Ints  # (…, 3) vertices of the skin
    barycentric: Floats  # (…, 3) weights of the contact on its corners; zero for objects
    colliders: Ints  # indices: obstacles, then objects, then bones
    depths: Floats  # penetration depths beyond the allowances, m
    allowances: Floats  # depths without resistance: the rig's own, or those at the start, m
    normals: Floats  # (…, 3) unit, out of the collider
    positions: Floats  # (…, 3) in the world
    areas: Floats  # area of the skin that a contact represents, m²; 0 for objects
    starts: Ints  # (… + 1,) first entry of each contact in `members`
    members: Ints  # vertices of the skin that share the contact's force
    fractions: Floats  # fraction of the contact's force on each of `members`
    touching: Ints  # (2, …) work: vertices in contact, and the contact that represents each
    loads: Floats  # (…,) work: area, or weight, of each vertex of `touching`


def empty_contact_set(n_skin: int) -> ContactSet:
    """Return a contact set without contacts for a skin of `n_skin` vertices."""
    room = 2 * n_skin + 3 * MAX_CONTACTS
    return ContactSet(
        np.zeros(1, np.int64),
        np.zeros(1, np.bool_),
        np.zeros(1),
        np.zeros(MAX_CONTACTS, np.int64),
        np.zeros((MAX_CONTACTS, 3), np.int64),
        np.zeros((MAX_CONTACTS, 3)),
        np.zeros(MAX_CONTACTS, np.int64),
        np.zeros(MAX_CONTACTS),
        np.zeros(MAX_CONTACTS),
        np.zeros((MAX_CONTACTS, 3)),
        np.zeros((MAX_CONTACTS, 3)),
        np.zeros(MAX_CONTACTS),
        np.zeros(MAX_CONTACTS + 1, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room),
        np.zeros((2, room), np.int64),
        np.zeros(room),
    )


class ContactSystem(NamedTuple):
    """Work arrays and results of a step's contacts, and the friction anchors."""

    rows: Floats  # (3 MAX_CONTACTS, …) motion along normal and two tangents, by coordinate
    indices: Ints  # (MAX_CONTACTS, …) coordinates of the columns of `rows`, ascending
    counts: Ints  # (MAX_CONTACTS,) numbers of columns
    packed: Floats  # work: scaled normal rows, below the block for their product
    columns: Ints  # (N,) coordinates that contacts move
    column_slots: Ints  # (N,) index of each coordinate in `columns`, or −1
    listed: Ints
    compliance: Floats  # (MAX_CONTACTS, MAX_CONTACTS) of contacts, m/N
    factor: Floats  # Cholesky factor of the compliance of the active contacts
    active: Ints  # (1 + MAX_CONTACTS,) number of active contacts, and their indices
    forces: Floats  # (MAX_CONTACTS,) normal forces, N; by `apply_change` those the solver applied
    softening: Floats  # (MAX_CONTACTS,) fraction of the flesh's flexibility left at this depth
    base: Floats  # (MAX_CONTACTS,) elastic forces at the start of the iteration, N
    elastic: Floats  # (MAX_CONTACTS,) elastic forces after the change, without damping, N
    separation: Floats  # (MAX_CONTACTS,) motion out of the collider since the step began, m
    predicted_depths: Floats  # (MAX_CONTACTS,) depths after the change, linearised, m
    friction_forces: Floats  # (MAX_CONTACTS, 3) in the world, N
    weights: Floats  # (MAX_CONTACTS,) stiffness of the friction springs, N/m
    stiffness: Floats  # (MAX_CONTACTS,) stiffness of the skin on the collider, N/m, without ΔC
    offsets: Floats  # (MAX_CONTACTS, 2) tangential distance from the anchor, m
    tangents: Floats  # (MAX_CONTACTS, 2, 3) unit tangents
    anchors: Floats  # (…, 3) friction anchor of each point, in local axes of its collider
    anchor_colliders: Ints  # (…,) collider of the anchor, or −1
    normal_forces: Floats  # (…,) normal force on each point in the step before, N
    anchored: Ints  # (1 + MAX_CONTACTS,) number of anchored points, and their indices
    in_contact: Bools  # (…,) work
    released: Bools  # (…,) points that pulled in an iteration of this step, released in the next
    released_list: Ints  # (1 + MAX_CONTACTS,) number of released points, and their indices
    load_starts: Ints  # (… + 1,) first entry of each contact in `load_columns` and `load_values`
    load_columns: ShortInts  # outer flesh vertices that a contact loads
    load_values: Floats  # their fractions of its force
    work: Floats


def empty_contact_system(size: int, n_points: int, n_outer: int, n_loads: int) -> ContactSystem:
    """Return a contact system of `size` coordinates, with room for these numbers of entries."""
    wide = -(-size // LANES) * LANES
    return ContactSystem(
        np.zeros((3 * MAX_CONTACTS, size)),
        np.zeros((MAX_CONTACTS, size), np.int64),
        np.zeros(MAX_CONTACTS, np.int64),
        np.zeros((wide + MAX_CONTACTS + LANES, wide)),
        np.zeros(size, np.int64),
        np.full(size, -1, np.int64),
        np.zeros(MAX_CONTACTS // LANES + 1, np.int64),
        np.zeros((MAX_CONTACTS, MAX_CONTACTS)),
        np.zeros((MAX_CONTACTS, MAX_CONTACTS)),
        np.zeros(MAX_CONTACTS + 1, np.int64),
        np.zeros(MAX_CONTACTS),
        np.zeros(MAX_CONTACTS),
        np.zeros(MAX_CONTACTS),
        np.zeros(MAX_CONTACTS),
        np.zeros(MAX_CONTACTS),
        np.zeros(MAX_CONTACTS),
        np.zeros((MAX_CONTACTS, 3)),
        np.zeros(MAX_CONTACTS),
        np.zeros(MAX_CONTACTS),
        np.zeros((MAX_CONTACTS, 2)),
        np.zeros((MAX_CONTACTS, 2, 3)),
        np.zeros((n_points, 3)),
        np.full(n_points, -1, np.int64),
        np.zeros(n_points),
        np.zeros(MAX_CONTACTS + 1, np.int64),
        np.zeros(n_points, np.bool_),
        np.zeros(n_points, np.bool_),
        np.zeros(MAX_CONTACTS + 1, np.int64),
        np.zeros(MAX_CONTACTS + 1, np.int64),
        np.zeros(n_loads, np.int32),
        np.zeros(n_loads),
        np.zeros(max(size, n_outer, MAX_CONTACTS) + 64),
    )


def skin_flesh(model: SoftSkeletonModel) -> SkinFlesh:
    """Return the flesh below the skin of a model."""
    return SkinFlesh(
        model.thickness,
        csr_arrays(model.spread),
        csr_arrays(model.flexibility),
        csc_arrays(model.motion),
    )


def csr_arrays(matrix: sp.csr_array) -> SparseArrays:
    """Return row starts, columns and values in single precision, for compiled loops.

    Model files store single precision, and half the memory keeps more of it in the cache.
    """
    csr = sp.csr_array(matrix)
    short = csr.indices.astype(np.int32), np.ascontiguousarray(csr.data, np.float32)
    return csr.indptr.astype(np.int64), *short


def csc_arrays(motion: Sequence[sp.csr_array]) -> SparseArrays:
    """Return column starts, rows, and (…, 3) values of three matrices x, y, z."""
    columns = same_entries([sp.csr_array(each.T) for each in motion])
    values = np.column_stack([each.data for each in columns]).astype(np.float32)
    return columns[0].indptr.astype(np.int64), columns[0].indices.astype(np.int32), values


def skin_contacts(contacts: ContactSet, system: ContactSystem, count: int) -> Contacts:
    """Return the contacts on the skin among the first `count`, with applied forces."""
    on_skin = np.flatnonzero(contacts.areas[:count] > 0)
    along, nearest = system.forces[on_skin], contacts.barycentric[on_skin].argmax(axis=1)
    return Contacts(
        contacts.corners[on_skin, nearest],
        contacts.positions[on_skin],
        along[:, None] * contacts.normals[on_skin] + system.friction_forces[on_skin],
        along / contacts.areas[on_skin],
        contacts.colliders[on_skin],
    )


def add_normal_forces(contacts: ContactSet, system: ContactSystem, count: int, out: Floats) -> None:
    """Add normal forces in N of the first `count` contacts to the vertices that share them."""
    along = np.maximum(system.forces[:count], 0.0)
    lengths = np.diff(contacts.starts[: count + 1])
    total = int(lengths.sum())
    shares = np.repeat(along, lengths) * contacts.fractions[:total]
    np.add.at(out, contacts.members[:total], shares)
