"""Kind of work item for deliveries of results."""

from counterfoil.delivery.work import WorkKind, register

DOCUMENT_OUTPUT = register(
    WorkKind(
        "document_output",
        "output_job",
        description_query="""
        SELECT jsonb_build_object('destination', d.name, 'subject', j.subject, 'subject_id', j.subject_id),
               j.created_at
        FROM output_job j JOIN destination d ON d.id = j.destination_id WHERE j.id = %(id)s
    """,
    )
)
