"""Raw memory is touched in one place: no other compiled code moves a pointer, or takes a size on trust."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3] / "src" / "orbitmq"
OWNER = ROOT / "protocol" / "buffers"
"""Its files check every place: `bounded.pxd` for all others, `crc.pxd` and `text_hash.pxd` within a span."""

FORBIDDEN = {
    "a function of C that trusts its caller": r"\bmem(cpy|move|set|cmp|chr)\b|\bstrlen\b|libc\.string",
    "the memory of an object": r"\bPy(Bytes|ByteArray)_AS_STRING\b|\b_?PyBytes_Resize\b",
    "a pointer to bytes": r"\bp_u?char\b|\bchar \*(?!literal\b)|\bvoid \*",
    "a pointer to bytes or numbers of a table": (
        r"(?<!literal: cython\.)pointer\[cython\.(const\[cython\.)?(u?char|schar|u?int|short)\b"
    ),
    "a cast to a pointer": r"<[\w ]+\*+ *>|cast\(\s*cython\.(pointer|p_)",
    "the pointer in a span, a reader or a writer": r"\w\.at\b",
    "access without a check": r"(boundscheck|wraparound)\(False\)|initializedcheck\(False\)",
}
OVER = re.compile(r"\b(?:span|writer)_over\(((?:[^()]|\([^()]*\))*)\)")
"""The door through which memory comes in: with the size that its owner tells, and no other."""
TOLD_BY_ITS_OWNER = re.compile(
    r"(\w+)\.buf, \1\.len"  # a buffer
    r"|(\w+)\.buf, min\([^()]*\b\2\.len\)"
    r"|(\w+), cython\.sizeof\(\3\)"  # an array
    r"|cython\.address\((\w+)\[0\]\), len\(\4\)"  # a view
)
SOURCES = sorted(
    path for kind in ("*_cy.py", "*.pxd") for path in ROOT.rglob(kind) if OWNER not in path.parents
)


def code_of(text: str) -> str:
    """Source without comments and docstrings."""
    return re.sub(r"#[^\n]*", "", re.sub(r'"""[\s\S]*?"""', "", text))


def offences(text: str) -> list[str]:
    code = code_of(text)
    found = [
        f"{what}: {match.group()}"
        for what, pattern in FORBIDDEN.items()
        for match in re.finditer(pattern, code)
    ]
    for match in OVER.finditer(code):
        if not TOLD_BY_ITS_OWNER.fullmatch(match.group(1)):
            found.append(f"memory whose size is taken on trust: {match.group()}")
    return found


def test_there_are_sources() -> None:
    assert {"frames_cy.py", "message_cy.py", "column_builders_cy.pxd", "send_header.pxd"} <= {
        one.name for one in SOURCES
    }


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_compiled_code_reads_and_writes_within_bounds(path: Path) -> None:
    assert not offences(path.read_text())


@pytest.mark.parametrize(
    "line",
    [
        "memcpy(out, data, size)",
        "from libc.string cimport memchr",
        "start: cython.p_char = PyBytes_AS_STRING(data)",
        "at: cython.pointer[cython.const[cython.uchar]] = start + 4",
        "tables: cython.pointer[cython.const[cython.uint]]",
        "cdef const unsigned char *at = span.at + 4",
        "value = <const unsigned char *> start",
        "text = cython.cast(cython.p_char, buffer.buf)",
        "first = header.language.at[0]",
        "span.at += 3",
        "@cython.boundscheck(False)",
        "data = span_over(view.buf, size)",
        "data = span_over(view.buf, other.len)",
        "out = writer_over(memory, 1024)",
        "data = span_over(cython.address(view[start]), len(view))",
    ],
)
def test_what_goes_past_the_bounds_is_found(line: str) -> None:
    assert offences(line)


@pytest.mark.parametrize(
    "line",
    [
        "data = span_over(view.buf, view.len)",
        "log: Writer = writer_over(target.buf, min(limit, target.len))",
        "key: Writer = writer_over(memory, cython.sizeof(memory))",
        "whole: Span = span_over(cython.address(view[0]), len(view))",
        "literal: cython.pointer[cython.const[cython.char]],",
        "cdef inline bint named(const SendHeader *header, const char *literal, Span *value) noexcept:",
        "# memcpy would do",
    ],
)
def test_what_stays_within_is_not(line: str) -> None:
    assert not offences(line)
