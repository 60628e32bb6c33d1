"""Walk over the records of a buffer that adds the selected messages to a batch.

Hot: every record that Spark reads passes here. `locate_records` has checked the records and found their
parts. Compiled, this walk reads the fields in place and makes no Python object per message, but for
compressed bodies and inner batches. Interpreted, `plain_batch` decodes one record after the other. Both ways
give the same batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.compression import CompressionError, CompressionMissing, inflate
from orbitmq.protocol.records.inner_batch import plain_messages
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.spark.read import plain_batch
from orbitmq.spark.read.column_types import MAX_QUEUE_OFFSET

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.located import get_parts  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.parts import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.spark.read.batch_builder_cy import BatchBuilder  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.spark.read.row import Row, find_properties  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.spark.read.selection_cy import Selection  # type: ignore[import-not-found]


def collect_records(
    batch: Any,
    selection: Any,
    buf: Any,
    table: bytearray,
    first: cython.Py_ssize_t,
    on_bad: Callable[[BadRecord], object],
    limit: cython.longlong = MAX_QUEUE_OFFSET,
    base: cython.longlong = -1,
    max_bytes: cython.longlong = -1,
) -> int:
    """Adds the records of a table of `locate_records` from number `first` on; gives the number to go on with.

    The walk ends behind the last record, behind a record that was passed to `on_bad`, before the first one
    that begins at `limit` or later, and behind the one with which the batch reached `max_bytes` (-1: no
    bound). With a `base` of 0 or more, a record has to name the physical offset `base` plus its place in the
    buffer, and a queue offset. Raises CompressionMissing.
    """
    if not cython.compiled:
        return plain_batch.collect_records(
            batch, selection, buf, table, first, on_bad, limit, base, max_bytes
        )
    view: Py_buffer
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        return _collect(
            batch, selection, buf, span_over(view.buf, view.len), table, first, on_bad, limit, base, max_bytes
        )
    finally:
        PyBuffer_Release(cython.address(view))


@cython.cfunc
def _collect(
    batch: BatchBuilder,
    selection: Selection,
    buf: object,
    data: Span,
    table: bytearray,
    first: cython.Py_ssize_t,
    on_bad: Callable[[BadRecord], object],
    limit: cython.longlong,
    base: cython.longlong,
    max_bytes: cython.longlong,
) -> cython.Py_ssize_t:
    """Compiled only."""
    rows: Reader = reader_over(rest_of(span_of_array(table), first * 64))
    row: Row
    number: cython.Py_ssize_t = first
    row.data = data
    find_properties(no_span(), cython.address(row.found), False)
    try:
        while get_parts(cython.address(rows), cython.address(row.parts)):
            if row.parts.record >= limit:
                break
            if base >= 0:
                _check_place(cython.address(row), base)
            if selection.takes_located(data, cython.address(row.parts)):
                _add_record(batch, selection, buf, cython.address(row))
            number += 1
            if 0 <= max_bytes <= batch.weight:
                break
    except (BadRecord, CompressionError) as error:
        on_bad(plain_batch.bad_record_of(error, row.parts.record))
        number += 1
    return number


@cython.cfunc
@cython.inline
def _check_place(row: cython.pointer[Row], base: cython.longlong) -> cython.int:
    """Raises BadRecord for a record that is not where it says. Compiled only."""
    physical_offset: cython.longlong = physical_offset_of(row.data, cython.address(row.parts))
    queue_offset: cython.longlong = queue_offset_of(row.data, cython.address(row.parts))
    if physical_offset != base + row.parts.record or queue_offset < 0:
        raise plain_batch.misplaced(physical_offset, base + row.parts.record, queue_offset)
    return 0


@cython.cfunc
@cython.inline
def _add_record(
    batch: BatchBuilder, selection: Selection, buf: object, row: cython.pointer[Row]
) -> cython.int:
    """Adds the message of a record, or the messages of an inner batch. Compiled only."""
    body: bytes
    row.sys_flag = sys_flag_of(row.data, cython.address(row.parts))
    if is_inner_batch(row.sys_flag):
        _add_inner_batch(batch, selection, buf, row)
        return 0
    row.queue_offset = queue_offset_of(row.data, cython.address(row.parts))
    row.properties = properties_of_record(row.data, cython.address(row.parts))
    if not _takes_message(batch, selection, row):
        return 0
    row.flag = flag_of(row.data, cython.address(row.parts))
    row.body = body_of(row.data, cython.address(row.parts))
    if batch.body is not None and is_compressed(row.sys_flag):
        try:
            body = inflate(bytes_of(row.body), row.sys_flag, batch.max_body_bytes)
            row.body = span_of(body)
        except CompressionError as error:
            _note_unreadable(batch, error)
            row.body = no_span()
    batch.add_row(row)
    return 0


@cython.cfunc
def _note_unreadable(batch: BatchBuilder, error: Exception) -> cython.int:
    """Counts a body that is null. Raises the error if there may be none. Compiled only."""
    if not batch.null_unreadable or isinstance(error, CompressionMissing):
        raise error
    batch.unreadable += 1
    batch.unreadable_reason = plain_batch.reason_of(error)
    return 0


@cython.cfunc
def _add_inner_batch(
    batch: BatchBuilder, selection: Selection, buf: object, row: cython.pointer[Row]
) -> cython.int:
    """Compiled only."""
    properties: bytes
    body: bytes
    record = decode_record(buf, row.parts.record, False)
    try:
        messages = plain_messages(record, batch.max_body_bytes)
    except (BadRecord, CompressionError) as error:
        _note_unreadable(batch, error)
        # One row stands for the messages, of which nobody knows the number.
        row.queue_offset = queue_offset_of(row.data, cython.address(row.parts))
        row.properties = properties_of_record(row.data, cython.address(row.parts))
        if _takes_message(batch, selection, row):
            row.flag = flag_of(row.data, cython.address(row.parts))
            row.body = no_span()
            batch.add_row(row)
        return 0
    for message in messages:
        properties = message.properties
        row.queue_offset = message.queue_offset
        row.properties = span_of(properties)
        if _takes_message(batch, selection, row):
            body = message.body
            row.flag = message.flag
            row.body = span_of(body)
            batch.add_row(row)
    return 0


@cython.cfunc
@cython.inline
def _takes_message(batch: BatchBuilder, selection: Selection, row: cython.pointer[Row]) -> cython.bint:
    """True if queue offset and tag are selected. Finds the properties if they are needed. Compiled only."""
    if not selection.from_queue_offset <= row.queue_offset < selection.to_queue_offset:
        return False
    if batch.reads_properties or selection.has_tags:
        find_properties(row.properties, cython.address(row.found), batch.map_ends is not None)
        return not selection.has_tags or selection.takes_tag_span(row.found.tags)
    return True
