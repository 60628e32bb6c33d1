"""Administration: everything an operator can ask of name servers and brokers, as functions over one `Admin`.

    async with Admin("127.0.0.1:9876") as admin:
        route = await admin.topic_route("flights")

Each command is one file in `orbitmq.admin.commands`: the function, and its decorator `@command` for the
command line. The questions that programs ask most are methods of `Admin`.
"""

from orbitmq.admin.admin import BrokerAt, NoBroker
from orbitmq.admin.methods import Admin

__all__ = ["Admin", "BrokerAt", "NoBroker"]
