"""`/api/tasks`: tasks are handed in, looked at and cancelled.

Handing in and cancelling take the role operator for the tenant, looking takes viewer. Each sees his own tasks; an admin
sees those of the whole tenant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil.db import Database, retry_conflicts
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Send
from counterfoil.settings import Settings
from counterfoil.tasks import store
from counterfoil.tasks.store import LARGEST_MAX_RETRY, LONGEST_KEY, Status, Task, Wanted
from counterfoil.tasks.types import TYPES, enabled_type
from counterfoil.validation import PrintableText
from functions.admin_api import http
from functions.admin_api.auth import Caller, Request, Role, Slug, owned, viewed
from functions.admin_api.http import ForbiddenError, NotFoundError

LONGEST_TYPE = 100
LAST_TRIES = 200
"""Of a task that is shown: with the longest errors and result they are within the 6 MB of Lambda's answers."""


class TaskOrder(BaseModel):
    """A task to be handed in."""

    model_config = ConfigDict(extra="forbid")

    task_type: str = Field(min_length=1, max_length=LONGEST_TYPE)
    payload: dict[str, JsonValue] = Field(description="What the type takes; 256 KiB of JSON at most.")
    idempotency_key: PrintableText | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_KEY,
        description="The same request under the same key is one task. If unset, a UUID is generated and returned.",
    )
    max_retry: Annotated[int, Field(ge=0, le=LARGEST_MAX_RETRY), http.whole] | None = Field(
        default=None,
        description="Retries after the first attempt. If unset, RETRY_MAX_ATTEMPTS of the deployment.",
    )
    tenant: Slug | None = Field(default=None, description="Needed where the token is for several tenants.")


class TaskSummary(BaseModel):
    """A task as lists have it."""

    model_config = ConfigDict(from_attributes=True)

    job_id: UUID
    tenant: str
    task_type: str
    status: Status
    max_retry: int
    idempotency_key: str
    user_id: str | None
    created_at: datetime
    attempts: int
    error: str | None
    """Of the last try that failed."""
    next_attempt_at: datetime | None
    ended_at: datetime | None


class TaskDetail(TaskSummary):
    """A task with what it came to."""

    model_config = ConfigDict(from_attributes=True)

    result: JsonValue


class TaskTry(BaseModel):
    """A try that came to its end."""

    model_config = ConfigDict(from_attributes=True)

    revision: int
    number: int
    began_at: datetime
    ended_at: datetime
    outcome: Literal["succeeded", "skipped", "retry", "deferred", "failed", "lost"]
    error: str | None
    next_attempt_at: datetime | None


class TaskHistory(TaskDetail):
    """A task with its attempts and its dead letter."""

    model_config = ConfigDict(from_attributes=True)

    dead_letter: UUID | None = Field(description="Id of its dead letter, if it failed permanently.")
    timeline: list[TaskTry] = Field(description=f"The last {LAST_TRIES} at most, the first of them first.")


class TaskPage(BaseModel):
    """Tasks, the newest first, and the cursor of the page after them."""

    tasks: list[TaskSummary]
    next: str | None


@dataclass(frozen=True)
class Filter:
    """What a list is asked for."""

    tenant: str | None
    status: Status | None
    task_type: str | None
    created_from: datetime | None
    created_until: datetime | None
    cursor: str | None
    limit: int


