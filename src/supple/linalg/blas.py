"""BLAS and LAPACK called from Numba through the function table SciPy publishes.

SciPy exports its BLAS as C function addresses (``scipy.linalg.cython_blas``). A constant address
in compiled code cannot be cached on disk, so kernels receive the addresses as an array and call
through them; `fortran_call` builds that call, passing every argument by reference as Fortran
requires.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.linalg
from llvmlite import ir
from numba import types as numba_types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic
from threadpoolctl import ThreadpoolController

from supple.compiled.jit import compiled

NO, YES = np.uint8(ord("N")), np.uint8(ord("T"))
LOWER, LEFT, RIGHT = np.uint8(ord("L")), np.uint8(ord("L")), np.uint8(ord("R"))
POTRF, TRSM, SYRK, GEMM, GEMV, TRSV = range(6)


@functools.cache
def addresses() -> np.ndarray:
    """Return the addresses of the routines in this process, in the order of the constants above."""
    names = [("lapack", "dpotrf")]
    names += [("blas", name) for name in ("dtrsm", "dsyrk", "dgemm", "dgemv", "dtrsv")]
    return np.array(
        [get_cython_function_address(f"scipy.linalg.cython_{lib}", name) for lib, name in names],
        dtype=np.int64,
    )


@functools.cache
def _blas_controllers() -> list[Any]:
    scipy.linalg.get_blas_funcs("gemm")  # so that the library to search for has been loaded
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


types: Any = numba_types  # Numba's annotations do not cover what extensions use

_limit_lock = threading.Lock()
_limit_users = 0
_limit_saved: list[int] = []


def _set_threads(controller: Any, count: int) -> None:
    # threadpoolctl lets only the first calling Python thread set OpenBLAS's pool; the lock here
    # already serialises these calls.
    setter = getattr(controller, "_real_set_num_threads", controller.set_num_threads)
    setter(count)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Limit BLAS to one thread inside the block; our kernels run in parallel, in a fixed order.

    OpenBLAS splits a product by its thread count, which changes the rounding. The limit
    applies to the whole process; calls from several Python threads share it, and the last one to
    leave restores the count that the first one found. Setting it takes microseconds; the search for
    the library takes milliseconds, once. Apple's Accelerate has no limit: with a SciPy built on it,
    the last bits may depend on the number of threads.
    """
    global _limit_users
    with _limit_lock:
        _limit_users += 1
        if _limit_users == 1:
            _limit_saved[:] = [c.get_num_threads() for c in _blas_controllers()]
            for controller in _blas_controllers():
                _set_threads(controller, 1)
    try:
        yield
    finally:
        with _limit_lock:
            _limit_users -= 1
            if _limit_users == 0:
                for controller, count in zip(_blas_controllers(), _limit_saved, strict=True):
                    _set_threads(controller, count)


def _by_reference(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a pointer to an argument: into an array at an offset, or to a copy of a scalar."""
    if isinstance(kind, types.BaseTuple):
        array, offset = cgutils.unpack_tuple(builder, value)
        data = context.make_array(kind[0])(context, builder, value=array).data
        return builder.gep(data, [offset])
    if isinstance(kind, types.Integer) and kind.bitwidth > 32:
        value = builder.trunc(value, ir.IntType(32))
    return cgutils.alloca_once_value(builder, value)


def _fortran_call(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Call the routine at `address`; (array, offset) points into an array, uint8 is a character."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = cgutils.unpack_tuple(builder, args[1])
        pointers = [
            _by_reference(context, builder, kind, value)
            for kind, value in zip(signature.args[1], values, strict=True)
        ]
        routine = ir.FunctionType(ir.VoidType(), [p.type for p in pointers])
        builder.call(builder.inttoptr(args[0], routine.as_pointer()), pointers)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), codegen


fortran_call: Any = intrinsic(_fortran_call)


def _take_ticket(typingctx: Any, counter: Any) -> Any:
    """Return counter[0] and add one to it atomically."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, value=args[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), codegen


take_ticket: Any = intrinsic(_take_ticket)


# Matrices below are stored by columns: `a` is an array and the offset where the matrix begins in
# it (slices would cost reference counts and compile time), `lda` its column stride.


@compiled
def potrf(blas, n, a, lda, info):  # type: ignore[no-untyped-def]
    """Compute the Cholesky factor of `a` in its lower triangle; info[0] > 0 is a failed pivot."""
    fortran_call(blas[POTRF], (LOWER, n, a, lda, (info, 0)))


@compiled
def trsm(blas, side, trans, m, n, a, lda, b, ldb):  # type: ignore[no-untyped-def]
    """Solve with the lower triangle `a` from one side: b ← op(a)⁻¹ b, or b op(a)⁻¹."""
    fortran_call(blas[TRSM], (side, LOWER, trans, NO, m, n, 1.0, a, lda, b, ldb))


@compiled
def syrk(blas, n, k, a, lda, c, ldc):  # type: ignore[no-untyped-def]
    """Subtract a aᵀ from the lower triangle of c."""
    fortran_call(blas[SYRK], (LOWER, NO, n, k, -1.0, a, lda, 1.0, c, ldc))


@compiled
def gemm(blas, transa, transb, m, n, k, a, lda, b, ldb, c, ldc):  # type: ignore[no-untyped-def]
    """Subtract op(a) op(b) from c."""
    fortran_call(blas[GEMM], (transa, transb, m, n, k, -1.0, a, lda, b, ldb, 1.0, c, ldc))


@compiled
def gemv(blas, trans, m, n, a, lda, x, y):  # type: ignore[no-untyped-def]
    """Subtract op(a) x from y."""
    fortran_call(blas[GEMV], (trans, m, n, -1.0, a, lda, x, 1, 1.0, y, 1))


@compiled
def trsv(blas, trans, n, a, lda, x):  # type: ignore[no-untyped-def]
    """Solve x ← op(a)⁻¹ x with the lower triangle a."""
    fortran_call(blas[TRSV], (LOWER, trans, NO, n, a, lda, x, 1))
