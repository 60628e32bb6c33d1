"""The tags of a consumer's subscription, as hashes for the queue scan."""

from __future__ import annotations

from functools import lru_cache

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.hashing import java_hash

ALL = "*"
TYPE_TAG = "TAG"
TYPE_SQL92 = "SQL92"


def is_tag_type(expression_type: str | None) -> bool:
    """True if an expression is a list of tags, the type of clients that name none."""
    return not expression_type or expression_type == TYPE_TAG


def not_supported(expression_type: str | None) -> Refused:
    """The refusal of a filter other than tags by a broker without enablePropertyFilter."""
    return Refused(
        ResponseCode.SYSTEM_ERROR,
        f"The broker does not support consumer to filter message by {expression_type}",
    )


def parse_failed() -> Refused:
    """The refusal of an expression that cannot be read."""
    return Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")


@lru_cache(maxsize=4096)
def tag_codes(expression: str | None) -> frozenset[int] | None:
    """The hashes of `TagA || TagB`; None for every message (`*`, blank or absent).

    Raises Refused (SUBSCRIPTION_PARSE_FAILED) for an expression without any tag.
    """
    if expression is None or not expression.strip() or expression.strip() == ALL:
        return None
    tags = [tag.strip() for tag in expression.split("||")]
    codes = frozenset(java_hash(tag) for tag in tags if tag)
    if not codes:
        raise parse_failed()
    return codes
