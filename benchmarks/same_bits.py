"""Prove that a refactoring changes no bit: run small configurations with two source trees.

    python -m benchmarks.same_bits OLD [--only NAME,NAME] [--out DIR]

OLD is a git revision of this repository or a directory with another checkout; the new tree is the
one that holds this file. Both use the same environment. Every configuration runs through the
command line of both trees, and everything they wrote is compared:

*Results*: the JSON and CSV files, byte by byte, without times and without `communication`.
*Models*: every tensor of every safetensors file (models, spans, agents), bit by bit.
*History*: every field of every line; the table names the fields that differ.
*Communication*: the values of `communication` in the results.

Some runs are killed after their first checkpoints and resumed. A resumed run of one tree is
compared with the uninterrupted run of the other tree.

The exit status is 1 if results or models differ anywhere, or if a command fails. Differences in
history and communication are only shown, because a change may mean to send less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parents[1]
"""The checkout that holds this file."""

# -- what runs -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Commands that run one after the other in a directory of their own."""

    name: str
    commands: tuple[str, ...]
    killed: bool = False
    """Whether the first command, a run, is also killed and resumed in another directory."""


_DQN = "--set dqn.learning_starts=16 --set dqn.batch_size=16"
_DDPG = "--set ddpg.learning_starts=20 --set ddpg.batch_size=16 --set ddpg.local_steps=60"
_STEPS = "--set supervised.local_steps=4"
_CLASSES = f"--clients 4 --partition pathological:3 {_STEPS}"
_OTHERS = (
    "fedcmoo[keep=best,keep_scope=federation,evaluate_every=2],praffl[keep=best],"
    "no-communication,fedavg,fedavg+confree,fedprox+ft,fedmgda-plus,fedcmoo-pref,fedfb,"
    "fairfed,lft-fedavg,lft-ensemble,agnostic-fair-pooled,apfl,fedala,fedrod,fedcp,fedphp,"
    "fedamp,fedbabu"
)

CASES = (
    Case(
        "treasure-fedpref",  # an environment with discrete actions, clusters that split, a guard
        (
            f"run deep-sea-treasure --algorithm fedpref --clients 4 --rounds 8 {_DQN} --guard "
            "--keep last --set dqn.local_steps=96 --set fedpref.threshold=100% "
            "--set fedpref.patience=3 --out run",
        ),
        killed=True,
    ),
    Case(
        "treasure-cfl",  # no mixing in the last round, target networks that travel
        (
            f"run deep-sea-treasure --algorithm cfl --clients 4 --rounds 4 {_DQN} --keep last "
            "--fine-tune replace-last --set dqn.local_steps=64 --set dqn.average_targets=true "
            "--set cfl.threshold=100.0 --set cfl.patience=1 --out run",
        ),
    ),
    Case(
        "treasure-search",  # with its control
        (
            f"search deep-sea-treasure --iterations 2 --candidates 2 --clients 2 --rounds 3 {_DQN} "
            "--generator gap --warm-start --workers 1 --set dqn.local_steps=64 --out run",
        ),
    ),
    Case(
        "lander-fedprox",  # an environment with continuous actions, absent clients
        (
            f"run lunar-lander-continuous --algorithm fedprox --clients 3 --rounds 3 {_DDPG} "
            "--keep last --participation 0.7 --fine-tune extra:1 --set test_episodes=1 "
            "--set validation_episodes=1 --out run",
        ),
    ),
    Case(
        "table-fedpref",  # a table and preferences from files, clients by column, two processes
        (
            f"run --config own.toml --preferences wishes.csv --clients 3 --rounds 3 {_STEPS} "
            "--keep last --partition natural --fine-tune extra:1 --workers 2 --set chunk=2 "
            "--set supervised.scalarisation=smooth-tchebycheff --out run",
        ),
    ),
    Case(
        "german-compare",  # surveys, a copy per objective, models that take any preference
        (
            f"compare german-credit-gender-age-dp --clients 4 --sizes 4,3,2,1 --rounds 4 {_STEPS} "
            "--algorithms fedcmoo,praffl,fsmgda[participation=0.5,guard=true] --seeds 1 "
            "--keep last --workers 1 --out run",
        ),
    ),
    Case(
        "people-compare",  # one round for all whose models are kept; all other algorithms
        (
            f"compare praffl-synthetic --algorithms {_OTHERS} --seeds 1 --clients 3 --rounds 3 "
            f"{_STEPS} --keep last --workers 1 --out run",
        ),
    ),
    Case(
        "usps-compare",  # pictures, private models, the wrapper, statistics, models of others
        (
            f"compare usps-mlp --rounds 4 {_CLASSES} --algorithms fedpac,fedfomo,matfl[guard=true],"
            "ditto+confree[participation=0.5,evaluate_every=2,keep=best] --keep last --seeds 1 "
            "--workers 1 --out run",
        ),
    ),
    Case(
        "usps-fedrep",  # the wrapper, convolutions, which are trained client by client
        (
            f"run usps --algorithm fedrep --with confree --rounds 3 {_CLASSES} --keep last "
            "--out run",
        ),
    ),
    Case(
        "usps-pfedrlla",  # an agent on the server, and a file of it
        (
            f"run usps-mlp --algorithm pfedrlla --rounds 8 {_CLASSES} --participation 0.75 "
            "--keep last --set pfedrlla.every=1 --set pfedrlla.warmup=2 --out run",
            "pretrain pfedrlla --from run --out agent.safetensors",
        ),
        killed=True,
    ),
)

