"""The certificates of a server: from its options to contexts, made again when their files change."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor
from copy import copy
from pathlib import Path
from typing import TypeAlias, TypeVar

from orbitmq.options import OptionError, declared
from orbitmq.options.properties import parse_properties
from orbitmq.options.tls import TlsSettings
from orbitmq.server.errors import StartError
from orbitmq.store.periodic import PeriodicTask

log = logging.getLogger(__name__)

S = TypeVar("S", bound=TlsSettings)
Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]

RELOAD_INTERVAL_MS = 1000
TLS_13_SUITES = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_NOT_FROM_THE_FILE = frozenset({"tls.server.mode", "tls.enable", "tls.config.file"})


class BadTls(StartError):
    """Certificates, keys or options of TLS are of no use."""


def resolve(settings: S) -> S:
    """The settings with those of `tls.config.file` on top. Raises BadTls."""
    path = settings.tls_config_file
    if not path:
        return settings
    resolved = copy(settings)
    try:
        given = parse_properties(Path(path).read_bytes(), path)
        for row in declared(TlsSettings):
            if row.name in given and row.name not in _NOT_FROM_THE_FILE:
                setattr(resolved, row.key, row.parse(given[row.name], path))
    except OSError as error:
        raise BadTls(f"tls.config.file {path}: {error.strerror}") from None
    except OptionError as error:
        raise BadTls(str(error)) from None
    return resolved


def server_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """Context that encrypts connections of clients; None: only a certificate made for the occasion is left.

    Raises BadTls.
    """
    given = resolve(settings)
    cert, key = given.tls_server_cert_path, given.tls_server_key_path
    if bool(cert) != bool(key):
        missing = "tls.server.keyPath" if cert else "tls.server.certPath"
        raise BadTls(f"a certificate and its key go together: {missing} is not set")
    if not cert or not key:
        if not given.tls_test_mode_enable:
            raise BadTls(
                "tls.test.mode.enable is false, so tls.server.certPath and tls.server.keyPath are needed "
                "(tls.server.mode=disabled does without TLS)"
            )
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _limit(context, given)
    _load_chain(context, cert, key, given.tls_server_key_password, "tls.server")
    wanted = given.tls_server_need_client_auth
    if wanted != "none":
        if not given.tls_server_auth_client:
            raise BadTls(
                f"tls.server.need.client.auth={wanted} without tls.server.authClient=true would ask for "
                "certificates and not check them"
            )
        _trust(context, given.tls_server_trust_cert_path, ssl.Purpose.CLIENT_AUTH, "tls.server.trustCertPath")
        context.verify_mode = ssl.CERT_REQUIRED if wanted == "require" else ssl.CERT_OPTIONAL
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """Context that encrypts the server's own connections; None without tls.enable. Raises BadTls."""
    given = resolve(settings)
    if not settings.tls_enable:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit(context, given)
    if given.tls_client_auth_server:
        _trust(context, given.tls_client_trust_cert_path, ssl.Purpose.SERVER_AUTH, "tls.client.trustCertPath")
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    cert = given.tls_client_cert_path
    if cert:
        key = given.tls_client_key_path or cert
        _load_chain(context, cert, key, given.tls_client_key_password, "tls.client")
    return context


def _load_chain(context: ssl.SSLContext, cert: str, key: str, password: str | None, owner: str) -> None:
    for path, name in ((cert, "certPath"), (key, "keyPath")):
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise BadTls(f"{owner}.{name} {path}: {error.strerror}") from None
    is_encrypted = b"ENCRYPTED" in content
    try:
        # Without a password OpenSSL would ask at the terminal.
        context.load_cert_chain(cert, key, password=password or "")
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if "mismatch" in reason:
            raise BadTls(f"{owner}: the key {key} is not that of the certificate {cert}") from None
        if is_encrypted:
            raise BadTls(f"{owner}.keyPassword does not fit the key {key}") from None
        raise BadTls(f"{owner}: {cert} and {key} are no certificate and key in PEM form: {reason}") from None


def _trust(context: ssl.SSLContext, path: str | None, purpose: ssl.Purpose, name: str) -> None:
    if not path:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise BadTls(f"{name} {path} holds no certificate in PEM form: {error.reason or error}") from None
    except OSError as error:
        raise BadTls(f"{name} {path}: {error.strerror}") from None


