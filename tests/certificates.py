"""Certificates for tests, made by the program openssl: an authority and what it signs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; `cert` is what to trust."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.cert, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        _openssl(
            "req", "-x509", "-nodes", *_KEY, "-days", "2", "-subj", f"/CN={name}",
            "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
            "-keyout", str(self._key), "-out", str(self.cert),
        )  # fmt: skip

    def issue(self, name: str, *, password: str = "", host: str = "IP:127.0.0.1,DNS:localhost") -> Pair:
        """A certificate for `host`; its key is encrypted with `password` if there is one."""
        cert, key, request, extensions = (
            self._folder / f"{name}.{end}" for end in ("pem", "key", "csr", "ext")
        )
        protection = ["-passout", f"pass:{password}"] if password else ["-nodes"]
        _openssl("req", *_KEY, *protection, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
        extensions.write_text(f"subjectAltName={host}\nauthorityKeyIdentifier=keyid\n")
        _openssl(
            "x509", "-req", "-in", str(request), "-CA", str(self.cert), "-CAkey", str(self._key),
            "-days", "2", "-extfile", str(extensions), "-out", str(cert),
        )  # fmt: skip
        return Pair(cert, key)
