"""A message as a queue gave it: its handle, its count of receives, and the work that it names."""

import os
import re
from dataclasses import dataclass, field
from datetime import datetime

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.messages import Intake

_TRACE_ID = re.compile("1-[0-9a-f]{8}-[0-9a-f]{24}")


@dataclass(eq=False)
class Received:
    """One delivery of a message. A batch may hold two of the same one: each is itself alone."""

    record: SQSRecord
    received_at: datetime
    intake: Intake | None = None
    """What its body means; None until it is read."""
    stages: dict[str, datetime] = field(default_factory=dict)
    """When it was protected, got its permit, was claimed, and ended, as far as it came."""

    @property
    def message_id(self) -> str:
        """SQS's id of the message."""
        return self.record.message_id

    @property
    def queue(self) -> str:
        """The name of the queue that it came from."""
        return self.record.event_source_arn.rsplit(":", 1)[-1]

    @property
    def receives(self) -> int:
        """How often SQS has given out this message, this time included."""
        return int(self.record.attributes.approximate_receive_count)

    @property
    def trace(self) -> str | None:
        """The X-Ray trace that the message belongs to: its sender's, or else that of this invocation."""
        return self.record.attributes.aws_trace_header or os.environ.get("_X_AMZN_TRACE_ID")

    @property
    def trace_id(self) -> str | None:
        """The id of that trace; None where X-Ray keeps none, since it was not chosen as a sample."""
        parts = dict(part.strip().partition("=")[::2] for part in (self.trace or "").split(";"))
        root = parts.get("Root", "")
        return root if _TRACE_ID.fullmatch(root) and parts.get("Sampled") == "1" else None
