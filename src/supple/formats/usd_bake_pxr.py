"""More of USD's modules, for writing; None without the extra, as in `supple.formats.usd_pxr`."""

from __future__ import annotations

__all__ = ["Kind", "Vt"]

try:
    from pxr import Kind, Vt
except ImportError:
    Kind = Vt = None
