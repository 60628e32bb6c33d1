"""Certificates of a proxy: those that it shows and checks, at its own ports and at brokers."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from orbitmq.server.turn.tls import BadTls, client_context, server_context
from tests.certificates import Authority
from tests.unit.proxy.test_rules import given

pytestmark = pytest.mark.needs("openssl")


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """A proxy that shows a certificate to everybody, and checks everybody's."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    server, client = authority.issue("server", password="one"), authority.issue("client", password="two")
    return {
        "tls.server.certPath": server.cert,
        "tls.server.keyPath": server.key,
        "tls.server.keyPassword": "one",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": authority.cert,
        "tls.enable": "true",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": authority.cert,
        "tls.client.certPath": client.cert,
        "tls.client.keyPath": client.key,
        "tls.client.keyPassword": "two",
        "tls.protocols": "TLSv1.2",
        "tls.ciphers": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    }


def handshake(properties: dict[str, object]) -> ssl.SSLObject:
    """The proxy's own side of a connection to itself, both sides by its options. Raises SSLError, BadTls."""
    settings = given(**properties)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    at, to = server_context(settings), client_context(settings)
    assert at is not None
    assert to is not None
    client = to.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = at.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return server


def test_certificates_versions_and_ciphers_are_those_of_the_options(
    properties: dict[str, object], tmp_path: Path
) -> None:
    made = handshake(properties)
    assert "client" in str(made.getpeercert())
    assert (made.version(), (made.cipher() or ("",))[0]) == ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256")
    assert handshake({**properties, "tls.ciphers": ""}).version() == "TLSv1.2"
    file = tmp_path / "tls.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    assert handshake({"tls.enable": "true", "tls.config.file": file}).getpeercert() == made.getpeercert()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"tls.server.keyPassword": "two"}, "tls.server.keyPassword does not fit"),
        ({"tls.client.keyPassword": "one"}, "tls.client.keyPassword does not fit"),
        ({"tls.client.certPath": "", "tls.client.keyPath": ""}, "peer did not return a certificate"),
        ({"tls.server.authClient": "false"}, "would ask for certificates and not check them"),
        ({"tls.server.certPath": ""}, "tls.server.certPath is not set"),
        (
            {"tls.server.certPath": "", "tls.server.keyPath": "", "tls.test.mode.enable": "false"},
            "tls.test.mode.enable is false",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    properties: dict[str, object], changed: dict[str, object], reason: str
) -> None:
    with pytest.raises((BadTls, ssl.SSLError)) as refused:
        handshake({**properties, **changed})
    assert reason.replace(" ", "_").upper() in str(refused.value).replace(" ", "_").upper()


@pytest.mark.parametrize("option", ["tls.server.trustCertPath", "tls.client.trustCertPath"])
def test_certificates_of_others_are_not_trusted(
    properties: dict[str, object], option: str, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate.verify.failed"):
        handshake({**properties, option: other.cert})
    if option == "tls.client.trustCertPath":
        handshake({**properties, option: other.cert, "tls.client.authServer": "false"})
