"""The cluster engine: all clients on the workers of a Dask cluster.

The server stays in this process. Each worker holds the fleets of its chunks as an actor; requests
and updates travel by value, as plain arrays.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from comity.configuration import Configuration
from comity.core.devices import placed
from comity.core.threads import limited
from comity.federation.cluster import Cluster, Host
from comity.federation.engines.chunked import Calls, ChunkedEngine, Chunks, Share, dealt
from comity.problems import Problem, register


class ClusterEngine(ChunkedEngine):
    """All clients on the workers that a cluster has at the beginning.

    Args:
        configuration: The run's configuration; ``chunk`` clients form one fleet.
        cluster: Where the workers are.

    Raises:
        LostWorkerError: A worker is gone, and the state of its clients with it.
    """

    def __init__(self, configuration: Configuration, cluster: Cluster) -> None:
        self._cluster = cluster
        self._hosts: list[tuple[Host, Chunks]] = []
        super().__init__(configuration)

    def _deal(self, configuration: Configuration, chunks: list[tuple[int, ...]]) -> None:
        self.close()
        shares = dealt(chunks, min(len(self._cluster.workers()), len(chunks)))
        problem = configuration.get_problem()
        hosts = self._cluster.hosts(
            _RemoteShare, *((problem, configuration, share) for share in shares)
        )
        self._hosts = list(zip(hosts, shares, strict=True))

    def close(self) -> None:
        """Let the workers forget the clients."""
        for host, _ in self._hosts:
            host.release()
        self._hosts = []

    def _call(self, name: str, calls: Calls) -> dict[int, Any]:
        parts = [
            (host, part)
            for host, share in self._hosts
            if (part := {number: calls[number] for number in share if number in calls})
        ]
        waits = [host.ask(name, part) for host, part in parts]
        results: dict[int, Any] = {}
        for wait in waits:
            results.update(wait())
        return results


class _RemoteShare:
    """The chunks of one worker, in that worker."""

    def __init__(self, problem: Problem, configuration: Configuration, chunks: Chunks) -> None:
        register(problem)
        self._threads, self._device = configuration.threads, configuration.device
        _threads.limit(self._threads)
        with placed(self._device):
            self._share = Share(configuration, chunks)

    def __call__(self, name: str, calls: Calls) -> dict[int, Any]:
        _threads.limit(self._threads)
        with placed(self._device):
            return self._share.call(name, calls)


class _Threads:
    """The limit of a worker's threads: it takes a millisecond to set, so it stays until changed."""

    def __init__(self) -> None:
        self._number, self._limit = 0, ExitStack()

    def limit(self, number: int) -> None:
        if number != self._number:
            self._limit.close()
            self._limit.enter_context(limited(number))
            self._number = number


_threads = _Threads()
