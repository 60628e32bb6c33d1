"""Signatures against those of Apache's own client."""

from typing import Any

import pytest

from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.signing import Credentials, is_signed_with
from tests.wire.vector_files import load

CASES = load("acl_signature")["cases"]


@pytest.mark.parametrize("case", CASES)
def test_requests_are_signed_as_apaches_client_signs_them(case: dict[str, Any]) -> None:
    fields = dict(case["extFields_sorted"])
    wanted = fields.pop("Signature")
    del fields["AccessKey"]
    command = Command(310, ext=fields, body=bytes.fromhex(case["body_hex"]) or None)
    Credentials(case["accessKey"], case["secretKey"]).sign(command)
    assert command.ext is not None
    assert command.ext["Signature"] == wanted == case["Signature"]
    assert command.ext["AccessKey"] == case["accessKey"]
    assert is_signed_with(case["secretKey"], command)


def signed(version: int = 493) -> Command:
    command = Command(310, ext={"b": "topic", "zzz": "ü"}, body=b"body", version=version)
    Credentials("ann", "secret", "token").sign(command)
    return command


def test_a_token_is_sent_and_signed() -> None:
    command = signed()
    assert command.ext is not None
    assert command.ext["SecurityToken"] == "token"
    command.ext["SecurityToken"] = "other"
    assert not is_signed_with("secret", command)


def test_whatever_is_changed_on_the_way_shows() -> None:
    for change in (
        lambda command: command.ext.update(b="other"),
        lambda command: command.ext.update(added="x"),
        lambda command: command.ext.pop("zzz"),
        lambda command: command.ext.pop("Signature"),
        lambda command: command.ext.update(Signature=command.ext["Signature"][:-1]),
        lambda command: command.ext.update(Signature=""),
        lambda command: command.ext.update(Signature="ü"),
        lambda command: setattr(command, "body", b"bodY"),
        lambda command: setattr(command, "body", None),
    ):
        command = signed()
        assert is_signed_with("secret", command)
        change(command)
        assert not is_signed_with("secret", command)


def test_a_field_that_old_clients_add_behind_the_signing_does_not_count() -> None:
    for version, right in ((399, True), (400, False), (493, False)):
        command = signed(version)
        assert command.ext is not None
        command.ext["_UNIQUE_KEY_QUERY"] = "true"
        assert is_signed_with("secret", command) is right


def test_a_request_without_fields_can_be_signed() -> None:
    command = Command(26)
    Credentials("ann", "secret").sign(command)
    assert is_signed_with("secret", command)
    assert not is_signed_with("secret", Command(26))


def test_secrets_are_not_printed() -> None:
    assert "secret" not in repr(Credentials("ann", "secret", "token-x"))
    assert "token-x" not in repr(Credentials("ann", "secret", "token-x"))


@pytest.mark.parametrize(("access", "secret"), [("", "s"), (" ", "s"), ("a", "")])
def test_half_of_a_pair_is_refused(access: str, secret: str) -> None:
    with pytest.raises(ValueError, match="needed"):
        Credentials(access, secret)
