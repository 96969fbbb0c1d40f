"""`/api/admin/reviews`: the queue of documents in doubt, what people decide about them, and about differences.

A review has the id of the document that is in doubt. Reading takes the role viewer for its tenant, deciding the role
operator.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, TypeVar, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.documents import acceptance, review, review_queue
from counterfoil.documents.acceptance import Said, Which, Word
from counterfoil.documents.matching.reviews import State
from counterfoil.documents.review import Answer, Done, Refused, Who
from counterfoil.documents.review_queue import Place, Wanted
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.variances import Code
from counterfoil.errors import RejectedRequestError
from counterfoil.validation import Problem, validate_json
from functions.admin_api.caller import EVERY_TENANT, Caller, Role
from functions.admin_api.uploads import ForbiddenError, NotFoundError

PAGE, LONGEST_PAGE = 20, 100
MOST_AT_ONCE = 50
"""Candidates that one request may reject."""


class ConflictError(RejectedRequestError):
    """What the request is about is not as the caller saw it any more."""


LONGEST_NAME = 254
"""Characters of a caller's name that the trail keeps."""
_Reason = Annotated[
    str, StringConstraints(min_length=1, max_length=2000, strip_whitespace=True, pattern=r"^[^\x00-\x1f\x7f]*$")
]


class _Deciding(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    reason: _Reason | None = None
    supersedes: list[int] = Field(default=[], max_length=MOST_AT_ONCE)


class _Confirm(_Deciding):
    document: UUID


class _Reject(_Deciding):
    documents: list[UUID] = Field(min_length=1, max_length=MOST_AT_ONCE)


class _Merge(_Deciding):
    documents: list[UUID] = Field(min_length=2, max_length=2)
    exact: bool = False


class _Split(_Deciding):
    document: UUID


_Figure = Annotated[Decimal, Field(allow_inf_nan=False, max_digits=60)]


class _Difference(_Deciding):
    cluster: UUID
    document: UUID
    code: Code
    line: str | None = Field(default=None, max_length=1000)
    expected: _Figure
    actual: _Figure


_SLUG = re.compile(r"[a-z0-9-]{1,63}")
_Body = TypeVar("_Body", bound=_Deciding)


# -- reading --------------------------------------------------------------------------------------------------------


def listed(query: Mapping[str, str], caller: Caller, database: Database) -> dict[str, Any]:
    """A page of the queue: `reviews`, and `next`, the cursor of the page after it, or None.

    Raises:
        RejectedRequestError: a parameter cannot be read.
        ForbiddenError: the caller is no viewer of the tenant, or of any.
        DatabaseUnavailableError: this cannot be known just now.
    """
    unknown = query.keys() - {"tenant", "kind", "min_chance", "max_chance", "state", "limit", "cursor"}
    if unknown:
        raise RejectedRequestError(f"There is no parameter {min(unknown)!r}.")
    wanted = Wanted(
        state=_one_of(query, "state", get_args(State)) or "open",  # type: ignore[arg-type]  # one of these
        tenants=_tenants(query.get("tenant"), caller),
        kind=_one_of(query, "kind", [kind.value for kind in DocumentType]),
        min_chance=_chance(query, "min_chance"),
        max_chance=_chance(query, "max_chance"),
        after=_after(query["cursor"]) if "cursor" in query else None,
    )
    limit = _limit(query)
    with database.delivery() as connection:
        places = review_queue.places(connection, wanted, limit + 1)
    found = review_queue.items(database, places[:limit])
    return {
        "reviews": [item.record for item in found],
        "next": _cursor(places[limit - 1]) if len(places) > limit else None,
    }


def shown(document_id: str, caller: Caller, database: Database) -> dict[str, Any]:
    """One review.

    Raises:
        NotFoundError: there is none, or none that the caller may see.
        DatabaseUnavailableError: this cannot be known just now.
    """
    id_ = _id(document_id)
    tenant_id, slug = _owner(id_, caller, database)
    found = review_queue.item(database, tenant_id, slug, id_)
    if found is None:
        raise NotFoundError("There is no such review.")
    return found.record


def _tenants(slug: str | None, caller: Caller) -> frozenset[str] | None:
    if slug is not None and not caller.may(Role.VIEWER, slug):
        raise ForbiddenError("Reading takes the role viewer for this tenant: ask an admin for it.")
    if slug is not None and not _SLUG.fullmatch(slug):
        raise RejectedRequestError("tenant is the slug of a tenant: lower-case letters, digits and hyphens.")
    if caller.role < Role.VIEWER or not caller.tenants:
        raise ForbiddenError("Reading takes the role viewer for a tenant: ask an admin for it.")
    if slug is not None:
        return frozenset({slug})
    return None if EVERY_TENANT in caller.tenants else caller.tenants


def _one_of(query: Mapping[str, str], name: str, known: Any) -> str | None:
    value = query.get(name)
    if value is not None and value not in known:
        raise RejectedRequestError(f"{name} is one of {', '.join(known)}.")
    return value


def _chance(query: Mapping[str, str], name: str) -> float | None:
    if name not in query:
        return None
    try:
        found = float(query[name])
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise RejectedRequestError(f"{name} is a number from 0 to 1.")
    return found


def _limit(query: Mapping[str, str]) -> int:
    value = query.get("limit", str(PAGE))
    if not value.isdecimal() or not value.isascii() or len(value) > len(str(LONGEST_PAGE)):
        value = "0"
    if not 1 <= int(value) <= LONGEST_PAGE:
        raise RejectedRequestError(f"limit is a number from 1 to {LONGEST_PAGE}.")
    return int(value)


def _cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(f"{place.opened_at.isoformat()}|{place.document_id}".encode()).decode()


def _after(cursor: str) -> tuple[datetime, UUID]:
    try:
        at, id_ = base64.b64decode(cursor, altchars=b"-_", validate=True).decode("ascii").split("|")
        opened_at = datetime.fromisoformat(at)
        if opened_at.tzinfo is None:
            raise ValueError
        return opened_at, UUID(id_)
    except (ValueError, binascii.Error):
        raise RejectedRequestError("cursor is what 'next' of the page before said.") from None


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFoundError("There is no such review.") from None


def _owner(id_: UUID, caller: Caller, database: Database) -> tuple[UUID, str]:
    with database.delivery() as connection:
        found = review_queue.owner(connection, id_)
    if found is None or not caller.may(Role.VIEWER, found[1]):
        raise NotFoundError("There is no such document.")
    return found


# -- deciding -------------------------------------------------------------------------------------------------------

Deciding = Callable[[Connection, UUID, Who], Answer]


def confirm(document_id: str, body: str, caller: Caller, database: Database, now: datetime) -> dict[str, Any]:
    """The document belongs to `{"document": id}`; all that decide take `reason` and `supersedes`, and raise alike.

    Raises:
        RejectedRequestError: the request cannot be read.
        ForbiddenError: the caller is no operator of the tenant.
        NotFoundError: there is no such document, or none that the caller may see.
        ConflictError: it is not in question any more, or was decided meanwhile.
        DatabaseUnavailableError: this cannot be done just now.
    """
    asked, id_ = validate_json(_Confirm, body, _wrong), _id(document_id)
    return _carried_out(
        id_, asked, caller, database, lambda c, tenant, who: review.confirm(c, tenant, id_, asked.document, now, who)
    )


def reject(document_id: str, body: str, caller: Caller, database: Database, now: datetime) -> dict[str, Any]:
    """The document belongs to none of `{"documents": [id]}`. Raises as `confirm`."""
    asked, id_ = validate_json(_Reject, body, _wrong), _id(document_id)
    return _carried_out(
        id_, asked, caller, database, lambda c, tenant, who: review.reject(c, tenant, id_, asked.documents, now, who)
    )


def merge(body: str, caller: Caller, database: Database, now: datetime) -> dict[str, Any]:
    """The clusters of `{"documents": [id, id]}` are one; with `exact`, by an edge between the two. As `confirm`."""
    asked = validate_json(_Merge, body, _wrong)
    one, other = asked.documents
    return _carried_out(
        one,
        asked,
        caller,
        database,
        lambda c, tenant, who: review.merge(c, tenant, one, other, now, who, exact=asked.exact),
    )


def split(body: str, caller: Caller, database: Database, now: datetime) -> dict[str, Any]:
    """`{"document": id}` does not belong to its cluster. Raises as `confirm`."""
    asked = validate_json(_Split, body, _wrong)
    return _carried_out(
        asked.document,
        asked,
        caller,
        database,
        lambda c, tenant, who: review.split(c, tenant, asked.document, now, who),
    )


def _carried_out(id_: UUID, asked: _Deciding, caller: Caller, database: Database, decide: Deciding) -> dict[str, Any]:
    """Decide, and say what came of it. Messages owed are in the outbox, which the watchdog empties."""
    slug, answer = _decided(id_, asked, caller, database, decide)
    return {
        "tenant": slug,
        "verdict": answer.verdict,
        "decided": [list(pair) for pair in answer.decided],
        "clusters": sorted(answer.clusters),
        "matched_anew": answer.rematched,
    }


def say(word: Word, body: str, caller: Caller, database: Database, now: datetime) -> dict[str, Any]:
    """A difference of a cluster is accepted or disputed, with the figures that the caller saw.

    `{"cluster": id, "document": id, "code": code, "line": line, "expected": "100", "actual": "101.5"}`, as a result
    tells of it. As `confirm`; ConflictError where the cluster has no such difference any more.
    """
    asked = validate_json(_Difference, body, _wrong)
    which = Which(asked.document, asked.code, asked.line, (asked.expected, asked.actual))
    slug, said = _decided(
        asked.cluster,
        asked,
        caller,
        database,
        lambda c, tenant, who: acceptance.say(c, tenant, asked.cluster, which, word, now, who),
    )
    return {
        "tenant": slug,
        "cluster": asked.cluster,
        "verdict": said.word,
        "differences": list(said.sentences),
        "open": list(said.left),
    }


_Told = TypeVar("_Told", Done, Said)


def _decided(
    id_: UUID,
    asked: _Deciding,
    caller: Caller,
    database: Database,
    decide: Callable[[Connection, UUID, Who], _Told | Refused],
) -> tuple[str, _Told]:
    """Decide, if the caller may: the tenant's slug, and what came of it."""
    tenant_id, slug = _owner(id_, caller, database)
    if not caller.may(Role.OPERATOR, slug):
        raise ForbiddenError("Deciding takes the role operator for this tenant: ask an admin for it.")
    who = Who(caller.subject[:LONGEST_NAME] or "unknown", asked.reason, tuple(asked.supersedes))

    def once() -> _Told | Refused:
        with database.tenant(tenant_id) as connection:
            return decide(connection, tenant_id, who)

    answer = retry_conflicts(once)
    if isinstance(answer, Refused):
        raise (NotFoundError if answer.why == "gone" else ConflictError)(answer.sentence)
    return slug, answer


def _wrong(problem: Problem) -> RejectedRequestError:
    fields = {name for model in (_Confirm, _Reject, _Merge, _Difference) for name in model.model_fields}
    known = [str(part) for part in problem.place if part in fields]
    if problem.type == "json_invalid":
        return RejectedRequestError("The body must be JSON, an object.")
    if problem.type == "string_pattern_mismatch":
        return RejectedRequestError("The body is wrong at reason: it takes one line, without control characters.")
    return RejectedRequestError(f"The body is wrong at {'.'.join(known) or 'a field'}: {problem.message}.")
