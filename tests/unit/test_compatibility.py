import fnmatch

import pytest

from docs import write
from tests.peers.not_yet import NOT_YET
from tests.peers.suites import cases_of


@pytest.mark.parametrize("path", write.PARTS, ids=lambda path: path.name)
def test_documents_are_in_step_with_the_code(path) -> None:
    assert path.read_text() == write.written(path), "run `make docs`"


@pytest.mark.parametrize("suite", NOT_YET)
def test_what_is_not_there_yet_is_said_of_cases_that_exist(suite: str) -> None:
    cases = cases_of(suite)
    assert [pattern for pattern in NOT_YET[suite] if not fnmatch.filter(cases, pattern)] == []
