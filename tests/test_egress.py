"""Calls to tenants' URLs: only public and checked addresses are called."""

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
from tests.certificates import certify
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
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def address(*addresses: str, url: tuple[str, str, int] = ("https", NAME, 443), allow: Sequence[str] = ()) -> str:
    return Egress(allow, Resolver(addresses)).address(*url)


# Public addresses


@pytest.mark.parametrize(
    "ip",
    [
        "0.0.0.0",  # this host
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",  # carrier-grade NAT
        "100.100.100.200",  # metadata of a cloud
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",  # metadata of most clouds
        "169.254.170.2",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",  # metadata of a cloud
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
        "fd00:ec2::254",  # metadata over IPv6
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_reserved_and_translated_addresses_are_not_public(ip: str):
    assert not is_public(ip)
    with pytest.raises(RejectedRequestError, match="leads to no public address"):
        address(ip)


@pytest.mark.parametrize("ip", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"])
def test_internet_address_is_public(ip: str):
    assert is_public(ip)
    assert address(ip) == ip


def test_public_address_is_chosen_among_several():
    assert address("10.0.0.1", "8.8.8.8", "127.0.0.1") == "8.8.8.8"


# Allowed addresses


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (("http", NAME, 80), "only https is"),
        (("http", NAME, 443), "only https is"),
        (("ftp", NAME, 21), "must begin with https"),
        (("https", "", 443), "name a host"),
        (("https", NAME, 22), "at port 22: only 443 and 8443 may"),
        (("https", NAME, 5432), "at port 5432"),
    ],
)
def test_other_schemes_and_ports_are_rejected(url: tuple[str, str, int], reason: str):
    with pytest.raises(RejectedRequestError, match=reason):
        address("8.8.8.8", url=url)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "localhost", "localhost.", "[::1]".strip("[]")]
)
def test_loopback_is_rejected_in_every_spelling(host: str):
    with pytest.raises((RejectedRequestError, ServiceUnavailableError)):
        Egress(()).address("https", host, 443)


def test_allowlisted_host_and_port_can_be_called():
    allow = ("Internal:8080",)
    assert address("10.0.0.1", url=("http", "internal", 8080), allow=allow) == "10.0.0.1"
    for other in (("http", "internal", 8081), ("http", "external", 8080)):
        with pytest.raises(RejectedRequestError):
            address("10.0.0.1", url=other, allow=allow)


def test_allowlisted_network_can_be_called_by_any_name():
    assert address("10.1.2.3", url=("http", "any", 81), allow=("10.1.0.0/16", "fd00::/8")) == "10.1.2.3"
    assert address("fd00::1", url=("https", "any", 443), allow=("10.1.0.0/16", "fd00::/8")) == "fd00::1"
    with pytest.raises(RejectedRequestError):
        address("10.2.0.1", url=("https", "any", 443), allow=("10.1.0.0/16",))


def test_rejection_does_not_quote_address():
    with pytest.raises(RejectedRequestError) as caught:
        address("10.20.30.40")
    assert "10.20.30.40" not in str(caught.value)


def test_unresolvable_name_is_a_transient_failure(monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ServiceUnavailableError, match=f"^{NAME} could not be resolved: gaierror$"):
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
def test_allowed_url_is_accepted_without_resolving(url: str):
    assert Egress((*LOOPBACK, "inside:80"), Resolver()).rejection_reason(url) is None


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "must begin with https"),
        ("hooks.example.com", "must begin with https"),
        ("https:///x", "name a host"),
        ("https://[::1", "Not an address"),
        ("https://x:99999/", "Not an address"),
        (f"http://{NAME}/", "only https is"),
        (f"https://{NAME}:22/", "at port 22"),
        ("https://10.0.0.1/", "no public address"),
        ("https://[::ffff:8.8.8.8]/", "no public address"),
        ("https://ann:secret@x.example/", "must not have a user"),
        ("https://x.example/#a", "or a fragment"),
        ("https://x.example/a b", "contains spaces"),
        ("https://x.example/\n", "contains spaces"),
        ("https://x.example/" + "a" * 2048, "more than 2048"),
    ],
)
def test_invalid_url_is_rejected_without_resolving(url: str, reason: str):
    objection = Egress(LOOPBACK, Resolver()).rejection_reason(url)
    assert objection is not None
    assert reason in objection
    assert "secret" not in objection


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "2130706433", "LocalHost", "localhost.", "db.localhost"])
def test_loopback_is_rejected_without_resolving(host: str):
    assert "no public address" in str(Egress((), Resolver()).rejection_reason(f"https://{host}/"))
    assert Egress(LOOPBACK, Resolver()).rejection_reason(f"http://{host}:8099/") is None


# Connections


@pytest.fixture
def scripted() -> Iterator[Server]:
    with Server() as server:
        yield server


