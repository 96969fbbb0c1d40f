"""Guards against network access and shared data in tests."""

import socket

import pytest
from pytest_socket import SocketConnectBlockedError

from counterfoil.db import Connection


@pytest.fixture
def remote_host() -> str:
    """Documentation address (RFC 5737).

    The fixture asserts that it is blocked during setup.
    """
    assert_blocked("192.0.2.1")
    return "192.0.2.1"


def assert_blocked(host: str) -> None:
    with socket.socket() as client, pytest.warns(UserWarning, match=host), pytest.raises(SocketConnectBlockedError):
        client.connect((host, 443))


@pytest.mark.parametrize("host", ["192.0.2.1", "example.com"])
def test_remote_host_is_blocked(host: str):
    assert_blocked(host)


def test_remote_host_is_blocked_during_setup(remote_host: str):
    assert remote_host


def test_loopback_is_allowed():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_an_empty_database(turn: int, admin: Connection):
    assert admin.execute("SELECT count(*) FROM organization").fetchone() == (0,)
    admin.execute("INSERT INTO organization (name) VALUES ('left behind')")
