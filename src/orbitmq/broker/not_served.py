"""Requests to brokers that this one does not answer yet, or never will, and why.

They are answered with REQUEST_CODE_NOT_SUPPORTED. A test enforces that every declared broker request either
has a handler or stands here.
"""

from __future__ import annotations

_ROCKSDB = "this broker keeps nothing in RocksDB"
_MEMBERS = "a broker asks for the members of its group, and does not wait for a notice"
_COLD = "cold data is read in threads beside the loop: it holds nobody up, and needs no limits per group"

NOT_SERVED: dict[int, str] = {
    354: _ROCKSDB,
    355: _ROCKSDB,
    905: _MEMBERS,
    2001: _COLD,
    2002: _COLD,
    2003: _COLD,
    2004: "the log is read ahead by what readers need next, without advice to the kernel to switch",
    200056: _ROCKSDB,
}
"""Request code -> reason."""