def post(server: Server, resolver: Resolver, host: str = NAME, **more: Any) -> int:
    url = f"{server.url.replace('127.0.0.1', host)}/path?secret=1"
    return Egress(LOOPBACK, resolver).post(url, b"body", {"x-key": "k"}, **more)


def test_call_connects_to_checked_address_with_host_name(scripted: Server):
    scripted.then(Raw(204))
    resolver = Resolver(["127.0.0.1"])
    assert post(scripted, resolver) == 204
    (request,) = scripted.requests
    assert (request.path, request.body, request.headers["x-key"]) == ("/path?secret=1", b"body", "k")
    port = int(scripted.url.rpartition(":")[2])
    assert request.headers["host"] == f"{NAME}:{port}"
    assert resolver.queries == [(NAME, port)]


def test_dns_rebinding_cannot_redirect_call(scripted: Server, monkeypatch: pytest.MonkeyPatch):
    """DNS returns an allowed address first and a different one later."""
    answers = [["127.0.0.1"], *([["127.0.0.2"]] * 9)]
    resolver = Resolver(*answers)

    def fail_unchecked(*_: Any, **__: Any) -> Any:
        raise AssertionError("resolved without the check")

    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: real(host, *a, **k) if host == "127.0.0.1" else fail_unchecked()
    )
    scripted.then(Raw(200))
    assert Egress(("127.0.0.1/32",), resolver).post(scripted.url.replace("127.0.0.1", NAME), b"", {}) == 200
    assert len(resolver.queries) == 1
    with pytest.raises(RejectedRequestError):  # the next call resolves and checks again
        Egress(("127.0.0.1/32",), resolver).post(scripted.url.replace("127.0.0.1", NAME), b"", {})
    assert len(scripted.requests) == 1


def test_proxy_of_environment_is_ignored(scripted: Server, monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    scripted.then(Raw(200))
    assert post(scripted, Resolver(["127.0.0.1"])) == 200


def test_rejected_address_receives_no_request(scripted: Server):
    with pytest.raises(RejectedRequestError):
        Egress((), Resolver(["127.0.0.1"])).post(scripted.url.replace("127.0.0.1", NAME), b"body", {})
    assert scripted.requests == []


def test_redirect_is_rejected(scripted: Server):
    scripted.then(Raw(302, headers={"Location": "http://169.254.169.254/latest/meta-data/"}))
    resolver = Resolver(["127.0.0.1"])
    with pytest.raises(RejectedRequestError, match=f"^{NAME} answered with HTTP 302$"):
        post(scripted, resolver)
    assert len(resolver.queries) == 1


def test_endless_response_succeeds_after_headers(scripted: Server):
    scripted.then(Raw(200, b"x" * 10, how="slow_body"))
    assert post(scripted, Resolver(["127.0.0.1"])) == 200


def test_slow_resolver_counts_toward_timeout(scripted: Server):
    ended = Event()

    class Slow(Resolver):
        def __call__(self, host: str, port: int) -> Sequence[str]:
            ended.wait(30)
            return ["127.0.0.1"]

    began = monotonic()
    with pytest.raises(ServiceUnavailableError, match=f"^{NAME} did not answer within"):
        post(scripted, Slow(), seconds=0.2)
    assert monotonic() - began < 2
    ended.set()


@pytest.mark.parametrize("url", ["https://", "https:///x", "//x", "", "gopher://x/", "https://x:y/"])
def test_malformed_url_is_rejected(url: str):
    with pytest.raises(RejectedRequestError):
        Egress((), Resolver(["8.8.8.8"])).post(url, b"", {})


# Certificates


@pytest.fixture
def encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Server]]:
    """`encrypted(name)` starts a server with a trusted certificate for this name."""
    servers: list[Server] = []
    http._ssl_context.cache_clear()

    def make(name: str) -> Server:
        path = certify(tmp_path / f"{name}.pem", name)
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        server = Server(Raw(200), tls=context)
        server.__enter__()
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.__exit__()
    http._ssl_context.cache_clear()


def test_certificate_of_name_is_accepted(encrypted: Callable[[str], Server]):
    server = encrypted(NAME)
    assert post(server, Resolver(["127.0.0.1"])) == 200


def test_certificate_of_another_name_is_rejected(encrypted: Callable[[str], Server]):
    server = encrypted("other.example.com")
    with pytest.raises(ServiceUnavailableError, match=f"^{NAME} did not answer: ConnectError$"):
        post(server, Resolver(["127.0.0.1"]))
    assert server.requests == []


def test_certificate_of_address_is_rejected(encrypted: Callable[[str], Server]):
    with pytest.raises(ServiceUnavailableError, match="ConnectError"):
        post(encrypted("127.0.0.1"), Resolver(["127.0.0.1"]))
