"""`POST /api/uploads`: leave to upload one file for a tenant."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from counterfoil.documents import presigned
from counterfoil.documents.extraction import MAX_FILE_BYTES
from functions.admin_api.auth import Request
from functions.admin_api.http import whole

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


def admit(wanted: Upload, request: Request, bucket: str) -> UploadForm:
    """The form for a file.

    Raises:
        RejectedRequestError: no such file can be taken.
        ForbiddenError, NotFoundError, TooManyError, DatabaseUnavailableError: see `Request.admit`.
        ServiceUnavailableError: AWS does not answer just now.
    """
    request.admit("Uploading", wanted.tenant)
    form = presigned.form(bucket, wanted.tenant, wanted.file_name, request.now)
    return UploadForm.model_validate(form)
