"""Search in dead letters: by words of their errors, of their files' names, and by the ids of letters and works.

What the errors of a group have alike is kept with the group, and the words that a letter has beside those in an index.
A letter is found if each word of the search is among either. How much a page reads grows neither with the number of
letters nor with how many are found. Each function runs in a transaction of `entries.transaction`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.dead_letters import entries
from counterfoil.dead_letters.entries import DeadLetterFilter, Entry, Place, about
from counterfoil.delivery.dead_letter import words
from counterfoil.kinds import KINDS

MAX_WORDS = 8
"""Of a search; further ones are left out."""
RARE = 1_000
"""Letters that have a word, at most, for all of them to be looked at."""
SCANNED = (100, 1_000, 5_000)
"""Letters that are looked at for a page, where a word is more frequent: more, where fewer do not fill it."""
NEWEST = 500
"""Letters that are looked at first, where a search means whole groups: most have many, or few letters."""
_GROUPS_AT_ONCE = 100


class Found(NamedTuple):
    """A page of a search."""

    entries: Sequence[Entry]
    """The newest first."""
    next: Place | None
    """Where the next page begins; None where there is nothing more. A page may be short, and another one follow."""


def page(
    connection: Connection, tenant_id: UUID | None, wanted: DeadLetterFilter, *, limit: int, after: Place | None = None
) -> Found:
    """Return a page of dead letters: with all words of a text, or with an id of a job or of its work."""
    text = wanted.text
    if text is None:
        return _cut(entries.page(connection, tenant_id, wanted, limit=limit + 1, after=after), limit)
    if (id_ := _id(text)) is not None:
        ids = [id_, *(kind.job_id(id_) for kind in KINDS.values())]
        return _cut(entries.of_ids(connection, tenant_id, wanted, ids, limit=limit + 1, after=after), limit)
    sought = sorted(words(text))[:MAX_WORDS]
    if not sought:
        return Found((), None)
    grouped = _groups(connection, tenant_id, sought)
    alike = [group for group in grouped if group.words.issuperset(sought)]
    found = _of_groups(connection, tenant_id, wanted, alike, limit + 1, after)
    until: Place | None = None
    for word, is_rare in _leads(connection, tenant_id, sought, frozenset().union(*(group.words for group in grouped))):
        for most in (RARE,) if is_rare else SCANNED:
            ids, end = _having(connection, tenant_id, sought, word, most, after)
            more = entries.of_ids(connection, tenant_id, wanted, ids, limit=limit + 1, after=after) if ids else []
            if is_rare or end is None or len(more) > limit:
                break
        found += more
        if end is not None and not is_rare:
            until = end if until is None else max(until, end)
    merged = sorted({entry.job_id: entry for entry in found}.values(), key=_place, reverse=True)
    if until is not None:  # what is older may lie among letters that were not looked at
        merged = [entry for entry in merged if _place(entry) >= until]
    return _cut(merged, limit) if len(merged) > limit else Found(merged, until)


def _cut(found: Sequence[Entry], limit: int) -> Found:
    shown = found[:limit]
    return Found(shown, _place(shown[-1]) if len(found) > limit else None)


def _place(entry: Entry) -> Place:
    return Place(entry.dlq_timestamp, entry.job_id)


def _id(text: str) -> UUID | None:
    try:
        return UUID(text.strip())
    except ValueError:
        return None


# -- what a group's letters have alike ------------------------------------------------------------------------------


class _Group(NamedTuple):
    fingerprint: str
    words: frozenset[str]
    """Of the words that are sought, those that its letters have alike."""


_GROUPS = """
SELECT fingerprint, ARRAY(SELECT unnest(words) INTERSECT SELECT unnest(%(sought)s::text[]))
FROM dead_letter_group WHERE tenant_id = %(tenant)s AND words && %(sought)s::text[]
"""
# The newest letters of groups are among those of the groups whose last one is newest.
_LAST = """
SELECT fingerprint, max(last_at) FROM dead_letter_count
WHERE tenant_id = %(tenant)s AND fingerprint = ANY(%(fingerprints)s) AND hour IS NULL AND status = ANY(%(statuses)s)
GROUP BY fingerprint ORDER BY 2 DESC
"""


def _groups(connection: Connection, tenant_id: UUID | None, sought: Sequence[str]) -> list[_Group]:
    """Groups that have any of these words."""
    rows = connection.execute(about(_GROUPS, tenant_id), {"tenant": tenant_id, "sought": list(sought)})
    return [_Group(fingerprint, frozenset(has)) for fingerprint, has in rows]


def _of_groups(  # a page is this many facts
    connection: Connection,
    tenant_id: UUID | None,
    wanted: DeadLetterFilter,
    groups: Collection[_Group],
    limit: int,
    after: Place | None,
) -> list[Entry]:
    """The newest letters of groups."""
    if wanted.fingerprint is not None:
        groups = [group for group in groups if group.fingerprint == wanted.fingerprint]
    if not groups:
        return []
    asked: dict[str, Any] = {
        "tenant": tenant_id,
        "fingerprints": [group.fingerprint for group in groups],
        "statuses": list(wanted.status),
    }
    newest = entries.of_groups(
        connection, tenant_id, wanted, asked["fingerprints"], limit=limit, after=after, among=NEWEST
    )
    if len(newest) == limit:
        return newest
    last = connection.execute(about(_LAST, tenant_id), asked).fetchall()
    found: list[Entry] = []
    for start in range(0, len(last), _GROUPS_AT_ONCE):
        part = last[start : start + _GROUPS_AT_ONCE]
        if len(found) >= limit and found[limit - 1].dlq_timestamp > part[0][1]:
            break
        found += entries.of_groups(connection, tenant_id, wanted, [row[0] for row in part], limit=limit, after=after)
        found.sort(key=_place, reverse=True)
    return found[:limit]


# -- a letter's own words -------------------------------------------------------------------------------------------

_FREQUENCY = """
SELECT word, count(*) FROM unnest(%(words)s::text[]) AS word CROSS JOIN LATERAL (
    SELECT FROM dead_letter_word w WHERE w.tenant_id = %(tenant)s AND w.word = word.word LIMIT %(most)s
) AS few GROUP BY word
"""


def _leads(
    connection: Connection, tenant_id: UUID | None, sought: Sequence[str], alike: Collection[str]
) -> Iterable[tuple[str, bool]]:
    """The words by which letters with words of their own are found, and whether each is rare.

    A word that no group has must be a letter's own: the rarest such one leads to all. Else any of them may be.
    """
    asked = {"tenant": tenant_id, "words": list(sought), "most": RARE + 1}
    frequency: Mapping[str, int] = dict(connection.execute(about(_FREQUENCY, tenant_id), asked).fetchall())
    own = [word for word in sought if word not in alike]
    leads = [min(own, key=lambda word: frequency.get(word, 0))] if own else list(frequency)
    return [(word, frequency[word] <= RARE) for word in leads if word in frequency]


_SCAN = """
SELECT dlq_timestamp, job_id FROM dead_letter_word w
WHERE tenant_id = %(tenant)s AND word = %(word)s {after}
ORDER BY dlq_timestamp DESC, job_id DESC LIMIT %(most)s
"""
_AFTER = "AND (dlq_timestamp, job_id) < (%(after_at)s, %(after_id)s)"
_LACKING = """
SELECT DISTINCT d.job_id
FROM dead_letter d LEFT JOIN dead_letter_group g ON g.tenant_id = %(tenant)s AND g.fingerprint = d.fingerprint
CROSS JOIN unnest(%(words)s::text[]) AS sought (word)
WHERE d.job_id = ANY(%(ids)s) AND NOT coalesce(sought.word = ANY(g.words), false)
  AND NOT EXISTS (SELECT FROM dead_letter_word w WHERE w.job_id = d.job_id AND w.word = sought.word)
"""


def _having(  # a page is this many facts
    connection: Connection, tenant_id: UUID | None, sought: Sequence[str], word: str, most: int, after: Place | None
) -> tuple[list[UUID], Place | None]:
    """Of the newest letters that have `word`, at most so many, those that have all; and where it stopped."""
    values: dict[str, Any] = {"tenant": tenant_id, "word": word, "most": most}
    if after is not None:
        values |= {"after_at": after.dlq_timestamp, "after_id": after.job_id}
    scan = _SCAN.format(after="" if after is None else _AFTER)
    places = [Place(*row) for row in connection.execute(about(scan, tenant_id), values)]
    ids = [place.job_id for place in places]
    others = [other for other in sought if other != word]
    if ids and others:
        asked = {"tenant": tenant_id, "ids": ids, "words": others}
        lacking = {id_ for (id_,) in connection.execute(about(_LACKING, tenant_id), asked)}
        ids = [id_ for id_ in ids if id_ not in lacking]
    return ids, places[-1] if len(places) == most else None
