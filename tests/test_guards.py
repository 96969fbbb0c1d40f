"""What the tests must not do, they cannot do."""

import socket

import pytest
from pytest_socket import SocketConnectBlockedError

from counterfoil.db import Connection


@pytest.fixture
def far_away() -> str:
    """An address that belongs to documentation (RFC 5737), asked for while the test is set up."""
    reach("192.0.2.1")
    return "192.0.2.1"


def reach(host: str) -> None:
    with socket.socket() as client, pytest.warns(UserWarning, match=host), pytest.raises(SocketConnectBlockedError):
        client.connect((host, 443))


@pytest.mark.parametrize("host", ["192.0.2.1", "example.com"])
def test_a_test_reaches_nothing_beyond_this_machine(host: str):
    reach(host)


def test_nor_does_its_set_up(far_away: str):
    assert far_away


def test_this_machine_is_within_reach():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


@pytest.mark.parametrize("turn", [1, 2])
def test_no_test_sees_another_one_s_rows(turn: int, admin: Connection):
    assert admin.execute("SELECT count(*) FROM organization").fetchone() == (0,)
    admin.execute("INSERT INTO organization (name) VALUES ('left behind')")
