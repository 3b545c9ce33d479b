"""Who may ask the server what."""

from __future__ import annotations

import gzip
import socket

import pytest

from comity.errors import UserError
from comity.explore.assets import files
from comity.explore.server import HOST, listen, new_token


def test_the_page_may_load_nothing_from_elsewhere(ask):
    answer = ask("")
    assert answer.status == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in answer.headers
    assert b'"comity/main":"./page/main.js"' in answer.body


@pytest.mark.parametrize("name", sorted(files()))
def test_the_files_of_the_page_are_served(ask, name):
    answer = ask(f"page/{name}")
    assert answer.status == 200
    assert answer.body == files()[name].content


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/index",
        "/a-token-of-the-test/index",
        "/a-token-of-the-testss/index",
        "//index",
        "/page/main.js",
        "/a-token-of-the-tests",
    ],
)
def test_without_the_token_there_is_nothing(ask, address):
    answer = ask.raw(address)
    assert answer.status == 404
    assert "token" in answer.json()["error"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "evil.example:{port}", ""])
def test_another_name_of_the_host_is_refused(ask, host):
    answer = ask.raw(f"/{ask.token}/index", headers={"Host": host.format(port=ask.port)})
    assert answer.status == 403


def test_both_names_of_the_loopback_are_taken(ask):
    for host in (HOST, "localhost"):
        answer = ask.raw(f"/{ask.token}/index", headers={"Host": f"{host}:{ask.port}"})
        assert answer.status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_only_answers_questions(ask, method):
    assert ask.raw(f"/{ask.token}/index", method).status == 405


@pytest.mark.parametrize(
    "name",
    [
        "page/../server.py",
        "page/%2e%2e/server.py",
        "page/..%2fserver.py",
        "page//etc/passwd",
        "page/index.html",
        "../../etc/passwd",
        "results.json",
        "credit/results.json",
    ],
)
def test_nothing_else_is_served(ask, name):
    answer = ask.raw(f"/{ask.token}/{name}")
    assert answer.status == 404
    assert b"root:" not in answer.body


@pytest.mark.parametrize(
    ("name", "query", "words"),
    [
        ("item", {}, "id is missing"),
        ("item", {"id": "../credit"}, "no such item"),
        ("item", {"id": "credit", "since": "x"}, "since = x: must be a number"),
        ("mixing", {"id": "credit", "round": 77}, "no such round"),
        ("judge", {"id": "credit", "preference": "1,0"}, "client is missing"),
        ("judge", {"id": "credit", "client": 9}, "no such client"),
        ("judge", {"id": "credit", "client": 0, "preference": "1"}, "2 objectives"),
        ("judge", {"id": "credit", "client": 0, "preference": "nan,1"}, "must be a number"),
        ("judge", {"id": "credit", "client": 0, "preference": "2,-1"}, "preference"),
        ("judge", {"id": "credit", "client": 0, "threshold": 1.5}, "between 0 and 1"),
        ("judge", {"id": "credit", "client": 0, "aspiration": "0.5"}, "2 objectives"),
        ("judge", {"id": "comparison", "client": 0}, "comparison"),
        ("export", {"id": "credit", "client": 0, "format": "exe"}, "format = exe"),
        (
            "export",
            {"id": "credit", "client": 0, "format": "card", "preference": "1,0"},
            "takes no",
        ),
        ("table", {"id": "comparison", "format": "pdf"}, "format = pdf"),
        ("table", {"id": "credit", "format": "csv"}, "this is a run"),
        ("compare", {"ids": "credit"}, "at least two"),
        ("compare", {"ids": "credit,comparison"}, "comparison"),
    ],
)
def test_mistakes_are_named_in_one_sentence(ask, name, query, words):
    answer = ask(name, **query)
    assert answer.status == 400
    assert words in answer.json()["error"]


def test_long_answers_are_packed(ask):
    plain = ask("item", id="credit")
    packed = ask.raw(f"/{ask.token}/item?id=credit", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body


def test_head_answers_without_a_body(ask):
    answer = ask.raw(f"/{ask.token}/index", "HEAD")
    assert answer.status == 200
    assert answer.body == b""


def test_tokens_differ_and_are_long():
    assert len({new_token() for _ in range(50)}) == 50
    assert len(new_token()) >= 32


def test_a_port_in_use_is_one_sentence():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(UserError, match=r"port = \d+: cannot be used"):
            listen(taken.getsockname()[1])
    with pytest.raises(UserError, match="port = 99999"):
        listen(99999)


def test_only_the_loopback_listens():
    with listen(0) as bound:
        assert bound.getsockname()[0] == "127.0.0.1"


def test_small_answers_are_sent_at_once():
    with listen(0) as bound:  # by this asyncio decides not to wait for more to send
        assert bound.proto == socket.IPPROTO_TCP
