"""The round loop: select → deliver → receive → (survey → brief) → train → send → mix → record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from comity.core.storage import strip_prefix
from comity.core.typing import FloatArray, NamedArrays
from comity.federation.messages import Engine, RoundRequest, alike
from comity.federation.server import RoundRecord, Server, bytes_of


class RoundLoop:
    """The round loop: federations of equal configuration, advanced together on one engine.

    Their clients train as one fleet; their servers know nothing of each other.
    """

    def __init__(self, engine: Engine, *federations: Server) -> None:
        self.engine, self.federations = engine, federations
        self.spent = {"clients": 0.0, "server": 0.0}
        """Seconds that rounds took, by who was at work."""

    @contextmanager
    def _timed(self, whose: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.spent[whose] += time.perf_counter() - began

    @property
    def done(self) -> int:
        return self.federations[0].done

    def install(self) -> int:
        """Hand every client the initial model of its federation, where these differ; in bytes."""
        for federation in self.federations:
            self.engine.install(RoundRequest(0, federation.clients, federation.initial))
        return sum(bytes_of(f.initial, len(f.clients)) for f in self.federations)

    def rounds(self) -> Iterator[list[RoundRecord]]:
        """Run the rounds that are left; one record a federation each."""
        while self.done < self.federations[0].configuration.rounds:
            asked = [federation.order() for federation in self.federations]
            failed: tuple[int, ...] = ()
            for places in alike([order for order, _ in asked]):
                order = RoundRequest.joined([asked[i][0] for i in places])
                if self.federations[0].algorithm.surveys and not order.alone:
                    order = self._briefed(order, places, asked)
                with self._timed("clients"):
                    message, report = self.engine.round(order)
                at = 0
                for i in places:
                    record = asked[i][1]
                    rows = slice(at, at + len(record.clients))
                    record.report = report.part(rows)
                    with self._timed("server"):
                        failed += self.federations[i].take(message.part(rows), record)
                    if record.chosen:
                        self.engine.keep(record.clients)
                    at = rows.stop
            if failed:
                self.engine.roll_back(tuple(sorted(failed)))
            yield [record for _, record in asked]

    def _briefed(
        self,
        order: RoundRequest,
        places: Sequence[int],
        asked: Sequence[tuple[RoundRequest, RoundRecord]],
    ) -> RoundRequest:
        """The first exchange of a round: what clients say, and what their servers answer."""
        with self._timed("clients"):
            message = self.engine.survey(order)
        at, briefs = 0, []
        for i in places:
            record = asked[i][1]
            rows = slice(at, at + len(record.clients))
            with self._timed("server"):
                briefs.append(self.federations[i].reply(message.part(rows), record))
            at = rows.stop
        broadcast = {k: np.concatenate([broadcast[k] for broadcast in briefs]) for k in briefs[0]}
        return replace(order, broadcast=broadcast)

    def judged(self) -> FloatArray:
        """How all clients would do on validation data if this were the end; nothing changes."""
        return self.engine.evaluate_delivery(
            RoundRequest.joined([f.last_order()[0] for f in self.federations])
        )

    def finish(self) -> list[RoundRecord]:
        """The last delivery to all, and fine-tuning after it."""
        extra = int(self.federations[0].configuration.fine_tune.partition(":")[2] or 0)
        asked = [self._gathered(f, *f.last_order()) for f in self.federations]
        for places in alike([order for order, _ in asked]):
            message, report = self.engine.finish(
                RoundRequest.joined([asked[i][0] for i in places]), extra
            )
            at = 0
            for i in places:
                record = asked[i][1]
                rows = slice(at, at + len(record.clients))
                record.report = report.part(rows)
                self.federations[i].choose(message.part(rows), record)
                if record.chosen:
                    self.engine.keep(record.clients)
                at = rows.stop
        return [record for _, record in asked]

    def _gathered(
        self, federation: Server, order: RoundRequest, record: RoundRecord
    ) -> tuple[RoundRequest, RoundRecord]:
        """The last order; where clients end with an ensemble, it delivers everybody's model."""
        if not federation.algorithm.ensembles:
            return order, record
        message = self.engine.collect(federation.clients)
        return replace(order, models=federation.gather(message, record)), record

    def state(self) -> tuple[NamedArrays, dict[str, Any]]:
        """Everything that is needed to go on as if never interrupted."""
        tensors = {f"site/{name}": value for name, value in self.engine.state().items()}
        plain = []
        for number, federation in enumerate(self.federations):
            own, values = federation.state()
            tensors.update({f"{number}/{name}": value for name, value in own.items()})
            plain.append(values)
        return tensors, {"federations": plain}

    def load(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""
        self.engine.load(strip_prefix(tensors, "site/"))
        for number, (federation, own) in enumerate(
            zip(self.federations, values["federations"], strict=True)
        ):
            federation.load(strip_prefix(tensors, f"{number}/"), own)
