"""Lazy imports of a package's public names.

Importing one module of a package then does not import the others.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any


def lazy_imports(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, for the names imported under ``TYPE_CHECKING``."""
    modules: dict[str, str] = {}

    def get(name: str) -> Any:
        if not modules:
            modules.update(_declared_names(package))
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


def _declared_names(package: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the module of each import in the ``if`` blocks of a package."""
    loader: Any = sys.modules[package].__spec__.loader  # type: ignore[union-attr]
    for block in ast.parse(loader.get_source(package)).body:
        for node in block.body if isinstance(block, ast.If) else ():
            if isinstance(node, ast.ImportFrom):
                yield from ((each.name, str(node.module)) for each in node.names)
