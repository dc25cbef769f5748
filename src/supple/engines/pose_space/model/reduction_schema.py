"""Declared fields of a pose-space model's reduction in model files.

Bases, the largest part of a model, are stored in sixteen bits: as steps of a power of two, one for
each column of each pose. A step is at most 2⁻¹⁴ of the column's largest entry, so the error of an
entry is at most 3·10⁻⁵ of it; on a beam of 24 × 4 × 4 bricks that changes the reduced frequencies
by at most 10⁻⁴, and rounding to half precision by 3·10⁻³. Steps are powers of two, so that float32
represents all entries exactly and rounding is idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Singles
from supple.errors import SuppleError
from supple.reduction.regions.region import Region
from supple.rig.stored.field_reader import (
    DOUBLE,
    INDEX,
    INT16,
    SINGLE,
    Field,
    FieldReader,
    FieldWriter,
    Values,
)
from supple.rig.stored.packed_arrays import narrowed, rounded
from supple.rig.stored.schema import Array, PackedRows, Value

Sizes = Mapping[str, int]
Shorts = NDArray[np.int16]

#: Range of exponents for which all steps are float32 numbers.
LOWEST, HIGHEST = -126, 100


def packed_basis(basis: NDArray) -> tuple[Shorts, Shorts]:
    """Return a basis (m, k, 3, r) as steps (m, k, 3, r) of 2^exponents (m, r)."""
    exact = np.asarray(basis, np.float64)
    peaks = np.abs(exact).max(axis=(1, 2), initial=0.0)
    parts, powers = np.frexp(peaks)
    # Fifteen bits for the peak; twice the step where it would round up to sixteen.
    exponents = powers - 15 + (np.rint(parts * 2**15) == 2**15)
    exponents = np.clip(np.where(peaks > 0, exponents, LOWEST), LOWEST, HIGHEST)
    steps = np.rint(np.ldexp(exact, -exponents[:, None, None, :]))
    return steps.astype(np.int16), exponents.astype(np.int16)


def unpacked_basis(what: str, steps: Shorts, exponents: Shorts) -> Singles:
    """Return the basis (m, k, 3, r) of packed steps and exponents."""
    if exponents.size and not (exponents.min() >= LOWEST and exponents.max() <= HIGHEST):
        raise SuppleError(f"{what}: its steps are too small or too large")
    return np.ldexp(steps.astype(np.float32), exponents[:, None, None, :].astype(np.int32))


def rounded_basis(basis: NDArray) -> Singles:
    """Return a basis after packing and unpacking."""
    return unpacked_basis("basis", *packed_basis(basis))


class _Regions(Field):
    """Regions with their bases, which are packed to 16 bits or float32."""

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write names and, for each region, vertices, weights and basis."""
        writer.values[self.name] = [region.name for region in owner.regions]
        for k, region in enumerate(owner.regions):
            arrays: dict[str, NDArray] = {
                "vertices": narrowed(region.vertices),
                "weights": rounded(region.weights),
                "basis_vertices": narrowed(owner.basis_vertices[k]),
            }
            if owner.basis_bits == 16:
                arrays["basis"], arrays["exponents"] = packed_basis(owner.bases[k])
            else:
                arrays["basis"] = owner.bases[k]
            writer.add_arrays(f"{self.name}.{k}", arrays)

    def read(self, reader: FieldReader) -> Values:
        """Read the regions; set the length "r", the number of columns."""
        regions, stored, bases = [], [], []
        poses = reader.sizes["poses"]
        for k, name in enumerate(reader.texts(self.name)):
            prefix = f"{self.name}.{k}"
            vertices = reader.array(f"{prefix}.vertices", INDEX, (None,))
            weights = reader.array(f"{prefix}.weights", SINGLE, vertices.shape)
            regions.append(Region(name, vertices, weights))
            stored.append(reader.array(f"{prefix}.basis_vertices", INDEX, (None,)))
            shape = (poses, len(stored[-1]), 3, None)
            if reader.fields["basis_bits"] == 16:
                steps = reader.array(f"{prefix}.basis", INT16, shape)
                exponents = reader.array(f"{prefix}.exponents", INT16, (poses, steps.shape[3]))
                bases.append(unpacked_basis(f'basis of region "{name}"', steps, exponents))
            else:
                bases.append(reader.array(f"{prefix}.basis", SINGLE, shape))
        reader.sizes["r"] = sum(basis.shape[3] for basis in bases)
        return {"regions": tuple(regions), "basis_vertices": tuple(stored), "bases": tuple(bases)}


