"""Names of the records in files of what Supple has added to them."""

from __future__ import annotations

CURVES, FLESH = "supple_curves", "supple_flesh"
#: What each is called in messages.
ADDED = {CURVES: "curves", FLESH: "flesh"}
