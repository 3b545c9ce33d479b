"""The transport on Flower: frames and faults here, real processes with `make test-flower`."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from comity.errors import UserError
from comity.federation.keys import make_keys
from comity.federation.parties import server_transport, site_transport
from comity.federation.transports.flower import FlowerServerTransport
from comity.federation.transports.flower_app.comity_pumps import frames
from comity.federation.transports.flower_programs import (
    PROGRAMS,
    FlowerPrograms,
    free_port,
    listen,
)
from comity.federation.transports.flower_site import FlowerSiteTransport
from tests.federation.flower import LONG, PROGRAMS_AT, Echo, flower
from tests.federation.party_files import write_federation, write_site
from tests.federation.processes import members, processes, until, with_path

# -- frames --------------------------------------------------------------------------------


def sent(write: Callable[[socket.socket], object]) -> frames.Frame | None:
    """Return the frame that is received when ``write`` has written and closed the other end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(10)
        writer = threading.Thread(target=lambda: (write(ours), ours.close()))
        writer.start()
        try:
            return frames.receive(theirs)
        finally:
            writer.join()


def test_a_frame_is_length_header_and_body():
    content = b'{"kind": "a"}\n\x00\n\xff'
    assert len(content) == 17
    assert sent(lambda s: s.sendall(b"\0" * 7 + b"\x11" + content)) == (
        {"kind": "a"},
        b"\x00\n\xff",
    )
    assert sent(lambda s: frames.send(s, {"n": 1}, b"x" * 3_000_000)) == (
        {"n": 1},
        b"x" * 3_000_000,
    )
    assert sent(lambda s: frames.send(s, {})) == ({}, b"")
    assert sent(lambda s: None) is None


@pytest.mark.parametrize(
    "content",
    [
        b"\0\0\0",
        b"\xff" * 8 + b"{}\n",
        b"\0" * 7 + b"\x09{}\nab",
        b"\0" * 7 + b"\x02{}",
        b"\0" * 7 + b"\x03[]\n",
        b"\0" * 7 + b"\x03{x\n",
        (70_000).to_bytes(8, "big") + b'{"a": "' + b"x" * 69_990 + b'"}\n',
    ],
    ids=["short", "huge", "cut", "no-header", "list", "no-json", "long-header"],
)
def test_what_is_no_frame_is_refused(content):
    with pytest.raises(frames.FrameError):
        sent(lambda s: s.sendall(content))


def test_a_frame_that_is_too_large_is_not_sent(monkeypatch):
    monkeypatch.setattr(frames, "MOST_BODY", 10)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(frames.FrameError):
            frames.send(ours, {}, b"x" * 11)
        with pytest.raises(frames.FrameError):
            frames.send(ours, {"a": "x" * frames.MOST_HEADER})


# -- faults without Flower -----------------------------------------------------------------


def test_missing_programs_name_the_remedy(tmp_path):
    with pytest.raises(UserError, match="make flower"):
        FlowerServerTransport(["a"], tmp_path / "s", programs=tmp_path)
    with pytest.raises(UserError, match="make flower"):
        FlowerSiteTransport("a", "127.0.0.1:1", tmp_path / "a", programs=tmp_path)
    assert not (tmp_path / "s").exists()


@pytest.fixture
def broken(tmp_path):
    """Return a directory of programs that end at once."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in PROGRAMS:
        (directory / name).write_text("#!/bin/sh\necho no such thing\nexit 1\n")
        (directory / name).chmod(0o755)
    return directory


def test_a_superlink_that_does_not_start_is_an_error_with_its_log(tmp_path, broken):
    with pytest.raises(UserError, match="nothing listens at 127") as caught:
        FlowerServerTransport(["a"], tmp_path / "s", programs=broken)
    assert str(tmp_path / "s" / "flower.log") in str(caught.value)
    assert "no such thing" in (tmp_path / "s" / "flower.log").read_text()
    until(lambda: not with_path(tmp_path))


def test_a_command_that_fails_is_an_error(tmp_path, broken):
    with pytest.raises(UserError, match="`flwr run` failed"):
        FlowerPrograms(tmp_path / "s", broken).run("run")


def test_a_socket_of_a_killed_process_is_replaced_and_one_in_use_is_not(tmp_path):
    path = tmp_path / "x.sock"
    listen(path).close()
    assert path.exists()
    with listen(path), pytest.raises(UserError, match="another process"):
        listen(path)
    with pytest.raises(UserError, match="shorter path"):
        listen(tmp_path / ("x" * 100))


# -- real processes ------------------------------------------------------------------------


class Federation:
    """A server and three echoing sites, in directories of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.server = FlowerServerTransport("abc", directory / "server", programs=PROGRAMS_AT)
        self.sites = {name: self.join(name) for name in "abc"}
        until(lambda: self.server.online() == {"a", "b", "c"}, LONG)

    def join(self, name: str) -> Echo:
        directory = self.directory / name
        return Echo(
            name,
            FlowerSiteTransport(name, self.server.address, directory, programs=PROGRAMS_AT),
        )

    def exchange(
        self, messages: Mapping[str, bytes], patience: float = LONG
    ) -> tuple[frozenset[str], dict[str, bytes]]:
        """Return who answered, and the answers."""
        answers: dict[str, bytes] = {}

        def arrived(site: str, answer: bytes) -> bool:
            assert site not in answers
            answers[site] = answer
            return True

        return self.server.exchange(messages, patience, arrived), answers

    def kill(self, program: str, owner: str) -> None:
        """Kill a program of the server or of a site, and nothing else."""
        (group,) = with_path(self.directory / owner)
        commands = members(group).items()
        (pid,) = (pid for pid, command in commands if command.split()[1].endswith(program))
        os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        self.server.close()  # first: a site lingers while its server is there
        for site in self.sites.values():
            site.end()


