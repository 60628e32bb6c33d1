"""The newest messages of a topic, page by page, with the beginnings of their bodies."""

import asyncio
import base64
from typing import Any

import httpx
import pytest

from orbitmq import Message, Producer
from orbitmq.testing import LocalBroker

PATH = "/api/clusters/here/topics/recent/messages"


@pytest.fixture(scope="module", autouse=True)
def recent(console_broker: LocalBroker) -> None:
    console_broker.create_topic("recent", 2)

    async def send() -> None:
        async with Producer("p", console_broker.namesrv) as producer:
            for number in range(10):
                body = f"{number}" + "." * 100_000
                await producer.send(
                    Message("recent", body, tags=["even", "odd"][number % 2], keys=f"k{number}")
                )

    asyncio.run(send())


def page(api: httpx.Client, **query: Any) -> tuple[list[str], str]:
    """The first characters of the bodies, and the page after this one."""
    answer = api.get(PATH, params=query).json()
    bodies = [base64.b64decode(one["body"]) for one in answer["messages"]]
    assert all(
        one["isCut"] and len(body) == 4096 for one, body in zip(answer["messages"], bodies, strict=True)
    )
    return [body[:1].decode() for body in bodies], answer["next"]


def test_pages_go_backwards_until_there_are_no_more(api: httpx.Client) -> None:
    seen, following = page(api, max=4)
    while following:
        some, following = page(api, max=4, after=following)
        seen += some
    assert seen == list("9876543210")


def test_a_page_may_begin_before_a_time(api: httpx.Client) -> None:
    stored = [one["storedMs"] for one in api.get(PATH).json()["messages"]]
    expected = [one for one in stored if one < stored[4]]
    assert [one["storedMs"] for one in api.get(f"{PATH}?beforeMs={stored[4]}").json()["messages"]] == expected


@pytest.mark.parametrize(
    ("query", "found"),
    [({"tag": "odd"}, "97531"), ({"key": "k4"}, "4"), ({"text": "7....", "tag": "even || odd"}, "7")],
)
def test_tag_key_and_text_choose_messages(api: httpx.Client, query: dict[str, str], found: str) -> None:
    assert page(api, **query) == (list(found), "")
    assert api.get(PATH, params=query).json()["scanned"] == 10


@pytest.mark.parametrize("after", ["x", "bm90IGpzb24=", base64.urlsafe_b64encode(b'[["b",-1,0]]').decode()])
def test_what_is_no_page_is_refused(api: httpx.Client, after: str) -> None:
    answer = api.get(PATH, params={"after": after})
    assert (answer.status_code, answer.json()["field"]) == (422, "after")
