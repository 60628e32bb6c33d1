"""Every exception that a program can meet, in one place: `from orbitmq.errors import NoPermission`.

OrbitError
├── ClientError      a failure on this side: arguments, unknown topics, sends that failed
├── BrokerRefused    a peer's answer, with `.code` and `.remark`; a subclass per kind of answer
├── NetError         the network between; peers and name servers that do not answer
├── IllegalName      a name that no topic or group may have
└── Malformed        bytes that are not what they claim to be
"""

from __future__ import annotations

from orbitmq.client.core.errors import *  # noqa: F403
from orbitmq.client.producer.producer import BatchPartlySent as BatchPartlySent
from orbitmq.client.sending.attempts import BrokerUnknown as BrokerUnknown
from orbitmq.client.sending.attempts import MasterMoved as MasterMoved
from orbitmq.net.errors import *  # noqa: F403
from orbitmq.net.server_kinds import WrongServer as WrongServer
from orbitmq.protocol.errors import *  # noqa: F403
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import IllegalName as IllegalName

__all__ = sorted(
    name
    for name, value in globals().items()
    # `Refused` is raised by servers alone: clients get BrokerRefused for it.
    if isinstance(value, type) and issubclass(value, OrbitError) and name != "Refused"
)
