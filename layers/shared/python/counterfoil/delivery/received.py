"""A message as a queue gave it: its handle, its count of receives, and the work that it names."""

from dataclasses import dataclass
from datetime import datetime

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.messages import Intake


@dataclass(eq=False)
class Received:
    """One message of a batch."""

    record: SQSRecord
    received_at: datetime
    intake: Intake | None = None
    """What its body means; None until it is read."""

    @property
    def message_id(self) -> str:
        """SQS's id of the message."""
        return self.record.message_id

    @property
    def receives(self) -> int:
        """How often SQS has given out this message, this time included."""
        return int(self.record.attributes.approximate_receive_count)
