"""The rows of TLS, which brokers and name servers have in common: system properties of Apache's servers."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options.declare import Settings, option


@dataclass(kw_only=True)
class TlsSettings(Settings):
    """How connections are encrypted."""

    tls_server_mode: str = option(
        "tls.server.mode",
        "String",
        "permissive",
        "permissive: plain and TLS connections on one port, told apart by their first byte; enforcing: TLS"
        " only; disabled: plain only.",
        owner="",
        choices=("permissive", "enforcing", "disabled"),
    )
    tls_server_cert_path: str | None = option(
        "tls.server.certPath",
        "String",
        None,
        "The server's certificate with its chain, PEM. Files are looked at again every second: a renewed"
        " certificate counts for new connections without a start.",
        owner="",
    )
    tls_server_key_path: str | None = option(
        "tls.server.keyPath", "String", None, "The server's private key, PEM.", owner=""
    )
    tls_server_key_password: str | None = option(
        "tls.server.keyPassword",
        "String",
        None,
        "What the private key is encrypted with.",
        owner="",
        secret=True,
    )
    tls_server_need_client_auth: str = option(
        "tls.server.need.client.auth",
        "String",
        "none",
        "Whether clients show a certificate: none, optional or require. It is always checked, so"
        " tls.server.authClient has to be true as well.",
        owner="",
        choices=("none", "optional", "require"),
    )
    tls_server_auth_client: bool = option(
        "tls.server.authClient",
        "boolean",
        False,
        "Check the certificates of clients against tls.server.trustCertPath.",
        owner="",
    )
    tls_server_trust_cert_path: str | None = option(
        "tls.server.trustCertPath",
        "String",
        None,
        "The certificates, PEM, that clients' have to be signed with; those of the system if not set.",
        owner="",
    )
    tls_test_mode_enable: bool = option(
        "tls.test.mode.enable",
        "boolean",
        True,
        "Without a certificate of its own a server makes a self-signed one when it first needs it; that"
        " needs the program openssl, and clients that check nothing.",
        owner="",
    )
    tls_enable: bool = option(
        "tls.enable", "boolean", False, "Use TLS for the server's own connections to other servers.", owner=""
    )
    tls_client_auth_server: bool = option(
        "tls.client.authServer",
        "boolean",
        False,
        "Check the certificates and names of other servers.",
        owner="",
    )
    tls_client_trust_cert_path: str | None = option(
        "tls.client.trustCertPath",
        "String",
        None,
        "The certificates, PEM, that other servers' have to be signed with; those of the system if not set.",
        owner="",
    )
    tls_client_cert_path: str | None = option(
        "tls.client.certPath", "String", None, "The certificate shown to other servers, PEM.", owner=""
    )
    tls_client_key_path: str | None = option(
        "tls.client.keyPath", "String", None, "The private key to tls.client.certPath, PEM.", owner=""
    )
    tls_client_key_password: str | None = option(
        "tls.client.keyPassword", "String", None, "What that key is encrypted with.", owner="", secret=True
    )
    tls_ciphers: str | None = option(
        "tls.ciphers",
        "String",
        None,
        "Cipher suites with `,` between, by Java's or OpenSSL's names. Without one of TLS 1.3 among them TLS"
        " 1.3 is off; with one all of its suites are on.",
        owner="",
    )
    tls_protocols: str | None = option(
        "tls.protocols",
        "String",
        None,
        "TLSv1.2, TLSv1.3, or both with `,` between: both if not set.",
        owner="",
    )
    tls_config_file: str | None = option(
        "tls.config.file",
        "String",
        None,
        "A properties file with the options above, which wins over them, but for tls.server.mode and"
        " tls.enable.",
        owner="",
        apache_default="/etc/rocketmq/tls.properties, where it is there",
    )
