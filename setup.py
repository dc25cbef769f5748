"""Copy the add-on for Blender and the runtime's sources into the package; see pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

#: Folders of a clone that a wheel has inside the package: what Blender runs, never imported by
#: Supple and under the GPL; and the runtime that `supple export` compiles.
COPIES = {
    "blender/supple_addon": "supple/formats/blender/supple_addon",
    "runtime": "supple/app/runtime",
}


class BuildWithCopies(build_py):
    """Build that copies folders into the package."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:  # a clone has it where it is
            unwanted = shutil.ignore_patterns("__pycache__")
            for source, target in COPIES.items():
                to = Path(self.build_lib) / target
                shutil.copytree(source, to, dirs_exist_ok=True, ignore=unwanted)


setup(cmdclass={"build_py": BuildWithCopies})
