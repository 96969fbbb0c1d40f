"""`POST /api/uploads`: leave to upload one file for a tenant."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from counterfoil.db import Database
from counterfoil.documents import presigned
from counterfoil.documents.extraction import MAX_FILE_BYTES
from functions.admin_api.caller import Caller, Role
from functions.admin_api.problems import ForbiddenError, NotFoundError
from functions.admin_api.request import whole

Slug = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9-]{0,62}$")]
"""What a tenant is called by, as the database has it."""


class Upload(BaseModel):
    """A file that is to be uploaded."""

    model_config = ConfigDict(extra="forbid")

    tenant: Slug
    file_name: str = Field(
        min_length=1, max_length=presigned.LONGEST_NAME, description="Without slashes and control characters."
    )
    size: Annotated[int, Field(ge=1, le=MAX_FILE_BYTES), whole] | None = Field(default=None, description="Bytes.")


class UploadForm(BaseModel):
    """What to post: `fields` first, the file last, as `multipart/form-data`."""

    model_config = ConfigDict(from_attributes=True)

    url: str
    fields: dict[str, str]
    key: str
    expires_at: datetime
    max_bytes: int


def admit(wanted: Upload, caller: Caller, database: Database, bucket: str, now: datetime) -> UploadForm:
    """The form for a file.

    Raises:
        RejectedRequestError: no such file can be taken.
        ForbiddenError: the caller is no operator of the tenant. It is not told whether there is such a tenant.
        NotFoundError: there is no such tenant.
        DatabaseUnavailableError, ServiceUnavailableError: this cannot be known just now.
    """
    if not caller.may(Role.OPERATOR, wanted.tenant):
        raise ForbiddenError("Uploading takes the role operator for this tenant: ask an admin for it.")
    with database.delivery() as connection:
        found = connection.execute("SELECT 1 FROM tenant WHERE slug = %s", [wanted.tenant]).fetchone()
    if found is None:
        raise NotFoundError("There is no such tenant.")
    form = presigned.form(bucket, wanted.tenant, wanted.file_name, now)
    return UploadForm.model_validate(form)
