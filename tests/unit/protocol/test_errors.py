import pytest

from orbitmq.protocol.codes import LanguageCode, ResponseCode
from orbitmq.protocol.errors import ERRORS, BrokerRefused, TopicNotExist, broker_refused, code_name
from orbitmq.protocol.remoting.command import LANGUAGES


def test_every_code_but_success_has_one_row() -> None:
    assert set(ERRORS) == set(ResponseCode) - {ResponseCode.SUCCESS}
    assert all(row.code == code and row.text for code, row in ERRORS.items())


def test_what_other_brokers_may_take_is_retriable() -> None:
    """The Java producer sends these to another broker."""
    for code in (1, 2, 14, 16, 17, 204, 205, 1500):
        assert ERRORS[code].retriable, code
    for code in (13, 26, 29):
        assert not ERRORS[code].retriable, code


def test_an_error_of_its_own_class() -> None:
    error = broker_refused(17, "topic[T] not exist", "127.0.0.1:10911", {"x": "y"})
    assert isinstance(error, TopicNotExist)
    assert error.retriable
    assert str(error) == "TOPIC_NOT_EXIST: topic[T] not exist (from 127.0.0.1:10911)"
    assert (error.code, error.extra) == (17, {"x": "y"})


def test_a_code_that_nobody_declared() -> None:
    error = broker_refused(9999)
    assert type(error) is BrokerRefused
    assert not error.retriable
    assert str(error) == "code 9999: refused without a reason"


@pytest.mark.parametrize("code", ResponseCode)
def test_names(code: ResponseCode) -> None:
    assert code_name(code) == code.name


def test_a_row_may_differ_from_its_class() -> None:
    assert broker_refused(24).retriable
    assert not broker_refused(23).retriable


def test_languages_agree_with_the_header() -> None:
    assert tuple(language.name for language in LanguageCode) == LANGUAGES
