"""Every row of the table of request codes is declared once, with the header fields it names."""

import csv
import re
from pathlib import Path

import pytest

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.every import REQUESTS, UNUSED

VECTORS = Path(__file__).parent / "vectors"
ROWS = list(csv.DictReader((VECTORS / "request_codes.csv").read_text().splitlines()))
USED = [row for row in ROWS if int(row["code"]) not in UNUSED]

KINDS = {
    "String": "str",
    "BoundaryType": "str",
    "Integer": "int",
    "int": "int",
    "Long": "long",
    "long": "long",
    "Boolean": "bool",
    "boolean": "bool",
}
BESIDE_THE_CLASS = {
    ("PULL_MESSAGE", "orbitmqBulk"),
    ("LITE_PULL_MESSAGE", "orbitmqBulk"),
    ("VIEW_MESSAGE_BY_ID", "orbitmqUnconfirmed"),
    ("EXCHANGE_BROKER_HA_INFO", "orbitmqBrokerId"),
    ("EXCHANGE_BROKER_HA_INFO", "orbitmqTableVersion"),
    ("BROKER_HEARTBEAT", "orbitmqEpoch"),
    ("BROKER_HEARTBEAT", "orbitmqSetEpoch"),
    ("BROKER_HEARTBEAT", "orbitmqMaster"),
    ("CONTROLLER_ALTER_SYNC_STATE_SET", "orbitmqRenew"),
    ("CONTROLLER_REGISTER_BROKER", "orbitmqEpoch"),
    ("CONTROLLER_REGISTER_BROKER", "orbitmqRun"),
    ("CONTROLLER_REGISTER_BROKER", "orbitmqLastRun"),
    ("EXCHANGE_BROKER_HA_INFO", "orbitmqEpoch"),
    ("EXCHANGE_BROKER_HA_INFO", "orbitmqBlind"),
    ("CONTROLLER_ELECT_MASTER", "orbitmqWaitMs"),
    ("CONTROLLER_ELECT_MASTER", "orbitmqOnlyInSync"),
    ("CONTROLLER_GET_REPLICA_INFO", "orbitmqOnlyInSync"),
    ("CONTROLLER_GET_REPLICA_INFO", "orbitmqWaitMs"),
    ("GET_TOPIC_STATS_INFO", "orbitmqNewest"),
    ("GET_TOPIC_STATS_INFO", "orbitmqOnlyEnds"),
    ("GET_TOPIC_STATS_INFO", "orbitmqLeftOut"),
    ("QUERY_MESSAGE", "_UNIQUE_KEY_QUERY"),
    ("HEART_BEAT", "IS_SUPPORT_HEART_BEAT_V2"),
    ("HEART_BEAT", "IS_SUB_CHANGE"),
    ("REGISTER_BROKER", "__ZONE_NAME"),
    ("SET_COMMITLOG_READ_MODE", "READ_AHEAD_MODE"),
    ("SWITCH_TIMER_ENGINE", "E_T"),
    ("NOTIFICATION", "isLiteConsumer"),
    ("NOTIFICATION", "clientId"),
    ("PULL_MESSAGE", "liteTopic"),
    ("LITE_PULL_MESSAGE", "liteTopic"),
    ("SEARCH_OFFSET_BY_TIMESTAMP", "liteTopic"),
    ("ACK_MESSAGE", "liteTopic"),
    ("CHANGE_MESSAGE_INVISIBLETIME", "liteTopic"),
    ("CHANGE_MESSAGE_INVISIBLETIME", "orbitmqRenewal"),
    ("CHANGE_MESSAGE_INVISIBLETIME", "suspend"),
}
"""Fields that peers put beside those of the header class, as the table's notes say, or have since 5.5."""
OF_5_5 = (5002, 5003, 200070, 200071, 200073, 200074, 200075, 200076, 200077, 200078, 200079)
"""Requests that the table of 5.4.0 does not have: deletion in bulk, lite topics."""
ABSENT_AFTER_ALL = {"topicSeq", "groupSeq", "totalTopicNum", "totalGroupNum"}
"""Marked as required, but absent means the whole table."""


def _columns(text: str) -> dict[str, str]:
    inside = re.search(r"\{(.*)\}", text)
    fields = inside.group(1).split() if inside else []
    return dict(field.split(":") for field in fields if ":" in field)


def test_all_codes_are_there_once_and_no_other() -> None:
    codes = [int(row["code"]) for row in ROWS]
    assert sorted([*codes, *OF_5_5]) == sorted([*REQUESTS, *UNUSED])
    assert len(codes) == len(set(codes)) == 159


def test_unused_codes_have_their_names() -> None:
    names = {int(row["code"]): row["name"] for row in ROWS}
    assert {code: names[code] for code in UNUSED} == UNUSED


@pytest.mark.parametrize("row", USED, ids=lambda row: row["name"])
def test_name_header_and_bodies(row: dict[str, str]) -> None:
    declared = REQUESTS[int(row["code"])]
    assert row["name"] == declared.NAME
    for cls, header, body in (
        (declared, "request_header", "request_body"),
        (declared.REPLY, "response_header", "response_body"),
    ):
        wanted = _columns(row[header])
        fields = {
            field.wire_name: field
            for field in cls.FIELDS
            if field.kind in ("str", "int", "long", "bool")
            and field.wire_name not in ("bname", "lo")  # any request may have them
            and (row["name"], field.wire_name) not in BESIDE_THE_CLASS
        }
        if row["code"] in ("2004", "5001"):
            wanted = {}
        assert set(fields) == set(wanted)
        for name, type_name in wanted.items():
            assert fields[name].kind == KINDS[type_name.rstrip("!")], name
            if name not in ABSENT_AFTER_ALL:
                assert fields[name].is_required == type_name.endswith("!"), name
        assert any(field.name == "body" for field in cls.FIELDS) == bool(row[body])


@pytest.mark.parametrize("row", USED, ids=lambda row: row["name"])
def test_who_serves_it(row: dict[str, str]) -> None:
    parties = row["from>to"].split(">")[1:]
    wanted = {
        {
            "broker": "broker",
            "namesrv": "namesrv",
            "controller": "controller",
            "broker container": "container",
        }.get(party, "client")
        for to in parties
        for party in to.split(",")
    }
    if row["from>to"]:
        assert wanted == REQUESTS[int(row["code"])].SERVED_BY


def test_response_codes() -> None:
    rows = csv.DictReader((VECTORS / "response_codes.csv").read_text().splitlines())
    of_5_5 = {"LMQ_QUOTA_EXCEEDED": 2017, "LITE_SUBSCRIPTION_QUOTA_EXCEEDED": 2018}
    apache = {row["name"]: int(row["code"]) for row in rows} | of_5_5
    assert apache == {code.name: code.value for code in ResponseCode}
