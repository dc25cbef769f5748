"""Web server of the viewer: for this computer only, unless told otherwise."""

from __future__ import annotations

import contextlib
import io
import ipaddress
import logging
import math
import os
import socket
from typing import Any
from urllib.parse import urlsplit

from supple.errors import SuppleError

#: Ports after the wanted one that are tried before any will do.
NEARBY = 20
#: Number that a page may set a control to that has no range of its own.
LARGEST = 1e6
HERE = frozenset({"localhost", "127.0.0.1", "::1"})


def start_server(host: str, port: int, label: str) -> Any:
    """Start a viser server at the first free port from `port` on.

    Web pages of others that the user's browser shows cannot reach it: what does not come from
    its own address is turned away, and it opens no tunnel to share itself through.
    """
    check_viser()
    import viser

    logging.getLogger("websockets").addHandler(logging.NullHandler())  # bad guests are not news
    found = free_port(host, port)
    with contextlib.redirect_stdout(io.StringIO()):  # the address is said once, by us
        server = viser.ViserServer(host=host, port=found, label=label, verbose=False)
    _guard(server, host)
    server.gui.configure_theme(show_logo=False, show_share_button=False, control_width="medium")
    server.scene.set_up_direction("+y")
    return server


def check_viser() -> None:
    """Raise an error that says what to install where viser is missing."""
    try:
        import viser  # noqa: F401
    except ImportError as error:
        raise SuppleError(f"the viewer needs viser ({error}); pip install viser") from None


def stop_server(server: Any) -> None:
    """End the server, without its farewell on standard output."""
    with contextlib.redirect_stdout(io.StringIO()):
        server.stop()


def address(server: Any) -> str:
    """Return the address to open in a browser."""
    host = server.get_host()
    name = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):
        name = socket.gethostname()
    return f"http://{name}:{server.get_port()}"


def free_port(host: str, port: int) -> int:
    """Return the port, one of the next, or any that is free.

    Raises
    ------
    SuppleError
        If the computer has no such address, or there is no such port.
    """
    if not 0 <= port <= 65535:
        raise SuppleError(f"--port {port}; ports go from 0 to 65535")
    last = "no port is free"
    nearby = range(port, min(port + NEARBY, 65535) + 1) if port else ()
    for candidate in (*nearby, 0):
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(
                host, candidate, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as trial:
                if os.name == "posix":  # as the server will do: a port just left is free
                    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(place)
                return int(trial.getsockname()[1])
        except (OSError, UnicodeError) as error:
            last = getattr(error, "strerror", None) or str(error)
    raise SuppleError(
        f"--host {host}: cannot serve there ({last}); use an address of this computer"
    )


def _guard(server: Any, host: str) -> None:
    """Turn away pages of other sites, files, wishes to be shared, and values no control has."""
    try:
        from viser import _messages as asked

        inner = server._websock_server
        files = (asked.FileTransferStartUpload, asked.FileTransferPart)
        for kind in (asked.ShareUrlRequest, asked.ShareUrlDisconnect, *files):
            inner.unregister_handler(kind)
        _check_values(inner, server.gui)
        connections = inner._live_connections
    except (ImportError, AttributeError, AssertionError) as error:
        stop_server(server)
        raise SuppleError(
            f"this version of viser cannot be kept private ({error}); pip install 'viser<1.2'"
        ) from None
    local = _is_loopback(host)

    async def check(guest: Any) -> None:
        connection = connections.get(guest.client_id)
        headers = {} if connection is None else connection.request.headers
        if not _welcome(headers.get("Origin"), headers.get("Host"), local):
            await connection.close(1008, "not from this page")

    async def refuse_files(guest: Any) -> None:
        for kind in files:  # any control would take one, and keep it in memory
            guest.unregister_handler(kind)

    @server.on_client_connect
    async def check_own(client: Any) -> None:
        _check_values(client._websock_connection, client.gui)

    inner._client_connect_cb.insert(0, check)
    inner._client_connect_cb.append(refuse_files)  # when the guest has its own controls
    inner.disconnect_all_clients()  # who came before there was a guard; our own pages come again


def _check_values(connection: Any, gui: Any) -> None:
    """Let a page set controls to values of their kind, and nothing else of them."""
    from viser._messages import GuiUpdateMessage

    async def update(client_id: int, message: Any) -> None:
        control = gui._gui_input_handle_from_uuid.get(message.uuid)
        value = None if control is None else _fitted(control._impl, message.updates)
        if value is not None:
            message.updates = {"value": value}
            await gui._handle_gui_updates(client_id, message)

    connection.unregister_handler(GuiUpdateMessage)
    connection.register_handler(GuiUpdateMessage, update)


def _fitted(control: Any, updates: Any) -> Any:
    """Return the new value of a control, within its range; None for what is none of its kind."""
    if not isinstance(updates, dict) or updates.keys() != {"value"}:
        return None
    old, new, props = control.value, updates["value"], control.props
    if isinstance(old, tuple):
        fits = isinstance(new, list | tuple) and len(new) == len(old)
        found = [_in_range(each, props) for each in new] if fits else [None]
        return None if None in found else found
    if isinstance(old, bool):
        return new if isinstance(new, bool) else None
    if isinstance(old, int | float):
        return _in_range(new, props)
    options = getattr(props, "options", None)
    return new if isinstance(new, str) and (options is None or new in options) else None


def _in_range(value: Any, props: Any) -> float | None:
    """Return a number between those that a control goes from and to; None for what is none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or math.isnan(value):
        return None
    low, high = (getattr(props, end, None) for end in ("min", "max"))
    low = low if isinstance(low, int | float) else -LARGEST
    high = high if isinstance(high, int | float) else LARGEST
    return min(max(value, low), high)


def _is_loopback(host: str) -> bool:
    if host in HERE:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _welcome(origin: str | None, host: str | None, local: bool) -> bool:
    """Return whether a page of that origin may talk to the server that it knows as `host`."""
    if origin is None:  # no browser: a script on this computer
        return True
    try:
        came, asked = urlsplit(origin), urlsplit(f"//{host or ''}")
        if local:  # whatever name it goes by, ours is one of these
            known = _is_loopback(came.hostname or "") and _is_loopback(asked.hostname or "")
            # Another port is another page, of whatever else runs on this computer.
            return known and came.port == asked.port
        return came.netloc == asked.netloc
    except ValueError:
        return False
