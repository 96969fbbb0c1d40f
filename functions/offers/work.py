"""One attempt to compute a shard's offers from the pinned pool and store them.

Every attempt computes the same result, because its inputs are fixed. The pool fixes users and rules, and the first
attempt fixes the excluded candidates.
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Outcome, Succeeded, TenantAttempt
from counterfoil.errors import DataIntegrityError, DeferredError, StaleClaimError
from counterfoil.offers import store
from counterfoil.offers.compute import OfferResults, Pool, compute
from counterfoil.offers.exposure_cap import Ints, assign_slots
from counterfoil.offers.pool import PACKED_EXCLUSION, ProfileArrays, documents, inputs_hashes
from counterfoil.offers.schedule import VERSION, Rules, nine_am
from counterfoil.offers.store import ShardInput, ShardResults, WriteResult
from counterfoil.webhooks.destinations import enqueue

LATE_SHARD_DELAY = timedelta(minutes=1)
"""Delay for a shard of late or retried users while pinned shards of its capped pool are unfinished."""
OFFERS_URL = "/api/users/{user_id}/offers?date="
"""URL of a user's offers for a date."""


class PoolCache:
    """Cache of the last pool, because the next shard usually has the same pool."""

    def __init__(self) -> None:
        self._last: tuple[Any, Pool] | None = None

    def of(self, shard: ShardInput, database: Database) -> Pool:
        """Return the pool of a shard, from the cache or the database.

        Raises:
            DataIntegrityError: the pool's profiles were deleted or differ from the pinned profiles.
        """
        last = self._last
        if last is not None and last[0] == shard.pool_id:
            return last[1]
        self._last = None  # avoids having two large pools in memory
        with database.tenant(shard.tenant_id) as connection:
            people = store.pool_people(connection, shard.pool_id)
        if not people:
            raise DataIntegrityError("The pool's profiles were deleted, so there are no candidates.")
        if sha256(people).digest() != shard.digest:
            raise DataIntegrityError("The pool's profiles differ from the pinned profiles.")
        pool = Pool(ProfileArrays.read(people), shard.date)
        self._last = shard.pool_id, pool
        return pool


def compute_shard(attempt: TenantAttempt, pools: PoolCache) -> Outcome:
    """Compute the offers for the users of one shard.

    Users with invalid profiles are quarantined: their jobs fail, and are retried in a separate shard with their current
    profiles. If all of them fail again, that shard becomes a dead letter.

    Raises:
        StaleClaimError: the shard no longer exists, or a newer claim exists.
        DeferredError: there is an exposure cap, the shard's users are late or retried, and pinned shards are
        unfinished. ConflictError: together with offers from another shard, the exposure cap would be exceeded.
        UnknownZoneError: the pool's time zone is unknown. NoSuchDateError: the pool's date does not exist in its time
        zone. DataIntegrityError: see `PoolCache.of`, or all quarantined users of the shard have invalid profiles.
    """
    with attempt.database.tenant(attempt.tenant_id) as connection:
        shard = store.load_shard(connection, attempt.work_id)
    if shard is None:
        raise StaleClaimError(f"The shard {attempt.work_id} no longer exists")
    nine_am(shard.timezone, shard.date)  # raises for an unknown zone or date
    pool = pools.of(shard, attempt.database)
    attempt.deadline.check()
    rules = Rules.from_json(dict(shard.rules))
    indexes, users = _load_profiles(attempt, shard)
    excluded = _load_exclusions(attempt, shard, rules, indexes)
    counts = _reserved_exposure(attempt, shard, pool, rules)
    attempt.deadline.check()
    computed = compute(pool, users, excluded, rules, counts)
    attempt.deadline.check()
    if shard.is_quarantine and len(users) and len(computed.faults) == len(users):
        fault = next(iter(computed.faults.values()))
        raise DataIntegrityError(f"No offers can be computed for any of its users ({len(users)}). {fault}.")
    hashes = inputs_hashes(shard.digest, rules, users, excluded, counts)
    results = _results(shard, pool, users, hashes, computed)
    offered = None if rules.max_exposure is None else (*_offer_counts(pool, computed), rules.max_exposure)

    def effects(connection: Connection) -> Effects:
        if offered is not None:
            store.reserve_exposure(connection, shard, *offered)
        written = store.write(connection, shard, results, attempt.now())
        data = partial(json.dumps, _webhook_data(shard, written), allow_nan=False)
        deliveries = enqueue(connection, shard.tenant_id, "offers", shard.id, data, attempt.now())
        return Effects([*written.messages, *deliveries], _remark(written))

    return Succeeded(effects)


