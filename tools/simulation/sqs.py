"""Simulated SQS with at-least-once, unordered delivery and dead-letter queues.

Receipt handles can be outdated. If the AWS documentation allows two results, the seed determines the result. For
example, a call with an earlier receive's handle may or may not take effect.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from counterfoil.delivery.retry import MAX_RECEIVES
from tools.simulation.faults import Fault, Faults
from tools.simulation.scheduler import START, Scheduler

MAX_VISIBILITY_SECONDS = 12 * 3600
URL = "https://sqs.simulated/000000000000/"
ARN = "arn:aws:sqs:eu-central-1:000000000000:"


@dataclass(eq=False)
class Receive:
    """One receive of a message.

    It must lead to an attempt or an acknowledgment, unless it has a `no_attempt_reason`.
    """

    handle: str
    received_at: float
    no_attempt_reason: str | None = None
    """Reason why the receive may lead neither to an attempt nor to an acknowledgment."""


@dataclass(eq=False)
class Message:
    """One message in a queue."""

    id: str
    body: str
    sent_at: float
    visible_at: float
    receives: list[Receive] = field(default_factory=list)
    """Receives in the current queue."""
    history: list[Receive] = field(default_factory=list)
    """Receives in the source queue, for a message in a dead-letter queue."""


class Queue:
    """A queue with its dead-letter queue."""

    def __init__(
        self, scheduler: Scheduler, worker: str, visibility: float, dlq: "Queue | None" = None, suffix: str = ""
    ) -> None:
        self.worker = worker
        self.name = f"counterfoil-{worker}{suffix}" if dlq is not None else f"counterfoil-{worker}-dlq"
        self.visibility = visibility
        self.dlq = dlq
        self.messages: list[Message] = []
        self.deleted: list[Message] = []
        self._scheduler = scheduler

    @property
    def visible(self) -> list[Message]:
        """Visible messages."""
        now = self._scheduler.now
        return [message for message in self.messages if message.visible_at <= now]

    def next_visible(self) -> float | None:
        """Return the virtual time when the next hidden message becomes visible, or None."""
        now = self._scheduler.now
        return min((message.visible_at for message in self.messages if message.visible_at > now), default=None)

    def by_handle(self, handle: str) -> Message | None:
        """Return the message with a receipt handle, or None."""
        for message in self.messages:
            if any(receive.handle == handle for receive in message.receives):
                return message
        return None


class Sqs:
    """Simulated SQS service. Replaces boto3's client in the product's code."""

    def __init__(
        self, scheduler: Scheduler, faults: Faults, queues: dict[str, Queue], retries: Sequence[Queue] = ()
    ) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.queues = queues
        """Queues for first attempts, by worker."""
        self.source_queues = [*queues.values(), *retries]
        self.by_name = {
            any_queue.name: any_queue
            for queue in self.source_queues
            for any_queue in (queue, queue.dlq)
            if any_queue is not None
        }
        self.on_dead_lettered: Callable[[Queue, Message], None] = lambda _queue, _message: None
        """Callback after each move to a dead-letter queue."""
        self.on_sent: Callable[[Queue, str, int], None] = lambda _queue, _body, _delay: None
        """Callback for each message that the product sends, with the queue, body and delay in seconds."""
        self.on_deleted: Callable[[Queue, Message], None] = lambda _queue, _message: None
        self.protected: set[str] = set()
        """Handles whose visibility timeout the product has changed."""
        self.delivered: dict[str, tuple[str, str]] = {}
        """Worker and message body by receipt handle."""
        self._count = 0

    def _next_number(self) -> int:
        self._count += 1
        return self._count

    # -- for the world -------------------------------------------------------------------------------------------------

    def put(self, queue: Queue, body: str, delay: float = 0) -> Message:
        """Put a message into a queue. It becomes visible after `delay` seconds."""
        now = self.scheduler.now
        message = Message(f"m{self._next_number()}", body, now, now + delay)
        queue.messages.append(message)
        self.scheduler.log(
            f"{queue.name} receives {message.id} {_summary(body)}" + (f" in {delay:.0f} s" if delay else "")
        )
        return message

    def time_passed(self) -> None:
        """Sometimes make a message in flight visible, so that it is delivered twice."""
        now = self.scheduler.now
        for queue in self.by_name.values():
            hidden = [message for message in queue.messages if message.visible_at > now and message.receives]
            if hidden and self.faults.inject(Fault.DELIVERED_TWICE):
                message = self.scheduler.random.choice(hidden)
                message.receives[-1].no_attempt_reason = "delivered twice"
                message.visible_at = now

    def deliver_again(self, handles: tuple[str, ...], max_delay: float) -> None:
        """Make the messages with these handles visible again after a random delay.

        The delay is at most `max_delay` seconds.
        """
        now = self.scheduler.now
        for queue in self.by_name.values():
            for message in queue.messages:
                if message.receives and message.receives[-1].handle in handles and message.visible_at > now:
                    message.receives[-1].no_attempt_reason = "delivered twice"
                    message.visible_at = now + self.scheduler.random.uniform(0, max_delay)

    def receive(self, queue: Queue, limit: int) -> list[Message]:
        """Return up to `limit` visible messages in any order.

        Messages that have reached their receive limit are moved to the dead-letter queue instead.
        """
        random, now = self.scheduler.random, self.scheduler.now
        visible = queue.visible
        random.shuffle(visible)
        received = []
        for message in visible[:limit]:
            if queue.dlq is not None and len(message.receives) >= MAX_RECEIVES:
                self._move_to_dlq(queue, message)
                continue
            message.receives.append(Receive(f"{message.id}.r{self._next_number()}", now))
            self.delivered[message.receives[-1].handle] = (queue.worker, message.body)
            message.visible_at = now + queue.visibility
            received.append(message)
        return received

    def _move_to_dlq(self, queue: Queue, message: Message) -> None:
        assert queue.dlq is not None
        self.scheduler.log(f"{message.id} moves to {queue.dlq.name}")
        queue.messages.remove(message)
        message.history, message.receives = message.receives, []
        message.visible_at = self.scheduler.now
        queue.dlq.messages.append(message)
        self.on_dead_lettered(queue, message)

    def delete(self, queue: Queue, message: Message, handle: str) -> None:
        """Delete a message. If the handle is not the latest, the call may have no effect."""
        if message not in queue.messages:
            return
        if message.receives[-1].handle != handle and self.scheduler.random.random() < 0.5:
            self.scheduler.log(f"{message.id} is not deleted: {handle} is outdated")
            return
        if self.faults.inject(Fault.RESURRECTED):
            message.receives[-1].no_attempt_reason = "it reappeared after its deletion"
            message.visible_at = self.scheduler.now + self.scheduler.random.choice((0, 1, 60, 400))
            return
        queue.messages.remove(message)
        self.scheduler.log(f"{message.id} is deleted from {queue.name}")
        self.on_deleted(queue, message)

    # -- for the product -----------------------------------------------------------------------------------------------

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        """Change visibility timeouts, as ChangeMessageVisibilityBatch does."""
        queue = self._queue(QueueUrl)
        self._check(0 < len(Entries) <= 10, "a batch of 1 to 10 entries")
        Entries = sorted(Entries, key=lambda entry: str(entry["ReceiptHandle"]))  # noqa: N806  # the order does not matter
        self.protected |= {entry["ReceiptHandle"] for entry in Entries}
        self._begin_call("ChangeMessageVisibility " + ", ".join(_describe_entry(entry) for entry in Entries))
        successful, failed = [], []
        for entry in Entries:
            error_code = self._change(queue, entry["ReceiptHandle"], entry["VisibilityTimeout"])
            if error_code is None:
                successful.append({"Id": entry["Id"]})
            else:
                self.scheduler.log(f"rejected for {entry['ReceiptHandle']}: {error_code}")
                failed.append({"Id": entry["Id"], "Code": error_code, "SenderFault": True})
        self._end_call("ChangeMessageVisibility")
        return {"Successful": successful, "Failed": failed}

    def _change(self, queue: Queue, handle: str, seconds: int) -> str | None:
        now = self.scheduler.now
        self._check(0 <= seconds <= MAX_VISIBILITY_SECONDS, f"a visibility of {seconds} s")
        message = queue.by_handle(handle)
        if message is None:
            return "InvalidParameterValue"
        if self.faults.inject(Fault.ENTRY_REFUSED):
            message.receives[-1].no_attempt_reason = "its visibility was not changed"
            return "InternalError"
        if message.visible_at <= now:
            return "MessageNotInflight"
        latest = message.receives[-1]
        if latest.handle != handle and self.scheduler.random.random() < 0.5:
            return "ReceiptHandleIsInvalid"
        if now - latest.received_at + seconds > MAX_VISIBILITY_SECONDS:
            return "InvalidParameterValue"
        message.visible_at = now + seconds
        return None

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        """Send messages, as SendMessageBatch does."""
        queue = self._queue(QueueUrl)
        self._check(0 < len(Entries) <= 10, "a batch of 1 to 10 entries")
        for entry in Entries:
            self._check(0 <= entry.get("DelaySeconds", 0) <= 900, f"a delay of {entry.get('DelaySeconds')} s")
        self._begin_call(f"SendMessageBatch of {len(Entries)} to {queue.name}")
        successful, failed = [], []
        for entry in sorted(Entries, key=lambda entry: str(entry["MessageBody"])):
            if self.faults.inject(Fault.ENTRY_REFUSED):
                failed.append({"Id": entry["Id"], "Code": "InternalError", "SenderFault": False})
            else:
                delay = entry.get("DelaySeconds", 0)
                self.on_sent(queue, entry["MessageBody"], delay)
                if delay > 1 and self.faults.inject(Fault.EARLY):
                    delay *= self.scheduler.random.random()
                message = self.put(queue, entry["MessageBody"], delay)
                successful.append({"Id": entry["Id"], "MessageId": message.id})
        self._end_call("SendMessageBatch")
        return {"Successful": successful, "Failed": failed}

    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: list[str]) -> dict[str, Any]:  # noqa: N803
        """Return approximate counts, as GetQueueAttributes does."""
        queue = self._queue(QueueUrl)
        self._begin_call(f"GetQueueAttributes of {queue.name}")
        count = 0 if self.faults.inject(Fault.DEPTH_WRONG) else len(queue.messages)
        counts = {name: str(count) for name in AttributeNames}
        return {"Attributes": counts | {"VisibilityTimeout": str(int(queue.visibility))}}

    def _queue(self, url: str) -> Queue:
        return self.by_name[url.rsplit("/", 1)[-1]]

    def _check(self, is_valid: bool, requirement: str) -> None:
        if not is_valid:
            self.scheduler.fail(f"SQS rejects this call: {requirement}")

    def _begin_call(self, call: str) -> None:
        self.scheduler.point(call)
        if self.faults.inject(Fault.CALL_REFUSED):
            raise service_error(call, "ServiceUnavailable")

    def _end_call(self, call: str) -> None:
        if self.faults.inject(Fault.RESPONSE_LOST):
            raise ReadTimeoutError(endpoint_url=URL)
        self.scheduler.point(f"{call} returned")


def service_error(operation: str, code: str) -> ClientError:
    """Return boto3's error for a service failure."""
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 503}}
    return ClientError(response, operation)


def record(queue: Queue, message: Message) -> dict[str, Any]:
    """Return a message in the form that Lambda passes to a function."""
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


def _summary(body: str) -> str:
    try:
        parsed = json.loads(body)
        work_id = parsed["job_id" if "job_id" in parsed else "work_id"]
        return f"(work item {work_id[-12:]}, revision {parsed['revision']}, send {parsed['send_number']})"
    except (ValueError, KeyError, TypeError):
        return f"({body[:30]}...)"


def _describe_entry(entry: dict[str, Any]) -> str:
    return f"{entry['ReceiptHandle']} for {entry['VisibilityTimeout']} s"
