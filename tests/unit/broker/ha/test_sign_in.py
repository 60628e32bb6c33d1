"""The sign-in on the HA port: both sides prove that they know the secret, and nobody else gets in."""

from __future__ import annotations

import pytest

from orbitmq.broker.auth.policies import UserStatus, UserType
from orbitmq.broker.auth.table import AuthTable
from orbitmq.broker.ha.sign_in import MasterSignIn, SignInRefused, SlaveSignIn, secret_of_broker
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.auth import User
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.replication_sign_in import SignInReader

SECRETS = {"inner": "secret"}


def master(nonce: bytes = b"m" * 32) -> MasterSignIn:
    return MasterSignIn(SECRETS.get, nonce)


def slave(name: str = "inner", secret: str = "secret", nonce: bytes = b"s" * 32) -> SlaveSignIn:
    return SlaveSignIn("there:1", Credentials(name, secret), nonce)


def test_both_are_let_in_and_the_stream_follows() -> None:
    ours, theirs = master(), slave()
    claim, behind = theirs.feed(ours.challenge)
    assert behind is None
    answered = ours.feed(claim + b"report")
    assert answered is not None
    verdict, rest = answered
    assert rest == b"report"
    assert theirs.feed(verdict + b"pieces") == (b"", b"pieces")


def test_bytes_may_come_one_by_one() -> None:
    ours, theirs = master(), slave()
    claim = b"".join(theirs.feed(ours.challenge[n : n + 1])[0] for n in range(len(ours.challenge)))
    answers = [ours.feed(claim[n : n + 1]) for n in range(len(claim))]
    assert all(answer is None for answer in answers[:-1])
    assert answers[-1] is not None
    verdict, _ = answers[-1]
    assert [theirs.feed(verdict[n : n + 1])[1] for n in range(len(verdict))][-1] == b""


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        (slave(secret="wrong"), "its secret is wrong"),
        (slave(name="mallory"), "no enabled super user of this name"),
    ],
)
def test_wrong_credentials_are_refused_and_both_logs_say_what_to_do(theirs: SlaveSignIn, says: str) -> None:
    ours = master()
    claim, _ = theirs.feed(ours.challenge)
    with pytest.raises(SignInRefused, match=says) as refused:
        ours.feed(claim)
    assert "innerClientAuthenticationCredentials" in str(refused.value)
    with pytest.raises(SignInRefused, match="innerClientAuthenticationCredentials") as told:
        theirs.feed(refused.value.answer)
    # The network is not told which of the two was wrong.
    assert says not in str(told.value)


@pytest.mark.parametrize("said", [bytes(8), b"GET / HTTP/1.1\r\n"])
def test_a_peer_that_does_not_sign_in_is_refused_at_its_first_bytes(said: bytes) -> None:
    with pytest.raises(SignInRefused, match="haAuthenticationEnable"):
        master().feed(said)


def test_a_claim_is_good_for_no_other_connection() -> None:
    claim, _ = slave().feed(master().challenge)
    with pytest.raises(SignInRefused):
        master(nonce=b"n" * 32).feed(claim)


def test_a_false_master_is_not_followed() -> None:
    false, theirs = MasterSignIn({"inner": "guessed"}.get, b"m" * 32), slave()
    theirs.feed(false.challenge)
    # It says yes to everybody, with a proof of what it does not know.
    right, _ = slave(secret="guessed").feed(false.challenge)
    answered = false.feed(right)
    assert answered is not None
    with pytest.raises(SignInRefused, match="no master of this group"):
        theirs.feed(answered[0])


def test_a_master_cannot_send_a_slaves_own_proof_back() -> None:
    ours, theirs = master(nonce=b"s" * 32), slave()
    claim, _ = theirs.feed(ours.challenge)
    reader = SignInReader()
    reader.feed(claim)
    found = reader.claim()
    assert found is not None
    answered = ours.feed(claim)
    assert answered is not None
    assert found.proof not in answered[0]


def test_a_master_that_does_not_ask_is_not_followed() -> None:
    with pytest.raises(SignInRefused, match="does not ask for credentials"):
        slave().feed(bytes(12))


def test_a_name_that_is_too_long_is_said_and_not_sent() -> None:
    with pytest.raises(SignInRefused, match="256 bytes"):
        slave(name="x" * 256).feed(master().challenge)


def test_brokers_sign_in_as_enabled_super_users_alone() -> None:
    auth = AuthTable(DirtyTables())
    auth.ensure_super_user("inner", "secret")
    auth.put_user(User("ann", "secret", user_type=UserType.NORMAL, user_status=UserStatus.ENABLE))
    auth.put_user(User("bob", "secret", user_type=UserType.SUPER, user_status=UserStatus.DISABLE))
    found = [secret_of_broker(auth, name) for name in ("inner", "ann", "bob", "nobody")]
    assert found == ["secret", None, None, None]
