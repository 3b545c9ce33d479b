"""A thousand clients and a thousand rounds: what is sent stays below 5 MB."""

from __future__ import annotations

import json

import numpy as np

from comity.configuration import configure
from comity.core.storage import write_whole
from comity.explore.assets import files
from comity.explore.items import Shelf
from comity.explore.run_document import RunView
from comity.runs.directory import Run
from comity.runs.results import summarise

CLIENTS, ROUNDS = 1000, 1000


def test_a_large_run_is_sent_in_less_than_five_megabytes(tmp_path):
    values = {"problem": "deep-sea-treasure", "clients": CLIENTS, "rounds": ROUNDS}
    run = Run.create(tmp_path / "large", configure(values))
    draw = np.random.default_rng(1)
    numbers = json.dumps(list(range(CLIENTS)))
    lines = []
    for number in range(1, ROUNDS + 1):
        vectors = draw.normal(size=(CLIENTS, 2)).round(4).tolist()
        text = json.dumps(vectors)
        lines.append(
            f'{{"round": {number}, "clients": {numbers}, "steps": {numbers}, '
            f'"validation_steps": {numbers}, "skipped": {numbers}, "received": {text}, '
            f'"trained": {text}, "kept": {text}, "declined": {json.dumps([False] * CLIENTS)}, '
            f'"clusters": null, "chosen": false, "conflict": null, "mixing": null, '
            f'"bytes_up": 1, "bytes_down": 2, "events": ["event of {number}"]}}\n'
        )
    write_whole(run.path / "history.jsonl", "".join(lines).encode())
    final = np.abs(draw.normal(size=(CLIENTS, 2)))
    short = [json.loads(lines[-1])]
    run.save_results(summarise(run.configuration, final, final, short), 1.0)
    (item,) = Shelf([run.path]).items()
    document = RunView(item).document()
    size = len(json.dumps(document)) + sum(len(file.content) for file in files().values())
    assert size < 5_000_000
    assert len(document["history"]["mean"]["kept"]) == ROUNDS
    assert any("150 of 1,000 rounds" in sentence for sentence in document["sampled"])
    assert any("not recorded" in sentence for sentence in document["sampled"])
    assert document["clients"]["number"] == list(range(CLIENTS))
