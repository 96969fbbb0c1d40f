"""`/api/uploads`: leave to upload files."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from counterfoil.settings import settings
from functions.admin_api import uploads
from functions.admin_api.endpoint import Routes, answer, request
from functions.admin_api.http import responses

routes = Routes()


@routes.post(
    "/api/uploads",
    summary="Ask for leave to upload a file",
    tags=["uploads"],
    responses=responses({201: (uploads.UploadForm, "A form to be posted to S3.")}, 400, 404, 413, 415, 422, 429),
)
def create_upload(wanted: Annotated[uploads.Upload, Body()]) -> Response[uploads.UploadForm]:
    """Leave to upload a file: a form to be posted to S3."""
    bucket = settings().uploads_bucket
    assert bucket is not None  # the row lets files be uploaded, and the stack tells where
    return answer(201, uploads.admit(wanted, request(), bucket))
