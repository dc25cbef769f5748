"""Put the add-on's files beside what runs them in Blender; all else is in pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SOURCE, TARGET = Path("blender/supple_addon"), Path("supple/formats/blender/supple_addon")


class BuildWithAddon(build_py):
    """Copy what Blender runs into the package: never imported by Supple, and under the GPL."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:  # a clone has it where it is
            unwanted = shutil.ignore_patterns("__pycache__")
            target = Path(self.build_lib) / TARGET
            shutil.copytree(SOURCE, target, dirs_exist_ok=True, ignore=unwanted)


setup(cmdclass={"build_py": BuildWithAddon})
