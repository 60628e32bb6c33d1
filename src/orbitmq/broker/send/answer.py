"""The parts of the frame that answers a stored message. The hot modules put them together."""

from __future__ import annotations

from json.encoder import encode_basestring


class AnswerTemplate:
    """All but four numbers and the unique id is the same in every answer.

    A whole frame is its two lengths, `before_offset`, the physical offset as 16 hexadecimal digits, queue id,
    queue offset and unique id, `after_id`, the request's opaque, and `end`. `between_ids` stands between the
    message ids of a batch.
    """

    __slots__ = ("after_id", "before_offset", "between_ids", "end")

    def __init__(self, store_host: bytes, region: str, trace: str, language: str, version: int) -> None:
        host = store_host.hex().upper().encode()
        self.before_offset = b'{"code":0,"extFields":{"MSG_REGION":%s,"TRACE_ON":"%s","msgId":"%s' % (
            encode_basestring(region).encode(),
            trace.encode(),
            host,
        )
        self.between_ids = b"," + host
        self.after_id = b'"},"flag":1,"language":"%s","opaque":' % language.encode()
        self.end = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % version
