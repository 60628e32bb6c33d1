"""The HA port with TLS and with credentials: slaves of the group get the log, nobody else a byte of it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from functools import partial
from pathlib import Path

import pytest

from orbitmq.broker.metrics import samples
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.options import Layer, OptionError
from orbitmq.protocol.replication import encode_report
from orbitmq.protocol.replication_sign_in import OPENING, Claim, encode_claim
from orbitmq.server.ha.master import MAX_SLAVES
from orbitmq.server.lifecycle.broker_server import BrokerServer
from tests.certificates import Authority
from tests.kit.replication import Group, ha_stream, log_of, slave_of, until
from tests.kit.running_standalone import Running, running

OWN = {"innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}'}
SIGNED: dict[str, object] = {"haAuthenticationEnable": True, **OWN}


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Options of brokers that prove who they are to each other by certificates."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    own = authority.issue("broker")
    return {
        "haTlsEnable": True,
        "tls.enable": True,
        "tls.client.authServer": True,
        "tls.client.trustCertPath": str(authority.cert),
        "tls.server.certPath": str(own.cert),
        "tls.server.keyPath": str(own.key),
    }


def certificate_of(options: dict[str, object]) -> dict[str, object]:
    """Options of a name server that brokers with these options trust."""
    return {name: value for name, value in options.items() if name.startswith("tls.server.")}


def refused(here: Running) -> dict[str, float]:
    """Number of refused connections by cause, as metrics tell it; those that are not 0."""
    found = [one for one in samples(here.broker.broker, 0) if one is not None]
    return {
        one.labels[0]: one.value
        for one in found
        if one.family == "orbitmq_replication_refused_total" and one.value
    }


def refuses(slave: BrokerServer, says: str) -> bool:
    """True if a slave does not follow, for that reason."""
    return says in slave.broker.replication.refusal


async def sent_to(here: Running, said: bytes) -> bytes:
    """All that a stranger gets who says this and nothing more."""
    reader, writer = await ha_stream(here)
    writer.write(said)
    got = b""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(1 << 16):
            got += piece
    writer.close()
    return got


@pytest.mark.parametrize("broker_role", ["ASYNC_MASTER", "SYNC_MASTER"])
async def test_with_tls_and_credentials_the_log_follows(
    tmp_path: Path, encrypted: dict[str, object], broker_role: str
) -> None:
    both: dict[str, object] = {**SIGNED, **encrypted}
    given = {**both, "brokerRole": broker_role, "inSyncReplicas": 2}
    async with (
        running(tmp_path / "m", certificate_of(both), **given) as here,
        slave_of(here, tmp_path / "s", **both) as slave,
    ):
        await until(Group(here, slave).is_level)
        await here.send(body=bytes(3 << 20))
        await here.send(body=b"secret body")
        await until(Group(here, slave).is_level)
        assert log_of(slave) == log_of(here.broker)
        assert refused(here) == {}
        # The line breaks, and is made anew.
        assert here.broker.replication.server is not None
        here.broker.replication.server.connections[0].end("")
        await here.send(body=b"behind")
        await until(Group(here, slave).is_level)
        assert log_of(slave) == log_of(here.broker)


async def test_a_slave_with_the_wrong_secret_gets_nothing_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {**SIGNED, "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"wrong"}'}
    async with running(tmp_path / "m", **SIGNED) as here:
        await here.send()
        async with slave_of(here, tmp_path / "s", **wrong) as slave:
            await until(lambda: "refuses the credentials of 'inner'" in slave.broker.replication.refusal)
            assert slave.store.max_physical == 0
            assert here.broker.broker.promise.links.all == []
            assert refused(here)["credentials"] >= 1
    assert "does not follow" in caplog.text
    assert "its secret is wrong" in caplog.text
    assert "inner-secret" not in caplog.text


@pytest.mark.parametrize(
    "said",
    [
        encode_report(0),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        encode_claim(Claim("inner", bytes(32), bytes(32))),
    ],
    ids=["a slave without credentials", "a browser", "TLS", "a guess"],
)
async def test_strangers_get_no_byte_of_the_log_and_are_counted(tmp_path: Path, said: bytes) -> None:
    async with running(tmp_path, **SIGNED) as here:
        await here.send(body=b"secret body")
        got = await sent_to(here, said)
        assert got.startswith(OPENING)
        assert b"secret body" not in got
        assert refused(here) == {"credentials": 1}
        assert here.broker.broker.promise.links.all == []
        await here.send()


@pytest.mark.parametrize(
    "said", [encode_report(0), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x08garbage!"]
)
async def test_without_tls_nobody_gets_anything_from_a_port_with_tls(
    tmp_path: Path, encrypted: dict[str, object], said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, **encrypted) as here:
        await here.send(body=b"secret body")
        assert b"secret body" not in await sent_to(here, said)
        assert refused(here) == {"tls": 1}
        assert here.broker.broker.promise.links.all == []
    assert "TLS" in caplog.text


async def test_tls_on_a_port_without_it_is_called_by_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as here:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        port = here.broker.settings.listen_port + 1
        with pytest.raises(OSError):  # noqa: PT011 (what it is depends on the loop)
            await asyncio.open_connection("127.0.0.1", port, ssl=context)
        assert refused(here) == {"stream": 1}
    assert "set haTlsEnable" in caplog.text


async def test_the_log_names_a_stranger_by_address_and_protocol_and_says_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as here:
        await here.send()
        reader, writer = await ha_stream(here)
        host, port = writer.get_extra_info("sockname")
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        await until(lambda: refused(here) == {"stream": 1})
    (line,) = (one.getMessage() for one in caplog.records if "port for slaves" in one.getMessage())
    assert f"from {host}:{port} " in line
    assert "an HTTP request" in line
    assert "let only the hosts of slaves reach this one" in line
    assert "different ways" not in line


@pytest.mark.parametrize("option", ["haTlsEnable", "haAuthenticationEnable"])
async def test_a_group_of_which_not_all_are_guarded_says_which_option_differs(
    tmp_path: Path, encrypted: dict[str, object], option: str
) -> None:
    own = {**OWN, **encrypted, "haTlsEnable": False}
    for master, slave in ((True, False), (False, True)):
        folder = tmp_path / str(master)
        async with (
            running(folder / "m", certificate_of(own), **{**own, option: master}) as here,
            slave_of(here, folder / "s", **{**own, option: slave}) as other,
        ):
            says = f"{option} is {str(master).lower()} at the master"
            await until(partial(refuses, other, says))
            # It has not even connected: nothing that it says can be taken for an acknowledgement.
            assert refused(here) == {}


@pytest.mark.parametrize("there", [True, False])
async def test_a_slave_that_knows_the_ha_port_alone_finds_out_there(
    tmp_path: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.server.ha.slave.SIGN_IN_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr("orbitmq.server.ha.slave.HA_DISTANCE", 2)  # it asks at another port than the master's
    async with running(tmp_path / "m", **{**OWN, "haAuthenticationEnable": there}) as here:
        await here.send()
        address = f"127.0.0.1:{here.broker.settings.listen_port + 1}"
        alone = {
            **OWN,
            "haAuthenticationEnable": not there,
            "haMasterAddress": address,
            "brokerName": "broker-z",
        }
        async with slave_of(here, tmp_path / "s", **alone) as slave:
            says = "asks for credentials" if there else "has not asked for credentials"
            await until(lambda: says in slave.broker.replication.refusal)
            assert slave.store.max_physical == 0
            assert here.broker.broker.promise.links.all == []


async def test_silent_strangers_make_way_for_a_slave(tmp_path: Path) -> None:
    async with running(tmp_path / "m", haHousekeepingInterval=600_000) as here:
        strangers = [await ha_stream(here) for _ in range(MAX_SLAVES)]
        async with slave_of(here, tmp_path / "s") as slave:
            await here.send()
            await until(Group(here, slave).is_level)
            assert refused(here) == {"limit": 1}
        for _, writer in strangers:
            writer.close()


async def test_a_new_master_is_guarded_as_the_one_before(
    tmp_path: Path, encrypted: dict[str, object]
) -> None:
    own = {**SIGNED, **encrypted}
    async with (
        running(tmp_path / "m", certificate_of(own), **own) as here,
        slave_of(here, tmp_path / "s", **own) as slave,
    ):
        await until(Group(here, slave).is_level)
        await slave.change_role(RoleChange(Role.MASTER, 0))
        reader, writer = await asyncio.open_connection("127.0.0.1", slave.settings.listen_port + 1)
        writer.write(encode_report(0))
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert slave.broker.promise.links.refused["tls"] == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"haTlsEnable": True}, "tls.enable=true"),
        ({"haTlsEnable": True, "tls.enable": True, "tls.server.mode": "disabled"}, "tls.server.mode"),
        ({"haAuthenticationEnable": True}, "innerClientAuthenticationCredentials"),
    ],
)
def test_options_that_the_port_cannot_be_guarded_with_are_refused(
    given: dict[str, object], says: str
) -> None:
    with pytest.raises(OptionError, match=says):
        BROKER_TABLE.load([Layer("the test", given)])
