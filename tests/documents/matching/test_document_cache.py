"""The total size of the cached documents is bounded."""

from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.documents.matching import reading
from tests.documents.matching.samples import order
from tests.documents.matching.tenant_harness import TenantHarness


def test_document_cache_evicts_least_recently_read(database: Database, admin: Connection) -> None:
    samples = [order("4711"), order("4712"), order("4713", po_reference="a long remark" * 9), order("4714")]
    harness = TenantHarness(database, admin, samples)
    a, b, long, c = harness.ids
    with database.tenant(harness.tenant_id) as connection:
        sizes = {
            id_: len(text)
            for id_, text in connection.execute("SELECT id, structured_data::text FROM document").fetchall()
        }
        assert sizes[a] == sizes[b] == sizes[c] < sizes[long] < 2 * sizes[a]
        cache = reading.DocumentCache(sizes[a] + sizes[b] + sizes[long])
        for _ in range(2):  # the size of a cached document is counted once
            cache.load(connection, [a, b, long])
        assert set(cache._entries) == {a, b, long}
        cache.load(connection, [a])
        cache.load(connection, [c])
        assert list(cache._entries) == [long, a, c]
        with admin.transaction():
            admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [Jsonb(samples[2].data), c])
        cache.load(connection, [c])  # c has grown, so the least recently read document is evicted
        assert list(cache._entries) == [a, c]
