from orbitmq.broker.metadata.pagination import page
from orbitmq.protocol.bodies.version import DataVersion

VERSION = DataVersion(3, 0, 5)
TABLE = {name: name.lower() for name in ("C", "A", "B")}


def test_the_whole_table_where_no_page_is_asked_for() -> None:
    assert page(TABLE, None, None, None, VERSION, 2) == TABLE
    assert page(TABLE, 1, 1, None, VERSION, None) == TABLE


def test_pages_go_by_name_and_end() -> None:
    text = VERSION.to_json_text()
    assert list(page(TABLE, 0, 2, text, VERSION, 10)) == ["A", "B"]
    assert list(page(TABLE, 2, 2, text, VERSION, 10)) == ["C"]
    assert page(TABLE, 3, 2, text, VERSION, 10) == {}
    assert list(page(TABLE, 0, 9, text, VERSION, 1)) == ["A"], "no page is larger than the broker's"


def test_another_version_begins_anew() -> None:
    for text in (None, "", "{", DataVersion(4, 0, 5).to_json_text()):
        assert list(page(TABLE, 1, 2, text, VERSION, 10)) == ["A", "B"]