class _Extras(Field):
    """Arrays of other engines, of any type and shape."""

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write the arrays."""
        writer.add_arrays(self.name, getattr(owner, self.name))

    def read(self, reader: FieldReader) -> Values:
        """Read the arrays by name."""
        return {self.name: reader.arrays_under(self.name)}


def _triangle(n: int) -> int:
    return n * (n + 1) // 2


def _with_neutral(rotations: NDArray, sizes: Sizes) -> NDArray:
    neutral = np.zeros((1, *rotations.shape[1:]))
    neutral[..., 3] = 1
    return np.concatenate([neutral, rotations])


def _transposed(name: str) -> Any:
    """Return a function of a model: the transpose of an attribute, or None."""
    return lambda model: None if getattr(model, name) is None else getattr(model, name).T


def _transpose(rows: NDArray, sizes: Sizes) -> NDArray:
    return rows.T


def _correction_rows(model: Any) -> NDArray | None:
    """Return inertial corrections as rows (c′ r, 3 m): one per vertex and column; or None."""
    corrections = model.inertial_corrections
    if corrections is None:
        return None
    m, c, _, r = corrections.shape
    return corrections.transpose(1, 3, 0, 2).reshape(c * r, m * 3)


def _corrections(rows: NDArray, sizes: Sizes) -> NDArray:
    shape = (sizes["inertial"], sizes["r"], sizes["poses"], 3)
    return rows.reshape(shape).transpose(2, 0, 3, 1)


REDUCTION_SCHEMA: tuple[Field, ...] = (
    Value("interpolation", "text"),
    Value("basis_bits", "integer"),
    Value("seed", "integer"),
    Value("report", "table"),
    _Regions("regions"),
    Array("root_eigenvalues", DOUBLE, ("r",)),
    PackedRows(
        "mass_products",
        (lambda sizes: _triangle(sizes["r"]), lambda sizes: _triangle(sizes["poses"])),
        _transposed("mass_products"),
        restore=_transpose,
    ),
    Array(
        "rotations",
        SINGLE,
        (lambda sizes: sizes["poses"] - 1, None, 4),
        lambda model: None if model.rotations is None else model.rotations[1:],
        optional=True,
        restore=_with_neutral,
    ),
    Array("parents", INDEX, ("poses",), shift=1),
    Array("cubature.elastic_tets", INDEX, ("elastic",), "elastic_tets"),
    Array("cubature.elastic_weights", SINGLE, ("poses", "elastic"), "elastic_weights"),
    Array("cubature.inertial_vertices", INDEX, ("inertial",), "inertial_vertices"),
    Array("cubature.inertial_weights", SINGLE, ("poses", "inertial"), "inertial_weights"),
    Array(
        "cubature.stiffness_corrections.ends",
        INDEX,
        ("pairs", 2),
        lambda model: None if model.stiffness_corrections is None else model.correction_ends,
        optional=True,
        default=np.empty((0, 2), np.int32),
        attribute="correction_ends",
    ),
    PackedRows(
        "cubature.stiffness_corrections",
        (lambda sizes: _triangle(sizes["r"]), lambda sizes: sizes["poses"] + sizes["pairs"]),
        _transposed("stiffness_corrections"),
        "stiffness_corrections",
        _transpose,
        optional=True,
    ),
    Array("cubature.trained_energies", SINGLE, ("poses",), "trained_energies", optional=True),
    PackedRows(
        "cubature.inertial_corrections",
        (lambda sizes: sizes["inertial"] * sizes["r"], lambda sizes: 3 * sizes["poses"]),
        _correction_rows,
        "inertial_corrections",
        _corrections,
        optional=True,
    ),
    _Extras("extras"),
)
