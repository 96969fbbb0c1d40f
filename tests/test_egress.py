"""Calls to addresses that tenants choose: only to what is public, and to the very address that was checked."""

import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest

from counterfoil import http
from counterfoil.egress import Egress, is_public, resolved
from counterfoil.errors import RejectedRequestError, ServiceUnavailableError
from tests.certificates import certify
from tests.llm.server import Raw, Server

NAME = "hooks.example.com"
LOOPBACK = ("127.0.0.0/8",)


class Resolver:
    """Answers each question with the next of its answers, and remembers the questions."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def address(*found: str, url: tuple[str, str, int] = ("https", NAME, 443), allow: Sequence[str] = ()) -> str:
    return Egress(allow, Resolver(found)).address(*url)


# Which addresses are public


@pytest.mark.parametrize(
    "of",
    [
        "0.0.0.0",  # this host
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",  # shared by carriers
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
def test_what_is_inside_reserved_or_made_of_another_address_is_not_public(of: str):
    assert not is_public(of)
    with pytest.raises(RejectedRequestError, match="leads to no public address"):
        address(of)


@pytest.mark.parametrize("of", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"])
def test_the_internet_is_public(of: str):
    assert is_public(of)
    assert address(of) == of


def test_of_several_addresses_a_public_one_is_called():
    assert address("10.0.0.1", "8.8.8.8", "127.0.0.1") == "8.8.8.8"


# Which addresses may be called


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
def test_other_schemes_and_ports_are_refused(url: tuple[str, str, int], reason: str):
    with pytest.raises(RejectedRequestError, match=reason):
        address("8.8.8.8", url=url)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "localhost", "localhost.", "[::1]".strip("[]")]
)
def test_no_spelling_of_this_machine_may_be_called(host: str):
    with pytest.raises((RejectedRequestError, ServiceUnavailableError)):
        Egress(()).address("https", host, 443)


def test_a_place_on_the_allowlist_may_be_called_wherever_it_is_and_its_neighbours_may_not():
    allow = ("Internal:8080",)
    assert address("10.0.0.1", url=("http", "internal", 8080), allow=allow) == "10.0.0.1"
    for other in (("http", "internal", 8081), ("http", "external", 8080)):
        with pytest.raises(RejectedRequestError):
            address("10.0.0.1", url=other, allow=allow)


def test_a_network_on_the_allowlist_may_be_called_by_any_name():
    assert address("10.1.2.3", url=("http", "any", 81), allow=("10.1.0.0/16", "fd00::/8")) == "10.1.2.3"
    assert address("fd00::1", url=("https", "any", 443), allow=("10.1.0.0/16", "fd00::/8")) == "fd00::1"
    with pytest.raises(RejectedRequestError):
        address("10.2.0.1", url=("https", "any", 443), allow=("10.1.0.0/16",))


def test_a_refusal_names_no_address():
    with pytest.raises(RejectedRequestError) as caught:
        address("10.20.30.40")
    assert "10.20.30.40" not in str(caught.value)


def test_a_name_without_an_address_may_have_one_later(monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ServiceUnavailableError, match=f"^{NAME} could not be resolved: gaierror$"):
        resolved(NAME, 443)


def test_addresses_of_ipv4_come_first(monkeypatch: pytest.MonkeyPatch):
    found = [(socket.AF_INET6, 1, 6, "", ("2a00::1", 443, 0, 0)), (socket.AF_INET, 1, 6, "", ("8.8.8.8", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert resolved(NAME, 443) == ["8.8.8.8", "2a00::1"]


# What shows before a name is resolved


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
def test_an_address_that_may_be_called_is_accepted_before_its_name_is_resolved(url: str):
    assert Egress((*LOOPBACK, "inside:80"), Resolver()).objection(url) is None


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "must begin with https"),
        ("hooks.example.com", "must begin with https"),
        ("https:///x", "name a host"),
        ("https://[::1", "no address"),
        ("https://x:99999/", "no address"),
        (f"http://{NAME}/", "only https is"),
        (f"https://{NAME}:22/", "at port 22"),
        ("https://10.0.0.1/", "no public address"),
        ("https://[::ffff:8.8.8.8]/", "no public address"),
        ("https://ann:secret@x.example/", "no user"),
        ("https://x.example/#a", "no fragment"),
        ("https://x.example/a b", "blanks"),
        ("https://x.example/\n", "blanks"),
        ("https://x.example/" + "a" * 2048, "more than 2048"),
    ],
)
def test_an_address_that_can_never_be_called_is_refused_at_once(url: str, says: str):
    said = Egress(LOOPBACK, Resolver()).objection(url)
    assert said is not None
    assert says in said
    assert "secret" not in said


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "2130706433", "LocalHost", "localhost.", "db.localhost"])
def test_every_spelling_of_this_machine_shows_before_it_is_resolved(host: str):
    assert "no public address" in str(Egress((), Resolver()).objection(f"https://{host}/"))
    assert Egress(LOOPBACK, Resolver()).objection(f"http://{host}:8099/") is None


# What a call connects to


@pytest.fixture
def scripted() -> Iterator[Server]:
    with Server() as server:
        yield server


def post(server: Server, resolver: Resolver, host: str = NAME, **more: Any) -> int:
    url = f"{server.url.replace('127.0.0.1', host)}/path?secret=1"
    return Egress(LOOPBACK, resolver).post(url, b"body", {"x-key": "k"}, **more)


def test_a_call_goes_to_the_address_that_was_checked_and_is_made_to_the_name(scripted: Server):
    scripted.then(Raw(204))
    resolver = Resolver(["127.0.0.1"])
    assert post(scripted, resolver) == 204
    (request,) = scripted.requests
    assert (request.path, request.body, request.headers["x-key"]) == ("/path?secret=1", b"body", "k")
    port = int(scripted.url.rpartition(":")[2])
    assert request.headers["host"] == f"{NAME}:{port}"
    assert resolver.asked == [(NAME, port)]


def test_a_name_is_resolved_once_so_that_a_second_answer_leads_nowhere(
    scripted: Server, monkeypatch: pytest.MonkeyPatch
):
    """A rebinding name server: an address that may be called at the first question, another at every later one."""
    answers = [["127.0.0.1"], *([["127.0.0.2"]] * 9)]
    resolver = Resolver(*answers)

    def no_other_way(*_: Any, **__: Any) -> Any:
        raise AssertionError("resolved behind the back of the check")

    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: real(host, *a, **k) if host == "127.0.0.1" else no_other_way()
    )
    scripted.then(Raw(200))
    assert Egress(("127.0.0.1/32",), resolver).post(scripted.url.replace("127.0.0.1", NAME), b"", {}) == 200
    assert len(resolver.asked) == 1
    with pytest.raises(RejectedRequestError):  # the next call asks anew, and checks anew
        Egress(("127.0.0.1/32",), resolver).post(scripted.url.replace("127.0.0.1", NAME), b"", {})
    assert len(scripted.requests) == 1


def test_no_proxy_of_the_environment_resolves_in_our_place(scripted: Server, monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    scripted.then(Raw(200))
    assert post(scripted, Resolver(["127.0.0.1"])) == 200


def test_what_may_not_be_called_hears_nothing(scripted: Server):
    with pytest.raises(RejectedRequestError):
        Egress((), Resolver(["127.0.0.1"])).post(scripted.url.replace("127.0.0.1", NAME), b"body", {})
    assert scripted.requests == []


def test_a_redirect_is_refused_and_not_followed(scripted: Server):
    scripted.then(Raw(302, headers={"Location": "http://169.254.169.254/latest/meta-data/"}))
    resolver = Resolver(["127.0.0.1"])
    with pytest.raises(RejectedRequestError, match=f"^{NAME} answered with HTTP 302$"):
        post(scripted, resolver)
    assert len(resolver.asked) == 1


def test_an_answer_without_end_is_known_by_its_head(scripted: Server):
    scripted.then(Raw(200, b"x" * 10, how="slow_body"))
    assert post(scripted, Resolver(["127.0.0.1"])) == 200


def test_a_slow_resolver_is_within_the_time_of_the_call(scripted: Server):
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
def test_what_is_no_address_is_refused(url: str):
    with pytest.raises(RejectedRequestError):
        Egress((), Resolver(["8.8.8.8"])).post(url, b"", {})


# Certificates


@pytest.fixture
def encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Server]]:
    """`encrypted(name)`: a server with a certificate for this name, which is trusted, and no other."""
    servers: list[Server] = []
    http._trust.cache_clear()

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
    http._trust.cache_clear()


def test_the_certificate_must_be_the_name_s(encrypted: Callable[[str], Server]):
    server = encrypted(NAME)
    assert post(server, Resolver(["127.0.0.1"])) == 200


def test_a_certificate_of_another_name_is_refused_though_it_is_trusted(encrypted: Callable[[str], Server]):
    server = encrypted("other.example.com")
    with pytest.raises(ServiceUnavailableError, match=f"^{NAME} did not answer: ConnectError$"):
        post(server, Resolver(["127.0.0.1"]))
    assert server.requests == []


def test_a_certificate_of_the_address_is_not_the_name_s(encrypted: Callable[[str], Server]):
    with pytest.raises(ServiceUnavailableError, match="ConnectError"):
        post(encrypted("127.0.0.1"), Resolver(["127.0.0.1"]))
