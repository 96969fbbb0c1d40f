"""Work items of tasks."""

from counterfoil.delivery.work import WorkKind, register

TASKS = register(
    WorkKind(
        "tasks",
        "task",
        about="SELECT jsonb_build_object('task_type', task_type), created_at FROM task WHERE id = %(id)s",
        max_attempts="t.max_retry + 1",
        envelope="SELECT id, body FROM task_messages(%(ids)s)",
        # The next message of the same conversation, if no earlier one is unanswered. After the query has waited for its
        # lock, it sees the message's current state, or the following message if this one has ended.
        waiting="""
        SELECT t.id, t.next_attempt_at IS NOT NULL FROM chat_message mine
        JOIN chat_message next ON next.session_id = mine.session_id AND next.number > mine.number
            AND next.role = 'user'
        JOIN task t ON t.id = next.job_id AND t.status IN ('pending', 'in-progress')
        WHERE mine.job_id = %(id)s AND mine.role = 'user' AND NOT EXISTS (
            SELECT FROM chat_message before JOIN task b ON b.id = before.job_id
            WHERE before.session_id = mine.session_id AND before.number < mine.number AND before.role = 'user'
              AND b.status IN ('pending', 'in-progress')
        )
        ORDER BY next.number LIMIT 1 FOR NO KEY UPDATE OF t
    """,
        keeps_successes=True,
    )
)
