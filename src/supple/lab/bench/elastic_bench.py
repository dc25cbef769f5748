"""`supple bench elastic`: element loops compared with scikit-fem's, and the full step.

Every size, and scikit-fem on the same mesh, runs in its own process to measure peak memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from supple.app.processes import peak_megabytes, with_cores
from supple.arrays import Floats
from supple.errors import SuppleError
from supple.lab.bench.case_runner import Cells, check_between, print_rows, run_cases
from supple.lab.bench.timing import timed

DEFAULT_SIZES = [10_000, 12_000, 100_000, 1_000_000]
#: Beyond this scikit-fem, which stores every local matrix, needs tens of GB.
LARGEST_FOR_SCIKIT_FEM = 200_000
#: Steps are timed up to this size, as the fill of a direct solver grows faster than the mesh.
LARGEST_STEP = 100_000
YOUNG, POISSON = 2e4, 0.3


def measure(sizes: Iterable[int], *, quiet: bool = False) -> list[dict[str, Any]]:
    """Return a row of times and memory for each number of tets."""
    sizes = list(sizes)
    for size in sizes:
        check_between(size, 6, 5_000_000, "tets")
    cases: list[tuple[str, Callable[[], Any]]] = []
    for size in sizes:
        cases.append((f"{size:,} tets, Supple", partial(with_cores, None, _measure_ours, size)))
        cases.append((f"{size:,} tets, scikit-fem", partial(_theirs, size)))
    results = run_cases(cases, quiet=quiet)
    return [
        row
        | {
            "scikit_fem_ms": theirs,
            "ratio": None if theirs is None else theirs / row["stiffness_ms"],
        }
        for row, theirs in zip(results[::2], results[1::2], strict=True)
    ]


def _theirs(size: int) -> float | None:
    if size > LARGEST_FOR_SCIKIT_FEM:
        return None
    milliseconds: float | None = with_cores(None, _measure_scikit_fem, size)
    return milliseconds


def table(rows: list[dict[str, Any]]) -> None:
    """Print times of forces and stiffness, and of full steps."""
    kernels: Cells = {
        "tets": ("tets", ","),
        "force": ("force_ms", ",.1f"),
        "stiffness": ("stiffness_ms", ",.1f"),
        "ns/tet": (lambda row: 1e6 * row["stiffness_ms"] / row["tets"], ",.1f"),
        "scikit-fem": ("scikit_fem_ms", ",.1f"),
        "ratio": ("ratio", ",.1f"),
        "peak MB": ("peak_mb", ",.1f"),
    }
    print_rows(rows, kernels, "Neo-Hookean beam, all cores, times in ms")
    steps: Cells = {
        "tets": ("tets", ","),
        "step": (lambda row: sum(row["step_ms"].values()), ",.1f"),
        "assembly": (lambda row: row["step_ms"]["assembly"], ",.1f"),
        "factorise": (lambda row: row["step_ms"]["factorise"], ",.1f"),
        "solve": (lambda row: row["step_ms"]["solve"], ",.1f"),
        "peak MB": ("peak_mb_step", ",.1f"),
    }
    stepped = [row for row in rows if row["step_ms"]]
    print_rows(stepped, steps, "Full step, backward Euler, one Newton iteration, times in ms")


def _deformed_beam(size: int) -> tuple[Any, Floats]:
    """Return a beam of about `size` tets, and its vertices bent, stretched and twisted."""
    from supple.scenes.bodies.beam import beam

    across = max(1, round((size / 6 / 2.4) ** (1 / 3)))
    along = max(1, round(size / 6 / across**2))
    mesh = beam((2.4, 1.0, 1.0), (along, across, across))
    x, y, z = mesh.vertices.T
    angle = 0.3 * x
    y, z = y * np.cos(angle) - z * np.sin(angle), y * np.sin(angle) + z * np.cos(angle)
    return mesh, np.stack([1.1 * x, y + 0.1 * x**2, 0.95 * z], axis=1)


def _best(function: Callable[[], Any], repeats: int) -> float:
    """Return the shortest time of several calls in ms."""
    function()
    return 1e3 * min(timed(function) for _ in range(repeats))


def _measure_ours(size: int) -> dict[str, Any]:
    from supple.elastic.body import ElasticBody
    from supple.elastic.material import Material
    from supple.engines.full.full_body import FullBodySimulator

    mesh, x = _deformed_beam(size)
    body = ElasticBody(mesh, Material("neo-hookean", young=YOUNG, poisson=POISSON))
    out = np.empty_like(x)
    repeats = 20 if size < 50_000 else 5
    row: dict[str, Any] = {
        "tets": len(mesh.tets),
        "force_ms": _best(lambda: body.force(x, out=out), repeats),
        "stiffness_ms": _best(lambda: body.stiffness(x), repeats),
        "step_ms": None,
    }
    row["peak_mb"] = peak_megabytes()
    if size <= LARGEST_STEP:
        held = np.flatnonzero(mesh.vertices[:, 0] == 0)
        simulator = FullBodySimulator(body, 1 / 90, fixed=held, alpha=0.5, beta=0.01)
        simulator.step()
        reports = [simulator.step().seconds for _ in range(5)]
        fastest = min(reports, key=lambda seconds: sum(seconds.values()))
        row["step_ms"] = {part: 1e3 * seconds for part, seconds in fastest.items()}
        row["peak_mb_step"] = peak_megabytes()
    return row


def _measure_scikit_fem(size: int) -> float | None:
    """Return the time of scikit-fem's assembly of the same matrix in ms; None without it."""
    try:
        import skfem
    except ImportError:
        return None
    mesh, x = _deformed_beam(size)
    domain = skfem.MeshTet(mesh.vertices.T.copy(), mesh.tets.T.copy())
    # One quadrature point is exact for linear tets.
    basis = skfem.Basis(domain, skfem.ElementVector(skfem.ElementTetP1()), intorder=1)
    order = basis.nodal_dofs.T.reshape(-1)
    displacement = np.empty(x.size)
    displacement[order] = (x - mesh.vertices).reshape(-1)

    def assemble() -> Any:
        stress_change = _neo_hookean_linearised(basis.interpolate(displacement).grad)
        cache: dict[int, Floats] = {}

        # The form is called for all 144 pairs of local functions; dP depends on one of them.
        @skfem.BilinearForm(nthreads=os.cpu_count() or 1)
        def form(u: Any, v: Any, w: Any) -> Any:
            if id(u) not in cache:
                cache[id(u)] = stress_change(u.grad)
            return np.einsum("ij...,ij...->...", cache[id(u)], v.grad)

        return form.assemble(basis)

    elapsed = _best(assemble, 1 if size > 50_000 else 3)
    _check_agreement(assemble().tocsr()[order][:, order], mesh, x)
    return elapsed


