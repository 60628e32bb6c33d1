import pytest

from orbitmq.console.security.roles import Role, parse_role


def test_each_role_includes_the_one_before_it() -> None:
    assert Role.VIEWER < Role.OPERATOR < Role.ADMIN


@pytest.mark.parametrize("role", Role)
def test_a_role_is_read_from_its_title_in_any_case(role: Role) -> None:
    assert parse_role(role.title) is parse_role(role.title.upper()) is role


@pytest.mark.parametrize("text", ["", "root", "1", "viewer "])
def test_any_other_title_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="no role: viewer, operator or admin"):
        parse_role(text)
