"""Administration: everything an operator can ask of name servers and brokers, as functions over one `Admin`.

    async with Admin("127.0.0.1:9876") as admin:
        route = await admin.topic_route("flights")

Each module is a subject; its functions take the `Admin`. The questions that programs ask most are methods of
`Admin` as well. The commands in `orbitmq.cli.admin` are a thin layer over both.
"""

from orbitmq.admin.admin import BrokerAt, NoBroker
from orbitmq.admin.methods import Admin

__all__ = ["Admin", "BrokerAt", "NoBroker"]
