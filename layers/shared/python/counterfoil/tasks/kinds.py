"""Kind of work item for tasks."""

from counterfoil.delivery.work import WorkKind, register

TASKS = register(
    WorkKind(
        "tasks",
        "task",
        description_query="SELECT jsonb_build_object('task_type', task_type), created_at FROM task WHERE id = %(id)s",
        max_attempts="t.max_retry + 1",
        body_query="SELECT id, body FROM task_messages(%(ids)s)",
        # Selects the task of the next unfinished message in the conversation, if no earlier task is unfinished. If the
        # query waits for a lock, it checks the row again, and selects a later message if this task has ended.
        dependents_query="""
        SELECT t.id, t.next_attempt_at IS NOT NULL FROM chat_message m
        JOIN chat_message next ON next.session_id = m.session_id AND next.number > m.number
            AND next.role = 'user'
        JOIN task t ON t.id = next.job_id AND t.status IN ('pending', 'in-progress')
        WHERE m.job_id = %(id)s AND m.role = 'user' AND NOT EXISTS (
            SELECT FROM chat_message earlier JOIN task e ON e.id = earlier.job_id
            WHERE earlier.session_id = m.session_id AND earlier.number < m.number AND earlier.role = 'user'
              AND e.status IN ('pending', 'in-progress')
        )
        ORDER BY next.number LIMIT 1 FOR NO KEY UPDATE OF t
    """,
        records_successes=True,
    )
)
