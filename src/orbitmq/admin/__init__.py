"""Administration: everything an operator can ask of name servers and brokers, as functions over one `Admin`.

    async with Admin("127.0.0.1:9876") as admin:
        route = await topic_route(admin, "flights")

Each command is one file in `orbitmq.admin.commands`: the function, and its face on the command line.
"""

from orbitmq.admin.admin import Admin, BrokerAt, NoBroker

__all__ = ["Admin", "BrokerAt", "NoBroker"]
