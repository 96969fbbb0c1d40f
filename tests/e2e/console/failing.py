"""Work that really fails on the tests' cloud, so that there are dead letters: nothing is written into the database."""

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
from tests.e2e.console.people import People
from tests.e2e.waiting import until
from tests.llm.server import Failure, Raw, Request, Server, Step

_OF_TASKS = "SELECT work_id, job_id FROM dead_letter WHERE work_id = ANY(%s) AND status = 'pending'"
_OF_FILES = "SELECT count(*) FROM dead_letter WHERE tenant_id = %s AND worker IN ('acquisition', 'ingestion')"
_OF_NOBODY = "SELECT job_id FROM dead_letter WHERE tenant_id IS NULL AND payload::text LIKE '%%' || %s || '%%'"
_TRIES = "SELECT count(*) FROM work_attempt WHERE work_id = %s"


NOBODY = "http://127.0.0.1:9/nobody"
"""Where nothing listens."""
_ASKING = ("tasks", "admin_api")
"""The functions that have to know of a language model, for what they ask of it to be handed in and carried out."""


class Model(Server):
    """A language model that refuses every message, but for those that it was told to answer."""

    def __init__(self) -> None:
        super().__init__(otherwise=lambda request: f"Re: {request.user}")
        self.answered: set[str] = set()

    def next(self, request: Request) -> Step:
        """Answer, or refuse in a way that no further try can help. Whatever else is sent here is taken."""
        if request.api == "raw":
            return Raw(200, b"taken")
        return super().next(request) if request.user in self.answered else Failure(400)


def tell(cloud: Cloud, model: Model) -> None:
    """Tell the cloud's tasks of this model, and let them call this machine, for as long as the cloud is up.

    Its other functions go on without a model.
    """
    address = model.url_for("openai")
    told = {"LLM_PROVIDER": "openai", "LLM_MODEL": "scripted", "LLM_API_KEY": "none", "LLM_URL": address}
    told |= {"HTTP_REQUESTS": "true", "HTTP_REQUEST_ALLOWLIST": '["127.0.0.1/32"]'}
    with closing(cloud.client("lambda")) as functions:
        for asking in _ASKING:
            name = cloud.outputs["AdminApiFunctionName"].replace("admin_api", asking)
            variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
            functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables | told})
            functions.get_waiter("function_updated_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})


@dataclass(frozen=True)
class Failing:
    """Makes dead letters, and waits for them."""

    cloud: Cloud
    people: People
    model: Model

    def tasks(self, tenant: Tenant, messages: Sequence[str]) -> list[UUID]:
        """Messages to a language model that refuses them, each in a conversation of its own.

        Returns the ids of the tasks, in the order of the messages. A retry succeeds after `helped`.
        """
        return self._dead(tenant, [{"task_type": "chat_completion", "payload": {"message": text}} for text in messages])

    def call(self, tenant: Tenant) -> UUID:
        """A call to an address where nobody answers: a task whose payload may be edited. Returns its id."""
        payload = {"method": "POST", "url": NOBODY}
        (task,) = self._dead(tenant, [{"task_type": "http_request", "payload": payload, "max_retry": 0}])
        return task

    def _dead(self, tenant: Tenant, orders: Sequence[dict[str, Any]]) -> list[UUID]:
        with self.people.api("operator") as api:
            answers = [api.post("tasks", json={**order, "tenant": tenant.slug}) for order in orders]
        tasks = [UUID(answer.json()["job_id"]) for answer in answers if answer.status_code == 202]
        assert len(tasks) == len(orders), [answer.text for answer in answers]
        self.letters(tasks)
        return tasks

    def helped(self, *messages: str) -> None:
        """From now on, the model answers these messages."""
        self.model.answered.update(messages)

    def letters(self, tasks: Sequence[UUID]) -> list[UUID]:
        """Wait until each of these tasks has a letter that is pending. Returns the ids of the letters."""
        with self._admin() as admin:

            def found() -> dict[UUID, UUID] | None:
                letters: dict[UUID, UUID] = dict(admin.execute(_OF_TASKS, [list(tasks)]).fetchall())
                return letters if len(letters) == len(tasks) else None

            letters = until(found, 120)
        assert letters is not None
        return [letters[task] for task in tasks]

    def files(self, tenant: Tenant, paths: Sequence[Path]) -> None:
        """Files that nobody can read, for a tenant that has no such letter yet."""
        list(upload(self.cloud, tenant, paths))
        with self._admin() as admin:
            until(lambda: admin.execute(_OF_FILES, [tenant.id]).fetchone() == (len(paths),), 120)

    def poison(self, word: str) -> UUID:
        """A message that is none, with this word in it. It belongs to no tenant. Returns the letter's id."""
        self.cloud.client("sqs").send_message(
            QueueUrl=self.cloud.outputs["TasksQueueUrl"], MessageBody=json.dumps(word)
        )
        with self._admin() as admin:
            row = until(lambda: admin.execute(_OF_NOBODY, [word]).fetchone(), 120)
        assert row is not None
        return UUID(str(row[0]))

    def tries(self, task: UUID) -> int:
        """How often a task was tried."""
        with self._admin() as admin:
            row = admin.execute(_TRIES, [task]).fetchone()
        assert row is not None
        return int(row[0])

    def _admin(self) -> psycopg.Connection:
        return psycopg.connect(self.cloud.database_url("postgres"), autocommit=True)
