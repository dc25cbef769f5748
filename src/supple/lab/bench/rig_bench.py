"""`supple bench rig`: times of evaluating rigs, compared with a dense product on one core."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from supple.lab.bench.case_runner import Cells, Row, check_between, print_rows, run_cases
from supple.lab.bench.timing import DGEMM_SIZE, dense_product, timed

DEFAULT_VERTICES = 15_000
JOINTS, INFLUENCES = 60, 4
#: Bound of the time of linear blend skinning of the default size, relative to a dense product.
SKINNING_BOUND = 0.25
SECONDS_EACH = 0.3
#: Targets on the path of the arm's hand; the time of a solve is their mean.
TARGETS = 60


def measure(vertices: int = DEFAULT_VERTICES, *, quiet: bool = False) -> list[Row]:
    """Return times of each kind of rig: in ms, in ns per vertex, and relative to a dense product.

    Rigs and the 256³ product of float64 run on one core; `bound` is the largest ratio allowed.
    """
    check_between(vertices, 1, 5_000_000, "vertices")
    cases: list[tuple[str, Callable[[], Row]]] = [
        (name, partial(_row, name, count, function)) for name, count, function in _cases(vertices)
    ]
    rows = run_cases(cases, quiet=quiet)
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


def table(rows: list[Row]) -> None:
    """Print a line for each rig."""
    columns: Cells = {
        "rig": ("rig", ""),
        "vertices": (lambda row: row["vertices"] or None, ","),
        "ms": ("ms", ".3f"),
        "ns/vertex": ("ns_per_vertex", ".1f"),
        "dgemm ms": ("dgemm_ms", ".3f"),
        "ratio": ("ratio", ".2f"),
        "bound": ("bound", ".2f"),
    }
    print_rows(
        rows,
        columns,
        f"Rigs on one core, {JOINTS} joints, {INFLUENCES} influences a vertex",
        f"ratio: to a {DGEMM_SIZE}³ product in float64 on one core, in the same run",
        left=1,
    )


def _row(name: str, vertices: int, function: Callable[[], Any]) -> Row:
    """Return the shortest times of a rig and of a dense matrix product, measured alternately."""
    from threadpoolctl import threadpool_limits

    multiply = dense_product()
    rig: list[float] = []
    products: list[float] = []
    with threadpool_limits(1):
        function()
        until = perf_counter() + SECONDS_EACH
        while perf_counter() < until or len(rig) < 5:
            rig += [timed(function) for _ in range(5)]
            products += [timed(multiply) for _ in range(5)]
    best, dense = 1e3 * min(rig), 1e3 * min(products)
    times = {"ms": best, "dgemm_ms": dense, "ratio": best / dense}
    return {"rig": name, "vertices": vertices, **times}


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
    """Return a rig of random vertices, the size of a person, with four of 60 joints each."""
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
    """Return a function in which an arm of three bones follows targets.

    Each solution starts from the last one or, with `cold`, from the rest pose.
    """
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
