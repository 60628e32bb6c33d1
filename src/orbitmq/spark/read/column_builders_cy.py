"""Columns of an Arrow batch while they grow.

Hot: every value that Spark reads is added to one. A column grows as plain memory in Arrow's own layout, which
Arrow takes over without a copy: the values one after the other; for texts their bytes, and beside them the
place where each ends. Compiled only; `plain_batch` collects Python values where nothing is compiled.
`column_builders_cy.pxd` has the fields, and the calls that add a value.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

if cython.compiled:
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]

_LEAST_BYTES = cython.declare(cython.Py_ssize_t, 1024)


@cython.final
@cython.cclass
class BufferBuilder:
    """Bytes that grow at their end.

    Adding raises nothing, so no caller has to check after each value: `finish` raises if memory was short.
    """

    def __init__(self, size_bytes: int) -> None:
        self._failed = False
        self._memory = new_array(size_bytes)
        self.out = writer_of(self._memory)

    def grow(self, more):
        """Makes room for so many bytes more."""
        try:
            make_room(self._memory, cython.address(self.out), more)
        except MemoryError:
            self._failed = True

    def finish(self) -> Any:
        """The bytes for Arrow, which keeps them: nothing may be added afterwards. Raises MemoryError."""
        if self._failed:
            raise MemoryError("no memory for a column of a batch")
        del self._memory[self.size_bytes() :]
        return pa.py_buffer(self._memory)


@cython.final
@cython.cclass
class ColumnBuilder:
    """One column: numbers of 4 or 8 bytes, or texts."""

    def __init__(self, kind: Any, before: Any = None) -> None:
        """`before` is the same column of the last batch: this one will hardly be larger."""
        last: ColumnBuilder
        data_bytes: cython.Py_ssize_t = _LEAST_BYTES
        offset_bytes: cython.Py_ssize_t = _LEAST_BYTES
        if before is not None:
            last = before
            data_bytes += last._data.size_bytes() + last._data.size_bytes() // 8
            offset_bytes += 4 * (last.rows + last.rows // 8)
        self._kind = kind
        self._width = 0 if kind in (pa.string(), pa.binary()) else kind.bit_width // 8
        self.rows: int = 0
        self._null_count = 0
        self._data: Any = BufferBuilder(data_bytes)
        self._nulls = BufferBuilder(_LEAST_BYTES)
        self._offsets: Any = None
        if self._width == 0:
            self._offsets = BufferBuilder(offset_bytes)
            self._offsets.put_int(0)

    def finish(self) -> Any:
        """The column as an Arrow array. Nothing may be added afterwards. Raises MemoryError."""
        buffers = [self._validity()]
        if self._width == 0:
            buffers.append(self._offsets.finish())
        buffers.append(self._data.finish())
        return pa.Array.from_buffers(self._kind, self.rows, buffers, self._null_count)

    def _validity(self):
        """Arrow's bitmap of the rows that are not null; None if all are."""
        row: cython.Py_ssize_t
        if self._null_count == 0:
            return None
        bitmap: bytearray = bytearray(b"\xff") * ((self.rows + 7) // 8)
        numbers: Reader = reader_over(span_written(cython.address(self._nulls.out)))
        while unread(cython.address(numbers)):
            row = get_native_i64(cython.address(numbers))
            bitmap[row >> 3] &= ~(1 << (row & 7)) & 0xFF
        return pa.py_buffer(bitmap)
