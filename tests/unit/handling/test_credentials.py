"""Credentials in the options of brokers and controllers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.handling.credentials import first_user, own_credentials
from orbitmq.options import OptionError


def settings(**texts: str | None) -> Any:
    return SimpleNamespace(
        **{"init_authentication_user": None, "inner_client_authentication_credentials": None, **texts}
    )


def test_the_first_user_has_a_name_and_a_password() -> None:
    user = first_user(settings(init_authentication_user='{"username":"root","password":"Secret-1"}'))
    assert user is not None
    assert (user.access_key, user.secret_key) == ("root", "Secret-1")


def test_the_brokers_own_credentials_may_have_a_token() -> None:
    text = '{"accessKey":"inner","secretKey":"Secret-1","securityToken":"t"}'
    own = own_credentials(settings(inner_client_authentication_credentials=text))
    assert own is not None
    assert (own.access_key, own.secret_key, own.security_token) == ("inner", "Secret-1", "t")


@pytest.mark.parametrize("text", [None, "", "  "])
def test_nothing_set_is_no_user(text: str | None) -> None:
    assert first_user(settings(init_authentication_user=text)) is None
    assert own_credentials(settings(inner_client_authentication_credentials=text)) is None


@pytest.mark.parametrize(
    "text", ["root:Secret-1", '{"username":"root","password":"Secret-1"', '["Secret-1"]']
)
def test_an_error_says_the_form_and_not_the_secret(text: str) -> None:
    with pytest.raises(OptionError, match="initAuthenticationUser has to be") as refused:
        first_user(settings(init_authentication_user=text))
    assert "Secret-1" not in str(refused.value)
    with pytest.raises(OptionError, match="innerClientAuthenticationCredentials has to be") as refused:
        own_credentials(settings(inner_client_authentication_credentials=text))
    assert "Secret-1" not in str(refused.value)
