"""`supple bench rig`: times of evaluating rigs, beside a dense product on the same core."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.progress_bar import console, first_use_message, progress_bar
from supple.errors import SuppleError

DEFAULT_VERTICES = 15_000
DGEMM_SIZE = 256
JOINTS, INFLUENCES = 60, 4
#: What linear blend skinning of the default may cost, in products of that size.
SKINNING_BOUND = 0.25
SECONDS_EACH = 0.3
#: Places around which the arm's hand goes; a solve is their mean, for they differ.
TARGETS = 60


def measure(vertices: int = DEFAULT_VERTICES, *, quiet: bool = False) -> list[dict[str, Any]]:
    """Time each kind of rig: milliseconds, nanoseconds a vertex, and in dense products.

    The product is 256³ in float64 on one core, as all rigs here run on one; `bound` is the ratio
    that a row must stay below, where there is one.
    """
    if not 1 <= vertices <= 5_000_000:
        raise SuppleError(f"{vertices:,} vertices; choose between 1 and 5,000,000")
    first_use_message(quiet)
    cases = _cases(vertices)
    rows: list[dict[str, Any]] = []
    with progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=len(cases))
        for name, count, function in cases:
            progress.update(task, description=name)
            rows.append({"rig": name, "vertices": count, **_against_dgemm(function)})
            progress.advance(task)
    for row in rows:
        if not row["vertices"]:
            row["ms"] /= TARGETS
            row["ratio"] /= TARGETS
        row["ns_per_vertex"] = 1e6 * row["ms"] / row["vertices"] if row["vertices"] else None
        row["bound"] = SKINNING_BOUND if row["rig"] == "linear blend" else None
        per_vertex = row["vertices"] / DEFAULT_VERTICES
        row["within_bound"] = row["bound"] is None or row["ratio"] < row["bound"] * max(
            per_vertex, 1
        )
    return rows


def table(rows: list[dict[str, Any]]) -> None:
    """Print the rows for people."""
    from rich.table import Table

    grid = Table(
        title=f"Rigs on one core, {JOINTS} joints, {INFLUENCES} influences a vertex",
        caption=f"ratio: to a {DGEMM_SIZE}³ product in float64 on one core, in the same run",
    )
    grid.add_column("rig")
    for heading in ("vertices", "ms", "ns/vertex", "dgemm ms", "ratio", "bound"):
        grid.add_column(heading, justify="right")
    for row in rows:
        each = "–" if row["ns_per_vertex"] is None else f"{row['ns_per_vertex']:.1f}"
        bound = "–" if row["bound"] is None else f"{row['bound']:.2f}"
        numbers = [f"{row['ms']:.3f}", each, f"{row['dgemm_ms']:.3f}", f"{row['ratio']:.2f}", bound]
        count = f"{row['vertices']:,}" if row["vertices"] else "–"
        grid.add_row(row["rig"], count, *numbers)
    console.print(grid)


def _against_dgemm(function: Callable[[], Any]) -> dict[str, float]:
    """Return the shortest times of both, taken in turns: whatever slows one slows the other."""
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    a, b = rng.random((2, DGEMM_SIZE, DGEMM_SIZE))
    product = np.empty_like(a)
    ours: list[float] = []
    theirs: list[float] = []
    with threadpool_limits(1):
        function()
        until = perf_counter() + SECONDS_EACH
        while perf_counter() < until or len(ours) < 5:
            ours += [_timed(function) for _ in range(5)]
            theirs += [_timed(lambda: np.dot(a, b, out=product)) for _ in range(5)]
    best, dense = 1e3 * min(ours), 1e3 * min(theirs)
    return {"ms": best, "dgemm_ms": dense, "ratio": best / dense}


def _timed(function: Callable[[], Any]) -> float:
    began = perf_counter()
    function()
    return perf_counter() - began


def _cases(count: int) -> list[tuple[str, int, Callable[[], Any]]]:
    from supple.rig.deformers.blend_shapes import BlendShapeRig
    from supple.rig.deformers.chain import RigChain
    from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
    from supple.rig.deformers.twist import Twist
    from supple.rig.deformers.wire import Wire

    rng = np.random.default_rng(0)
    linear, dual = _skinned(rng, count, "linear"), _skinned(rng, count, "dual-quaternion")
    pose = 0.3 * rng.standard_normal(len(linear.parameters))
    out = np.empty((count, 3))
    subset = np.sort(rng.choice(count, min(count, 500), replace=False))
    shapes = BlendShapeRig(linear, 0.01 * rng.standard_normal((4, count, 3)), list("abcd"))
    poses = np.stack([np.zeros_like(pose), pose, -pose])
    corrections = 0.01 * rng.standard_normal((3, count, 3))
    corrected = PoseSpaceDeformation(linear, poses, corrections, np.ones_like(pose))
    curve = np.stack([np.zeros(8), np.linspace(0, 1.8, 8), np.zeros(8)], axis=1)
    wire = Wire(linear.vertices, curve, 0.5)
    chain = RigChain(Twist(linear.vertices), wire, linear)
    bent = 0.1 * rng.standard_normal(len(chain.parameters))
    return [
        ("linear blend", count, lambda: linear(pose, out=out)),
        ("dual quaternions", count, lambda: dual(pose, out=out)),
        (f"linear blend, {len(subset)} of them", len(subset), lambda: linear(pose, subset)),
        ("4 blend shapes + linear", count, lambda: shapes(np.append(pose, np.ones(4)))),
        ("3 pose corrections + linear", count, lambda: corrected(0.5 * pose)),
        ("wire", count, lambda: wire(bent[2:26])),
        ("twist + wire + linear", count, lambda: chain(bent)),
        ("inverse kinematics, 3 bones", 0, _arm_case(cold=True)),
        ("the same, from the last solution", 0, _arm_case(cold=False)),
    ]


def _skinned(rng: np.random.Generator, count: int, method: Any) -> Any:
    """Make a cloud of vertices the size of a person that follow four of 60 joints each."""
    from supple.rig.skeleton.joint_pose import JointPose
    from supple.rig.skeleton.joints import Skeleton
    from supple.rig.skeleton.skinning import SkinnedRig

    parents = [-1, *(int(rng.integers(max(0, j - 4), j)) for j in range(1, JOINTS))]
    skeleton = Skeleton(
        [f"joint{j}" for j in range(JOINTS)], parents, 0.1 * rng.standard_normal((JOINTS, 3))
    )
    vertices = rng.uniform([-0.4, 0, -0.2], [0.4, 1.8, 0.2], (count, 3))
    joints = rng.integers(0, JOINTS, (count, INFLUENCES))
    weights = rng.uniform(0.1, 1, (count, INFLUENCES))
    bind = np.linalg.inv(skeleton.rest_world())
    return SkinnedRig(JointPose(skeleton), vertices, joints, weights, bind, method)


def _arm_case(*, cold: bool) -> Callable[[], Any]:
    """Return an arm of three bones that follows a target; from rest each time when cold."""
    from supple.rig.skeleton.inverse_kinematics import InverseKinematics
    from supple.rig.skeleton.joint_pose import JointPose
    from supple.rig.skeleton.joints import Skeleton

    places = [[0.0, 1.4, 0], [0.3, 0, 0], [0.25, 0, 0]]
    skeleton = Skeleton(["upper", "fore", "hand"], [-1, 0, 1], places)
    limits = {"fore": ([0.0, 0, 0], [0.0, 0, 2.6]), "hand": ([-0.3, -0.5, -1], [0.3, 0.5, 1])}
    chain = InverseKinematics(
        JointPose(skeleton),
        "upper",
        "hand",
        offset=[0.15, 0, 0],
        limits=limits,  # type: ignore[arg-type]
    )
    state: dict[str, Any] = {"pose": np.zeros(9)}

    def follow() -> None:
        for angle in np.linspace(0, 2 * np.pi, TARGETS):
            target = [0.4 + 0.1 * np.cos(angle), 1.4 + 0.3 * np.sin(angle), 0.2 * np.sin(2 * angle)]
            solution = chain.solve(target, pose=None if cold else state["pose"])
            state["pose"] = solution.pose

    return follow
