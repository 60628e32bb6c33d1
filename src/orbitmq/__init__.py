"""OrbitMQ: messaging for Python teams over Apache RocketMQ's wire protocol and file formats.

Everything an application needs to send and receive is here: `orbitmq.Producer`, `orbitmq.PushConsumer`,
`orbitmq.Message` and their kin; blocking forms of the same are in `orbitmq.sync`. They are loaded when first
asked for, so that `import orbitmq` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.admin import Admin as Admin
    from orbitmq.client import *  # noqa: F403
    from orbitmq.client.shared import *  # noqa: F403
    from orbitmq.net.errors import CallTimeout as CallTimeout
    from orbitmq.net.errors import ConnectFailed as ConnectFailed
    from orbitmq.net.errors import ConnectionLost as ConnectionLost
    from orbitmq.net.errors import NetError as NetError
    from orbitmq.protocol.errors import BrokerRefused as BrokerRefused
    from orbitmq.protocol.errors import OrbitError as OrbitError

__version__ = "0.3.0"

_ELSEWHERE = {
    "orbitmq.admin": ("Admin",),
    "orbitmq.net.errors": ("CallTimeout", "ConnectFailed", "ConnectionLost", "NetError"),
    "orbitmq.protocol.errors": ("BrokerRefused", "OrbitError"),
}
_OPTIONS = {"BatchHandler", "ClientOptions", "ConsumerOptions", "Handler", "ProducerOptions"}
"""Names of the client that only functions over it need."""

if not TYPE_CHECKING:  # type checkers know all names from the imports above

    def __getattr__(name: str) -> Any:
        """Loads what is asked for. The names are those of `orbitmq.client`, and some of other packages."""
        # Python also asks for submodules here, before it imports them: they do not load the client.
        if name[:1].isupper() or name in ("run", "serve", "__all__"):
            from importlib import import_module

            home = {one: module for module, names in _ELSEWHERE.items() for one in names}
            public = {*import_module("orbitmq.client").__all__, *home, "__version__"} - _OPTIONS
            if name == "__all__":
                return sorted(public)
            if name in public:
                module = import_module(home.get(name, "orbitmq.client"))
                value = globals()[name] = getattr(module, name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return __getattr__("__all__")
