"""Accessors: typed views of buffers (strided, sparse, normalised), and Draco data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError
from supple.formats.gltf.document import DRACO, Document

COMPONENTS: dict[int, np.dtype[Any]] = {
    5120: np.dtype("<i1"),
    5121: np.dtype("<u1"),
    5122: np.dtype("<i2"),
    5123: np.dtype("<u2"),
    5125: np.dtype("<u4"),
    5126: np.dtype("<f4"),
}
COLUMNS_AND_ROWS = {
    "SCALAR": (1, 1),
    "VEC2": (1, 2),
    "VEC3": (1, 3),
    "VEC4": (1, 4),
    "MAT2": (2, 2),
    "MAT3": (3, 3),
    "MAT4": (4, 4),
}
# Most numbers of an accessor without data in the file, which are allocated as declared.
MOST_NUMBERS_FROM_NOTHING = 30_000_000
# Most numbers that are checked in all accessors, used or not.
MOST_NUMBERS_CHECKED = 200_000_000


class _Layout(NamedTuple):
    """Columns and rows of an element, and the type of its numbers."""

    columns: int
    rows: int
    dtype: np.dtype[Any]

    @property
    def column_bytes(self) -> int:
        """Bytes of one column; columns of a matrix are padded to a multiple of four."""
        size = self.rows * self.dtype.itemsize
        return size if self.columns == 1 else -(-size // 4) * 4


def _layout(accessor: dict[str, Any]) -> _Layout:
    dtype = COMPONENTS[accessor["componentType"]]
    return _Layout(*COLUMNS_AND_ROWS[accessor["type"]], dtype)


class Accessors:
    """Accessors of a document, checked against the bytes of its buffers."""

    def __init__(self, document: Document) -> None:
        self.document, self._notes = document, document.notes
        self._accessors = document.part("accessors")
        self._views = document.part("bufferViews")
        for index, view in enumerate(self._views):
            self._check_view(index, view)
        for index, accessor in enumerate(self._accessors):
            self._check(index, accessor)
        self._check_contents()

    def describe(self, index: int) -> tuple[str, int, bool]:
        """Return an accessor's type, component type and normalised flag."""
        accessor = self._accessors[index]
        return accessor["type"], accessor["componentType"], accessor.get("normalized", False)

    def count(self, index: int) -> int:
        """Return an accessor's number of elements."""
        return self._accessors[index]["count"]

    def has_bounds(self, index: int) -> bool:
        """Return whether the accessor declares its minimum and maximum."""
        return {"min", "max"} <= self._accessors[index].keys()

    def raw(self, index: int) -> NDArray[Any]:
        """Return the elements as stored, (count, components)."""
        accessor = self._accessors[index]
        layout, count = _layout(accessor), accessor["count"]
        width = layout.columns * layout.rows
        if "bufferView" in accessor:
            values = self._strided(accessor, count, layout)
        else:
            if count * width > MOST_NUMBERS_FROM_NOTHING:
                what = f"accessor {index} declares {count:,} elements and has no data"
                self._notes.fail("ACCESSOR_TOO_LONG", f"{what}; it is damaged")
            values = np.zeros((count, width), layout.dtype)
        if "sparse" in accessor:
            self._fill_sparse(index, accessor["sparse"], values, layout)
        return values

    def floats(self, index: int) -> NDArray[np.float64]:
        """Return the elements as finite float64, (count, components).

        Normalised integers are scaled to [-1, 1]. Raises FormatError if a number is not finite.
        """
        values = self.scaled(index, self.raw(index))
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            message = f"element {int(np.argmin(finite))} of accessor {index} is not finite"
            self._notes.fail("ACCESSOR_INVALID_FLOAT", message)
        return values

    def scaled(self, index: int, stored: NDArray[Any]) -> NDArray[np.float64]:
        """Return stored elements as float64; normalised integers are scaled to [-1, 1]."""
        _, component, normalized = self.describe(index)
        values = stored.astype(np.float64)
        if normalized and COMPONENTS[component].kind in "iu":
            # The most negative integer is -1 as well.
            values = np.maximum(values / np.iinfo(COMPONENTS[component]).max, -1.0)
        return values

    def _strided(self, span: dict[str, Any], count: int, layout: _Layout) -> NDArray[Any]:
        """Return a copy of the elements (count, components) at the view and offset of `span`."""
        view, (columns, rows, dtype) = self._views[span["bufferView"]], layout
        data = self.document.buffers[view["buffer"]]
        stride = view.get("byteStride", columns * layout.column_bytes)
        start = view.get("byteOffset", 0) + span.get("byteOffset", 0)
        strides = (stride, layout.column_bytes, dtype.itemsize)
        shape = (count, columns, rows)
        strided: NDArray[Any] = np.ndarray(shape, dtype, data, start, strides)
        return strided.reshape(count, columns * rows).copy()

    def _fill_sparse(
        self, index: int, sparse: dict[str, Any], values: NDArray[Any], layout: _Layout
    ) -> None:
        count, indices = sparse["count"], sparse["indices"]
        of_indices = _Layout(1, 1, COMPONENTS[indices["componentType"]])
        positions = self._strided(indices, count, of_indices)[:, 0].astype(np.int64)
        if positions.max() >= len(values):
            message = f"accessor {index} replaces element {positions.max()} but has {len(values)}"
            self._notes.fail("ACCESSOR_SPARSE_INDEX_OOB", message)
        if (np.diff(positions) <= 0).any():
            message = f"accessor {index} replaces elements out of order; the last one is used"
            self._notes.warn("ACCESSOR_SPARSE_INDICES_NON_INCREASING", message)
        values[positions] = self._strided(sparse["values"], count, layout)

    # Checks before anything is read.

    def _check_view(self, index: int, view: dict[str, Any]) -> None:
        length, offset = view["byteLength"], view.get("byteOffset", 0)
        available = self.document.part("buffers")[view["buffer"]]["byteLength"]
        if offset + length > available:
            what = f"buffer view {index} ends at byte {offset + length}"
            self._notes.fail("BUFFER_VIEW_TOO_LONG", f"{what} of a buffer of {available}")
        stride = view.get("byteStride")
        if stride is not None and stride % 4:
            code = "VALUE_MULTIPLE_OF"
            self._notes.warn(code, f"buffer view {index} has a stride of {stride}; read unchanged")
        if stride is not None and stride > length:
            code = "BUFFER_VIEW_TOO_BIG_BYTE_STRIDE"
            self._notes.warn(code, f"buffer view {index} has {length} bytes, fewer than its stride")

    def _check(self, index: int, accessor: dict[str, Any]) -> None:
        layout = _layout(accessor)
        if accessor.get("normalized") and accessor["componentType"] in (5125, 5126):
            code = "ACCESSOR_NORMALIZED_INVALID"
            self._notes.warn(code, f"accessor {index} cannot be normalised; the flag is ignored")
            accessor["normalized"] = accessor["componentType"] == 5125
        for key in ("min", "max"):
            if key in accessor and len(accessor[key]) != layout.columns * layout.rows:
                code = f"ACCESSOR_{key.upper()}_MISMATCH"
                self._notes.warn(code, f"accessor {index} has a {key} of the wrong length; ignored")
                del accessor[key]
        if "bufferView" in accessor:
            self._check_span(index, accessor, accessor["count"], layout)
        elif "byteOffset" in accessor:
            code = "UNSATISFIED_DEPENDENCY"
            self._notes.warn(code, f"accessor {index} has an offset but no buffer view; ignored")
        sparse = accessor.get("sparse")
        if sparse:
            if sparse["count"] > accessor["count"]:
                code = "ACCESSOR_SPARSE_COUNT_OUT_OF_RANGE"
                self._notes.fail(code, f"accessor {index} replaces more elements than it has")
            of_indices = _Layout(1, 1, COMPONENTS[sparse["indices"]["componentType"]])
            self._check_span(index, sparse["indices"], sparse["count"], of_indices)
            self._check_span(index, sparse["values"], sparse["count"], layout)

    def _check_span(self, index: int, span: dict[str, Any], count: int, layout: _Layout) -> None:
        view, (columns, rows, dtype) = self._views[span["bufferView"]], layout
        stride = view.get("byteStride", columns * layout.column_bytes)
        element = (columns - 1) * layout.column_bytes + rows * dtype.itemsize
        offset = span.get("byteOffset", 0)
        if offset % (4 if columns > 1 else dtype.itemsize):
            code = "ACCESSOR_MATRIX_ALIGNMENT" if columns > 1 else "ACCESSOR_OFFSET_ALIGNMENT"
            self._notes.warn(code, f"accessor {index} begins at byte {offset}; read unchanged")
        elif (offset + view.get("byteOffset", 0)) % dtype.itemsize:
            code = "ACCESSOR_TOTAL_OFFSET_ALIGNMENT"
            self._notes.warn(code, f"accessor {index} is not aligned; read unchanged")
        if stride < element:
            message = f"accessor {index} has elements longer than its stride of {stride}"
            self._notes.fail("ACCESSOR_SMALL_BYTESTRIDE", message)
        end = offset + (count - 1) * stride + element
        if end > view["byteLength"]:
            what = f"accessor {index} ends at byte {end} of a view of {view['byteLength']}"
            self._notes.fail("ACCESSOR_TOO_LONG", f"{what}; it is damaged or cut off")

    # Checks of all stored numbers, used or not.

    def _check_contents(self) -> None:
        budget = MOST_NUMBERS_CHECKED
        for index, accessor in enumerate(self._accessors):
            columns, rows = COLUMNS_AND_ROWS[accessor["type"]]
            budget -= accessor["count"] * columns * rows
            if budget < 0:
                return
            if self.has_data(index):
                self._check_numbers(index, accessor, self.raw(index))

    def has_data(self, index: int) -> bool:
        """Return whether an accessor has a buffer view, and all buffers that it uses have data."""
        accessor = self._accessors[index]
        sparse = accessor.get("sparse")
        spans = [accessor, *([sparse["indices"], sparse["values"]] if sparse else [])]
        used = [span["bufferView"] for span in spans if "bufferView" in span]
        present = self.document.buffers.present
        return bool(used) and all(present(self._views[view]["buffer"]) for view in used)

    def _check_numbers(self, index: int, accessor: dict[str, Any], values: NDArray[Any]) -> None:
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            code = "ACCESSOR_INVALID_FLOAT"
            self._notes.warn(code, f"accessor {index} has numbers that are not finite")
            return
        for key, actual in (("min", values.min(axis=0)), ("max", values.max(axis=0))):
            if key not in accessor:
                continue
            declared = np.asarray(accessor[key], np.float64)
            # Writers round the declared bounds.
            noise = 1e-5 * max(float(np.abs(values.astype(np.float64)).max()), 1e-30)
            if (np.abs(declared - actual) > noise).any():
                code = f"ACCESSOR_{key.upper()}_MISMATCH"
                self._notes.warn(code, f"accessor {index} declares a wrong {key}; ignored")


