"""Rules of logins at a provider that need no provider."""

from typing import Any

import pytest

from orbitmq.console.security.roles import Role
from orbitmq.console.security.single_sign_on import Provider
from orbitmq.options import OptionError


@pytest.mark.parametrize(
    ("claim", "claims", "role"),
    [
        ("roles", {"roles": "admin"}, Role.ADMIN),
        ("roles", {"roles": ["viewer", "operator", 7, None]}, Role.OPERATOR),
        ("realm_access.roles", {"realm_access": {"roles": ["viewer"]}}, Role.VIEWER),
        ("https://example.org/roles", {"https://example.org/roles": ["viewer"]}, Role.VIEWER),
        ("roles", {"roles": ["root"]}, None),
        ("roles", {"roles": {"admin": True}}, None),
        ("a.b", {"a": "admin"}, None),
        ("roles", {}, None),
    ],
)
def test_the_role_is_found_in_texts_lists_and_objects(
    claim: str, claims: dict[str, Any], role: Role | None
) -> None:
    assert Provider("https://login.example", "c", "s", claim).role_of(claims) is role


def test_with_a_mapping_names_of_roles_alone_give_none() -> None:
    provider = Provider("https://login.example", "c", "s", roles={"ops": Role.OPERATOR})
    assert provider.role_of({"roles": ["admin"]}) is None
    assert provider.role_of({"roles": ["ops"]}) is Role.OPERATOR


def test_values_of_the_claim_give_the_right_to_read_bodies() -> None:
    assert Provider("https://login.example", "c", "s").reads_bodies({"roles": "viewer"})
    strict = Provider("https://login.example", "c", "s", "a.b", body_readers=frozenset({"readers"}))
    assert strict.reads_bodies({"a": {"b": ["viewer", "readers"]}})
    assert not strict.reads_bodies({"a": {"b": "viewer"}})
    assert not strict.reads_bodies({})


def test_a_name_is_of_the_claim_or_the_next_best_and_harmless() -> None:
    provider = Provider("https://login.example", "c", "s")
    assert provider.name_of({"preferred_username": "ann\u202e\n", "sub": "1"}) == "ann"
    assert provider.name_of({"preferred_username": 7, "email": "a@b.c"}) == "a@b.c"
    assert provider.name_of({"sub": "x" * 500}) == "x" * 64


@pytest.mark.parametrize("issuer", ["login.example", "http://login.example", "ftp://x", "https://x?y", ""])
def test_a_provider_is_an_https_address(issuer: str) -> None:
    with pytest.raises(OptionError):
        Provider(issuer, "c", "s")


def test_a_secret_is_in_no_text_of_the_provider() -> None:
    assert "hidden" not in repr(Provider("https://login.example", "c", "hidden"))
