"""Where it serves: sockets, names, and sentences where it cannot."""

from __future__ import annotations

import contextlib
import socket

import pytest

from patchprint import cli
from patchprint.common.errors import UserError
from patchprint.web import serving


def test_a_port_in_use_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(serving.bind("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--port", str(port)]) == 2
        assert capsys.readouterr().err == (
            f"patchprint: port {port} of 127.0.0.1 is in use; give another --port, or 0 for any\n"
        )


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("no such host", 80, "is no address to serve at"),
        ("127.0.0.1", 70000, "port 70000 is no address"),
        ("192.0.2.1", 0, "is no address of this machine"),
    ],
)
def test_addresses_that_are_none(host: str, port: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        serving.bind(host, port)


def test_wrong_limits_are_refused_before_anything_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--max-seconds", "0"]) == 2
    assert "the limit seconds is 0" in capsys.readouterr().err


def test_who_can_reach_it() -> None:
    assert all(map(serving.is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(serving.is_loopback, ("0.0.0.0", "::", "192.168.1.5", "example.org", "localhost.example.org")))
    assert serving.names_of("0.0.0.0") is None and "127.0.0.1" in (serving.names_of("127.0.0.1") or ())


def test_where_a_browser_finds_it() -> None:
    with contextlib.closing(serving.bind("127.0.0.1", 0)) as made:
        assert serving.address("0.0.0.0", made) == serving.address("127.0.0.1", made)
        assert serving.address("localhost", made) == f"http://localhost:{made.getsockname()[1]}"
    if socket.has_ipv6:
        with contextlib.suppress(UserError), contextlib.closing(serving.bind("::1", 0)) as six:
            assert serving.address("::1", six) == f"http://[::1]:{six.getsockname()[1]}"
