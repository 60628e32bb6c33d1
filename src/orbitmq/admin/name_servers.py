"""Options of name servers."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from orbitmq.admin.admin import Admin
from orbitmq.options import OptionError
from orbitmq.options.properties import format_properties, parse_properties
from orbitmq.protocol.requests.route import GetNamesrvConfig, UpdateNamesrvConfig


async def namesrv_config(admin: Admin, address: str) -> dict[str, str]:
    """Every option of one name server, by Apache's name."""
    reply = await admin.call(address, GetNamesrvConfig())
    return dict(sorted(parse_properties(bytes(reply.body or b""), address).items()))


async def set_namesrv_options(
    admin: Admin, options: Mapping[str, str], server: str | None = None
) -> list[str]:
    """Sets options of all name servers that `admin` knows, or of one; gives their addresses.

    All options or none of a server, if one is refused. Raises OptionError for a name that it does not have:
    name servers pass over such names.
    """
    servers = [server] if server else list(admin.namesrv)
    for address in servers:
        present = await namesrv_config(admin, address)
        for name in options.keys() - present.keys():
            near = get_close_matches(name, present, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise OptionError(f"name server {address} has no option {name}{hint}")
    for address in servers:
        await admin.call(address, UpdateNamesrvConfig(format_properties(options).encode()))
    return servers