def _load_profiles(attempt: TenantAttempt, shard: ShardInput) -> tuple[NDArray[np.int32], ProfileArrays]:
    """Return the indexes of users with a profile, and their profiles.

    The profiles are pinned if the shard contains profiles, and current otherwise.
    """
    if shard.profiles is not None:
        return np.arange(len(shard.users), dtype=np.int32), ProfileArrays.read(shard.profiles)
    with attempt.database.tenant(shard.tenant_id) as connection:
        indexes, people = store.reload_profiles(connection, shard.users)
    return indexes, ProfileArrays.read(people)


def _load_exclusions(
    attempt: TenantAttempt, shard: ShardInput, rules: Rules, indexes: NDArray[np.int32]
) -> NDArray[Any]:
    """Return the excluded candidates for existing users, by user index.

    The first attempt of a revision stores the result for later attempts.
    """
    with attempt.database.tenant(shard.tenant_id) as connection:
        packed = store.load_excluded(connection, shard.id) if attempt.number > 1 else None
        if packed is None:
            packed = store.pin_excluded(connection, shard, rules.repeat_interval_days, attempt.token)
    new_indexes = np.full(len(shard.users), -1, np.int32)
    new_indexes[indexes] = np.arange(len(indexes))
    exclusions = np.frombuffer(packed, PACKED_EXCLUSION)
    renumbered = new_indexes[exclusions["user"]]
    excluded: NDArray[Any] = exclusions[renumbered >= 0].copy()
    excluded["user"] = renumbered[renumbered >= 0]
    return excluded


def _reserved_exposure(attempt: TenantAttempt, shard: ShardInput, pool: Pool, rules: Rules) -> Ints | None:
    """Return the part of the exposure cap that this shard must not use.

    The result is indexed like the pool, or None if there is no cap. A pinned shard has a fixed share of the cap. Late
    or retried users share the unused remainder.

    Raises:
        DeferredError: pinned shards are unfinished, so the remainder is unknown.
    """
    if rules.max_exposure is None:
        return None
    with attempt.database.tenant(shard.tenant_id) as connection:
        if shard.part is None and (parts := store.count_unfinished_parts(connection, shard)):
            noun = "shard" if parts == 1 else "shards"
            raise DeferredError(f"Waiting for {parts} other {noun} of its pool", until=attempt.now() + LATE_SHARD_DELAY)
        offered = store.offer_counts(connection, shard)
    used = np.zeros(len(pool.people), np.int64)
    positions = pool.people.find(offered["candidate"])
    used[positions[positions >= 0]] = offered["number"][positions >= 0]
    if shard.part is None:
        return used
    share = assign_slots(len(used), shard.part, shard.parts, rules.max_exposure, shard.date)
    return np.maximum(used, rules.max_exposure - share)


def _offer_counts(pool: Pool, computed: OfferResults) -> tuple[store.UuidArray, store.IntegerArray]:
    """Return the offered candidates, and the number of users each is offered to."""
    candidates, numbers = np.unique(computed.candidates, return_counts=True)
    return store.uuids(pool.people.ids[candidates]), store.integers(numbers)


def _results(
    shard: ShardInput, pool: Pool, users: ProfileArrays, hashes: Sequence[bytes], computed: OfferResults
) -> ShardResults:
    """Return the results in binary format, which shortens the transaction."""
    served = np.ones(len(users), bool)
    served[list(computed.faults)] = False
    ids, candidates = users.ids, pool.people.ids[computed.candidates]
    external_ids = pool.people.external_ids[computed.candidates]
    counts = computed.counts
    offer_ids, texts = documents(
        *(shard.date, ids[served], candidates, external_ids, counts[served], computed.scores),
        *(shard.offered_at, shard.expires_at),
    )
    starts = np.cumsum(counts) - counts
    packed = ids.tobytes()
    return ShardResults(
        version=VERSION,
        users=store.uuids(ids[served]),
        documents=store.jsonbs(texts),
        hashes=store.byteas([hash_ for hash_, is_served in zip(hashes, served, strict=True) if is_served]),
        offer_users=store.uuids(np.repeat(ids, counts)),
        candidates=store.uuids(candidates),
        ids=store.uuids(offer_ids),
        ranks=store.smallints(np.arange(len(candidates)) - np.repeat(starts, counts) + 1),
        scores=store.integers(computed.scores),
        faults={
            UUID(bytes=packed[16 * number : 16 * number + 16]): f"{fault}." for number, fault in computed.faults.items()
        },
    )


def _webhook_data(shard: ShardInput, written: WriteResult) -> dict[str, Any]:
    """Return the data of a shard's webhook event."""
    return {
        "date": shard.date.isoformat(),
        "timezone": shard.timezone,
        "shard": shard.name,
        "users": len(shard.users),
        "completed": written.completed,
        "failed": written.failed,
        "fetch": f"{OFFERS_URL}{shard.date}",
    }


def _remark(written: WriteResult) -> str | None:
    if not written.failed:
        return None
    return f"{written.failed} of {written.failed + written.completed} users quarantined because of invalid profiles."
