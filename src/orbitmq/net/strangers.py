"""Other protocols that answer at a wrong port, by their first bytes."""

from __future__ import annotations

_TLS = (b"\x15\x03", b"\x16\x03")
_HTTP = (b"HTTP", b"GET ", b"POST ", b"HEAD ", b"PUT ", b"OPTIONS ", b"PRI * HTTP")

UNANSWERED = (
    "closed by peer before it sent anything: its port may take TLS alone (tls=True, --tls), or be one of "
    "another protocol"
)
"""The reason of a plain connection that ends so."""
PLAIN_PORT = "; the port may take plain connections alone (without TLS)"


def other_protocol(data: bytes) -> str:
    """The protocol that a peer speaks instead of RocketMQ's, with advice; empty if it is not known."""
    if data[:1] <= b"\1":
        return ""  # the beginning of a frame's length
    if data.startswith(_TLS):
        return "it speaks TLS, and this connection is plain: use TLS (tls=True, --tls), or its plain port"
    if data.startswith(_HTTP):
        return "it speaks HTTP: this is the port of a web server, such as a console's or that of metrics"
    return "it speaks SSH" if data.startswith(b"SSH-") else ""