_OWN = """
algorithm = "fedpref"
[problem]
data = "loans.csv"
label = "repaid"
sensitive = ["sex"]
client = "branch"
"""


def lay_out(folder: Path) -> None:
    """Make a directory with the files that commands read."""
    folder.mkdir(parents=True)
    (folder / "own.toml").write_text(_OWN)
    (folder / "wishes.csv").write_text("0.9,0.1\n0.5,0.5\n0.2,0.8\n")
    draw = random.Random(1)
    rows = ["branch,sex,age,income,repaid"]
    for _ in range(300):
        sex, income = draw.choice("fm"), draw.gauss(30, 8)
        repaid = "yes" if income + 4 * (sex == "m") + draw.gauss(0, 5) > 32 else "no"
        branch = draw.choice(["north", "south", "west"])
        rows.append(f"{branch},{sex},{draw.randint(18, 80)},{income:.1f},{repaid}")
    (folder / "loans.csv").write_text("\n".join(rows) + "\n")


# -- running it ----------------------------------------------------------------------------

_FIND = "import importlib.util as u; print(u.find_spec('comity').origin)"
_HASTY = (
    "import time; clock = time.monotonic; time.monotonic = lambda: 1e4 * clock();"
    "from comity.cli import main; main()"
)
"""The command line with a clock that runs so fast that every round ends with a checkpoint."""


class CommandError(Exception):
    """A command did not do what it is there for."""


@dataclass(frozen=True)
class Side:
    """A source tree, and the directory in which its command line works."""

    name: str
    tree: Path
    home: Path

    def check(self) -> None:
        """Make sure that this tree is what Python imports."""
        call = [sys.executable, "-c", _FIND]
        done = subprocess.run(call, env=self._environment(), capture_output=True, text=True)
        if not Path(done.stdout.strip()).is_relative_to(self.tree):
            sys.exit(f"{self.name}: {self.tree} has no src/comity that Python would import")

    def carry_out(self, case: Case) -> None:
        """Run a case to its end; where it asks for that, once more with an interruption."""
        folder = self.home / case.name
        lay_out(folder)
        self._call(folder, *case.commands)
        if case.killed:
            folder = self.home / resumed(case)
            lay_out(folder)
            self._kill(folder, case.commands[0])
            self._call(folder, "resume run")

    def _call(self, folder: Path, *commands: str) -> None:
        for command in commands:
            process = self._start(folder, ["-m", "comity.cli", *shlex.split(command)])
            if process.wait() != 0:
                raise CommandError(self._failure(folder, command))

    def _kill(self, folder: Path, command: str) -> None:
        """Start a run, and kill it and its workers after two rounds and a checkpoint."""
        process = self._start(folder, ["-c", _HASTY, *shlex.split(command)], alone=True)
        run = folder / "run"
        while process.poll() is None and not _is_under_way(run):
            time.sleep(0.01)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not _is_under_way(run) or (run / "results.json").exists():
            raise CommandError(self._failure(folder, f"{command} (to be killed half-way)"))

    def _start(
        self, folder: Path, arguments: list[str], alone: bool = False
    ) -> subprocess.Popen[bytes]:
        with (folder / "log.txt").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments],
                cwd=folder,
                env=self._environment(),
                stdout=log,
                stderr=log,
                start_new_session=alone,
            )

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.tree / "src")}

    def _failure(self, folder: Path, command: str) -> str:
        log = (folder / "log.txt").read_text(errors="replace").splitlines()
        return "\n    ".join([f"{self.name} failed: comity {command}", *log[-5:]])


