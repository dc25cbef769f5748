"""Table of materials, and functions of all materials that kernels call by number.

A built-in material is a file in this folder and a row in `_BUILT_IN`. A program adds its own by
`register_material`. Kernels contain the code of built-in materials, and call registered ones by
address, so that kernels need not be compiled again for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numba import carray, cfunc, njit, types
from numpy.ctypeslib import as_ctypes

from supple.compiled.jit import compiled_fused
from supple.compiled.tables import FUNCTION_TABLE, call_entry, entry
from supple.elastic.densities.corotational import COROTATIONAL
from supple.elastic.densities.density import Density
from supple.elastic.densities.fung import ORTHOTROPIC
from supple.elastic.densities.neo_hookean import NEO_HOOKEAN
from supple.elastic.densities.saint_venant_kirchhoff import STVK
from supple.elastic.densities.saturating import SATURATING
from supple.elastic.densities.stvk_volume import STVK_VOLUME
from supple.elastic.densities.yeoh import YEOH
from supple.errors import SuppleError

#: One row per material. Kernels identify a material by its position here, files by its name.
_BUILT_IN: tuple[Density, ...] = (
    STVK,
    NEO_HOOKEAN,
    COROTATIONAL,
    STVK_VOLUME,
    ORTHOTROPIC,
    YEOH,
    SATURATING,
)

#: Columns of the function table, which has a row for each material.
_ENERGY, _STRESS, _DERIVATIVE, _BOTH, _CONSTANTS, _ISOTROPIC, _RESISTS, _QUARTIC = range(8)

_materials: dict[str, Density] = {}
#: All materials by name, built-in ones first.
MATERIALS = MappingProxyType(_materials)


def material_number(name: str) -> int:
    """Return the number of a material in compiled kernels."""
    return list(MATERIALS).index(name)


def is_built_in(name: str) -> bool:
    """Return whether a material is one of Supple's own, not registered by a program."""
    return any(density.name == name for density in _BUILT_IN)


def _enter(density: Density) -> None:
    row = FUNCTION_TABLE[len(_materials)]
    row[_ISOTROPIC] = density.isotropic
    row[_RESISTS] = density.resists_inversion
    row[_QUARTIC] = density.quartic
    _materials[density.name] = density


for _density in _BUILT_IN:
    _enter(_density)


# Functions that kernels call. Each is a chain of comparisons, generated from the table, so that a
# kernel contains the code of the built-in materials.


def _functions() -> dict[str, Any]:
    """Return the functions of the built-in materials by name and number, such as "energy_0"."""
    names: dict[str, Any] = {}
    for number, density in enumerate(_BUILT_IN):
        names[f"energy_{number}"] = density.energy
        names[f"stress_{number}"] = density.stress
        names[f"derivative_{number}"] = density.stress_derivative
        names[f"both_{number}"] = density.stress_and_derivative
        if density.constants is not None:
            names[f"constants_{number}"] = compiled_fused(density.constants)
    return names


_names = _functions() | {"__name__": __name__, "call_entry": call_entry}


def _chain(signature: str, cases: Sequence[str], otherwise: str) -> Any:
    """Compile a function that executes the case of the material number `kind`."""
    lines = [f"def {signature}:"]
    for number, case in enumerate(cases):
        lines += [f"    if kind == {number}:", f"        {case}"]
    names = dict(_names)
    exec(compile("\n".join([*lines, f"    {otherwise}"]), __file__, "exec"), names)
    return compiled_fused(names[signature.partition("(")[0]])


def _both_case(number: int, density: Density) -> str:
    if density.stress_and_derivative is not None:
        return f"return both_{number}(F, p, P, H, scratch)"
    return f"stress_{number}(F, p, P, scratch); return derivative_{number}(F, p, H, scratch)"


def _constants_case(number: int, density: Density) -> str:
    if density.constants is None:  # constants of anisotropic materials are not blended
        return "return"
    count = len(density.constants(1.0, 1.0))
    targets = ", ".join(f"out[{k}]" for k in range(count))
    return f"{targets} = constants_{number}(mu, lam); return"


_rows = range(len(_BUILT_IN))

#: ``energy_density(kind, F, p, scratch)``: Ψ(F), zero at rest; see `Density` for all of these.
energy_density = _chain(
    "energy_density(kind, F, p, scratch)",
    [f"return energy_{n}(F, p, scratch)" for n in _rows],
    f"return call_entry(kind, {_ENERGY}, (F, p, len(p), scratch))",
)
#: ``stress(kind, F, p, P, scratch)``: P ← ∂Ψ/∂F.
stress = _chain(
    "stress(kind, F, p, P, scratch)",
    [f"return stress_{n}(F, p, P, scratch)" for n in _rows],
    f"call_entry(kind, {_STRESS}, (F, p, len(p), P, scratch))",
)
#: ``stress_derivative(kind, F, p, H, scratch)``: H ← ∂P/∂F.
stress_derivative = _chain(
    "stress_derivative(kind, F, p, H, scratch)",
    [f"return derivative_{n}(F, p, H, scratch)" for n in _rows],
    f"call_entry(kind, {_DERIVATIVE}, (F, p, len(p), H, scratch))",
)
#: ``stress_and_derivative(kind, F, p, P, H, scratch)``: both, which is faster where they share
#: terms.
stress_and_derivative = _chain(
    "stress_and_derivative(kind, F, p, P, H, scratch)",
    [_both_case(n, density) for n, density in enumerate(_BUILT_IN)],
    f"call_entry(kind, {_BOTH}, (F, p, len(p), P, H, scratch))",
)
#: ``set_constants(kind, mu, lam, out)``: out ← constants of an isotropic material.
set_constants = _chain(
    "set_constants(kind, mu, lam, out)",
    [_constants_case(n, density) for n, density in enumerate(_BUILT_IN)],
    f"call_entry(kind, {_CONSTANTS}, (mu, lam, out))",
)


