"""Fake S3 that accepts form uploads."""

from typing import Any

import httpx
import pytest


class Storage:
    """Stored files by key. Rejects uploads if `status` is an error."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.status = 204

    def post(self, url: str, *, data: dict[str, str], files: dict[str, Any], timeout: float) -> httpx.Response:
        """Store the file unless `status` is an error."""
        assert url.startswith("https://")
        assert timeout > 0
        if self.status < 300:
            self.files[data["key"]] = files["file"][1].read()
        return httpx.Response(self.status)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Storage:
    """Return the fake S3 that commands upload to."""
    storage = Storage()
    monkeypatch.setattr(httpx, "post", storage.post)
    return storage
