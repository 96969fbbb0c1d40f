"""Constants in commands equal the server's constants.

Commands do not import the server's code.
"""

from typing import get_args

import pytest

from cli.commands import dead_letter_changes, dead_letter_exports, dead_letters, mail, operations
from counterfoil.dead_letters import export, purges, search
from counterfoil.documents.mail import holds
from counterfoil.operations import store
from counterfoil.operations.store import MAX_RATES
from functions.admin_api.api.operations import RETRY_RATE


@pytest.mark.parametrize(
    ("ours", "servers"),
    [
        (tuple(dead_letters.STATUSES), search.STATUSES),
        (dead_letter_changes.CLOSED_STATUSES, purges.CLOSED_STATUSES),
        (dead_letter_changes.RESTORABLE_DAYS, purges.RESTORE_PERIOD.days),
        ((dead_letter_changes.RETRY_RATE, dead_letter_changes.MAX_RATE), (RETRY_RATE, MAX_RATES["retry"])),
        (get_args(dead_letter_changes.Action), get_args(store.DeadLetterAction)),
        (dead_letter_exports.FILE_EXTENSIONS, export.FILE_EXTENSIONS),
        (set(operations.STYLES), set(get_args(store.State))),
        (set(operations.RESULTS), set(get_args(store.Action)) - set(store.LISTED_ACTIONS)),
        (operations.PER_MINUTE, set(store.REPROCESSING)),
        (get_args(mail.Hold), get_args(holds.Hold)),
        (get_args(mail.DmarcPolicy), get_args(holds.DmarcPolicy)),
    ],
)
def test_constants_match_the_server(ours: object, servers: object) -> None:
    assert ours == servers
