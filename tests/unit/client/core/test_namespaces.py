"""Names of a namespace, there and back."""

from __future__ import annotations

import pytest

from orbitmq import Producer
from orbitmq.client.core.namespaces import unwrap, wrap


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "ns%orders"),
        ("ns%orders", "ns%orders"),
        ("%RETRY%billing", "%RETRY%ns%billing"),
        ("%DLQ%billing", "%DLQ%ns%billing"),
        ("%RETRY%ns%billing", "%RETRY%ns%billing"),
        ("other%orders", "ns%other%orders"),
        ("TOOLS_CONSUMER", "ns%TOOLS_CONSUMER"),
    ],
)
def test_a_name_on_the_wire(name: str, wrapped: str) -> None:
    assert wrap("ns", name) == wrapped
    assert unwrap("ns", wrapped) == name.replace("ns%", "")


@pytest.mark.parametrize(
    "name", ["TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "CID_RMQ_SYS_TRANS"]
)
def test_names_of_the_system_are_everybodys(name: str) -> None:
    assert wrap("ns", name) == name
    assert unwrap("ns", name) == name


def test_without_a_namespace_names_stay() -> None:
    assert wrap("", "orders") == "orders"
    assert unwrap("", "ns%orders") == "ns%orders"


def test_a_group_is_one_of_its_namespace() -> None:
    producer = Producer("shop", namespace="ns")
    assert (producer.group, producer.shown_group) == ("ns%shop", "shop")
