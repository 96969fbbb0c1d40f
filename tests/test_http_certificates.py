"""Trusted and untrusted HTTPS certificates."""

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat

from counterfoil import http
from counterfoil.errors import ServiceUnavailableError

LIMITS: dict[str, Any] = {"connect": 2.0, "read": 2.0, "total": 5.0}


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "server.pem"
    path.write_bytes(
        certificate.public_bytes(Encoding.PEM)
        + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


@pytest.fixture
def tls_url(certificate: Path) -> Iterator[str]:
    """Yield the URL of a server that answers one request over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def serve() -> None:
        try:
            connection, _ = server.accept()
            with context.wrap_socket(connection, server_side=True) as encrypted:
                encrypted.recv(65536)
                encrypted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        except OSError:
            pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve)
        thread.start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}/"
        with socket.socket() as wakeup:  # ends `accept` if no client has connected
            wakeup.connect_ex(server.getsockname())
        thread.join()


@pytest.fixture
def trust() -> Iterator[Any]:
    http._ssl_context.cache_clear()
    yield
    http._ssl_context.cache_clear()


def test_self_signed_certificate_is_rejected(tls_url: str, trust: Any):
    with pytest.raises(ServiceUnavailableError, match="its certificate is invalid or not trusted"):
        http.send("GET", tls_url, **LIMITS)


def test_certificates_in_ssl_cert_file_are_trusted(
    tls_url: str, certificate: Path, trust: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert http.send("GET", tls_url, **LIMITS).content == b"ok"
