"""Kind of work item for shards of offers."""

from counterfoil.delivery.work import WorkKind, register

OFFERS = register(
    WorkKind(
        "offers",
        "offer_shard",
        description_query="""
        SELECT jsonb_build_object('date', date, 'timezone', timezone, 'shard', name), created_at
        FROM offer_shard WHERE id = %(id)s
    """,
    )
)
