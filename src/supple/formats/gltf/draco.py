"""Draco-compressed primitives, when a decoder is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError
from supple.formats.gltf.document import DRACO, Document


def decode_draco(
    document: Document, primitive: dict[str, Any], count: int
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return attributes (n, components) by name, as stored, and triangles' corners (3 m,).

    `count` is the number of vertices that the file declares.
    """
    notes = document.notes
    try:
        import DracoPy
    except ImportError:
        raise FormatError(
            f"{notes.name}: is compressed with Draco; install the decoder with"
            f" pip install 'supple[draco]', or save it without compression"
        ) from None
    extension = primitive["extensions"][DRACO]
    view, names = _checked(document, extension)
    start = view.get("byteOffset", 0)
    data = bytes(document.buffers[view["buffer"]][start : start + view["byteLength"]])
    try:
        decoded = DracoPy.decode(data)
        found = {a["unique_id"]: np.asarray(a["data"]) for a in decoded.attributes}
        corners = np.asarray(decoded.faces, dtype=np.int64).ravel()
    except Exception as error:
        notes.fail("DRACO", f"its Draco data cannot be decoded ({str(error)[:80]}); save it again")
    attributes = {}
    for name, identifier in names.items():
        if identifier not in found:
            notes.fail("DRACO", f"its Draco data has no attribute {identifier} for {name}")
        values = found[identifier].reshape(len(found[identifier]), -1)
        if len(values) != count:
            notes.fail("DRACO", f"its Draco data has {len(values)} vertices of {count}")
        attributes[name] = values
    return attributes, corners


def _checked(document: Document, extension: Any) -> tuple[dict[str, Any], dict[str, int]]:
    described = extension if isinstance(extension, dict) else {}
    view, names = described.get("bufferView"), described.get("attributes")
    views = document.part("bufferViews")
    if not (type(view) is int and 0 <= view < len(views) and isinstance(names, dict)):
        document.notes.fail("TYPE_MISMATCH", f"its {DRACO} does not say where the data is")
    return views[view], {name: number for name, number in names.items() if type(number) is int}
