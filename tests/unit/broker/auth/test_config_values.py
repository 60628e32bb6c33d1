from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.broker.auth.config_values import unauthenticated_codes, unauthorized_codes
from orbitmq.options import OptionError


def settings(**texts: str | None) -> Any:
    return SimpleNamespace(
        **{
            "authentication_whitelist": None,
            "authorization_whitelist": None,
            **texts,
        }
    )


def test_lists_of_request_codes_are_numbers_with_commas() -> None:
    assert unauthenticated_codes(settings(authentication_whitelist=" 11, 12,,")) == {11, 12}
    assert unauthorized_codes(settings(authorization_whitelist="34")) == {34}
    assert unauthorized_codes(settings()) == frozenset()


@pytest.mark.parametrize("text", ["PULL_MESSAGE", "11;12", "-1", "٣", "1" * 10])
def test_a_list_with_anything_else_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="authenticationWhitelist"):
        unauthenticated_codes(settings(authentication_whitelist=text))
    with pytest.raises(OptionError, match="authorizationWhitelist"):
        unauthorized_codes(settings(authorization_whitelist=text))
