"""The one helpful sentence of a failed Spark job, out of pages of stack trace."""

from __future__ import annotations

import re

from orbitmq.protocol.errors import OrbitError


class JobFailed(OrbitError):
    """A job did not work; the message says why."""


_OURS = re.compile(r"^(?:[\w.]*: )?orbitmq(?:\.\w+)*\.\w+: (.+)$", re.MULTILINE)
"""The last line of a traceback in a worker: `orbitmq.spark.errors.DataLost: what it says`."""
_ANY = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Interrupt|Exit)): (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)*([\w$]+): (.+)$", re.MULTILINE)
"""An exception of the JVM or a cause of it; the last one is the origin."""
_CONDITION = re.compile(r"^\[([A-Z_.]+)\] ")


def as_failure(error: BaseException) -> JobFailed | None:
    """The failure to show for an error of PySpark's; None for any other."""
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return None
    return JobFailed(useful_line(str(error)))


def useful_line(text: str) -> str:
    """The message of our own code, else the last Python error, else the JVM's, else the first line."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    errors = [found for found in _ANY.findall(text) if found[0] not in ("SparkException", "PythonException")]
    if errors:
        kind, said = errors[-1]
        return f"{kind}: {said.strip()}"
    causes = _CAUSE.findall(text)
    if causes:
        return f"{causes[-1][0]}: {_CONDITION.sub('', causes[-1][1].strip())}"
    first = text.strip().splitlines()[0] if text.strip() else "Spark gave no reason"
    return _CONDITION.sub("", first)
