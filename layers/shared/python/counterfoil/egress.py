"""Calls to URLs that tenants choose.

Public hosts are called over HTTPS. Internal hosts must be on the allowlist. A host name is resolved once, and the call
connects to one of the addresses that passed the check. A name server therefore cannot return a different address for
the call. The Host header, SNI and the certificate check use the name. Redirects are not followed, and proxies are not
used.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from counterfoil import http
from counterfoil.errors import RejectedRequestError, ServiceUnavailableError

CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0
TOTAL_SECONDS = 20.0
PORTS = frozenset({443, 8443})
"""Ports that need no allowlist entry."""

Network = IPv4Network | IPv6Network

_UNICAST = ip_network("2000::/3")
"""All global IPv6 addresses assigned so far. IPv6 addresses that embed an IPv4 address are outside this range, except
for the networks listed below."""
_SPECIAL_NETWORKS: tuple[Network, ...] = tuple(
    map(
        ip_network,
        (
            "192.0.0.0/24",  # IETF protocol assignments, including one cloud provider's metadata service
            "192.88.99.0/24",  # 6to4 relays, deprecated
            "168.63.129.16/32",  # internal host of another cloud provider
            "2001::/23",  # IETF protocol assignments: Teredo, ORCHID, benchmarking
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which contains an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)
"""Ranges from IANA's special-purpose registries that `is_global` accepts in some Python versions, and a cloud
provider's internal host."""

MAX_URL_CHARS = 2048
_NOT_HTTPS = "The address must begin with https:// and name a host"

Resolve = Callable[[str, int], Sequence[str]]


def is_public(address: str) -> bool:
    """Return True if an IP address is public.

    Private, shared, loopback, link-local (metadata services), multicast, reserved and documentation addresses are not
    public. IPv6 addresses that embed an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) are not public either.
    """
    ip = ip_address(address)
    if ip.version == 6 and ip not in _UNICAST:
        return False
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _SPECIAL_NETWORKS)


def resolve_host(host: str, port: int) -> list[str]:
    """Return a host name's IP addresses, IPv4 first.

    Raises:
        ServiceUnavailableError: the name cannot be resolved at the moment.
    """
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise ServiceUnavailableError(f"{host} cannot be reached: the host name cannot be resolved") from None
    entries.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return [str(entry[4][0]) for entry in entries]


@dataclass(frozen=True)
class EgressResponse:
    """Response to a call."""

    status: int
    headers: Mapping[str, str]
    """Values by lower-case name."""
    body: bytes
    is_truncated: bool = False
    """Whether the body is truncated or could not be read."""


class Egress:
    """Client for calls to URLs that tenants choose."""

    def __init__(self, allowlist: Sequence[str] = (), resolve: Resolve = resolve_host) -> None:
        """Permit public hosts and the hosts on the `allowlist`.

        Entries are `host:port` or networks (`10.1.0.0/16`). They may be internal, and may also be called over HTTP.
        """
        self._endpoints = {entry.lower() for entry in allowlist if "/" not in entry}
        self._networks = [ip_network(entry) for entry in allowlist if "/" in entry]
        self._resolve = resolve

    def public_only(self) -> "Egress":
        """Return a client with an empty allowlist."""
        return Egress((), self._resolve)

    def post(self, url: str, content: bytes, headers: Mapping[str, str], *, seconds: float = TOTAL_SECONDS) -> int:
        """Send `content` and return the status, which is 2xx.

        Do not read the response body.

        Raises:
            RejectedRequestError: the address is not permitted, or the server rejected the call (3xx and 4xx).
            ServiceUnavailableError: no response within `seconds` (at most TOTAL_SECONDS), or a transient status.
        """
        return self.call("POST", url, content, headers, seconds=seconds, max_body_bytes=None).status

    def call(
        self,
        method: str,
        url: str,
        content: bytes | None,
        headers: Mapping[str, str],
        *,
        seconds: float = TOTAL_SECONDS,
        max_body_bytes: int | None,
    ) -> EgressResponse:
        """Make one call and return its response, whose status is 2xx.

        If `max_body_bytes` is None, the body is not read. A body longer than `max_body_bytes` is truncated without an
        error, because the server has already processed the request.

        Raises:
            RejectedRequestError: the address is not permitted, or the server rejected the call (3xx and 4xx).
            ServiceUnavailableError: no response within `seconds` (at most TOTAL_SECONDS), or a transient status.
        """
        response = http.send(
            method,
            url,
            headers=headers,
            content=content,
            connect=CONNECT_SECONDS,
            read=READ_SECONDS,
            total=min(seconds, TOTAL_SECONDS),
            max_body_bytes=max_body_bytes,
            truncate=True,
            connect_to=self.resolve_address,
        )
        return EgressResponse(
            response.status_code, dict(response.headers), response.content, http.is_truncated(response)
        )

    def resolve_address(self, scheme: str, host: str, port: int) -> str:
        """Return the IP address to connect to.

        Raises:
            RejectedRequestError: the address is not permitted. The message contains no IP address, so that callers
                cannot explore the internal network.
            ServiceUnavailableError: the name cannot be resolved at the moment.
        """
        if scheme not in http.PORTS or not host:
            raise RejectedRequestError(_NOT_HTTPS)
        addresses = self._resolve(host, port)
        for ip in addresses:
            if self._is_allowed(host, port, ip):
                return ip
        reason = _rejection(scheme, host, port)
        if reason is not None:
            raise RejectedRequestError(reason)
        for ip in addresses:
            if is_public(ip):
                return ip
        raise RejectedRequestError(_not_public_message(host))

    def rejection_reason(self, url: str) -> str | None:
        """Return the reason why a URL can never be called, or None.

        If the result is None, the URL may be permitted. Does not resolve the name.
        """
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port or http.PORTS.get(parts.scheme, 0)
        except ValueError:
            return "Not a valid URL"
        if len(url) > MAX_URL_CHARS or not url.isprintable() or " " in url:
            return f"The address contains spaces or control characters, or has more than {MAX_URL_CHARS} characters"
        if "@" in parts.netloc or "#" in url:
            return "The address must not have a user, a password or a fragment"
        if parts.scheme not in http.PORTS or not host:
            return _NOT_HTTPS
        ip = _parse_ip(host)
        if self._is_allowed(host, port, ip):
            return None
        return _rejection(parts.scheme, host, port) or (
            None if ip is None or is_public(ip) else _not_public_message(host)
        )

    def _is_allowed(self, host: str, port: int, ip: str | None) -> bool:
        """Return True if the allowlist contains this endpoint or IP address."""
        if f"{host}:{port}" in self._endpoints:
            return True
        return ip is not None and any(ip_address(ip) in network for network in self._networks)


def _rejection(scheme: str, host: str, port: int) -> str | None:
    """Return the reason why a scheme or port requires an allowlist entry, or None."""
    if scheme != "https":
        return f"{host} may not be called: only https is permitted"
    if port not in PORTS:
        return f"{host} may not be called on port {port}: only {_join_ports(PORTS)} are permitted"
    return None


def _not_public_message(host: str) -> str:
    return f"{host} may not be called: it has no public address"


def _join_ports(ports: frozenset[int]) -> str:
    return " and ".join(map(str, sorted(ports)))


def _parse_ip(host: str) -> str | None:
    """Return the IP address in `host`, or None if it is a name.

    The address may have any notation. `localhost` counts as 127.0.0.1.
    """
    host = host.removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return "127.0.0.1"
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))  # 127.1, 0x7f000001 and similar notations
    except OSError:
        return None