def _limit(context: ssl.SSLContext, given: TlsSettings) -> None:
    """Versions and suites; nothing below TLS 1.2."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if given.tls_protocols:
        names = {part.strip() for part in given.tls_protocols.split(",")}
        known = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
        if not names <= set(known):
            wrong = ", ".join(sorted(names - set(known)))
            raise BadTls(f"tls.protocols: {wrong} is not spoken, only TLSv1.2 and TLSv1.3 are")
        context.minimum_version = min(known[name] for name in names)
        context.maximum_version = max(known[name] for name in names)
    if given.tls_ciphers:
        names = {part.strip() for part in given.tls_ciphers.split(",") if part.strip()}
        older = sorted(map(openssl_name, names - TLS_13_SUITES))
        try:
            if older:
                context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise BadTls(f"tls.ciphers: OpenSSL knows none of {', '.join(sorted(names))}") from None
        if not names & TLS_13_SUITES:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        elif not older:
            context.minimum_version = ssl.TLSVersion.TLSv1_3


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2 by Java's: `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`."""
    match = re.fullmatch(r"(?:TLS|SSL)_(?:(\w+?)_)?WITH_(\w+)", suite)
    if match is None:
        return suite
    exchange, cipher = match.group(1) or "", match.group(2)
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    cipher = cipher.replace("_CBC_", "_")
    return f"{exchange}_{cipher}".replace("_", "-").removeprefix("RSA-")


def self_signed() -> ssl.SSLContext:
    """A context with a certificate made now, which no peer can check. Raises BadTls. Takes some 50 ms."""
    with tempfile.TemporaryDirectory(prefix="orbitmq-tls-") as folder:
        cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
        command = ["openssl", "req", "-x509", "-nodes", "-days", "3650", "-keyout", key, "-out", cert]
        command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        command += ["-subj", "/CN=orbitmq test certificate"]
        try:
            subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=30)
        except FileNotFoundError:
            raise BadTls(
                "there is no certificate for TLS, nor the program openssl to make one: "
                "set tls.server.certPath and tls.server.keyPath"
            ) from None
        except (OSError, subprocess.SubprocessError) as error:
            raise BadTls(f"openssl could not make a certificate: {error}") from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(cert, key)
        return context


class ServerTls:
    """The contexts of one server. Files are read at the start and whenever they change."""

    def __init__(self, settings: TlsSettings, executor: Executor) -> None:
        """Raises BadTls if what is configured cannot be used."""
        self._settings = settings
        self._executor = executor
        self._stamp = self._stamped()
        self._context = server_context(settings)
        self._failed: str | None = None
        self._waiting: list[Callable[[ssl.SSLContext | None], None]] = []
        if self._context is None and settings.tls_server_mode == "enforcing":
            self._context = self_signed()  # no peer could connect without it: better to hear of it now

    @property
    def takes_plain(self) -> bool:
        """True if connections without TLS are served."""
        return self._settings.tls_server_mode != "enforcing"

    def obtain(self, then: Callable[[ssl.SSLContext | None], None]) -> None:
        """Gives the context for a new connection; a self-signed one is made when it is first needed."""
        if self._context is not None:
            then(self._context)
            return
        self._waiting.append(then)
        if len(self._waiting) == 1:
            loop = asyncio.get_running_loop()
            loop.run_in_executor(self._executor, self_signed).add_done_callback(self._made)

    def _made(self, future: asyncio.Future[ssl.SSLContext]) -> None:
        waiting, self._waiting = self._waiting, []
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._context = future.result()
            log.warning("TLS with a self-signed certificate, which protects from nobody in between")
        else:
            log.error("%s", error)
        for then in waiting:
            then(self._context)

    @property
    def task(self) -> PeriodicTask:
        """Looks whether files have changed."""
        return PeriodicTask("look for new certificates", RELOAD_INTERVAL_MS, self._reload, in_thread=True)

    def _reload(self, now: int) -> None:
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        try:
            context = server_context(self._settings)
        except BadTls as error:
            # Certificate and key are seldom replaced in one moment: what was there continues until both fit.
            if str(error) != self._failed:
                self._failed = str(error)
                log.warning("the certificate in use stays: %s", error)
            return
        self._failed = None
        self._stamp = stamp
        if context is not None:
            self._context = context
            log.info("new certificates are in use for new connections")

    def _stamped(self) -> Stamp:
        """Marks that show if a file is still the same."""
        try:
            given = resolve(self._settings)
        except BadTls:
            given = self._settings
        paths = (
            given.tls_config_file,
            given.tls_server_cert_path,
            given.tls_server_key_path,
            given.tls_server_trust_cert_path,
        )
        return tuple(map(_file_stamp, paths))


def _file_stamp(path: str | None) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat() if path else None
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


async def open_tls(settings: TlsSettings, executor: Executor) -> ServerTls | None:
    """The contexts of a server, or None where TLS is disabled. Raises BadTls."""
    if settings.tls_server_mode == "disabled":
        return None
    return await asyncio.get_running_loop().run_in_executor(executor, ServerTls, settings, executor)
