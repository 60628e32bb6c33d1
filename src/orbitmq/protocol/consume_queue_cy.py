"""The scan of a consume queue by a pull: which units are wanted, and where their records are.

Hot: every pull passes here, with many units at once.
"""
# ruff: noqa: F821
# (Py_buffer is a name that only the compiler knows.)
# mypy: disable-error-code="name-defined,untyped-decorator,unused-ignore"

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )

__all__ = ["Run", "UnitScan", "match_units"]

_UNIT = Struct(">qiq")
_BLANK_SIZE = 0x7FFFFFFF


class Run(NamedTuple):
    """Records that stand back to back in the commit log, and are wanted."""

    physical_offset: int
    size: int
    """Of all of them, in bytes."""
    first_unit: int
    """Number of the first one's unit in the scanned buffer."""
    records: int


class UnitScan(NamedTuple):
    """What a scan over units found."""

    runs: list[Run]
    records: int
    """How many are wanted."""
    size: int
    """Their bytes."""
    units: int
    """How many were looked at: the next scan goes on behind them."""
    ended: bool
    """Whether it ended at a unit that was never written."""


def match_units(
    buf: Any,
    codes: frozenset[int] | None,
    max_count: cython.Py_ssize_t,
    max_bytes: cython.longlong,
    start: cython.Py_ssize_t = 0,
    end: cython.Py_ssize_t = 1 << 62,
    min_physical_offset: cython.longlong = 0,
) -> UnitScan:
    """Looks for units whose tags code is in `codes` (None: all) among units `start` to `end` of a buffer.

    Ends before the record that would be one more than `max_count`, or take the answer over `max_bytes`; the
    first record is taken however long it is. Neighbours in the log come as one run. Units of records before
    `min_physical_offset` (removed) and blank units are passed over.
    """
    runs: list[Run] = []
    count: cython.Py_ssize_t = 0
    total: cython.longlong = 0
    number: cython.Py_ssize_t = start
    physical: cython.longlong
    size: cython.longlong
    code: cython.longlong
    run_physical: cython.longlong = -1
    run_size: cython.longlong = 0
    run_first: cython.Py_ssize_t = 0
    run_count: cython.Py_ssize_t = 0
    available: cython.Py_ssize_t
    ended: bool = False
    if start < 0:
        raise ValueError(f"a scan from unit {start}")
    if cython.compiled:
        view: Py_buffer
        at: cython.pointer[cython.const[cython.uchar]]
        only: cython.longlong = 0
        one: cython.bint = False
        if codes is not None and len(codes) == 1:
            one = True
            (only,) = codes
        PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
        try:
            available = view.len // 20
            if end > available:
                end = available
            while number < end:
                at = cython.cast(cython.pointer[cython.const[cython.uchar]], view.buf) + number * 20
                physical = _long(at)
                size = _int(at + 8)
                if size <= 0 or physical < 0:
                    ended = True
                    break
                if size == 0x7FFFFFFF or physical < min_physical_offset:
                    number += 1
                    continue
                if codes is not None:
                    code = _long(at + 12)
                    if (code != only) if one else (code not in codes):
                        number += 1
                        continue
                if count >= max_count or (count > 0 and total + size > max_bytes):
                    break
                count += 1
                total += size
                if run_count > 0 and physical == run_physical + run_size:
                    run_size += size
                    run_count += 1
                else:
                    if run_count > 0:
                        runs.append(Run(run_physical, run_size, run_first, run_count))
                    run_physical = physical
                    run_size = size
                    run_first = number
                    run_count = 1
                number += 1
        finally:
            PyBuffer_Release(cython.address(view))
    else:
        view = memoryview(buf).cast("B")
        end = min(end, len(view) // 20)
        for physical, size, code in _UNIT.iter_unpack(view[start * 20 : max(start, end) * 20]):
            if size <= 0 or physical < 0:
                ended = True
                break
            if (
                size == _BLANK_SIZE
                or physical < min_physical_offset
                or (codes is not None and code not in codes)
            ):
                number += 1
                continue
            if count >= max_count or (count > 0 and total + size > max_bytes):
                break
            count += 1
            total += size
            if run_count and physical == run_physical + run_size:
                run_size += size
                run_count += 1
            else:
                if run_count:
                    runs.append(Run(run_physical, run_size, run_first, run_count))
                run_physical, run_size, run_first, run_count = physical, size, number, 1
            number += 1
    if run_count > 0:
        runs.append(Run(run_physical, run_size, run_first, run_count))
    return UnitScan(runs, count, total, number - start, ended)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int(at: cython.pointer[cython.const[cython.uchar]]) -> cython.int:
    """Compiled only, as is `_long`."""
    return cython.cast(
        cython.int, (cython.cast(cython.uint, at[0]) << 24) | (at[1] << 16) | (at[2] << 8) | at[3]
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _long(at: cython.pointer[cython.const[cython.uchar]]) -> cython.longlong:
    return (cython.cast(cython.longlong, _int(at)) << 32) | cython.cast(cython.uint, _int(at + 4))
