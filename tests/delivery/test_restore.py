"""After a restore, the documented step prevents reissued claim tokens."""

import re
from pathlib import Path

from counterfoil.db import Connection

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
NEXT_TOKEN = "SELECT nextval('claim_token')"


def next_token(admin: Connection) -> int:
    ((next_token,),) = admin.execute(NEXT_TOKEN).fetchall()
    return int(next_token)


def test_documented_restore_step_prevents_reissued_claim_tokens(admin: Connection) -> None:
    backup = next_token(admin)
    stale = [next_token(admin) for _ in range(3)]
    admin.execute("SELECT setval('claim_token', %s)", [backup])  # as a restore of the backup does
    assert next_token(admin) == stale[0]
    (step,) = re.findall(r"```sql\n(.*claim_token.*)\n```", PAGE.read_text())

    admin.execute(step.encode())

    assert next_token(admin) > stale[-1]