@dataclass(frozen=True)
class Desk:
    """Where tasks are handed in."""

    database: Database
    outbox: Outbox
    settings: Settings
    time_left: Callable[[], float]
    """Seconds until the request has to be answered."""

    def submit(self, order: TaskOrder, request: Request) -> tuple[int, TaskDetail]:
        """Accept a task (202), or find the one that was accepted under the same key (200).

        Raises:
            RejectedRequestError: there is no such type, or what is asked for is not sound.
            InvalidPayloadError: the payload is not in the form of its type.
            TooLargeError: it is larger than is taken.
            ForbiddenError: the caller is nobody.
            ForbiddenError, NotFoundError, TooManyError: see `Request.admit`.
            RetryLaterError: the type takes no more for a while.
            KeyTakenError: the key belongs to another request.
            ServiceUnavailableError, DatabaseUnavailableError: this cannot be done just now.
        """
        slug = request.slug(order.tenant)
        tenant_id = request.admit("Handing in", slug)
        if not request.caller.subject:
            raise ForbiddenError("The token names nobody, and tasks are somebody's: it has no sub.")
        wanted = store.order(
            enabled_type(order.task_type, self.settings),
            order.payload,
            max_retry=order.max_retry,
            idempotency_key=order.idempotency_key,
            user_id=request.caller.subject,
            settings=self.settings,
        )
        done = store.submit(self.database, tenant_id, wanted, request.now, bucket=self.settings.uploads_bucket)
        self._send(done.sends)
        return (202 if done.is_new else 200), TaskDetail.model_validate({**vars(done.task), "tenant": slug})

    def show(self, job_id: str, caller: Caller) -> TaskHistory:
        """One task.

        Raises:
            NotFoundError: there is none, or none that the caller may see.
            DatabaseUnavailableError: this cannot be known just now.
        """
        tenant_id, slug, id_ = self._owner(job_id, caller)
        with self.database.tenant(tenant_id) as connection:
            task = _seen(store.show(connection, id_), caller)
            tries = store.tries(connection, id_, limit=LAST_TRIES)
            letter = store.dead_letter(connection, id_)
        timeline = [vars(one) for one in tries]
        return TaskHistory.model_validate({**vars(task), "tenant": slug, "dead_letter": letter, "timeline": timeline})

    def page(self, wanted: Filter, caller: Caller) -> TaskPage:
        """A page of a tenant's tasks.

        Raises:
            RejectedRequestError: a parameter cannot be read.
            ForbiddenError, NotFoundError: the caller is no viewer of the tenant, or there is none.
            DatabaseUnavailableError: this cannot be known just now.
        """
        after = None if wanted.cursor is None else http.after(wanted.cursor)
        tenant_id, slug = viewed(self.database, wanted.tenant, caller)
        asked = Wanted(
            wanted.status,
            wanted.task_type,
            wanted.created_from,
            wanted.created_until,
            None if caller.role >= Role.ADMIN else caller.subject,
            after,
        )
        with self.database.tenant(tenant_id) as connection:
            found = store.page(connection, asked, wanted.limit + 1)
        shown, following = http.cut(found, wanted.limit, lambda task: (task.created_at, task.job_id))
        return TaskPage(
            tasks=[TaskSummary.model_validate({**vars(task), "tenant": slug}) for task in shown], next=following
        )

    def cancel(self, job_id: str, request: Request) -> TaskDetail:
        """Cancel a task.

        Raises:
            NotFoundError: there is none, or none that the caller may see.
            ForbiddenError, TooManyError: see `Request.admit`.
            EndedError: it has succeeded or failed.
            DatabaseUnavailableError: this cannot be done just now.
        """
        tenant_id, slug, id_ = self._owner(job_id, request.caller)
        with self.database.tenant(tenant_id) as connection:
            _seen(store.show(connection, id_), request.caller)
        request.admit("Cancelling", slug, tenant_id)

        def once() -> tuple[Task, Sequence[Send]] | None:
            with self.database.tenant(tenant_id) as connection:
                return store.cancel(connection, id_, request.now, request.caller.subject or "somebody")

        found = retry_conflicts(once)  # a conversation's next message is woken, which may just be claimed
        if found is None:
            raise NotFoundError(_NO_TASK)
        task, sends = found
        self._send(sends)
        return TaskDetail.model_validate({**vars(task), "tenant": slug})

    def _send(self, sends: Sequence[Send]) -> None:
        if sends:
            self.outbox.send(sends, time_left=self.time_left)

    def _owner(self, job_id: str, caller: Caller) -> tuple[UUID, str, UUID]:
        return owned(job_id, store.owner, caller, self.database, _NO_TASK)


_NO_TASK = "There is no such task."


def _seen(task: Task | None, caller: Caller) -> Task:
    """A task that the caller may see: his own, or any as an admin, without a result that is its owner's alone."""
    if task is None or (caller.role < Role.ADMIN and task.user_id != caller.subject):
        raise NotFoundError(_NO_TASK)
    type_ = TYPES.get(task.task_type)
    is_private = type_ is None or type_.private
    return replace(task, result=None) if is_private and task.user_id != caller.subject else task
