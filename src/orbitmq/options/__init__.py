"""Options: rows, the sources values come from, and what they become."""

from orbitmq.options.declare import Long, Settings, declared, option
from orbitmq.options.errors import (
    InvalidValue,
    NotAtRunTime,
    OptionError,
    RefusedValue,
    UnknownOption,
    UnreadableSource,
)
from orbitmq.options.option import Option, Status, Value
from orbitmq.options.sources import Layer, from_assignments, from_environment, read_file
from orbitmq.options.table import OptionTable

__all__ = [
    "InvalidValue",
    "Layer",
    "Long",
    "NotAtRunTime",
    "Option",
    "OptionError",
    "OptionTable",
    "RefusedValue",
    "Settings",
    "Status",
    "UnknownOption",
    "UnreadableSource",
    "Value",
    "declared",
    "from_assignments",
    "from_environment",
    "option",
    "read_file",
]
