"""What several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ASSETS = Path(
    os.environ.get("SUPPLE_ASSETS") or Path(__file__).resolve().parents[1] / "../shared/assets"
)


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of real and malformed files; tests that need it are skipped without it."""
    if not ASSETS.is_dir():
        pytest.skip("no assets beside the repository; set SUPPLE_ASSETS to their folder")
    return ASSETS
