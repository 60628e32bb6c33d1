"""What part of a topic a consumer wants: the tags of its subscription, as hashes for the queue scan."""

from __future__ import annotations

from functools import lru_cache

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.hashing import java_hash

ALL = "*"
TYPE_TAG = "TAG"
TYPE_SQL92 = "SQL92"


def is_tag_type(expression_type: str | None) -> bool:
    """Whether an expression is a list of tags: the type of clients that name none."""
    return not expression_type or expression_type == TYPE_TAG


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
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
    return codes