@compiled_fused
def is_isotropic(kind: int) -> bool:
    """Return whether the material is isotropic."""
    return entry(kind, _ISOTROPIC) != 0


@compiled_fused
def resists_inversion(kind: int) -> bool:
    """Return whether the material's forces push inverted elements back."""
    return entry(kind, _RESISTS) != 0


@compiled_fused
def is_quartic(kind: int) -> bool:
    """Return whether Ψ is a polynomial of degree four in F."""
    return entry(kind, _QUARTIC) != 0


# Materials that programs register.

#: C functions, stored here because the table has only their addresses.
_entry_points: list[Any] = []
_NUMBERS = types.CPointer(types.float64)


def register_material(density: Density) -> None:
    """Add a material, for this process; ``Material(density.name)`` then uses it.

    Registration takes a second, as functions are compiled. Worker processes of a build have the
    materials that their imported modules register.

    Raises
    ------
    SuppleError
        If there is a material of that name, if the table is full, or if the moduli at rest of an
        isotropic material differ from Lamé's parameters.
    """
    if density.name in MATERIALS:
        raise SuppleError(f"a material {density.name!r} exists already; choose another name")
    if len(MATERIALS) == len(FUNCTION_TABLE):
        raise SuppleError(f"there are {len(MATERIALS)} materials; no more can be registered")
    row = FUNCTION_TABLE[len(MATERIALS)]
    functions = [*_compiled_for_calls(density)]
    if density.constants is not None:
        _check_moduli(density.name, density.constants, functions[_DERIVATIVE].ctypes)
    for column, function in enumerate(functions):
        _entry_points.append(function)
        row[column] = function.address
    _enter(density)


def _check_moduli(name: str, constants: Callable[..., tuple[Any, ...]], derivative: Any) -> None:
    """Refuse a material whose ∂P/∂F at rest is not that of Lamé's parameters.

    It is λ I ⊗ I + μ (1 + T), with T the transposition: `Material` and the linear forces of reduced
    models rely on it.
    """
    unit = np.eye(3)
    transposition = np.einsum("il,jk->ijkl", unit, unit).reshape(9, 9)
    for mu, lam in ((1.0, 2.0), (2.0, 1.0)):
        row, stiffness = np.array(constants(mu, lam), np.float64), np.zeros((9, 9))
        scratch = np.zeros((6, 3, 3))
        F, p, H, work = (as_ctypes(each.reshape(-1)) for each in (unit, row, stiffness, scratch))
        derivative(F, p, len(row), H, work)
        expected = lam * np.outer(unit, unit) + mu * (np.eye(9) + transposition)
        if not np.allclose(stiffness, expected, rtol=0, atol=1e-6 * (mu + lam)):
            raise SuppleError(
                f"material {name!r} has moduli at rest that differ from Lamé's μ and λ; derive its "
                "constants from them"
            )


def _compiled_for_calls(density: Density) -> Iterator[Any]:
    """Compile functions for the columns of a row of the table, in their order."""
    energy, stress, derivative = density.energy, density.stress, density.stress_derivative

    @cfunc(types.float64(_NUMBERS, _NUMBERS, types.intp, _NUMBERS))
    def call_energy(F, p, n, scratch):  # type: ignore[no-untyped-def]
        return energy(carray(F, (3, 3)), carray(p, n), carray(scratch, (6, 3, 3)))

    @cfunc(types.float64(_NUMBERS, _NUMBERS, types.intp, _NUMBERS, _NUMBERS))
    def call_stress(F, p, n, P, scratch):  # type: ignore[no-untyped-def]
        stress(carray(F, (3, 3)), carray(p, n), carray(P, (3, 3)), carray(scratch, (6, 3, 3)))
        return 0.0

    @cfunc(types.float64(_NUMBERS, _NUMBERS, types.intp, _NUMBERS, _NUMBERS))
    def call_derivative(F, p, n, H, scratch):  # type: ignore[no-untyped-def]
        derivative(carray(F, (3, 3)), carray(p, n), carray(H, (9, 9)), carray(scratch, (6, 3, 3)))
        return 0.0

    yield from (call_energy, call_stress, call_derivative)
    yield _both_for_calls(density)
    if density.constants is not None:
        yield _constants_for_calls(density.constants)


def _both_for_calls(density: Density) -> Any:
    stress, derivative = density.stress, density.stress_derivative

    @njit
    def one_by_one(F, p, P, H, scratch):  # type: ignore[no-untyped-def]
        stress(F, p, P, scratch)
        derivative(F, p, H, scratch)

    both = density.stress_and_derivative or one_by_one

    @cfunc(types.float64(_NUMBERS, _NUMBERS, types.intp, _NUMBERS, _NUMBERS, _NUMBERS))
    def call_both(F, p, n, P, H, scratch):  # type: ignore[no-untyped-def]
        F, P, H = carray(F, (3, 3)), carray(P, (3, 3)), carray(H, (9, 9))
        both(F, carray(p, n), P, H, carray(scratch, (6, 3, 3)))
        return 0.0

    return call_both


def _constants_for_calls(constants: Callable[..., Any]) -> Any:
    count, formula = len(constants(1.0, 1.0)), njit(constants)

    @cfunc(types.float64(types.float64, types.float64, _NUMBERS))
    def call_constants(mu, lam, out):  # type: ignore[no-untyped-def]
        values = formula(mu, lam)
        for k in range(count):
            out[k] = values[k]
        return 0.0

    return call_constants
