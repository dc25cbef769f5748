"""Linear algebra: sparse symmetric positive definite systems."""

from typing import TYPE_CHECKING

from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.linalg.cholesky import SparseCholesky

__all__ = ["SparseCholesky"]

__getattr__ = lazy_imports(__name__)