# Draco-compressed primitives, when a decoder is installed.


def decode_draco(
    document: Document, primitive: dict[str, Any], count: int
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Decode a primitive; return attributes (n, components) by name and triangle corners (3 m,).

    Attributes are not scaled. `count` is the declared number of vertices.
    """
    notes = document.notes
    try:
        import DracoPy
    except ImportError:
        raise FormatError(
            f"{notes.name}: is compressed with Draco; run pip install 'supple[draco]', or save it"
            f" without compression"
        ) from None
    extension = primitive["extensions"][DRACO]
    view, names = _checked(document, extension)
    start = view.get("byteOffset", 0)
    data = bytes(document.buffers[view["buffer"]][start : start + view["byteLength"]])
    try:
        decoded = DracoPy.decode(data)
        arrays = {a["unique_id"]: np.asarray(a["data"]) for a in decoded.attributes}
        corners = np.asarray(decoded.faces, dtype=np.int64).ravel()
    except Exception as error:
        notes.fail("DRACO", f"its Draco data cannot be decoded ({str(error)[:80]}); save it again")
    attributes = {}
    for name, number in names.items():
        if number not in arrays:
            notes.fail("DRACO", f"its Draco data has no attribute {number} for {name}")
        values = arrays[number].reshape(len(arrays[number]), -1)
        if len(values) != count:
            notes.fail("DRACO", f"its Draco data has {len(values)} vertices, not {count}")
        attributes[name] = values
    return attributes, corners


def _checked(document: Document, extension: Any) -> tuple[dict[str, Any], dict[str, int]]:
    fields = extension if isinstance(extension, dict) else {}
    view, names = fields.get("bufferView"), fields.get("attributes")
    views = document.part("bufferViews")
    if not (type(view) is int and 0 <= view < len(views) and isinstance(names, dict)):
        document.notes.fail("TYPE_MISMATCH", f"its {DRACO} does not locate the data; save it again")
    return views[view], {name: number for name, number in names.items() if type(number) is int}