def _neo_hookean_linearised(gradient: Floats) -> Callable[[Floats], Floats]:
    """Return the map dF ↦ dP of our neo-Hookean material at I + gradient, for scikit-fem."""
    from supple.elastic.material import Material

    mu, lam = Material("neo-hookean", young=YOUNG, poisson=POISSON).element_parameters(1)[0]
    F = gradient + np.eye(3).reshape(3, 3, *([1] * (gradient.ndim - 2)))

    def cross(a: Floats, b: Floats) -> Floats:
        """Return the mixed cofactor of two matrices; half of ``cross(F, F)`` is F's cofactor."""
        rows = [np.cross(a[i - 2], b[i - 1], axis=0) for i in range(3)]
        more = [np.cross(b[i - 2], a[i - 1], axis=0) for i in range(3)]
        return np.stack(rows) + np.stack(more)

    cofactor = 0.5 * cross(F, F)
    determinant = np.einsum("ij...,ij...->...", cofactor, F) / 3
    shifted = np.einsum("ij...,ij...->...", F, F) + 1
    pull, twice = mu * (1 - 1 / shifted), 2 * mu / shifted**2
    push = lam * (determinant - 1) - 0.75 * mu

    def change(dF: Floats) -> Floats:
        along = twice * np.einsum("ij...,ij...->...", F, dF)
        volume = lam * np.einsum("ij...,ij...->...", cofactor, dF)
        return pull * dF + along * F + volume * cofactor + push * cross(F, dF)

    return change


def _check_agreement(theirs: Any, mesh: Any, x: Floats) -> None:
    from supple.elastic.body import ElasticBody
    from supple.elastic.material import Material

    ours = ElasticBody(mesh, Material("neo-hookean", young=YOUNG, poisson=POISSON)).stiffness(x)
    difference = abs(ours - theirs).max() / abs(ours).max()
    if not difference < 1e-9:
        raise SuppleError(f"the stiffness of scikit-fem differs from Supple's by {difference:.1e}")
