"""Small real runs to look at, and a server on this machine's loopback."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from comity.explore.explorer import Explorer
from comity.explore.server import HOST, listen, server_of
from comity.runs.compare import run_plan, start_comparison
from comity.runs.directory import Run
from comity.runs.execute import execute, start_run
from comity.searches import Search
from comity.searches.execution import execute_search, start_search

CREDIT = "german-credit-gender-dp"
TOKEN = "a-token-of-the-tests"
STEPS = {"supervised": {"local_steps": 10}}


def finished(path: Path, **values: Any) -> Run:
    """A run brought to its end, without pictures."""
    run = start_run(values, path)
    execute(run, 1)
    return Run.open(path)


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run, one whose models take any preference, a comparison and a search."""
    place = tmp_path_factory.mktemp("shelf")
    finished(place / "credit", problem=CREDIT, clients=3, rounds=2, algorithm="fedpref", **STEPS)
    learner = {"supervised": {"learning_rate": 0.01}}
    values = {"problem": "praffl-synthetic", "clients": 2, "rounds": 1, "algorithm": "praffl"}
    finished(place / "spanning", **values, **learner)
    run_plan(
        start_comparison(
            CREDIT,
            algorithms=["fedavg", "fedpref", "no-communication"],
            seeds=2,
            clients=3,
            rounds=2,
            out=place / "comparison",
            **STEPS,
        )
    )
    settings = {"iterations": 2, "candidates": 2, "generator": "random"}
    values = {"problem": CREDIT, "clients": 2, "rounds": 1, "search": settings, **STEPS}
    execute_search(start_search(values, place / "search"), 1)
    return place


@pytest.fixture(scope="session")
def credit(shelf: Path) -> Run:
    return Run.open(shelf / "credit")


@pytest.fixture(scope="session")
def spanning(shelf: Path) -> Run:
    return Run.open(shelf / "spanning")


@pytest.fixture(scope="session")
def search(shelf: Path) -> Search:
    return Search.open(shelf / "search")


@pytest.fixture(scope="session")
def explorer(shelf: Path) -> Explorer:
    return Explorer([shelf])


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Asks a server, with addresses sent as they are."""

    port: int
    token: str = TOKEN

    def __call__(self, name: str, **query: Any) -> Answer:
        address = f"/{self.token}/{name}"
        return self.raw(f"{address}?{urlencode(query)}" if query else address)

    def raw(
        self, address: str, method: str = "GET", headers: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        try:
            given = headers or {}
            connection.putrequest(
                method, address, skip_host="Host" in given, skip_accept_encoding=True
            )
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()


@pytest.fixture(scope="session")
def ask(explorer: Explorer) -> Iterator[Client]:
    """A server of the shelf, and how to ask it."""
    bound = listen(0)
    server = server_of(explorer, bound, TOKEN)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    yield Client(bound.getsockname()[1])
    server.should_exit = True
    thread.join(timeout=10)
