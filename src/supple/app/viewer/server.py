"""Web server of the viewer; by default for this computer only."""

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

#: Ports tried after the given one, before any free port is taken.
NEARBY = 20
#: Largest absolute value of a control without a range.
LARGEST = 1e6
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def start_server(host: str, port: int, label: str) -> Any:
    """Start a viser server at the first free port from `port` on.

    Connections from pages of another origin are closed, and the server opens no tunnel to share
    itself.
    """
    check_viser()
    import viser

    logging.getLogger("websockets").addHandler(logging.NullHandler())  # hide errors of bad clients
    port = free_port(host, port)
    with contextlib.redirect_stdout(io.StringIO()):  # the command prints the address
        server = viser.ViserServer(host=host, port=port, label=label, verbose=False)
    _guard(server, host)
    server.gui.configure_theme(show_logo=False, show_share_button=False, control_width="medium")
    server.scene.set_up_direction("+y")
    return server


def check_viser() -> None:
    """Raise an error with the install command if viser is missing."""
    try:
        import viser  # noqa: F401
    except ImportError as error:
        raise SuppleError(f"the viewer needs viser ({error}); pip install viser") from None


def stop_server(server: Any) -> None:
    """Stop the server without its message on standard output."""
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
    """Return the port if it is free, else the next free port, else any free port.

    SuppleError if the address does not belong to this computer, or the port is out of range.
    """
    if not 0 <= port <= 65535:
        raise SuppleError(f"--port {port}: use a number from 0 to 65535")
    last = "no port is free"
    nearby = range(port, min(port + NEARBY, 65535) + 1) if port else ()
    for candidate in (*nearby, 0):
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(
                host, candidate, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as trial:
                if os.name == "posix":  # as the server does: a port just closed is free
                    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(place)
                return int(trial.getsockname()[1])
        except (OSError, UnicodeError) as error:
            last = getattr(error, "strerror", None) or str(error)
    raise SuppleError(
        f"--host {host}: cannot serve there ({last}); use an address of this computer"
    )


def _guard(server: Any, host: str) -> None:
    """Refuse pages of other sites, uploads, requests to share, and invalid values of controls."""
    try:
        from viser import _messages as messages

        inner = server._websock_server
        files = (messages.FileTransferStartUpload, messages.FileTransferPart)
        for kind in (messages.ShareUrlRequest, messages.ShareUrlDisconnect, *files):
            inner.unregister_handler(kind)
        _install_value_check(inner, server.gui)
        connections = inner._live_connections
    except (ImportError, AttributeError, AssertionError) as error:
        stop_server(server)
        raise SuppleError(
            f"access checks cannot be installed in this version of viser ({error}); "
            "run pip install 'viser<1.2'"
        ) from None
    local = _is_loopback(host)

    async def check_origin(client: Any) -> None:
        connection = connections.get(client.client_id)
        headers = {} if connection is None else connection.request.headers
        if not _is_allowed(headers.get("Origin"), headers.get("Host"), local):
            await connection.close(1008, "not from this page")

    async def refuse_files(client: Any) -> None:
        for kind in files:  # viser would keep an upload to any control in memory
            client.unregister_handler(kind)

    @server.on_client_connect
    async def check_client_values(client: Any) -> None:
        _install_value_check(client._websock_connection, client.gui)

    inner._client_connect_cb.insert(0, check_origin)
    inner._client_connect_cb.append(refuse_files)  # after the client's handlers are set
    inner.disconnect_all_clients()  # clients from before the guard; pages reconnect


def _install_value_check(connection: Any, gui: Any) -> None:
    """Replace the handler of control updates by one that accepts only valid values."""
    from viser._messages import GuiUpdateMessage

    async def update(client_id: int, message: Any) -> None:
        control = gui._gui_input_handle_from_uuid.get(message.uuid)
        value = None if control is None else _valid_value(control._impl, message.updates)
        if value is not None:
            message.updates = {"value": value}
            await gui._handle_gui_updates(client_id, message)

    connection.unregister_handler(GuiUpdateMessage)
    connection.register_handler(GuiUpdateMessage, update)


def _valid_value(control: Any, updates: Any) -> Any:
    """Return the new value of a control, clamped to its range; None for an invalid one."""
    if not isinstance(updates, dict) or updates.keys() != {"value"}:
        return None
    old, new, props = control.value, updates["value"], control.props
    if isinstance(old, tuple):
        fits = isinstance(new, list | tuple) and len(new) == len(old)
        numbers = [_in_range(each, props) for each in new] if fits else [None]
        return None if None in numbers else numbers
    if isinstance(old, bool):
        return new if isinstance(new, bool) else None
    if isinstance(old, int | float):
        return _in_range(new, props)
    options = getattr(props, "options", None)
    return new if isinstance(new, str) and (options is None or new in options) else None


def _in_range(value: Any, props: Any) -> float | None:
    """Return a number clamped to a control's range; None for a value that is not a number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or math.isnan(value):
        return None
    low, high = (getattr(props, end, None) for end in ("min", "max"))
    low = low if isinstance(low, int | float) else -LARGEST
    high = high if isinstance(high, int | float) else LARGEST
    return min(max(value, low), high)


def _is_loopback(host: str) -> bool:
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_allowed(origin: str | None, host: str | None, local: bool) -> bool:
    """Return whether a page of this origin may connect to the server at `host`."""
    if origin is None:  # not a browser but a script
        return True
    try:
        page, server = urlsplit(origin), urlsplit(f"//{host or ''}")
        if local:
            names = (page.hostname or "", server.hostname or "")
            # Another port belongs to another program on this computer.
            return all(map(_is_loopback, names)) and page.port == server.port
        return page.netloc == server.netloc
    except ValueError:
        return False
