from orbitmq.protocol.records.ids import parse_unique_id
from orbitmq.spark.sink.identity import PartitionIdentity, unique_id


def test_ids_of_rows_have_the_form_of_ids_of_clients_and_differ() -> None:
    prefix = PartitionIdentity("w", 3, 1).id_prefix
    rows = [0, 1, 0xFFFF, 0x10000, 0xFFFFFFFF]
    ids = [unique_id(prefix, row) for row in rows]
    assert len(set(ids)) == len(rows)
    assert all(len(one) == 32 and parse_unique_id(one).ms_of_month == 0 for one in ids)
    assert PartitionIdentity("w", 3, 2).id_prefix != prefix