def resumed(case: Case) -> str:
    """Return the name of the directory of what was killed and resumed."""
    return f"{case.name}-resumed"


def _is_under_way(run: Path) -> bool:
    """Return whether a run has two rounds and a checkpoint."""
    history = run / "history.jsonl"
    saved = (run / "checkpoint.safetensors").is_file()
    return saved and history.is_file() and history.read_bytes().count(b"\n") >= 2


# -- comparing what was written ------------------------------------------------------------

Parts = dict[str, Any]
"""Values that can be compared and hashed, by file and place in it."""


@dataclass(frozen=True)
class Written:
    """Files that the commands of a case wrote."""

    results: Parts
    models: Parts
    history: Parts
    communication: Parts


def read(folder: Path) -> Written:
    """Return everything in a directory that must not depend on the source tree."""
    written = Written({}, {}, {}, {})
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".csv":
            written.results[name] = path.read_bytes()
        elif path.suffix == ".json" and path.name != "timing.json":
            taken: list[Any] = []
            written.results[name] = json.dumps(_without_communication(_json(path), taken))
            written.communication[name] = json.dumps(taken)
        elif path.suffix == ".safetensors" and path.name != "checkpoint.safetensors":
            written.models.update(_tensors(path, name))
        elif path.suffix == ".jsonl":
            written.history.update(_lines(path, name))
    if not (written.communication and written.models and written.history):
        raise CommandError(f"{folder}: results, models or history are missing")
    return written


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def _without_communication(value: Any, taken: list[Any]) -> Any:
    """Return a value without all that is called communication, which is added to ``taken``."""
    if isinstance(value, dict):
        taken += [inner for name, inner in value.items() if name == "communication"]
        rest = {name: inner for name, inner in value.items() if name != "communication"}
        return {name: _without_communication(inner, taken) for name, inner in rest.items()}
    if isinstance(value, list):
        return [_without_communication(inner, taken) for inner in value]
    return value


def _tensors(path: Path, name: str) -> Parts:
    tensors = load_file(path)
    return {f"{name}: {key}": (t.dtype.str, t.shape, t.tobytes()) for key, t in tensors.items()}


