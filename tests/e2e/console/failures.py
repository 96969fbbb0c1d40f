"""Create dead letters on the test cloud through real failures instead of SQL."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from cli.local.uploads import upload
from tests.e2e.console.console_users import ConsoleUsers
from tests.e2e.polling import wait_until
from tests.llm.server import Failure, Raw, Request, Server, Step

_TASK_DEAD_LETTERS = "SELECT work_id, job_id FROM dead_letter WHERE work_id = ANY(%s) AND status = 'pending'"
_FILE_DEAD_LETTERS = "SELECT count(*) FROM dead_letter WHERE tenant_id = %s AND worker IN ('acquisition', 'ingestion')"
_UNASSIGNED_DEAD_LETTER = (
    "SELECT job_id FROM dead_letter WHERE tenant_id IS NULL AND payload::text LIKE '%%' || %s || '%%'"
)
_ATTEMPTS = "SELECT count(*) FROM work_attempt WHERE work_id = %s"


UNREACHABLE_URL = "http://127.0.0.1:9/unreachable"
"""URL where nothing listens."""
_FUNCTIONS = ("tasks", "admin_api")
"""Functions that accept or run tasks that use the language model."""


class Model(Server):
    """A language model that rejects every user message that is not in `answered`."""

    def __init__(self) -> None:
        super().__init__(respond=lambda request: f"Re: {request.user}")
        self.answered: set[str] = set()

    def next(self, request: Request) -> Step:
        """Answer or permanently reject a user message. Accept all other HTTP requests."""
        if request.api == "raw":
            return Raw(200, b"taken")
        return super().next(request) if request.user in self.answered else Failure(400)


def configure_model(cloud: Cloud, model: Model) -> None:
    """Make tasks use this model, and allow them to call this machine.

    The settings remain until the cloud is deleted. Other functions have no model.
    """
    address = model.url_for("openai")
    settings = {"LLM_PROVIDER": "openai", "LLM_MODEL": "scripted", "LLM_API_KEY": "none", "LLM_URL": address}
    settings |= {"HTTP_REQUEST_TASKS_ENABLED": "true", "HTTP_REQUEST_ALLOWLIST": '["127.0.0.1/32"]'}
    with closing(cloud.client("lambda")) as functions:
        for function in _FUNCTIONS:
            name = cloud.outputs["AdminApiFunctionName"].replace("admin_api", function)
            variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
            functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables | settings})
            functions.get_waiter("function_updated_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})


@dataclass(frozen=True)
class FailureFactory:
    """Creates dead letters and waits for them."""

    cloud: Cloud
    people: ConsoleUsers
    model: Model

    def fail_messages(self, tenant: Tenant, messages: Sequence[str]) -> list[UUID]:
        """Submit messages that the model rejects, each in its own conversation.

        Returns the task ids, in the order of the messages. After `recover`, a retry succeeds.
        """
        return self._fail(tenant, [{"task_type": "chat_completion", "payload": {"message": text}} for text in messages])

    def fail_http_request(self, tenant: Tenant) -> UUID:
        """Submit an HTTP request task that fails, and return the task id.

        Such tasks have an editable payload.
        """
        payload = {"method": "POST", "url": UNREACHABLE_URL}
        (task_id,) = self._fail(tenant, [{"task_type": "http_request", "payload": payload, "max_retry": 0}])
        return task_id

    def _fail(self, tenant: Tenant, requests: Sequence[dict[str, Any]]) -> list[UUID]:
        with self.people.api("operator") as api:
            responses = [api.post("tasks", json={**request, "tenant": tenant.slug}) for request in requests]
        task_ids = [UUID(response.json()["job_id"]) for response in responses if response.status_code == 202]
        assert len(task_ids) == len(requests), [response.text for response in responses]
        self.wait_for_dead_letters(task_ids)
        return task_ids

    def recover(self, *messages: str) -> None:
        """Let the model answer these messages from now on."""
        self.model.answered.update(messages)

    def wait_for_dead_letters(self, tasks: Sequence[UUID]) -> list[UUID]:
        """Wait until each task has a pending dead letter. Return the dead letters' ids."""
        with self._admin() as admin:

            def find_all() -> dict[UUID, UUID] | None:
                dead_letters: dict[UUID, UUID] = dict(admin.execute(_TASK_DEAD_LETTERS, [list(tasks)]).fetchall())
                return dead_letters if len(dead_letters) == len(tasks) else None

            dead_letters = wait_until(find_all, 120)
        assert dead_letters is not None
        return [dead_letters[task] for task in tasks]

    def upload_unreadable(self, tenant: Tenant, paths: Sequence[Path]) -> None:
        """Upload unreadable files and wait for their dead letters.

        The tenant must have no others.
        """
        list(upload(self.cloud, tenant, paths))
        with self._admin() as admin:
            wait_until(lambda: admin.execute(_FILE_DEAD_LETTERS, [tenant.id]).fetchone() == (len(paths),), 120)

    def send_invalid_message(self, text: str) -> UUID:
        """Send an invalid message that contains `text`. Return the id of its dead letter."""
        self.cloud.client("sqs").send_message(
            QueueUrl=self.cloud.outputs["TasksQueueUrl"], MessageBody=json.dumps(text)
        )
        with self._admin() as admin:
            row = wait_until(lambda: admin.execute(_UNASSIGNED_DEAD_LETTER, [text]).fetchone(), 120)
        assert row is not None
        return UUID(str(row[0]))

    def count_attempts(self, task: UUID) -> int:
        """Return a task's number of attempts."""
        with self._admin() as admin:
            row = admin.execute(_ATTEMPTS, [task]).fetchone()
        assert row is not None
        return int(row[0])

    def _admin(self) -> psycopg.Connection:
        return psycopg.connect(self.cloud.database_url("postgres"), autocommit=True)
