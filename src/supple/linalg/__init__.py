"""Linear algebra: sparse symmetric positive definite systems."""

from supple.linalg.cholesky import SparseCholesky

__all__ = ["SparseCholesky"]
