"""One remoting command: what a frame carries in either direction (remoting protocol, sections 1 to 4)."""

from __future__ import annotations

from orbitmq.protocol.errors import Refused

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2

SERIALIZE_JSON = 0
SERIALIZE_BINARY = 1

VERSION = 493
"""The version ordinal that OrbitMQ speaks as: Apache RocketMQ 5.4.0."""

LANGUAGES = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)
"""Language names by their code on the wire."""
LANGUAGE_CODES = {name: code for code, name in enumerate(LANGUAGES)}

LANGUAGE_CPP = 1
LANGUAGE_PYTHON = 3
LANGUAGE_OTHER = 7


class Command:
    """A request or response, header decoded and body raw.

    `ext` holds the header fields as text; `body` is None when the frame had none. `serialize` says
    which header encoding the frame used: a peer may mix both.
    """

    __slots__ = ("body", "code", "ext", "flag", "language", "opaque", "remark", "serialize", "version")

    def __init__(
        self,
        code: int,
        opaque: int = 0,
        flag: int = 0,
        ext: dict[str, str] | None = None,
        body: bytes | memoryview | None = None,
        remark: str | None = None,
        language: int = LANGUAGE_PYTHON,
        version: int = VERSION,
        serialize: int = SERIALIZE_JSON,
    ) -> None:
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.ext = ext
        self.body = body
        self.remark = remark
        self.language = language
        self.version = version
        self.serialize = serialize

    @classmethod
    def refusal(cls, refused: Refused, opaque: int = 0) -> Command:
        """The answer with an error's code and remark."""
        return cls(refused.code, opaque, FLAG_RESPONSE, refused.extra, None, refused.remark)

    @property
    def is_response(self) -> bool:
        """True if this answers a request of ours."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """True if the sender expects no answer."""
        return bool(self.flag & FLAG_ONEWAY)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Command):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Command.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        size = 0 if self.body is None else len(self.body)
        return f"<Command {kind} code={self.code} opaque={self.opaque} ext={self.ext} body={size} bytes>"


class Oversized(Command):
    """A request whose body is longer than any of its kind; the body was passed over."""

    __slots__ = ("body_bytes",)

    def __init__(self, command: Command, body_bytes: int) -> None:
        super().__init__(
            command.code,
            command.opaque,
            command.flag,
            command.ext,
            None,
            command.remark,
            command.language,
            command.version,
            command.serialize,
        )
        self.body_bytes = body_bytes
