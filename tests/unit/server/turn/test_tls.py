"""TLS on the ports of brokers and name servers, with real connections."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.connection import HIGH_WATER_BYTES, REQUESTS_PER_STEP
from orbitmq.net.errors import ConnectFailed, NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.tls import CLIENT_HELLO
from orbitmq.options import Layer
from orbitmq.protocol.requests.admin import GetBrokerConfig
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.server.turn.tls import BadTls, client_context, openssl_name, server_context
from tests.certificates import Authority, Pair
from tests.kit.running_standalone import Running, running

pytestmark = pytest.mark.needs("openssl")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.issue("server")


def options(pair: Pair, **more: object) -> dict[str, object]:
    return {"tls.server.certPath": pair.cert, "tls.server.keyPath": pair.key, **more}


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.cert))


def blind() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def ask(here: Running, context: ssl.SSLContext | None) -> None:
    pool = ConnectionPool(ssl=context)
    try:
        assert (await pool.call(here.address, GetBrokerConfig())).body
    finally:
        await pool.close()


async def peer_certificate(here: Running, context: ssl.SSLContext) -> bytes:
    host, _, port = here.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(True)
        return found
    finally:
        writer.close()
        await writer.wait_closed()


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.01)


# The three modes.


async def test_plain_and_tls_on_one_port(tmp_path: Path, authority: Authority, server: Pair) -> None:
    async with running(tmp_path, ssl=trusting(authority), **options(server)) as here:
        assert (await here.send(body=b"over TLS")).queue_offset == 0
        await ask(here, None)
        await ask(here, trusting(authority))


async def test_enforcing_takes_no_plain_connection(
    tmp_path: Path, authority: Authority, server: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    values = options(server, **{"tls.server.mode": "enforcing"})
    async with running(tmp_path, ssl=trusting(authority), **values) as here:
        await here.send()
        with pytest.raises(NetError):
            await ask(here, None)
        assert "only TLS is taken here" in caplog.text


async def test_disabled_takes_no_tls(tmp_path: Path) -> None:
    async with running(tmp_path, **{"tls.server.mode": "disabled"}) as here:
        await here.send()
        with pytest.raises(ConnectFailed):
            await ask(here, blind())


async def test_without_a_certificate_one_is_made_when_it_is_needed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as here:
        await ask(here, None)
        assert "self-signed" not in caplog.text
        await asyncio.gather(ask(here, blind()), ask(here, blind()))
        await ask(here, blind())
        assert caplog.text.count("self-signed") == 1


async def test_without_openssl_plain_connections_still_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with running(tmp_path / "data") as here:
        with pytest.raises(ConnectFailed):
            await ask(here, blind())
        assert "nor the program openssl to make one" in caplog.text
        await ask(here, None)


async def test_enforcing_makes_its_certificate_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path / "a", ssl=blind(), **{"tls.server.mode": "enforcing"}) as here:
        await here.send()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadTls, match="nor the program openssl"):
        async with running(tmp_path / "b", **{"tls.server.mode": "enforcing"}):
            pass


async def test_name_servers_do_the_same(tmp_path: Path, authority: Authority, server: Pair) -> None:
    namesrv = options(server, **{"tls.server.mode": "enforcing"})
    # The broker registers over TLS as well.
    async with running(tmp_path, namesrv, **{"tls.enable": "true"}) as here:
        pool = ConnectionPool(ssl=trusting(authority))
        info = (await pool.call(here.server.namesrv.address, GetBrokerClusterInfo())).body
        assert list(info.broker_addr_table or {}) == ["broker-a"]
        await pool.close()


async def test_a_broker_checks_name_servers_where_it_is_told_to(
    tmp_path: Path, authority: Authority, server: Pair
) -> None:
    other = Authority(tmp_path, "other")
    for trusted, known in ((authority.cert, ["broker-a"]), (other.cert, [])):
        client = {
            "tls.enable": "true",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": trusted,
        }
        async with running(tmp_path / str(len(known)), options(server), **client) as here:
            info = (await here.ask_namesrv(GetBrokerClusterInfo())).body
            assert list(info.broker_addr_table or {}) == known


# Traffic over it.


async def test_large_messages_and_many_small_ones(tmp_path: Path, authority: Authority, server: Pair) -> None:
    body = os.urandom(3 << 20)
    # A slow machine may not let requests grow too old here: interpreted, the large one takes its time.
    patient = options(server, brokerFastFailureEnable="false")
    async with running(tmp_path, ssl=trusting(authority), **patient) as here:
        await here.send("Large", body)
        await asyncio.gather(*(here.send("Small", b"%d" % number) for number in range(500)))
        pull = PullMessage("G", "Large", 0, 0, 1, 4, 0, 0, 0, "*", "TAG")
        assert body in bytes((await here.ask(pull)).body)


async def test_a_peer_that_does_not_read_is_not_read_from(
    tmp_path: Path, authority: Authority, server: Pair
) -> None:
    """Memory that a slow peer can make the server hold is bounded over TLS, too."""
    async with running(tmp_path, **options(server)) as here:
        await here.send("Large", os.urandom(256 << 10))
        slow = await asyncio.to_thread(BlockingConnection, here.address, ssl=trusting(authority))
        pull = PullMessage("G", "Large", 0, 0, 1, 4, 0, 0, 0, "*", "TAG")

        def ask_on() -> None:
            for _ in range(200):
                slow.send(pull)

        await asyncio.to_thread(ask_on)
        connections = here.broker.turns.listener.connections.values()
        await eventually(lambda: any(not one.is_writable for one in connections))
        # Bytes handed over in one step are answered; nothing more is read.
        most = HIGH_WATER_BYTES + REQUESTS_PER_STEP * (257 << 10)
        assert max(one.unsent_bytes for one in connections) < most < 200 * (256 << 10)
        answers = await asyncio.to_thread(lambda: [slow.receive(60_000) for _ in range(200)])
        assert {answer.code for answer in answers} == {0}
        slow.close()


async def test_a_peer_that_talks_nonsense_behind_its_first_byte_is_sent_away(
    tmp_path: Path, server: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, **options(server)) as here:
        host, _, port = here.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(bytes([CLIENT_HELLO]) + b"nonsense" * 100)
        assert await reader.read() is not None
        writer.close()
        assert "TLS failed" in caplog.text
        await ask(here, None)


async def test_a_peer_that_leaves_in_the_middle_of_the_handshake(tmp_path: Path, server: Pair) -> None:
    async with running(tmp_path, **options(server)) as here:
        host, _, port = here.address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(bytes([CLIENT_HELLO, 3, 1]))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        await ask(here, None)


# Certificates.


async def test_a_renewed_certificate_counts_without_a_start(
    tmp_path: Path, authority: Authority, server: Pair
) -> None:
    used = Pair(tmp_path / "used.pem", tmp_path / "used.key")
    shutil.copy(server.cert, used.cert)
    shutil.copy(server.key, used.key)
    renewed = authority.issue("renewed")
    async with running(tmp_path / "data", **options(used)) as here:
        before = await peer_certificate(here, trusting(authority))
        open_before = ConnectionPool(ssl=trusting(authority))
        await open_before.call(here.address, GetBrokerConfig())
        # Half of a renewal changes nothing.
        shutil.copy(renewed.cert, used.cert)
        await asyncio.to_thread(here.run_task, "look for new certificates", 0)
        assert await peer_certificate(here, trusting(authority)) == before
        shutil.copy(renewed.key, used.key)
        await asyncio.to_thread(here.run_task, "look for new certificates", 0)
        assert await peer_certificate(here, trusting(authority)) == ssl.PEM_cert_to_DER_cert(
            renewed.cert.read_text()
        )
        await open_before.call(here.address, GetBrokerConfig())
        await open_before.close()


async def test_clients_show_certificates_where_they_have_to(
    tmp_path: Path, authority: Authority, server: Pair
) -> None:
    mine = authority.issue("client")
    stranger = Authority(tmp_path, "stranger").issue("mallory")
    checked = options(
        server,
        **{"tls.server.authClient": "true", "tls.server.trustCertPath": authority.cert},
    )

    def showing(pair: Pair | None) -> ssl.SSLContext:
        context = trusting(authority)
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context

    required = {**checked, "tls.server.need.client.auth": "require"}
    async with running(tmp_path / "a", **required) as here:
        await ask(here, showing(mine))
        for pair in (None, stranger):
            with pytest.raises(NetError):
                await ask(here, showing(pair))
    optional = {**checked, "tls.server.need.client.auth": "optional"}
    async with running(tmp_path / "b", **optional) as here:
        await ask(here, showing(mine))
        await ask(here, showing(None))
        with pytest.raises(NetError):
            await ask(here, showing(stranger))


async def test_a_broker_shows_its_certificate_to_name_servers(
    tmp_path: Path, authority: Authority, server: Pair
) -> None:
    mine = authority.issue("broker", password="key-password")
    namesrv = options(
        server,
        **{
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": authority.cert,
        },
    )
    client = {
        "tls.enable": "true",
        "tls.client.certPath": mine.cert,
        "tls.client.keyPath": mine.key,
        "tls.client.keyPassword": "key-password",
    }
    async with running(tmp_path, namesrv, **client) as here:
        info = (await here.ask_namesrv(GetBrokerClusterInfo())).body
        assert list(info.broker_addr_table or {}) == ["broker-a"]


def settings(**properties: object) -> object:
    return NAMESRV_TABLE.load([Layer("the test", properties)])


def test_an_encrypted_key_needs_its_password(authority: Authority) -> None:
    pair = authority.issue("locked", password="right")
    assert server_context(settings(**options(pair, **{"tls.server.keyPassword": "right"})))
    for wrong in ({}, {"tls.server.keyPassword": "wrong"}):
        with pytest.raises(BadTls, match="keyPassword does not fit the key") as bad:
            server_context(settings(**options(pair, **wrong)))
        assert "wrong" not in str(bad.value)


def test_what_cannot_be_used_says_why(tmp_path: Path, authority: Authority, server: Pair) -> None:
    other = authority.issue("other")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    missing = tmp_path / "missing.pem"
    need = {"tls.server.need.client.auth": "require"}
    cases = [
        ({"tls.server.certPath": server.cert}, "tls.server.keyPath is not set"),
        ({"tls.server.keyPath": server.key}, "tls.server.certPath is not set"),
        (options(Pair(missing, server.key)), "tls.server.certPath .*missing.pem: No such file"),
        (options(Pair(server.cert, missing)), "tls.server.keyPath .*missing.pem: No such file"),
        (options(Pair(nonsense, server.key)), "no certificate and key in PEM form"),
        (options(Pair(server.cert, other.key)), "is not that of the certificate"),
        ({"tls.test.mode.enable": "false"}, "are needed"),
        (options(server, **need), "would ask for certificates and not check them"),
        (
            options(server, **need, **{"tls.server.authClient": "true", "tls.server.trustCertPath": missing}),
            "trustCertPath .*missing.pem: No such file",
        ),
        (
            options(
                server, **need, **{"tls.server.authClient": "true", "tls.server.trustCertPath": nonsense}
            ),
            "holds no certificate",
        ),
        (options(server, **{"tls.protocols": "TLSv1.1"}), "TLSv1.1 is not spoken"),
        (options(server, **{"tls.ciphers": "TLS_ODD"}), "OpenSSL knows none of"),
        ({"tls.config.file": missing}, "tls.config.file .*missing.pem: No such file"),
    ]
    for properties, reason in cases:
        with pytest.raises(BadTls, match=reason):
            server_context(settings(**properties))


def test_a_file_of_its_own_wins_over_the_options(tmp_path: Path, server: Pair) -> None:
    file = tmp_path / "tls.properties"
    file.write_text(
        f"tls.server.certPath={server.cert}\ntls.server.keyPath={server.key}\ntls.enable=true\nother=1\n"
        "tls.protocols=TLSv1.3\n"
    )
    given = settings(**{"tls.config.file": file, "tls.server.certPath": "/nowhere"})
    context = server_context(given)
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert client_context(given) is None  # tls.enable is not taken from there
    file.write_text("tls.server.need.client.auth=perhaps\n")
    with pytest.raises(BadTls, match=r"need\.client\.auth"):
        server_context(given)


def test_versions_and_suites(server: Pair) -> None:
    def made(**properties: object) -> ssl.SSLContext:
        context = server_context(settings(**options(server, **properties)))
        assert context is not None
        return context

    def suites(context: ssl.SSLContext) -> set[str]:
        return {row["name"] for row in context.get_ciphers() if row["protocol"] != "TLSv1.3"}

    assert made().minimum_version is ssl.TLSVersion.TLSv1_2
    assert made(**{"tls.protocols": "TLSv1.2"}).maximum_version is ssl.TLSVersion.TLSv1_2
    java = made(**{"tls.ciphers": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"})
    assert suites(java) == {"ECDHE-ECDSA-AES128-GCM-SHA256"}
    assert java.maximum_version is ssl.TLSVersion.TLSv1_2
    newer = made(**{"tls.ciphers": "TLS_AES_128_GCM_SHA256"})
    assert newer.minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_suites_by_javas_names(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
