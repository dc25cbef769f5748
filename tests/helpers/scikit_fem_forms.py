"""StVK as scikit-fem assembles it from its weak form, for any elements."""

from __future__ import annotations

from typing import Any

import numpy as np


def stvk_forms(lam: float, mu: float) -> tuple[Any, Any]:
    """Forms of force and stiffness at an interpolated displacement ``u``."""
    import skfem

    identity = np.eye(3)[:, :, None, None]

    def parts(w):
        F = w["u"].grad + identity
        E = 0.5 * (np.einsum("ki...,kj...->ij...", F, F) - identity)
        return F, 2 * mu * E + lam * np.trace(E) * identity

    @skfem.LinearForm
    def force_form(v, w):
        F, S = parts(w)
        return np.einsum("ik...,kj...,ij...", F, S, v.grad)

    @skfem.BilinearForm
    def stiffness_form(d, v, w):
        F, S = parts(w)
        dE = np.einsum("ki...,kj...->ij...", F, d.grad)
        dE = 0.5 * (dE + np.swapaxes(dE, 0, 1))
        dS = 2 * mu * dE + lam * np.trace(dE) * identity
        dP = np.einsum("ik...,kj...->ij...", d.grad, S) + np.einsum("ik...,kj...->ij...", F, dS)
        return np.einsum("ij...,ij...", dP, v.grad)

    return force_form, stiffness_form
