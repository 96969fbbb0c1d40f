"""Calls to tenants' URLs connect only to checked public or allowlisted addresses."""

import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest

from counterfoil import http
from counterfoil.egress import Egress, is_public, resolve_host
from counterfoil.errors import RejectedRequestError, ServiceUnavailableError
from tests.certificates import write_certificate
from tests.llm.server import Raw, Server

NAME = "hooks.example.com"
LOOPBACK = ("127.0.0.0/8",)


class Resolver:
    """Resolver with scripted answers that records its queries."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self.answers = list(answers)
        self.queries: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.queries.append((host, port))
        addresses = self.answers.pop(0)
        if isinstance(addresses, Exception):
            raise addresses
        return addresses


def address(*addresses: str, url: tuple[str, str, int] = ("https", NAME, 443), allowlist: Sequence[str] = ()) -> str:
    return Egress(allowlist, Resolver(addresses)).resolve_address(*url)


# Public addresses


@pytest.mark.parametrize(
    "ip",
    [
        "0.0.0.0",  # this host (unspecified address)
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",  # carrier-grade NAT
        "100.100.100.200",  # a cloud's metadata service
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",  # most clouds' metadata service
        "169.254.170.2",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",  # a cloud's metadata service
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "168.63.129.16",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",  # IPv4-compatible
        "::ffff:127.0.0.1",  # IPv4-mapped
        "::ffff:8.8.8.8",
        "::ffff:0:127.0.0.1",  # IPv4-translated
        "64:ff9b::7f00:1",  # NAT64
        "64:ff9b::808:808",
        "64:ff9b:1::7f00:1",
        "100::1",  # discard
        "2001::1",  # Teredo
        "2001:10::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::1",  # 6to4
        "2002:808:808::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",  # a cloud's metadata service over IPv6
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_reserved_and_translated_addresses_are_not_public(ip: str):
    assert not is_public(ip)
    with pytest.raises(RejectedRequestError, match="has no public address"):
        address(ip)


@pytest.mark.parametrize("ip", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"])
def test_internet_address_is_public(ip: str):
    assert is_public(ip)
    assert address(ip) == ip


def test_public_address_is_chosen_from_several():
    assert address("10.0.0.1", "8.8.8.8", "127.0.0.1") == "8.8.8.8"


# Allowed addresses


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (("http", NAME, 80), "only https is"),
        (("http", NAME, 443), "only https is"),
        (("ftp", NAME, 21), "must begin with https"),
        (("https", "", 443), "name a host"),
        (("https", NAME, 22), "on port 22: only 443 and 8443 are permitted"),
        (("https", NAME, 5432), "on port 5432"),
    ],
)
def test_invalid_scheme_host_or_port_is_rejected(url: tuple[str, str, int], reason: str):
    with pytest.raises(RejectedRequestError, match=reason):
        address("8.8.8.8", url=url)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "localhost", "localhost.", "[::1]".strip("[]")]
)
def test_loopback_address_is_rejected_in_every_notation(host: str):
    with pytest.raises((RejectedRequestError, ServiceUnavailableError)):
        Egress(()).resolve_address("https", host, 443)


def test_allowlisted_host_and_port_can_be_called():
    allowlist = ("Internal:8080",)
    assert address("10.0.0.1", url=("http", "internal", 8080), allowlist=allowlist) == "10.0.0.1"
    for other in (("http", "internal", 8081), ("http", "external", 8080)):
        with pytest.raises(RejectedRequestError):
            address("10.0.0.1", url=other, allowlist=allowlist)


def test_allowlisted_network_can_be_called_by_any_name():
    assert address("10.1.2.3", url=("http", "any", 81), allowlist=("10.1.0.0/16", "fd00::/8")) == "10.1.2.3"
    assert address("fd00::1", url=("https", "any", 443), allowlist=("10.1.0.0/16", "fd00::/8")) == "fd00::1"
    with pytest.raises(RejectedRequestError):
        address("10.2.0.1", url=("https", "any", 443), allowlist=("10.1.0.0/16",))


def test_rejection_message_does_not_quote_address():
    with pytest.raises(RejectedRequestError) as caught:
        address("10.20.30.40")
    assert "10.20.30.40" not in str(caught.value)


def test_unresolvable_name_is_a_transient_failure(monkeypatch: pytest.MonkeyPatch):
    def fail_lookup(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail_lookup)
    with pytest.raises(ServiceUnavailableError, match=f"^{NAME} cannot be reached: the host name cannot be resolved$"):
        resolve_host(NAME, 443)


def test_ipv4_addresses_come_first(monkeypatch: pytest.MonkeyPatch):
    addresses = [(socket.AF_INET6, 1, 6, "", ("2a00::1", 443, 0, 0)), (socket.AF_INET, 1, 6, "", ("8.8.8.8", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    assert resolve_host(NAME, 443) == ["8.8.8.8", "2a00::1"]


# Checks before a name is resolved


@pytest.mark.parametrize(
    "url",
    [
        f"https://{NAME}/hook?a=b",
        "https://8.8.8.8",
        "https://[2606:4700::1111]:8443/",
        "http://127.0.0.1:8099/",
        "http://localhost:8099/",
        "http://inside:80/x",
        "HTTPS://Hooks.Example.Com/",
        "https://bücher.example/",
    ],
)
def test_permitted_url_passes_check_without_resolving(url: str):
    assert Egress((*LOOPBACK, "inside:80"), Resolver()).rejection_reason(url) is None


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "must begin with https"),
        ("hooks.example.com", "must begin with https"),
        ("https:///x", "name a host"),
        ("https://[::1", "Not a valid URL"),
        ("https://x:99999/", "Not a valid URL"),
        (f"http://{NAME}/", "only https is"),
        (f"https://{NAME}:22/", "on port 22"),
        ("https://10.0.0.1/", "no public address"),
        ("https://[::ffff:8.8.8.8]/", "no public address"),
        ("https://ann:secret@x.example/", "must not have a user"),
        ("https://x.example/#a", "or a fragment"),
        ("https://x.example/a b", "contains spaces"),
        ("https://x.example/\n", "contains spaces"),
        ("https://x.example/" + "a" * 2048, "more than 2048"),
    ],
)
def test_invalid_or_forbidden_url_is_rejected_without_resolving(url: str, reason: str):
    rejection_reason = Egress(LOOPBACK, Resolver()).rejection_reason(url)
    assert rejection_reason is not None
    assert reason in rejection_reason
    assert "secret" not in rejection_reason


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "2130706433", "LocalHost", "localhost.", "db.localhost"])
def test_loopback_is_rejected_without_resolving(host: str):
    assert "no public address" in str(Egress((), Resolver()).rejection_reason(f"https://{host}/"))
    assert Egress(LOOPBACK, Resolver()).rejection_reason(f"http://{host}:8099/") is None


# Connections


@pytest.fixture
def scripted_server() -> Iterator[Server]:
    with Server() as server:
        yield server


def post(server: Server, resolver: Resolver, host: str = NAME, **options: Any) -> int:
    url = f"{server.url.replace('127.0.0.1', host)}/path?secret=1"
    return Egress(LOOPBACK, resolver).post(url, b"body", {"x-key": "k"}, **options)


def test_call_connects_to_checked_address_with_host_name(scripted_server: Server):
    scripted_server.add_steps(Raw(204))
    resolver = Resolver(["127.0.0.1"])
    assert post(scripted_server, resolver) == 204
    (request,) = scripted_server.requests
    assert (request.path, request.body, request.headers["x-key"]) == ("/path?secret=1", b"body", "k")
    port = int(scripted_server.url.rpartition(":")[2])
    assert request.headers["host"] == f"{NAME}:{port}"
    assert resolver.queries == [(NAME, port)]


def test_dns_rebinding_cannot_redirect_call(scripted_server: Server, monkeypatch: pytest.MonkeyPatch):
    """DNS returns an allowed address first and a different one later."""
    answers = [["127.0.0.1"], *([["127.0.0.2"]] * 9)]
    resolver = Resolver(*answers)

    def fail_unchecked(*_: Any, **__: Any) -> Any:
        raise AssertionError("resolved without the check")

    original_getaddrinfo = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *a, **k: original_getaddrinfo(host, *a, **k) if host == "127.0.0.1" else fail_unchecked(),
    )
    scripted_server.add_steps(Raw(200))
    assert Egress(("127.0.0.1/32",), resolver).post(scripted_server.url.replace("127.0.0.1", NAME), b"", {}) == 200
    assert len(resolver.queries) == 1
    with pytest.raises(RejectedRequestError):  # the next call resolves and checks again
        Egress(("127.0.0.1/32",), resolver).post(scripted_server.url.replace("127.0.0.1", NAME), b"", {})
    assert len(scripted_server.requests) == 1


def test_proxy_from_environment_is_ignored(scripted_server: Server, monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    scripted_server.add_steps(Raw(200))
    assert post(scripted_server, Resolver(["127.0.0.1"])) == 200


def test_rejected_address_receives_no_request(scripted_server: Server):
    with pytest.raises(RejectedRequestError):
        Egress((), Resolver(["127.0.0.1"])).post(scripted_server.url.replace("127.0.0.1", NAME), b"body", {})
    assert scripted_server.requests == []


def test_redirect_is_rejected(scripted_server: Server):
    scripted_server.add_steps(Raw(302, headers={"Location": "http://169.254.169.254/latest/meta-data/"}))
    resolver = Resolver(["127.0.0.1"])
    with pytest.raises(RejectedRequestError, match=f"^{NAME} answered with HTTP 302$"):
        post(scripted_server, resolver)
    assert len(resolver.queries) == 1


def test_endless_response_succeeds_after_headers(scripted_server: Server):
    scripted_server.add_steps(Raw(200, b"x" * 10, behavior="slow_body"))
    assert post(scripted_server, Resolver(["127.0.0.1"])) == 200


def test_slow_resolver_counts_toward_timeout(scripted_server: Server):
    finished = Event()

    class Slow(Resolver):
        def __call__(self, host: str, port: int) -> Sequence[str]:
            finished.wait(30)
            return ["127.0.0.1"]

    start = monotonic()
    with pytest.raises(ServiceUnavailableError, match=f"^{NAME} did not answer within"):
        post(scripted_server, Slow(), seconds=0.2)
    assert monotonic() - start < 2
    finished.set()


@pytest.mark.parametrize("url", ["https://", "https:///x", "//x", "", "gopher://x/", "https://x:y/"])
def test_malformed_or_unsupported_url_is_rejected(url: str):
    with pytest.raises(RejectedRequestError):
        Egress((), Resolver(["8.8.8.8"])).post(url, b"", {})


# Certificates


@pytest.fixture
def make_tls_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Server]]:
    """`make_tls_server(name)` starts a server with a trusted certificate for `name`."""
    servers: list[Server] = []
    http._ssl_context.cache_clear()

    def make_server(name: str) -> Server:
        path = write_certificate(tmp_path / f"{name}.pem", name)
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        server = Server(Raw(200), tls=context)
        server.__enter__()
        servers.append(server)
        return server

    yield make_server
    for server in servers:
        server.__exit__()
    http._ssl_context.cache_clear()


def test_certificate_for_host_name_is_accepted(make_tls_server: Callable[[str], Server]):
    server = make_tls_server(NAME)
    assert post(server, Resolver(["127.0.0.1"])) == 200


def test_certificate_for_another_name_is_rejected(make_tls_server: Callable[[str], Server]):
    server = make_tls_server("other.example.com")
    with pytest.raises(ServiceUnavailableError, match=f"^{NAME} cannot be reached: its certificate is invalid"):
        post(server, Resolver(["127.0.0.1"]))
    assert server.requests == []


def test_certificate_for_ip_address_is_rejected(make_tls_server: Callable[[str], Server]):
    with pytest.raises(ServiceUnavailableError, match="its certificate is invalid or not trusted"):
        post(make_tls_server("127.0.0.1"), Resolver(["127.0.0.1"]))