@pytest.fixture(scope="module")
def federation(tmp_path_factory) -> Iterator[Federation]:
    """Return a running federation; after all tests, nothing of it is left."""
    running = Federation(tmp_path_factory.mktemp("f"))
    groups = with_path(running.directory)
    pids = {pid for group in groups for pid in members(group)}
    assert len(groups) == 4
    assert len(pids) >= 4 * 3 + 1, "each a guard, SuperLink or SuperNode, SuperExec; and the pump"
    yield running
    groups |= with_path(running.directory)
    running.end()
    assert not [pid for group in groups for pid in members(group)]
    assert not pids & processes().keys()
    assert not with_path(running.directory)
    assert not list(running.directory.rglob("*.sock"))


class TestRunning:
    """Tests that share one federation; each leaves it whole."""

    pytestmark = flower

    def test_bytes_come_back(self, federation):
        every = bytes(range(256)) * 8192
        messages = {"a": b"", "b": every, "c": b"c\n\0"}
        taken, answers = federation.exchange(messages)
        assert taken == {"a", "b", "c"}
        assert answers == {"a": b"a", "b": every[::-1] + b"b", "c": b"\0\ncc"}

    def test_only_who_is_asked_is_asked(self, federation):
        before = {name: len(site.asked) for name, site in federation.sites.items()}
        assert federation.exchange({"b": b"1"}) == ({"b"}, {"b": b"1b"})
        after = {name: len(site.asked) for name, site in federation.sites.items()}
        assert after == {**before, "b": before["b"] + 1}

    def test_a_refused_answer_may_come_again(self, federation):
        came = []

        def arrived(site: str, answer: bytes) -> bool:
            came.append((site, answer))
            return len(came) == 2

        assert federation.server.exchange({"a": b"2"}, LONG, arrived) == {"a"}
        assert came == [("a", b"2a")] * 2

    def test_a_silent_site_is_absent_and_its_late_answer_is_nobodys(self, federation):
        site = federation.sites["c"]
        site.hold.clear()
        started = time.monotonic()
        taken, _ = federation.exchange({"a": b"3", "b": b"3", "c": b"3"}, patience=60)
        assert 60 <= time.monotonic() - started < 70
        assert taken == {"a", "b"}
        assert site.asked[-1] == b"3"
        site.hold.set()
        assert federation.exchange({"c": b"4"}) == ({"c"}, {"c": b"4c"})

    def test_a_killed_superlink_is_started_again_and_the_exchange_goes_on(self, federation):
        site = federation.sites["a"]
        site.hold.clear()
        result: list[object] = []
        messages = {"a": b"5", "b": b"5", "c": b"5"}
        exchange = threading.Thread(target=lambda: result.append(federation.exchange(messages)))
        exchange.start()
        until(lambda: site.asked[-1] == b"5", LONG)
        federation.kill("flower-superlink", "server")
        until(lambda: not federation.server.online())
        site.hold.set()
        exchange.join()
        assert result == [({"a", "b", "c"}, {"a": b"5a", "b": b"5b", "c": b"5c"})]

    def test_a_message_of_a_killed_supernode_is_delivered_again(self, federation):
        site = federation.sites["b"]
        site.hold.clear()
        result: list[object] = []
        exchange = threading.Thread(target=lambda: result.append(federation.exchange({"b": b"6"})))
        exchange.start()
        until(lambda: site.asked[-1] == b"6", LONG)
        federation.kill("flower-supernode", "b")
        site.hold.set()
        exchange.join()
        assert result == [({"b"}, {"b": b"6b"})]
        assert site.asked[-2:] == [b"6", b"6"]

    def test_a_site_that_is_gone_is_absent_and_may_come_back(self, federation):
        federation.sites["c"].end()
        assert not with_path(federation.directory / "c")
        taken, _ = federation.exchange({"a": b"7", "c": b"7"}, patience=60)
        assert taken == {"a"}
        until(lambda: federation.server.online() == {"a", "b"}, LONG)
        federation.sites["c"] = federation.join("c")
        assert federation.exchange({"c": b"8"}) == ({"c"}, {"c": b"8c"})

    def test_a_second_federation_lets_in_registered_keys_only(self, federation, tmp_path):
        own = {name: make_keys(name, tmp_path) for name in ("server", "bank")}
        keys = {"known": own["bank"], "stranger": make_keys("bank", tmp_path / "foreign")}
        file = write_federation(tmp_path, own, f"localhost:{free_port()}")
        server = server_transport(file, own["server"], tmp_path / "server")
        sites = [
            Echo(name, site_transport(write_site(tmp_path, "bank", directory=name), keys[name]))
            for name in keys
        ]
        try:
            log = tmp_path / "stranger" / "flower" / "flower.log"
            until(lambda: log.exists() and "[code: 2004]" in log.read_text(), LONG)
            answers = {}
            taken = server.exchange(
                {"bank": b"9"}, LONG, lambda site, answer: answers.update({site: answer}) or True
            )
            assert (taken, answers) == ({"bank"}, {"bank": b"9known"})
            assert sites[1].asked == []
            assert federation.exchange({"a": b"9"}) == ({"a"}, {"a": b"9a"})
        finally:
            server.close()
            for site in sites:
                site.end()
        assert not with_path(tmp_path)
