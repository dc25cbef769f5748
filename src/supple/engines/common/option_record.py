"""Records of options, given as one object or by keyword."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Self, TypeVar

from supple.checks import shown
from supple.engines.engine import check_names
from supple.errors import SuppleError

Function = TypeVar("Function", bound=Callable[..., Any])


class OptionRecord:
    """Base of frozen dataclasses of options."""

    @classmethod
    def of(cls, what: str, record: Self | None, keywords: Mapping[str, Any]) -> Self:
        """Return a record, by default with default values, changed by keywords.

        An unknown keyword raises a SuppleError that suggests the nearest; `what` names the
        function.
        """
        if not isinstance(record, cls | None):
            raise SuppleError(f"options is {shown(record)}; give {cls.__name__}(…), or keywords")
        check_names(what, keywords, (each.name for each in fields(cls)))  # type: ignore[arg-type]
        if record is None:
            return cls(**keywords)
        return replace(record, **keywords) if keywords else record  # type: ignore[type-var]


def takes_options(
    *records: type, without: Iterable[str] = (), closed: bool = False, **defaults: Any
) -> Callable[[Function], Function]:
    """Show the fields of records as keywords in the signature of a function with ``**options``.

    Fields named in `without` are omitted; `defaults` replace defaults of fields. A `closed`
    function takes no other keywords.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        parameters = dict(signature.parameters)
        rest = [] if closed else [parameters[next(reversed(parameters))]]
        parameters.popitem()
        for record in records:
            for each in fields(record):
                if each.name not in parameters and each.name not in without:
                    default = defaults.get(each.name, each.default)
                    parameters[each.name] = inspect.Parameter(
                        each.name, inspect.Parameter.KEYWORD_ONLY, default=default
                    )
        listed = signature.replace(parameters=[*parameters.values(), *rest])
        function.__signature__ = listed  # type: ignore[attr-defined]
        return function

    return decorate
