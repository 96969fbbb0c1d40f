"""Documents that are kept between calls."""

from counterfoil.db import Connection, Database
from counterfoil.documents.matching import contents
from tests.documents.matching.office import Office
from tests.documents.matching.papers import order


def test_documents_are_kept_as_far_as_their_lines_leave_room_the_latest_read_first(
    database: Database, admin: Connection
) -> None:
    office = Office(database, admin, [order(str(number)) for number in range(4711, 4715)])
    with database.tenant(office.tenant_id) as connection:
        one = contents.Documents().load(connection, office.ids[:1])[office.ids[0]]
        kept = contents.Documents(3 * (1 + len(one.lines)))
        for _ in range(2):  # what is read again is not counted twice
            kept.load(connection, office.ids[:3])
        assert set(kept._kept) == set(office.ids[:3])
        kept.load(connection, office.ids[:1])
        kept.load(connection, office.ids[3:])
    assert list(kept._kept) == [office.ids[2], office.ids[0], office.ids[3]]
