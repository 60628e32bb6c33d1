"""Groups that are the brokers' own, and those of applications."""

from orbitmq.admin.groups import is_system


def test_groups_of_the_brokers_are_told_from_those_of_applications() -> None:
    assert is_system("CID_RMQ_SYS_TRANS")
    assert is_system("TOOLS_CONSUMER")
    assert not is_system("billing")
