"""Permissions of queues, as routes show them."""

from orbitmq.admin.topics import perm_text


def test_permissions_are_three_letters() -> None:
    assert [perm_text(perm) for perm in (6, 4, 2, 0, 7)] == ["RW-", "R--", "-W-", "---", "RWX"]