def _lines(path: Path, name: str) -> Parts:
    return {
        f"{name}: line {number}: {field}": json.dumps(value, sort_keys=True)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for field, value in json.loads(line).items()
    }


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the names of parts that are not the same, or not there, on one side."""
    return sorted({name for name, _ in old.items() ^ new.items()})


@dataclass(frozen=True)
class Row:
    """Outcome of one comparison: names of differing parts per column."""

    name: str
    different: dict[str, list[str]]
    tensors: int = 0
    failure: str = ""

    @property
    def same(self) -> bool:
        return not (self.failure or self.different["results"] or self.different["models"])

    def cells(self) -> list[str]:
        """Return one cell per column."""
        if self.failure:
            return ["failed"] * 4
        results, models, history, communication = self.different.values()
        names = sorted({name.rpartition(": ")[2] for name in history})
        return [
            f"{len(results)} different" if results else "equal",
            f"{len(models)} of {self.tensors} different" if models else f"equal ({self.tensors})",
            f"different: {', '.join(names)}" if names else "equal",
            "different" if communication else "equal",
        ]


def compared(name: str, old: Path, new: Path) -> Row:
    """Return a row of the table: in what two directories differ."""
    first, second = read(old), read(new)
    columns = [field.name for field in fields(Written)]
    different = {c: differing(getattr(first, c), getattr(second, c)) for c in columns}
    return Row(name, different, tensors=len(first.models.keys() | second.models.keys()))


def judged(case: Case, old: Side, new: Side) -> list[Row]:
    """Carry out a case on both sides, at the same time, and compare."""
    try:
        with ThreadPoolExecutor(2) as both:
            list(both.map(lambda side: side.carry_out(case), (old, new)))
        whole, again = case.name, resumed(case)
        rows = [compared(whole, old.home / whole, new.home / whole)]
        if case.killed:
            for name, first, second in (("new", whole, again), ("old", again, whole)):
                runs = old.home / first / "run", new.home / second / "run"
                rows.append(compared(f"{whole}, {name} resumed", *runs))
        return rows
    except CommandError as failure:
        return [Row(case.name, {}, failure=str(failure))]


# -- the command ---------------------------------------------------------------------------


@contextmanager
def checkout(old: str, folder: Path) -> Iterator[Path]:
    """Yield the old tree: a directory as it is, a revision as a worktree, removed at the end."""
    if Path(old).is_dir():
        yield Path(old).resolve()
        return
    tree = folder.resolve() / "tree"
    git = ["git", "-C", str(ROOT), "worktree"]
    added = subprocess.run([*git, "add", "--quiet", "--detach", str(tree), old])
    if added.returncode != 0:
        sys.exit(f"{old} is neither a directory nor a revision of this repository")
    try:
        yield tree
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def judge_all(cases: list[Case], old: Side, new: Side) -> list[Row]:
    """Return all rows of the table; print a line of progress per case."""
    rows: list[Row] = []
    for number, case in enumerate(cases, start=1):
        started = time.monotonic()
        outcome = judged(case, old, new)
        verdict = "same bits" if all(row.same for row in outcome) else "NOT THE SAME"
        seconds = time.monotonic() - started
        print(f"[{number}/{len(cases)}] {case.name}: {verdict}, {seconds:.0f} s", flush=True)
        rows += outcome
    return rows


def show(rows: list[Row]) -> None:
    """Print the table, then failures and what differs by name."""
    table = Table()
    for heading in ("configuration", "results", "models (tensors)", "history", "communication"):
        table.add_column(heading)
    for row in rows:
        table.add_row(row.name, *row.cells())
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for row in rows:
        if row.failure:
            print(f"{row.name}: {row.failure}")
        for column, names in row.different.items():
            for first, count in _by_folder(names).values():
                print(f"{row.name}: {column}: {first}{f' and {count - 1} more' * (count > 1)}")


def _by_folder(names: list[str]) -> dict[Path, tuple[str, int]]:
    """Return the first of the names in each directory, and how many there are."""
    folders: dict[Path, tuple[str, int]] = {}
    for name in names:
        folder = Path(name.partition(": ")[0]).parent
        first, count = folders.get(folder, (name, 0))
        folders[folder] = first, count + 1
    return folders


def chosen(names: str | None, parser: argparse.ArgumentParser) -> list[Case]:
    """Return the cases that ``--only`` names, or all."""
    known = {case.name: case for case in CASES}
    wanted = list(known) if names is None else names.split(",")
    if unknown := [name for name in wanted if name not in known]:
        parser.error(f"--only: unknown {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="a git revision, or a directory with another checkout")
    parser.add_argument("--only", metavar="NAME", help="some configurations, separated by commas")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep there what both sides write")
    options = parser.parse_args()
    cases = chosen(options.only, parser)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the worktree is removed
    with (
        tempfile.TemporaryDirectory() as temporary,
        checkout(options.old, Path(temporary)) as tree,
    ):
        home = (options.out or Path(temporary)).resolve()
        old, new = Side("old", tree, home / "old"), Side("new", ROOT, home / "new")
        for side in (old, new):
            side.check()
        rows = judge_all(cases, old, new)
    show(rows)
    sys.exit(0 if all(row.same for row in rows) else 1)


if __name__ == "__main__":
    main()
