"""Linear algebra: sparse symmetric positive definite systems."""

from typing import TYPE_CHECKING

from supple.late_names import late_names

if TYPE_CHECKING:
    from supple.linalg.cholesky import SparseCholesky

__all__ = ["SparseCholesky"]

__getattr__ = late_names(
    __name__,
    {
        "cholesky": "SparseCholesky",
    },
)
