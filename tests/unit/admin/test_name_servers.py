"""Options of name servers, asked for and set at a real one."""

from __future__ import annotations

import pytest

from orbitmq import Admin
from orbitmq.admin.name_servers import namesrv_config, set_namesrv_options
from orbitmq.options import OptionError
from orbitmq.testing import LocalBroker


async def test_options_are_set_at_all_servers_and_unknown_ones_are_refused() -> None:
    with LocalBroker() as broker:
        async with Admin(broker.namesrv) as admin:
            [server] = admin.namesrv
            assert (await namesrv_config(admin, server))["listenPort"] == server.rpartition(":")[2]
            assert await set_namesrv_options(admin, {"returnOrderTopicConfigToBroker": "false"}) == [server]
            assert (await namesrv_config(admin, server))["returnOrderTopicConfigToBroker"] == "false"
            with pytest.raises(OptionError, match=r"has no option logLevl; did you mean logLevel\?"):
                await set_namesrv_options(admin, {"logLevl": "debug"}, server)
