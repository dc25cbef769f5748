"""Names that a package passes on, imported when they are first asked for.

Whoever imports one module of a package pays for that one alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_imports(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Parameters
    ----------
    package
        Its name.
    homes
        For modules inside it, the names that they define, with spaces between.
    """
    found = {name: home for home, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{found[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
