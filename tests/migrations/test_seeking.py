"""Keys of documents that were matched before they had keys for what they seek."""

from pathlib import Path
from shutil import copytree

import psycopg

from cli.postgres import Server
from functions.migrate.runner import apply, roll_back
from tests import factories
from tools.schema import MIGRATIONS

BEFORE = {
    ("invoice", "own:invoice", "R1"),
    ("invoice", "deal:invoice", "acme|buyer|8123"),
    ("purchase_order", "deal:purchase_order", "#A1|8123"),
    ("delivery_note", "deal:delivery_note", "acme|buyer|8123"),
}
AFTER = {
    ("invoice", "own:invoice", "R1"),
    ("invoice", "deal:invoice", "acme|buyer|8123"),
    ("invoice", "seeks:purchase_order", "acme|buyer|8123"),
    ("invoice", "seeks:contract", "acme|buyer|8123"),
    ("purchase_order", "deal:purchase_order", "#A1|8123"),
    ("purchase_order", "seeks:contract", "#A1|8123"),
    ("delivery_note", "seeks:purchase_order", "acme|buyer|8123"),
}


def keys(url: str) -> set[tuple[str, str, str]]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT d.type, k.type, k.key FROM document_key k JOIN document d ON d.id = k.document_id"
        )
        return {(kind, type_, key) for kind, type_, key in rows}


def test_whoever_was_found_by_its_parties_is_found_as_somebody_who_seeks(
    postgres: Server, empty_database: str, tmp_path: Path
) -> None:
    url = postgres.url(empty_database)
    below = copytree(MIGRATIONS, tmp_path / "below")
    for path in below.glob("[0-9]*.sql"):
        if path.name >= "0026":
            path.unlink()
    last = apply(url, below)[-1]
    with psycopg.connect(url, autocommit=True) as connection:
        tenant = factories.make_tenant(connection)
        kinds = {kind: factories.make_document(connection, tenant, {}, type=kind) for kind, _, _ in BEFORE}
        for kind, type_, key in BEFORE:
            connection.execute(
                "INSERT INTO document_key (tenant_id, document_id, type, key) VALUES (%s, %s, %s, %s)",
                [tenant, kinds[kind], type_, key],
            )
    apply(url, MIGRATIONS)
    assert keys(url) == AFTER
    roll_back(url, MIGRATIONS, to=last)
    assert keys(url) == BEFORE
