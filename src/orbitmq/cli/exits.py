"""The end of a command: one line for a person, and a code for a script.

  0  done; for a server: it was asked to stop, and did
  1  it did not work: a peer refused, could not be reached, or did not answer in time
  2  the command line or an option is wrong
  3  an address cannot be listened on: the port is taken, or not ours to take
  4  the data folder is locked by another broker
  5  the data folder cannot be used: no permission, damaged, or not a broker's
  6  the disk is full
130  interrupted
"""

from __future__ import annotations

import errno
import os
from enum import IntEnum

from orbitmq.net.errors import BadAddress
from orbitmq.options import OptionError
from orbitmq.protocol.errors import NoPermission, OrbitError


class ExitCode(IntEnum):
    """See the module's text."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    CANNOT_LISTEN = 3
    DATA_LOCKED = 4
    DATA_UNUSABLE = 5
    DISK_FULL = 6
    INTERRUPTED = 130


def explain(error: BaseException) -> tuple[ExitCode, str] | None:
    """The exit code and the line for an error that a user can do something about; None for a bug."""
    cause = _disk_full(error)
    if cause is not None:
        return ExitCode.DISK_FULL, f"the disk is full: {_line(cause)}"
    if isinstance(error, (OptionError, BadAddress)):
        return ExitCode.USAGE, _line(error)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    # The packages of servers are imported by servers only: their errors are known here by name.
    if "CannotListen" in kinds:
        return ExitCode.CANNOT_LISTEN, _line(error)
    if "StoreLocked" in kinds:
        return ExitCode.DATA_LOCKED, _line(error)
    if kinds & {"StoreError", "StartError"}:
        return ExitCode.DATA_UNUSABLE, _line(error)
    refused = _refused(error)
    if refused is not None:
        return ExitCode.FAILED, f"{_line(refused)}{_advice(refused)}"
    if isinstance(error, OrbitError):
        return ExitCode.FAILED, _line(error)
    if isinstance(error, BrokenPipeError):
        return ExitCode.FAILED, ""
    if isinstance(error, OSError):
        return ExitCode.DATA_UNUSABLE, _line(error)
    return None


def _disk_full(error: BaseException) -> OSError | None:
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError) and at.errno in (errno.ENOSPC, errno.EDQUOT):
            return at
        at = at.__cause__ or at.__context__
    return None


def _refused(error: BaseException) -> NoPermission | None:
    """The refusal behind an error: after several tries it stands in the cause, once for each of them."""
    at: BaseException | None = error
    while at is not None and not isinstance(at, NoPermission):
        at = at.__cause__
    return at


def _advice(refused: NoPermission) -> str:
    if refused.wants_signature:
        return (
            "; the broker has access control: give --access-key USER, with the secret in "
            "ORBITMQ_SECRET_KEY or in the file of --secret-file"
        )
    if "check signature failed" in (refused.remark or ""):
        return "; the secret does not belong to the user of --access-key"
    return ""


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
