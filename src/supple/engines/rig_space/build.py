"""Building a rig-space model of a character."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from supple.anatomy.anatomy import Anatomy
from supple.anatomy.body_plan import anatomical_material, plan_body
from supple.anatomy.flesh_presets import flesh_material
from supple.anatomy.painted_material import pose_materials
from supple.arrays import Floats, Ints
from supple.checks import checked_count, shown
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.rig_space.condensation import (
    Condensation,
    Snapshot,
    condensed_columns,
    held_modes,
    interior_snapshots,
    interior_vertices,
    reduced,
    snapshot_modes,
    vertices_near,
)
from supple.engines.rig_space.flesh_rig import (
    CorotatedFlesh,
    FleshRig,
    VertexRotations,
    affine_entries,
)
from supple.engines.rig_space.free_parameters import (
    Free,
    entries_by_pattern,
    free_entries,
    is_soft_part,
)
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.state_cubature import train_cubature
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.mesh.embedding import embed_parts
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character
from supple.rig.jacobian import rig_jacobian
from supple.rig.poses.example_poses import farthest_poses
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import skinned_rigs
from supple.rig.stored.packed_arrays import rounded
from supple.rig.stored_rigs import rounded_rigs
from supple.rig.tets.bones import Bones, held_tets
from supple.rig.tets.skinned_tets import rig_on_tets
from supple.rig.tets.surface_samples import typical_edge
from supple.rig.tets.tet_rig import check_rest

#: Lower and upper bound of all parameters, or by names and patterns.
Bounds = tuple[float, float] | Mapping[str, tuple[float, float]] | None
#: Number of key poses for training the cubature.
TRAINED_POSES = 6
#: Width, in tets, of the simulated layer around the flesh that free parameters move.
RINGS = 2
#: Number of states for interior modes and cubature.
SNAPSHOTS = 96
#: Number of cubature tets: a base, plus some per coordinate.
FEWEST_TETS, TETS_PER_COORDINATE = 288, 2
#: Largest flesh share φ of skin that a free shape moves; of cheeks, lips, bellies and the like; and
#: the relative displacement from which it applies.
SHARE, SOFT_SHARE, FULL = 0.5, 0.95, 0.5


def build(
    character: Character,
    free: Free = "auto",
    *,
    tets: int | TetMesh = 4_000,
    bones: Bones | ArrayLike | None = None,
    anatomy: Anatomy | Literal["auto"] | None = "auto",
    material: Material | None = None,
    young: ArrayLike | None = None,
    poisson: ArrayLike | None = None,
    modes: int = 24,
    cubature: int | None = None,
    bounds: Bounds = None,
    seed: int = 0,
    log: BuildLog | None = None,
) -> RigSpaceModel:
    """Build a model whose free parameters physics moves (hahn2013, and METHOD §11).

    Parameters
    ----------
    character
        A surface, its rig and its motions; see `supple.load`.
    free
        Parameters to move: names with ``*``, or ``"auto"``; see `free_entries`.
    tets
        Number of tets, or a `TetMesh` that fills the surface.
    bones
        Segments of bone, or tet vertices in bone; by default from the anatomy, and none without a
        skeleton.
    anatomy
        Bone and flesh of the character: ``"auto"``, an `Anatomy`, None for no bones.
    material, young, poisson
        Material of the flesh, by default from the anatomy or the body's size; and painted
        constants that override it, per surface vertex or tet.
    modes
        Number of modes of the interior flesh with the surface fixed.
    cubature
        Number of tets evaluated in a step; by default 288, or 144 for shapes only, plus two per
        coordinate.
    bounds
        (lower, upper) for all free parameters, or by names and patterns. By default weights of
        shapes are bounded by 0 and 1, or the range of the motions, and other parameters are not
        bounded.
    seed
        Random seed of the training states. The same seed gives the same bytes.
    log
        Receives stages and progress.

    Raises
    ------
    SuppleError
        If a name is unknown, nothing is free, or the character is not suitable.
    """
    if not isinstance(character, Character):
        raise SuppleError(f"build needs a Character, not {shown(character)}; see supple.load")
    log = BuildLog() if log is None else log
    checked_count("modes", modes, 0)
    surface, entries = character.surface, free_entries(character, free)
    lower, upper = _bounds(character, entries, bounds)
    with single_threaded():
        with log.stage("tets"):
            mesh, rig, held, flesh = _flesh(
                character, entries, tets, bones, anatomy, material, young, poisson, log
            )
        with log.stage("condensation"):
            # Rounded as in a model file, so that a saved model steps to the same bits.
            rigs = rounded_rigs({"rig": character.rig, "tet_rig": rig, "mesh": mesh})
            mesh = rigs["mesh"]
            body = ElasticBody(mesh, flesh)
            flesh_rig = FleshRig(rigs["tet_rig"], entries, held)
            flesh_rig.set_key(np.asarray(rigs["rig"].rest_pose, np.float64))
            flesh_rig.move(np.zeros(len(entries)))
            skin = unresolved_stiffness(surface, rigs["rig"], mesh, flesh_rig, flesh)
            reduction = _reduce(flesh_rig, body, held, _trained_poses(character), modes, seed)
        with log.stage("cubature"):
            size = reduction.condensed.mass.shape[0]
            fewest = FEWEST_TETS // 2 if flesh_rig.affine else FEWEST_TETS
            count = fewest + TETS_PER_COORDINATE * size if cubature is None else cubature
            trained = train_cubature(
                reduction.flesh,
                body,
                reduction.condensed,
                reduction.snapshots,
                checked_count("cubature", count),
                seed,
            )
    return RigSpaceModel(
        name=character.name,
        surface=SurfaceMesh(rounded(surface.vertices).astype(np.float64), surface.triangles),
        **rigs,
        held=held,
        material=flesh,
        entries=entries,
        lower=lower,
        upper=upper,
        condensed=reduction.condensed,
        skin=skin,
        cubature=trained,
        motions=dict(character.motions),
    )


class _Reduction(NamedTuple):
    """Flesh in coordinates of parameters and modes, and the snapshots it was made from."""

    flesh: CorotatedFlesh
    condensed: Condensation
    snapshots: list[Snapshot]


def _reduce(
    rig: FleshRig, body: ElasticBody, held: Ints, poses: list[Floats], modes: int, seed: int
) -> _Reduction:
    """Return the flesh in coordinates of free parameters and `modes` interior modes."""
    jacobian, every = rig.jacobian.copy(), interior_vertices(body.mesh, held)
    interior = every[vertices_near(body.mesh, _jacobians(rig, poses), RINGS)[every]]
    rotations = VertexRotations(body.mesh, interior)
    columns = condensed_columns(body, jacobian, interior)
    condensed = reduced(body, jacobian, interior, columns)
    flesh = CorotatedFlesh(rig, rotations, interior, condensed.corrections)
    rng = np.random.default_rng(seed)
    snapshots = interior_snapshots(flesh, body, condensed, poses, SNAPSHOTS, rng)
    ringing = held_modes(body, interior, modes // 4)
    free = (3 * interior[:, None] + np.arange(3)).ravel()
    inner = body.stiffness(body.rest)[free][:, free]
    bent = snapshot_modes(snapshots, inner, ringing, modes - ringing.shape[2])
    corrections = np.concatenate([columns, ringing, bent], axis=2)
    condensed = reduced(body, jacobian, interior, corrections)
    flesh = CorotatedFlesh(rig, rotations, interior, condensed.corrections)
    corrections_of_all = np.zeros((len(every), *condensed.corrections.shape[1:]))
    corrections_of_all[np.searchsorted(every, interior)] = condensed.corrections
    return _Reduction(flesh, replace(condensed, corrections=corrections_of_all), snapshots)


def _jacobians(rig: FleshRig, poses: list[Floats]) -> Iterator[Floats]:
    """Yield ∂Φ/∂p at key poses, one at a time to save memory."""
    for pose in poses:
        rig.set_key(pose)
        rig.move(np.zeros(len(rig.entries)))
        yield rig.jacobian


def _flesh(
    character: Character,
    entries: Ints,
    tets: int | TetMesh,
    bones: Bones | ArrayLike | None,
    anatomy: Anatomy | Literal["auto"] | None,
    material: Material | None,
    young: ArrayLike | None,
    poisson: ArrayLike | None,
    log: BuildLog,
) -> tuple[TetMesh, Rig, Ints, Material]:
    """Return tets, the rig on them, their vertices in bone, and their material."""
    surface = character.surface
    rig = character.rig
    if bones is None and anatomy is not None and has_anatomy(rig):
        soft = shaped_flesh(character, entries)
        plan = plan_body(soft, tets, None if isinstance(anatomy, str) else anatomy)
        tets, bones = plan.mesh, plan.held
        if material is None:
            material = anatomical_material(plan.anatomy)
            young = plan.factors * np.asarray(material.young) if young is None else young
    if material is None:
        material = flesh_material(character.surface.size)
    filled = tets if isinstance(tets, TetMesh) else tetrahedralise(surface, tets=tets)
    if isinstance(bones, Bones):
        bones = held_tets(bones, surface, filled).vertices
    held = checked_held(bones, len(filled.vertices))
    log.report(0.5, "transferring the rig to the tets")
    check_rest(rig, surface)
    tet_rig = rig_on_tets(rig, surface, filled)
    embedding = embed_parts(surface, surface.vertices, np.arange(len(surface.vertices)), filled)
    materials = pose_materials(material, filled, embedding, 1, young=young, poisson=poisson)
    return filled, tet_rig, held, materials[0]


def prepared_character(character: Character, options: Mapping[str, Any]) -> Character | None:
    """Return a character with flesh where a build's options make shapes free.

    Return None if the rig has no bones (`has_anatomy`).
    """
    if not has_anatomy(character.rig):
        return None
    with catch_warnings():
        simplefilter("ignore")  # the build warns
        entries = free_entries(character, options.get("free", "auto"))
    return shaped_flesh(character, entries)


def has_anatomy(rig: Rig) -> bool:
    """Return whether a rig has one skeleton of several joints, or one joint and shapes.

    Other deformers, such as a wire, would bend bone: a trunk with a core of bone swung by 0.3 % of
    the size, a trunk of flesh by 9 %.
    """
    skinned = skinned_rigs(rig)
    if len(skinned) != 1:
        return False
    several = bool(np.ptp(skinned[0].joints[:, 0]) > 0)
    return several or bool(affine_entries(rig, np.arange(len(rig.parameters))).any())


def shaped_flesh(character: Character, entries: Ints) -> Character:
    """Return a character painted as flesh where the shapes among the free parameters move its skin.

    A head is hard, but cheeks with shapes are not: as bone they had no mass, and their weights
    jumped between bounds in every frame.
    """
    rig = character.rig
    shapes = entries[affine_entries(rig, entries)]
    if not len(shapes):
        return character
    flesh = np.zeros(rig.n_vertices)
    rest, column = np.array(rig.rest_pose, np.float64), np.empty((rig.n_vertices, 3, 1))
    for entry in shapes:  # one at a time to save memory
        rig_jacobian(rig, np.array([entry])).evaluate(rest, column)
        distances = np.linalg.norm(column[:, :, 0], axis=1)
        relative = distances / max(float(distances.max()), 1e-300)
        share = SOFT_SHARE if is_soft_part(rig.parameters[entry].name) else SHARE
        np.maximum(flesh, share * np.minimum(relative / FULL, 1.0), out=flesh)
    painted = dict(character.painted)
    flesh *= 1 - np.asarray(painted.get("rigid", 0.0))  # painted as rigid
    painted["flesh"] = np.maximum(painted.get("flesh", 0.0), flesh)
    return replace(character, painted=painted)


def checked_held(bones: ArrayLike | None, count: int) -> Ints:
    """Return indices of tet vertices in bone, ascending; empty for None."""
    listed = np.asarray([] if bones is None else bones)
    if listed.size and (listed.ndim != 1 or listed.dtype.kind not in "iu" or listed.min() < 0):
        raise SuppleError("bones must be a list of indices of tet vertices")
    if listed.size and listed.max() >= count:
        raise SuppleError(f"bones: tet vertex {listed.max()} does not exist; use 0 to {count - 1}")
    return np.unique(listed.astype(np.int64))


def _bounds(character: Character, entries: Ints, bounds: Bounds) -> tuple[Floats, Floats]:
    """Return lower and upper bounds (k,) of the free parameters, infinite where there are none."""
    lower, upper = np.full(len(entries), -np.inf), np.full(len(entries), np.inf)
    parameters = [character.rig.parameters[entry] for entry in entries]
    shapes = affine_entries(character.rig, entries)
    lower[shapes], upper[shapes] = 0.0, 1.0
    rest = np.array([parameter.rest for parameter in parameters])
    rows = [rest[None], *(motion.poses[:, entries] for motion in character.motions.values())]
    keyed = np.concatenate(rows)
    lower = np.minimum(lower, keyed.min(axis=0))
    upper = np.maximum(upper, keyed.max(axis=0))
    if bounds is None:
        return lower, upper
    by_name: dict[str, Any] = dict(bounds) if isinstance(bounds, Mapping) else {"*": bounds}
    for pattern, pair in by_name.items():
        try:
            low, high = (float(value) for value in pair)
        except (TypeError, ValueError):
            raise SuppleError(
                f"bounds of {pattern} are {shown(pair)}; give (lower, upper)"
            ) from None
        if not low <= high:
            raise SuppleError(f"bounds of {pattern} are {low:g} to {high:g}; give the lower first")
        if pattern == "*":
            lower[:], upper[:] = low, high
            continue
        # Patterns may match parameters that are not free.
        selected = np.isin(entries, entries_by_pattern(character.rig.parameters, pattern))
        lower[selected], upper[selected] = low, high
    return lower, upper


def _trained_poses(character: Character) -> list[Floats]:
    """Return key poses for training: rest, and poses of the motions that differ most."""
    frames = character.sampled_poses()
    chosen = farthest_poses(character.rig, frames, min(TRAINED_POSES, len(frames)))
    return [np.asarray(character.rig.rest_pose, np.float64), *frames[chosen]]


def unresolved_stiffness(
    surface: SurfaceMesh, rig: Rig, mesh: TetMesh, flesh_rig: FleshRig, material: Material
) -> Floats:
    """Return Σ_v a_v E_v/ℓ r_vᵀr_v (k, k), with r the skin's motion by shapes minus that of tets.

    a are areas, E Young's moduli, and ℓ is the tets' edge length: a cell of width ℓ that the skin
    shears by r resists like a layer of that thickness. Without this stiffness, eight shapes of
    cheeks and neck that move three vertices of a coarse head can cancel each other: weights went
    from 0 to 1 in a step. `flesh_rig` moves the tets; it is at rest, with its
    Jacobian.
    """
    k = len(flesh_rig.entries)
    shapes = np.flatnonzero(flesh_rig.shapes)
    stiffness = np.zeros((k, k))
    if not len(shapes):
        return stiffness
    n = len(surface.vertices)
    embedding = embed_parts(surface, surface.vertices, np.arange(n), mesh)
    skin = np.empty((n, 3, len(shapes)))
    rig_jacobian(rig, flesh_rig.entries[shapes]).evaluate(np.array(rig.rest_pose, np.float64), skin)
    tets = flesh_rig.jacobian[:, :, shapes].reshape(len(mesh.vertices), -1)
    unresolved = skin.reshape(n, -1) - embedding @ tets
    stiffnesses = (
        surface.vertex_areas() * _skin_young(mesh, material, embedding) / typical_edge(mesh)
    )
    unresolved = (np.sqrt(stiffnesses)[:, None] * unresolved).reshape(3 * n, len(shapes))
    stiffness[np.ix_(shapes, shapes)] = unresolved.T @ unresolved
    return stiffness


def _skin_young(mesh: TetMesh, material: Material, embedding: csr_array) -> Floats:
    """Return the mean Young's modulus (n̄,) in Pa of the tets around each vertex of the skin."""
    young = np.broadcast_to(np.asarray(material.young, np.float64), (len(mesh.tets),))
    corners, n = mesh.tets.ravel(), len(mesh.vertices)
    total = np.bincount(corners, np.repeat(young, 4), n)
    firm = total / np.maximum(np.bincount(corners, minlength=n), 1)
    # Bounded, since skin outside the tets is extrapolated.
    return np.clip(embedding @ firm, young.min(), young.max())
