"""Rows of a panel: label, getter, setter and hint of a control; names from files as labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import viser

from supple.app.pictures.drawing import label
from supple.app.viewer.session.session import Session, clamped
from supple.errors import SuppleError

#: Longest name in a list of the page, in letters, and most entries of such a list.
LONGEST, MOST_LISTED = 56, 200


@dataclass(frozen=True)
class Row:
    """Control of a panel.

    A row with `options` is a dropdown, one with `limits` a slider, one without `get` a button,
    and others are checkboxes. `set` runs in the session's thread, with a value within `limits` or
    among `options`; `set` of a button takes no argument.
    """

    label: str
    get: Callable[[], Any] | None
    set: Callable[..., object]
    hint: str | None = None
    limits: tuple[float, float, float] | None = None  # smallest and largest value, increment
    options: Sequence[str] = ()
    disabled: bool = False  # the page can only show it
    from_pages: bool = False  # `set` ignores changes of the shown value by the program


def add_rows(gui: viser.GuiApi, session: Session[Any], rows: Iterable[Row]) -> dict[str, Any]:
    """Add the controls of rows; return viser's handles by label."""
    return {row.label: add_row(gui, session, row) for row in rows}


def add_row(gui: viser.GuiApi, session: Session[Any], row: Row) -> Any:
    """Add the control of a row; return viser's handle."""
    handle: Any
    if row.get is None:
        handle = gui.add_button(row.label, hint=row.hint, disabled=row.disabled)

        @handle.on_click
        async def clicked(event: Any) -> None:
            session.submit(row.set)

        return handle
    value = row.get()
    shared: dict[str, Any] = {"hint": row.hint, "disabled": row.disabled}
    if row.options:
        handle = gui.add_dropdown(row.label, tuple(row.options), initial_value=value, **shared)
    elif row.limits is not None:
        low, high, step = row.limits
        handle = gui.add_slider(row.label, low, high, step, value, **shared)
    else:
        handle = gui.add_checkbox(row.label, value, **shared)

    @handle.on_update
    async def updated(event: Any) -> None:
        if row.from_pages and event.client is None:
            return
        chosen = handle.value
        if row.limits is not None:
            chosen = clamped(chosen, *row.limits[:2])
        if not row.options or chosen in row.options:
            session.submit(row.set, chosen)

    return handle


def attribute(target: Callable[[], Any], name: str) -> tuple[Callable[[], Any], Callable[..., Any]]:
    """Return getter and setter of an attribute; the target may be replaced between calls."""
    return lambda: getattr(target(), name), lambda value: setattr(target(), name, value)


def notify(client: Any, title: str, text: str) -> None:
    """Show a notification on the page of a client, if it is still there."""
    if client is not None:
        client.add_notification(title, text, auto_close_seconds=8.0)


def save_and_notify(client: Any, save: Callable[[], Any]) -> None:
    """Call a function that saves a file and returns its path; show the result or the error."""
    try:
        notify(client, "Saved", save().name)
    except SuppleError as error:
        notify(client, "Not saved", str(error))
    except OSError as error:
        notify(client, "Not saved", error.strerror or "it cannot be written")


def labels(names: Iterable[str]) -> list[str]:
    r"""Return names from files as labels of a list: one line, not too long, all different.

    Examples
    --------
    >>> labels(["run", "run", "line\nbreak", ""])
    ['run', 'run (2)', 'line?break', '(no name)']
    """
    shown: list[str] = []
    taken: set[str] = set()
    for name in names:
        plain = label(name, LONGEST).strip() or "(no name)"
        unique, number = plain, 1
        while unique in taken:
            number += 1
            unique = f"{plain} ({number})"
        taken.add(unique)
        shown.append(unique)
    return shown
