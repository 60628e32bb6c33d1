from __future__ import annotations

import re

import pytest

from orbitmq.admin import NoBroker
from orbitmq.client import SendFailed
from orbitmq.console.api import problems
from orbitmq.console.api.problems import ApiError, problem_of
from orbitmq.net.errors import CallTimeout
from orbitmq.options import OptionError
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, NoPermission, OrbitError, TopicNotExist


def refused(kind: type[BrokerRefused], code: int) -> BrokerRefused:
    return kind(code, "the remark", "broker:1")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (refused(TopicNotExist, ResponseCode.TOPIC_NOT_EXIST), 404, "TOPIC_NOT_EXIST"),
        (refused(NoPermission, ResponseCode.NO_PERMISSION), 403, "BROKER_NO_PERMISSION"),
        (NoBroker("no broker"), 404, "NO_BROKER"),
        (CallTimeout("broker:1", "PULL_MESSAGE", 3000), 504, "NO_ANSWER"),
        (OptionError("no such option"), 422, "OPTION"),
        (OrbitError("anything else"), 422, "REFUSED"),
    ],
)
def test_errors_that_a_user_can_act_on_have_a_status_and_a_code(
    error: Exception, status: int, code: str
) -> None:
    problem = problem_of(error)
    assert problem is not None
    assert (problem.status, problem.code) == (status, code)
    assert problem.title == re.sub("^[A-Z_]+: ", "", " ".join(str(error).split())), "its code stands apart"


def test_a_refusal_without_a_row_has_the_name_of_the_brokers_code() -> None:
    problem = problem_of(refused(BrokerRefused, ResponseCode.SYSTEM_BUSY))
    assert problem is not None
    assert (problem.status, problem.code) == (502, "SYSTEM_BUSY")


def test_every_problem_says_what_to_do() -> None:
    for _, _, code, advice in problems._ROWS:
        assert advice.endswith("."), code
    for error in (
        OrbitError("odd"),
        refused(BrokerRefused, ResponseCode.SYSTEM_BUSY),
        refused(BrokerRefused, 999),
    ):
        problem = problem_of(error)
        assert problem is not None
        assert problem.advice.endswith(".")


def test_a_bug_is_no_problem_of_the_user() -> None:
    assert problem_of(KeyError("x")) is None
    assert problem_of(ZeroDivisionError()) is None


def test_an_error_of_a_handler_is_its_own_problem() -> None:
    error = ApiError(429, "TOO_MANY", "too many", "Wait a little.", field="body.name", retry_after=7)
    assert problem_of(error) is error.problem
    assert (error.problem.field, error.problem.retry_after_seconds) == ("body.name", 7)


def test_a_send_that_failed_for_want_of_permission_says_so() -> None:
    error = SendFailed("T", [], ResponseCode.NO_PERMISSION)
    error.__cause__ = refused(NoPermission, ResponseCode.NO_PERMISSION)
    problem = problem_of(error)
    assert problem is not None
    assert problem.code == "BROKER_NO_PERMISSION"
