"""The rows of TLS, which brokers and name servers have in common: system properties of Apache's servers."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options.declare import Settings, option


@dataclass(kw_only=True)
class TlsSettings(Settings):
    """Encryption of connections."""

    tls_server_mode: str = option(
        "permissive",
        "permissive: plain and TLS connections on one port; enforcing: TLS only; disabled: plain only.",
        name="tls.server.mode",
        choices=("permissive", "enforcing", "disabled"),
    )
    tls_server_cert_path: str | None = option(
        None,
        "The server's certificate with its chain, PEM. The files are checked every second: new "
        "connections use a renewed certificate without a restart.",
        name="tls.server.certPath",
    )
    tls_server_key_path: str | None = option(
        None, "The server's private key, PEM.", name="tls.server.keyPath"
    )
    tls_server_key_password: str | None = option(
        None, "Password of the private key.", name="tls.server.keyPassword", secret=True
    )
    tls_server_need_client_auth: str = option(
        "none",
        "Client certificates: none, optional or require. They are always checked, so "
        "tls.server.authClient has to be true as well.",
        name="tls.server.need.client.auth",
        choices=("none", "optional", "require"),
    )
    tls_server_auth_client: bool = option(
        False,
        "Check the certificates of clients against tls.server.trustCertPath.",
        name="tls.server.authClient",
    )
    tls_server_trust_cert_path: str | None = option(
        None,
        "Trusted certificates for clients, PEM; those of the system if not set.",
        name="tls.server.trustCertPath",
    )
    tls_test_mode_enable: bool = option(
        True,
        "Create a self-signed certificate if the server has none. This needs the program "
        "openssl, and clients that do not check certificates.",
        name="tls.test.mode.enable",
    )
    tls_enable: bool = option(
        False, "Use TLS for the server's own connections to other servers.", name="tls.enable"
    )
    tls_client_auth_server: bool = option(
        False, "Check the certificates and names of other servers.", name="tls.client.authServer"
    )
    tls_client_trust_cert_path: str | None = option(
        None,
        "Trusted certificates for other servers, PEM; those of the system if not set.",
        name="tls.client.trustCertPath",
    )
    tls_client_cert_path: str | None = option(
        None, "The certificate shown to other servers, PEM.", name="tls.client.certPath"
    )
    tls_client_key_path: str | None = option(
        None, "The private key to tls.client.certPath, PEM.", name="tls.client.keyPath"
    )
    tls_client_key_password: str | None = option(
        None, "Password of tls.client.keyPath.", name="tls.client.keyPassword", secret=True
    )
    tls_ciphers: str | None = option(
        None,
        "Cipher suites separated by `,`, with Java's or OpenSSL's names. If none is of TLS "
        "1.3, TLS 1.3 is off; if one is, all suites of TLS 1.3 are on.",
        name="tls.ciphers",
    )
    tls_protocols: str | None = option(
        None, "TLSv1.2, TLSv1.3, or both separated by `,`. Both if not set.", name="tls.protocols"
    )
    tls_config_file: str | None = option(
        None,
        "Properties file with the options above. It overrides them, except tls.server.mode and tls.enable.",
        name="tls.config.file",
        apache_default="/etc/rocketmq/tls.properties, where it is there",
    )
