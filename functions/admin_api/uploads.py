"""`POST /api/uploads`: leave to upload one file for a tenant."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints

from counterfoil.db import Database
from counterfoil.documents import presigned
from counterfoil.errors import RejectedRequestError
from counterfoil.validation import Problem, validate_json
from functions.admin_api.caller import Caller, Role

SLUG = "^[a-z0-9][a-z0-9-]{0,62}$"
"""What a tenant is called by, as the database has it."""


class ForbiddenError(RejectedRequestError):
    """The caller may not do this."""


class NotFoundError(RejectedRequestError):
    """What the request names does not exist."""


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    tenant: Annotated[str, StringConstraints(pattern=SLUG)]
    file_name: str
    size: int | None = None


def admit(body: str, caller: Caller, database: Database, bucket: str, now: datetime) -> dict[str, Any]:
    """The form for a file of `{"tenant": slug, "file_name", "size" in bytes (optional)}`, as JSON holds it.

    Raises:
        RejectedRequestError: the request cannot be read, or no such file can be taken.
        ForbiddenError: the caller is no operator of the tenant. It is not told whether there is such a tenant.
        NotFoundError: there is no such tenant.
        DatabaseUnavailableError, ServiceUnavailableError: this cannot be known just now.
    """
    wanted = validate_json(_Request, body, _wrong)
    if not caller.may(Role.OPERATOR, wanted.tenant):
        raise ForbiddenError("Uploading takes the role operator for this tenant: ask an admin for it.")
    with database.delivery() as connection:
        found = connection.execute("SELECT 1 FROM tenant WHERE slug = %s", [wanted.tenant]).fetchone()
    if found is None:
        raise NotFoundError("There is no such tenant.")
    form = presigned.form(bucket, wanted.tenant, wanted.file_name, now)
    if wanted.size is not None and not 1 <= wanted.size <= form.max_bytes:
        raise RejectedRequestError(f"size must be between 1 and {form.max_bytes} bytes: split a larger file.")
    return asdict(form)


def _wrong(problem: Problem) -> RejectedRequestError:
    known = [str(part) for part in problem.place if part in _Request.model_fields]
    if problem.type == "json_invalid":
        return RejectedRequestError('The body must be JSON, such as {"tenant": "acme", "file_name": "invoice.pdf"}.')
    return RejectedRequestError(f"The body is wrong at {'.'.join(known) or 'a field'}: {problem.message}.")
