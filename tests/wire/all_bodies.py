"""Every JSON body and enum of the protocol, by class name."""

import importlib
import inspect
import pkgutil
from enum import Enum

from orbitmq.protocol import bodies
from orbitmq.protocol.schema.json_body import JsonBody

_SUBJECTS = [
    importlib.import_module(f"{bodies.__name__}.{one.name}") for one in pkgutil.iter_modules(bodies.__path__)
]
_CLASSES = {
    name: kind
    for module in _SUBJECTS
    for name, kind in inspect.getmembers(module, inspect.isclass)
    if kind.__module__ == module.__name__ and not name.startswith("_")
}

BODIES: dict[str, type[JsonBody]] = {
    name: kind for name, kind in _CLASSES.items() if issubclass(kind, JsonBody)
}
ENUMS: dict[str, type[Enum]] = {name: kind for name, kind in _CLASSES.items() if issubclass(kind, Enum)}
