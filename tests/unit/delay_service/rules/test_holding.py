"""Terms count once they are written, and as long as the lease holds."""

from orbitmq.controller.leadership import Leadership
from orbitmq.delay_service.rules.holding import Holding


def begun(texts):
    leadership = Leadership("g", "a", "")
    holding = Holding(leadership, lambda: "new")
    leadership.lease_until_ms = 1000
    holding.lead(texts, 0)
    return leadership, holding


def test_a_term_counts_once_it_is_written_and_until_the_lease_ends():
    leadership, holding = begun({"term": "4", "secret": "s"})
    assert holding.term(10) == 0
    batch = holding.journal.drain()
    assert batch.changes == {"term": "5"}
    holding.journal.confirm(batch)
    assert (holding.term(10), holding.term(999), holding.term(1000)) == (5, 5, 0)
    leadership.lease_until_ms = 2000
    assert holding.term(1000) == 5
    holding.step_down()
    assert holding.term(1000) == 0


def test_the_first_holder_makes_the_secret():
    _, holding = begun({})
    assert holding.journal.drain().changes == {"term": "1", "secret": "new"}
