"""Hostile input: command lines, configurations, tables, preferences, agents."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import tomli_w
from safetensors.numpy import save

from comity.algorithms import algorithms
from comity.configuration import RUN_SETTINGS, Configuration
from comity.learners import LEARNERS
from comity.problems.own_table import Description
from comity.settings import describe
from tests.fuzz.harness import Call, mutated

TREASURE = [
    *("--clients", "2", "--rounds", "1", "--set", "dqn.local_steps=8"),
    *("--set", "dqn.learning_starts=2", "--set", "dqn.batch_size=2"),
]
"""Options that make work on deep-sea-treasure as short as can be."""
CREDIT = [
    *("german-credit-gender-dp", "--clients", "2", "--rounds", "1"),
    *("--set", "supervised.local_steps=2"),
]
"""A problem with data, and options that make work on it short."""
TABLE = "\n".join(
    ["age,sex,region,paid"]
    + [
        f"{20 + i % 50},{'fm'[i % 2]},{('south', 'north', 'north')[i % 3]},"
        f"{('no', 'no', 'yes', 'yes')[i % 4]}"
        for i in range(60)
    ]
)
PROBLEM = {"data": "people.csv", "label": "paid", "sensitive": ["sex"]}
RUN = {"clients": 2, "rounds": 1, "algorithm": "fedavg", "supervised": {"local_steps": 2}}

TEXTS = [
    *("", " ", "nan", "inf", "-inf", "1e400", "1e308", "-1", "0", "1", "0.5", "2", "true", "false"),
    *("2147483648", "99999999999999999999", "1e23", "[", "]", "[]", "{}", "[/b]", "[bold]", "none"),
    *("..", ".", "/", "../../escape", "a/b", "a:b", ":", ":a", "..:x", ".:x", "\u202e", "\x1b[31m"),
    *("a\nb", "x,y", ",", "=", "é" * 300, "dirichlet", "dirichlet:inf", "dirichlet:1e308", "same:"),
    *("dirichlet:0", "interior:1", "same:0.5,0.5", "same:nan,nan", "shared:1,1", "shared:0,2"),
    *("equidistant", "gaussian:1", "pathological:0", "pathological:9", "shards:-1", "natural"),
    *("70:10:20", "0:0:0", "nan:1:1", "extra:0", "extra:99999999999999999999", "confree"),
    *("fedavg", "fedpref", "'fedavg'", "fedavg[", "fedavg]", "fedavg[]", "fedavg[=]"),
    *("fedavg[[]]", "fedpref[top_r=nan]", "fedpref[clustering=false]", "--", "-", "--out"),
]
VALUES: list[Any] = [
    *(0, 1, -1, 2, 3, 2**31, 2**63 - 1, -(2**63), 0.0, 0.5, -0.0, 1.5, 1e-300, 1e300, 1e38),
    *(float("nan"), float("inf"), float("-inf"), True, False, "", "x", "nan", "[/b]", [], {}, [[]]),
    *([1, 2], [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], {"a": 1}, [1e300], ["a", "b"], "../x", "a\0b"),
]
_SIZES = ("hidden", "hyper_width", "width", "depth", "buffer_size", "window", "memory")
"""Settings that would take all memory where the machine has enough of it to try."""


@cache
def _names() -> list[str]:
    """Return the names of all settings, with their tables."""
    names = [*RUN_SETTINGS]
    for name, cls in algorithms().items():
        names += [f"{name}.{each.name}" for each in describe(cls)]
    for name, (_, settings) in LEARNERS.items():
        names += [f"{name}.{each.name}" for each in describe(settings)]
    return sorted(names)


COMMANDS = {
    "run": ["run", "deep-sea-treasure", *TREASURE, "--algorithm", "fedavg"],
    "run on data": ["run", *CREDIT, "--algorithm", "fedavg"],
    "compare": [
        *("compare", "deep-sea-treasure", *TREASURE, "--seeds", "1", "--algorithms", "fedavg")
    ],
    "search": [
        *("search", "deep-sea-treasure", *TREASURE, "--iterations", "1", "--candidates", "2"),
        "--no-control",
    ],
    "pretrain": ["pretrain", "pfedrlla", *CREDIT, "--out", "a"],
    "list": ["list", "problems"],
    "report": ["report", "r"],
    "describe": ["describe", "people.csv"],
}
COUNTS = ("0", "1", "2", "3", "-1", "1.5", "nan", "", "2147483648", "99999999999999999999", "1e3")
OPTIONS = {
    **dict.fromkeys(("--clients", "--rounds", "--seed", "--iterations", "--workers"), COUNTS),
    **dict.fromkeys(("--candidates", "--evaluations", "--seeds"), COUNTS),
    "--preferences": ("dirichlet:0", "dirichlet:1e308", "same:1,0", "same:2,-1", "shared:1,1", "x"),
    "--partition": ("dirichlet:1e308", "dirichlet:inf", "dirichlet:1e-300", "natural", "shards:1"),
    "--sizes": ("1,1", "1,0", "nan,1", "inf,1", "dirichlet:1e308", "dirichlet:inf", "1e308,1e308"),
    "--split-ratio": ("1:1:1", "0:1:1", "nan:1:1", "inf:1:1", "1:1", "1e308:1e308:1", "1:1:-1"),
    "--participation": ("0", "1", "nan", "inf", "-0.5", "1e-300", "1.0000001"),
    "--keep": ("best", "last", "both"),
    "--fine-tune": ("none", "replace-last", "extra:1", "extra:0", "extra:9999999999999999"),
    "--with": ("confree", "scaled-mean", "none", "nobody"),
    "--algorithms": ("fedavg,fedavg+ft", "fedavg[", "fedavg[]", "fedavg,fedavg", "fedavg+x", ","),
    "--generator": ("gap", "gap,random", "gap[", "annealing[x=1]", "random[seed=nan]"),
    "--names": ("a,b", "a,a", "a", "[/b],[b]", "1,0", "\x1b[2J,b", "../x,y"),
    "--out": ("o[/b]", "a/b", "x" * 300, "", ".", "\x1b[2J"),
    **dict.fromkeys(("--algorithm", "--config", "--preset", "--figures", "--nothing"), TEXTS),
}


def command_lines(seed: int) -> Iterator[Call]:
    """Yield commands with options and arguments that are wrong, odd or missing."""
    chance = random.Random(seed)
    while True:
        base = chance.choice([*("run", "run on data", "compare") * 3, *COMMANDS])
        arguments = list(COMMANDS[base])
        for _ in range(chance.choice((1, 1, 1, 2))):
            kind = chance.randrange(8)
            place = chance.randrange(len(arguments))
            if kind <= 2:
                option = chance.choice(list(OPTIONS))
                pool = TEXTS if chance.randrange(4) == 0 else OPTIONS[option]
                arguments += [option, chance.choice(pool)]
            elif kind <= 4:
                table, _, name = chance.choice(_names()).partition(".")
                if table in algorithms() and base.startswith("run"):
                    arguments += ["--algorithm", table]
                path = f"{table}.{name}" if name else table
                arguments += ["--set", f"{path}={chance.choice(TEXTS[:26])}"]
            elif kind == 5:
                arguments[place] = chance.choice(TEXTS)
            elif kind == 6:
                del arguments[place]
            else:
                arguments.insert(place, chance.choice(arguments))
        yield Call(arguments, {"people.csv": TABLE.encode()})


def configurations(seed: int) -> Iterator[Call]:
    """Yield configuration files with wrong values, wrong types, and no TOML at all."""
    chance = random.Random(seed)
    names = [name for name in _names() if not name.endswith(_SIZES)]
    fields = [*Description.model_fields]
    while True:
        values: dict[str, Any] = {**RUN, "problem": dict(PROBLEM)}
        value = chance.choice(VALUES)
        kind = chance.randrange(4)
        if kind == 0:
            values[chance.choice(list(Configuration.model_fields))] = value
        elif kind == 1:
            values["problem"][chance.choice(fields)] = value
        elif kind == 2:
            table, _, name = chance.choice(names).partition(".")
            if name and table in algorithms():
                values = {**values, "algorithm": table, table: {name: value}}
            elif table == "supervised":
                values[table] = {"local_steps": 2, name: value}
            else:
                values[table] = {name: value} if name else value
        text = tomli_w.dumps(values).encode()
        if kind == 3:
            deep = chance.choice((b"[" * 3000, b"{a=" * 3000, b"x=" + b"[" * 50 + b"]" * 50))
            text = chance.choice((mutated(chance, text), mutated(chance, text), b"x = " + deep))
        command = ["run", "--config", "c.toml"]
        if chance.randrange(5) == 0:
            command = ["compare", "--config", "c.toml", "--algorithms", "fedavg", "--seeds", "1"]
        yield Call([*command, "--workers", "1"], {"c.toml": text, "people.csv": TABLE.encode()})


CELLS = [
    *(
        "",
        " ",
        "?",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "1e400",
        "[/b]",
        "a[/b]",
        "<script>",
        '"',
        "'",
        ",",
    ),
    *(
        "\0",
        "\x1b[2J",
        "é",
        "\ud7ff",
        "0x10",
        "1_000",
        "1.000,5",
        "2020-13-45",
        "=1+1",
        "x" * 200_000,
    ),
    *("-0", "1e308", "99999999999999999999999999", "yes", "no", "maybe", "\u202e", ";", "\t", "|"),
]


def tables(seed: int) -> Iterator[Call]:
    """Yield tables with odd cells, headers and bytes, some of them used as they are."""
    chance = random.Random(seed)
    settings = [
        {}, {"missing": "drop"}, {"missing": "category"}, {"client": "region"},
        {"sensitive": {"years": {"column": "age", "groups": {"young": "< 40", "old": "*"}}}},
        {"sensitive": {"years": {"column": "age", "groups": {"x": 3, "y": "*"}}}},
        {"features": ["age"]}, {"sensitive_inputs": True}, {"label": "sex", "sensitive": ["paid"]},
    ]  # fmt: skip
    while True:
        rows = [line.split(",") for line in TABLE.split("\n")]
        kind = chance.randrange(4)
        problem = {**PROBLEM, **chance.choice(settings)}
        if kind == 0:  # a cell of a row, or a whole column of it
            column, cell = chance.randrange(4), chance.choice(CELLS)
            first = chance.randrange(1, len(rows))
            for row in rows[first : chance.choice((first + 1, len(rows)))]:
                row[column] = cell
        elif kind == 1:  # a name of a column, in the file and in the configuration
            column, cell = chance.randrange(4), chance.choice(CELLS[:-1])
            name, rows[0][column] = rows[0][column], cell
            text = json.dumps(problem).replace(json.dumps(name), json.dumps(cell))
            problem = json.loads(text) if chance.randrange(2) else problem
        elif kind == 2:
            row = chance.choice(rows)
            chance.choice((row.pop, lambda: row.append("more"), row.clear))()  # noqa: B023
        content = "\n".join(",".join(row) for row in rows).encode(errors="replace")
        if kind == 3:
            content = mutated(chance, content)
        text = tomli_w.dumps({**RUN, "problem": problem}).encode()
        command = ["run", "--config", "c.toml", "--workers", "1"]
        if chance.randrange(6) == 0:
            command = ["describe", "people.csv"]
        yield Call(command, {"c.toml": text, "people.csv": content})


def preferences(seed: int) -> Iterator[Call]:
    """Yield specifications and files of preferences."""
    chance = random.Random(seed)
    while True:
        files, text = {}, chance.choice(TEXTS)
        if chance.randrange(2):
            text = "p.csv"
            cells = [[chance.choice([*CELLS, "0.5", "0.5", "0.5"]) for _ in "ab"] for _ in "ab"]
            files[text] = "\n".join(",".join(row) for row in cells).encode(errors="replace")
        yield Call(
            ["run", "deep-sea-treasure", *TREASURE, "--algorithm", "fedavg", "--preferences", text],
            files,
        )


def agents(seed: int, whole: bytes) -> Iterator[Call]:
    """Yield agent files whose header or arrays are wrong, and damaged ones.

    Args:
        seed: Of the choices.
        whole: The content of an agent file that is as it should be.
    """
    chance = random.Random(seed)
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(json.loads(whole[8 : 8 + length])["__metadata__"]["comity"])
    while True:
        kind = chance.randrange(3)
        if kind == 0:
            content = mutated(chance, whole)
        elif kind == 1:  # a file as another program might write it, without a checksum
            values = {k: v for k, v in header.items() if k != "sha256"}
            values[chance.choice(list(values))] = chance.choice(VALUES)
            if chance.randrange(2):
                values.pop(chance.choice(list(values)))
            text = json.dumps(chance.choice((values, values, [values], 3, None, "x")))
            arrays = {chance.choice(("a", "agent.x", "encoder.x")): np.zeros(3)}
            content = save(arrays, metadata={"comity": text})
        else:
            swapped = whole.replace(b'"F32"', chance.choice((b'"F16"', b'"BF16"', b'"I32"')), 1)
            content = swapped[:8] + swapped[8:]
        yield Call(
            [
                *("run", *CREDIT, "--algorithm", "pfedrlla"),
                *("--set", "pfedrlla.agent=agent.safetensors"),
            ],
            {"agent.safetensors": content},
        )
