"""Bytes that hostile peers send and damaged files hold, made of well-formed ones.

The same for the same chance.
"""

from __future__ import annotations

import contextlib
from random import Random

from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import encode_command

SIZES = (0, 1, 2, 3, 8, 20, 60, 126, 127, 128, 255, 256, 512, 513, 1023, 1024, 1025, 4095, 16_340, 32_700)
"""Of bodies, texts and their parts; each is met with some bytes more or less too."""
LONG_SIZES = (32_766, 32_767, 32_768, 65_500, 65_535, 65_536)
NUMBERS = (
    *(0, 1, 2, 3, 4, 8, 12, 91, 127, 128, 255, 256, 32_767, 32_768, 65_535, 65_536, 0x7FFFFFFF, 0x80000000),
    *(0xFFFFFFFF, 1 << 32, (1 << 62) - 1, (1 << 63) - 1, (1 << 63) - 91, 1 << 63, (1 << 64) - 1),
)
TOKENS = (
    *(b"\x00", b"\x01", b"\x02", b"\xff", b'"', b"\\", b"\\u", b"\\u00", b"\\u001", b"\\u0000", b"\\ud800"),
    *(b"{", b"}", b":", b",", b"-", b"0", b"9" * 30, b"1e999", b"null", b'"a":"b",', b"[" * 50, b"\xc3\xbc"),
)
NAMES = (
    *("UNIQ_KEY", "TAGS", "KEYS", "WAIT", "DELAY", "TRAN_MSG", "PGROUP", "CLUSTER", "__SHARDINGKEY", "X", ""),
    *(
        "TIMER_DELAY_MS",
        "TIMER_OUT_MS",
        "REAL_TOPIC",
        "REAL_QID",
        "__transactionId__",
        "__CRC32#",
        "INNER_NUM",
    ),
)
ALPHABETS = ("ab19", "ab19", 'a"\\/\n\t', "\x01\x02a", "a\x00\b\x7f", "\u00fc\u20ac\U0001f600a")


def size(chance: Random) -> int:
    """Mostly small, and often just beside a bound."""
    if chance.random() < 0.04:
        return chance.choice(LONG_SIZES)
    most = len(SIZES) if chance.random() < 0.3 else 9
    return max(0, chance.choice(SIZES[:most]) + chance.randint(-2, 2))


def blob(chance: Random, length: int | None = None) -> bytes:
    """A body."""
    length = size(chance) if length is None else length
    return chance.randbytes(length) if length < 2000 else chance.randbytes(16) * (length // 16)


def text(chance: Random) -> str:
    """A value."""
    length = size(chance)
    alphabet = chance.choice(ALPHABETS)
    if length > 300:
        return alphabet[0] * (length - 1) + chance.choice(alphabet)
    return "".join(chance.choices(alphabet, k=length))


def number(chance: Random) -> int:
    """One beside a bound, of either sign."""
    found = chance.choice(NUMBERS) + chance.randint(-1, 1)
    return -found if chance.random() < 0.2 else found


def properties(chance: Random, base: str = "") -> str:
    """Properties as they are stored, more or less."""
    entries = [base] if base else []
    for _ in range(chance.choice((0, 0, 1, 2, 4))):
        entries.append(f"{chance.choice(NAMES)}\x01{text(chance)}")
    chance.shuffle(entries)
    return "\x02".join(entries) + chance.choice(("\x02", "\x02", ""))


def frame(command: Command, chance: Random, damage: float = 0.4) -> bytes:
    """A frame in either encoding, perhaps damaged."""
    command.serialize = 1 if chance.random() < 0.15 else 0
    try:
        data = encode_command(command)
    except (OverflowError, ValueError):  # a field is too long for the binary encoding
        command.serialize = 0
        data = encode_command(command)
    return damaged_frame(data, chance) if chance.random() < damage else data


def damaged_frame(data: bytes, chance: Random) -> bytes:
    """A frame whose header is another one; its lengths fit, mostly."""
    end = 8 + int.from_bytes(data[5:8], "big")
    header, body = bytearray(data[8:end]), data[end:]
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(header))
        what = chance.randrange(4)
        if what == 0:
            token = chance.choice(TOKENS)
            header[at : at + len(token)] = token
        elif what == 1:
            header[at:at] = chance.choice(TOKENS)
        elif what == 2:
            del header[at : at + chance.randint(1, 20)]
        else:
            other = chance.randint(0, len(header))
            header[at:at] = header[other : other + chance.randint(1, 60)]
    lengths = bytearray(
        (4 + len(header) + len(body)).to_bytes(4, "big") + data[4:5] + len(header).to_bytes(3, "big")
    )
    if chance.random() < 0.1:
        lengths[chance.randrange(8)] = chance.randrange(256)
    return bytes(lengths + header) + body


def record(chance: Random, queue_offset: int = 0, physical_offset: int = 0) -> bytes:
    """A well-formed record, or inner batch, of any form."""
    hosts = [chance.choice((bytes(8), bytes(20))) for _ in range(2)]
    topic = ("T" * max(1, size(chance) % 300)).encode()
    body = blob(chance)
    held = properties(chance).replace("\x00", "").encode()[:32_000]
    out = bytearray(200 + len(topic) + len(body) + len(held))
    flags = chance.choice((0, 0, 0, 1, 4, 8, 0x10, 0xC0, 0x103, 0x1C1))
    length = encode_record(
        out, 0, chance.randrange(4), 7, queue_offset, physical_offset, flags, 1, hosts[0], 2, hosts[1], 0, 0,
        body, topic, held, append_property_crc=chance.random() < 0.2,
    )  # fmt: skip
    return bytes(out[:length])


def damaged(data: bytes, chance: Random, lengths: tuple[int, ...] = ()) -> bytes:
    """Bytes of which some are others; numbers at the places in `lengths` are hit often."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(changed))
        what = chance.randrange(5)
        if lengths and what < 3:
            at = chance.choice(lengths)
            width = chance.choice((1, 2, 4, 8))
            with contextlib.suppress(IndexError):
                changed[at : at + width] = (number(chance) % (1 << 8 * width)).to_bytes(width, "big")
        elif what == 0:
            changed[at : at + 1] = bytes([chance.randrange(256)])
        elif what == 1:
            del changed[at:]
        elif what == 2:
            del changed[at : at + chance.randint(1, 8)]
        else:
            token = chance.choice(TOKENS)
            changed[at : at + len(token)] = token
    return bytes(changed)
