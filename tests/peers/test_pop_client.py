"""Apache's own client pops: from OrbitMQ, and the same program from Apache's broker."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.kit.brokers import others_at_night
from tests.needs import java, need
from tests.peers import suites
from tests.peers.apache import Apache
from tests.peers.machine import jars
from tests.peers.mqadmin_shell import POM

PROGRAM = Path(__file__).parent / "pop" / "PopClient.java"
SERVERS = {"orbitmq": suites.under_test(), "apache": Apache}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", others_at_night(SERVERS, ["orbitmq"]))
def test_the_calls_of_the_java_client_do_what_they_say(name: str, tmp_path: Path) -> None:
    need("java", "mvn")
    server = SERVERS[name].start(tmp_path / "store")
    try:
        ran = subprocess.run(
            [
                java(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                f"-Duser.home={tmp_path}",
                f"-Drocketmq.client.logRoot={tmp_path / 'logs'}",
                "-cp",
                f"{jars(POM, 'mqadmin-5.4.0')}/*",
                str(PROGRAM),
                server.namesrv,
                server.broker,
                "JavaPops",
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
    finally:
        server.kill()
    assert ran.stdout.strip().endswith("ok"), f"{ran.stdout[-2000:]}{ran.stderr[-3000:]}"
