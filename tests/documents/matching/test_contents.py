"""Documents that are kept between calls."""

from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.documents.matching import reading
from tests.documents.matching.office import Office
from tests.documents.matching.papers import order


def test_documents_are_kept_as_far_as_they_leave_room_the_latest_read_first(
    database: Database, admin: Connection
) -> None:
    papers = [order("4711"), order("4712"), order("4713", po_reference="a long remark" * 9), order("4714")]
    office = Office(database, admin, papers)
    a, b, long, c = office.ids
    with database.tenant(office.tenant_id) as connection:
        sizes = {
            id_: len(text)
            for id_, text in connection.execute("SELECT id, structured_data::text FROM document").fetchall()
        }
        assert sizes[a] == sizes[b] == sizes[c] < sizes[long] < 2 * sizes[a]
        kept = reading.Documents(sizes[a] + sizes[b] + sizes[long])
        for _ in range(2):  # what is read again is not counted twice
            kept.load(connection, [a, b, long])
        assert set(kept._kept) == {a, b, long}
        kept.load(connection, [a])
        kept.load(connection, [c])
        assert list(kept._kept) == [long, a, c]
        with admin.transaction():
            admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [Jsonb(papers[2].data), c])
        kept.load(connection, [c])  # it has grown, which leaves no room for the one that was read longest ago
        assert list(kept._kept) == [a, c]
