"""SQS as it is documented: at least once, in any order, with handles that grow stale, and dead-letter queues.

Where the documentation leaves it open (a call with the handle of an earlier receive may take effect or not), the seed
decides.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from counterfoil.delivery.retry import MAX_RECEIVES
from tools.simulation.faults import Fault, Faults
from tools.simulation.scheduler import START, Scheduler

LONGEST = 12 * 3600
URL = "https://sqs.simulated/000000000000/"
ARN = "arn:aws:sqs:eu-central-1:000000000000:"


@dataclass(eq=False)
class Receive:
    """One receipt of a message, and what came of it: every receive must come of something."""

    handle: str
    at: float
    excuse: str | None = None
    """Why it led to no try and to no acknowledgement."""


@dataclass(eq=False)
class Message:
    """One message of a queue."""

    id: str
    body: str
    sent_at: float
    visible_at: float
    receives: list[Receive] = field(default_factory=list)
    """Since it came into this queue."""
    history: list[Receive] = field(default_factory=list)
    """In its source queue, for a message of a dead-letter queue."""


class Queue:
    """A queue, its dead-letter queue beside it."""

    def __init__(
        self, scheduler: Scheduler, worker: str, visibility: float, dead: "Queue | None" = None, suffix: str = ""
    ) -> None:
        self.worker = worker
        self.name = f"counterfoil-{worker}{suffix}" if dead is not None else f"counterfoil-{worker}-dlq"
        self.visibility = visibility
        self.dead = dead
        self.messages: list[Message] = []
        self.deleted: list[Message] = []
        self._scheduler = scheduler

    @property
    def visible(self) -> list[Message]:
        """What a receive could return now."""
        now = self._scheduler.now
        return [message for message in self.messages if message.visible_at <= now]

    def next_visible(self) -> float | None:
        """When the next hidden message shows."""
        now = self._scheduler.now
        return min((message.visible_at for message in self.messages if message.visible_at > now), default=None)

    def by_handle(self, handle: str) -> Message | None:
        """The message that a handle was given for."""
        for message in self.messages:
            if any(receive.handle == handle for receive in message.receives):
                return message
        return None


class Sqs:
    """The service. `client` is what the product's code is given in the place of boto3's client."""

    def __init__(
        self, scheduler: Scheduler, faults: Faults, queues: dict[str, Queue], retries: Sequence[Queue] = ()
    ) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.queues = queues
        """By worker, those of its first tries."""
        self.feeding = [*queues.values(), *retries]
        self.by_name = {one.name: one for queue in self.feeding for one in (queue, queue.dead) if one is not None}
        self.on_dead: Callable[[Queue, Message], None] = lambda _queue, _message: None
        """Told of each move to a dead-letter queue."""
        self.on_sent: Callable[[Queue, str, int], None] = lambda _queue, _body, _delay: None
        """Told of each message that the product sends, with the delay that it asks for."""
        self.on_deleted: Callable[[Queue, Message], None] = lambda _queue, _message: None
        self.protected: set[str] = set()
        """Handles for which the product asked for a visibility."""
        self.given: dict[str, tuple[str, str]] = {}
        """The worker and the body of the message that each handle was given for."""
        self._count = 0

    def _next(self) -> int:
        self._count += 1
        return self._count

    # -- the world's side ---------------------------------------------------------------------------------------------

    def put(self, queue: Queue, body: str, delay: float = 0) -> Message:
        """A message comes into a queue."""
        now = self.scheduler.now
        message = Message(f"m{self._next()}", body, now, now + delay)
        queue.messages.append(message)
        self.scheduler.say(f"{queue.name} has {message.id} {_short(body)}" + (f" in {delay:.0f} s" if delay else ""))
        return message

    def time_passed(self) -> None:
        """Now and then a message that somebody holds is given out to somebody else as well."""
        now = self.scheduler.now
        for queue in self.by_name.values():
            hidden = [message for message in queue.messages if message.visible_at > now and message.receives]
            if hidden and self.faults.strikes(Fault.DELIVERED_TWICE):
                message = self.scheduler.random.choice(hidden)
                message.receives[-1].excuse = "delivered twice"
                message.visible_at = now

    def deliver_again(self, handles: tuple[str, ...], within: float) -> None:
        """Give the messages of these handles out to somebody else as well, some time from now."""
        now = self.scheduler.now
        for queue in self.by_name.values():
            for message in queue.messages:
                if message.receives and message.receives[-1].handle in handles and message.visible_at > now:
                    message.receives[-1].excuse = "delivered twice"
                    message.visible_at = now + self.scheduler.random.uniform(0, within)

    def receive(self, queue: Queue, most: int) -> list[Message]:
        """Up to `most` visible messages, in any order; those received too often move to the dead-letter queue."""
        random, now = self.scheduler.random, self.scheduler.now
        found = queue.visible
        random.shuffle(found)
        received = []
        for message in found[:most]:
            if queue.dead is not None and len(message.receives) >= MAX_RECEIVES:
                self._bury(queue, message)
                continue
            message.receives.append(Receive(f"{message.id}.r{self._next()}", now))
            self.given[message.receives[-1].handle] = (queue.worker, message.body)
            message.visible_at = now + queue.visibility
            received.append(message)
        return received

    def _bury(self, queue: Queue, message: Message) -> None:
        assert queue.dead is not None
        self.scheduler.say(f"{message.id} moves to {queue.dead.name}")
        queue.messages.remove(message)
        message.history, message.receives = message.receives, []
        message.visible_at = self.scheduler.now
        queue.dead.messages.append(message)
        self.on_dead(queue, message)

    def delete(self, queue: Queue, message: Message, handle: str) -> None:
        """Delete by handle; one that is not the latest may do nothing."""
        if message not in queue.messages:
            return
        if message.receives[-1].handle != handle and self.scheduler.random.random() < 0.5:
            self.scheduler.say(f"{message.id} is not deleted: {handle} is stale")
            return
        if self.faults.strikes(Fault.RESURRECTED):
            message.receives[-1].excuse = "a copy came back"
            message.visible_at = self.scheduler.now + self.scheduler.random.choice((0, 1, 60, 400))
            return
        queue.messages.remove(message)
        self.scheduler.say(f"{message.id} is deleted from {queue.name}")
        self.on_deleted(queue, message)

    # -- the product's side -------------------------------------------------------------------------------------------

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        """ChangeMessageVisibilityBatch."""
        queue = self._queue(QueueUrl)
        self._check(0 < len(Entries) <= 10, "a batch of 1 to 10 entries")
        Entries = sorted(Entries, key=lambda one: str(one["ReceiptHandle"]))  # noqa: N806  # their order means nothing
        self.protected |= {entry["ReceiptHandle"] for entry in Entries}
        self._before("ChangeMessageVisibility " + ", ".join(_entry(entry) for entry in Entries))
        successful, failed = [], []
        for entry in Entries:
            refused = self._change(queue, entry["ReceiptHandle"], entry["VisibilityTimeout"])
            if refused is None:
                successful.append({"Id": entry["Id"]})
            else:
                self.scheduler.say(f"refused for {entry['ReceiptHandle']}: {refused}")
                failed.append({"Id": entry["Id"], "Code": refused, "SenderFault": True})
        self._after("ChangeMessageVisibility")
        return {"Successful": successful, "Failed": failed}

    def _change(self, queue: Queue, handle: str, seconds: int) -> str | None:
        now = self.scheduler.now
        self._check(0 <= seconds <= LONGEST, f"a visibility of {seconds} s")
        message = queue.by_handle(handle)
        if message is None:
            return "InvalidParameterValue"
        if self.faults.strikes(Fault.ENTRY_REFUSED):
            message.receives[-1].excuse = "its visibility was not changed"
            return "InternalError"
        if message.visible_at <= now:
            return "MessageNotInflight"
        latest = message.receives[-1]
        if latest.handle != handle and self.scheduler.random.random() < 0.5:
            return "ReceiptHandleIsInvalid"
        if now - latest.at + seconds > LONGEST:
            return "InvalidParameterValue"
        message.visible_at = now + seconds
        return None

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        """SendMessageBatch."""
        queue = self._queue(QueueUrl)
        self._check(0 < len(Entries) <= 10, "a batch of 1 to 10 entries")
        for entry in Entries:
            self._check(0 <= entry.get("DelaySeconds", 0) <= 900, f"a delay of {entry.get('DelaySeconds')} s")
        self._before(f"SendMessageBatch of {len(Entries)} to {queue.name}")
        successful, failed = [], []
        for entry in sorted(Entries, key=lambda one: str(one["MessageBody"])):
            if self.faults.strikes(Fault.ENTRY_REFUSED):
                failed.append({"Id": entry["Id"], "Code": "InternalError", "SenderFault": False})
            else:
                delay = entry.get("DelaySeconds", 0)
                self.on_sent(queue, entry["MessageBody"], delay)
                if delay > 1 and self.faults.strikes(Fault.EARLY):
                    delay *= self.scheduler.random.random()
                message = self.put(queue, entry["MessageBody"], delay)
                successful.append({"Id": entry["Id"], "MessageId": message.id})
        self._after("SendMessageBatch")
        return {"Successful": successful, "Failed": failed}

    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: list[str]) -> dict[str, Any]:  # noqa: N803
        """GetQueueAttributes: approximate counts, as SQS calls them."""
        queue = self._queue(QueueUrl)
        self._before(f"GetQueueAttributes of {queue.name}")
        count = 0 if self.faults.strikes(Fault.DEPTH_WRONG) else len(queue.messages)
        counts = {name: str(count) for name in AttributeNames}
        return {"Attributes": counts | {"VisibilityTimeout": str(int(queue.visibility))}}

    def _queue(self, url: str) -> Queue:
        return self.by_name[url.rsplit("/", 1)[-1]]

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            self.scheduler.fail(f"SQS was asked for what it refuses: {what}")

    def _before(self, what: str) -> None:
        self.scheduler.point(what)
        if self.faults.strikes(Fault.CALL_REFUSED):
            raise failed(what, "ServiceUnavailable")

    def _after(self, what: str) -> None:
        if self.faults.strikes(Fault.ANSWER_LOST):
            raise ReadTimeoutError(endpoint_url=URL)
        self.scheduler.point(f"{what} answered")


def failed(operation: str, code: str) -> ClientError:
    """What boto3 raises when a service fails on its side."""
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 503}}
    return ClientError(answer, operation)


def record(queue: Queue, message: Message) -> dict[str, Any]:
    """A message as Lambda hands it to a function."""
    return {
        "messageId": message.id,
        "receiptHandle": message.receives[-1].handle,
        "body": message.body,
        "attributes": {
            "ApproximateReceiveCount": str(len(message.receives)),
            "SentTimestamp": str(int((START.timestamp() + message.sent_at) * 1000)),
        },
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": ARN + queue.name,
        "awsRegion": "eu-central-1",
    }


def _short(body: str) -> str:
    try:
        parsed = json.loads(body)
        work_id = parsed["job_id" if "job_id" in parsed else "work_id"]
        return f"(work {work_id[-12:]}, revision {parsed['revision']}, send {parsed['send_number']})"
    except (ValueError, KeyError, TypeError):
        return f"({body[:30]}...)"


def _entry(entry: dict[str, Any]) -> str:
    return f"{entry['ReceiptHandle']} for {entry['VisibilityTimeout']} s"
