"""Federations of real processes over gRPC on this machine: kills at random moments, and costs.

    python -m benchmarks.deployment --kills 50
    python -m benchmarks.deployment --sites 2,10,30

*Kills*: each run kills one party, a site or the server, with ``kill -9`` at a random moment, and
starts the same command again. At the end the models of all sites are compared with those of the
simulation, bit for bit; if a site was absent, with the simulation that has the same absences.

*Costs*: seconds per round, CPU seconds per round of all parties (the difference of a long and a
short run, so that starting does not count) and the memory of a site's process, beside the embedded
engine. Times are those of a machine that may have other work: the load is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.parties import Parties, banks, equal, simulation
from comity.runs.directory import Run
from comity.runs.serve import absences

# -- kills ---------------------------------------------------------------------------------


ROUNDS = 6


def killed(home: Path, seed: int) -> dict[str, Any]:
    """Run the banks with one kill at a random moment; return what happened.

    Args:
        home: Directory for everything; it must not exist.
        seed: Decides who is killed, and when: after some round, a share of a round's time later.
    """
    dice = random.Random(seed)
    file = banks(home, sites=3, rounds=ROUNDS, seed=1)
    victim, after = dice.choice(["server", *file.names]), dice.randrange(ROUNDS + 1)
    share = dice.random()
    began = time.monotonic()
    with Parties(file) as parties:
        parties.start()
        while parties.rounds() < after:
            time.sleep(0.002)
        time.sleep(share * (time.monotonic() - began) / after if after else share)
        moment, done = time.monotonic() - began, parties.rounds()
        hit = parties.kill(victim)
        if victim == "server" and (home / "server" / "results.json").is_file():
            hit = False  # the federation was over, only the process was not
        if hit:
            parties.start(victim)
        codes = parties.wait()
    seconds = time.monotonic() - began
    absent = absences(Run.open(home / "server"))
    return {
        "seed": seed, "killed": victim if hit else f"({victim}: over)", "done": done,
        "after": moment, "seconds": seconds, "codes": codes, "absences": absent, "file": file,
    }  # fmt: skip


def kills(home: Path, seeds: int) -> bool:
    """Print one row per killed run; return whether all ended with the simulation's bits."""
    with Parties(banks(home / "plain", sites=3, rounds=ROUNDS, seed=1)) as parties:
        began = time.monotonic()
        parties.start()
        parties.wait()
        seconds = time.monotonic() - began
        kept, last, _ = simulation(parties.file)
        good = equal(parties.file, kept, last)
    print(f"without kills: {seconds:.1f} s, {_verdict(good)} the simulation. {_load()}\n")
    print("| seed | killed | rounds done | after s | took s | absences | bits |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | --- |")
    same = hits = 0
    for seed in range(seeds):
        outcome = killed(home / f"seed-{seed}", seed)
        file, absent = outcome["file"], outcome["absences"]
        models = simulation(file, absences=absent) if absent else (kept, last, 0.0)
        fine = equal(file, *models[:2]) and not any(outcome["codes"].values())
        same += fine
        hits += "(" not in outcome["killed"]
        print(
            f"| {seed} | {outcome['killed']} | {outcome['done']} | {outcome['after']:.1f} | "
            f"{outcome['seconds']:.1f} | {len(absent)} | {_verdict(fine)} |",
            flush=True,
        )
        if fine:
            shutil.rmtree(home / f"seed-{seed}")
    print(f"\n{same} of {seeds} runs ended with equal bits; {hits} kills met a process at work.")
    return good and same == seeds


def _verdict(good: bool) -> str:
    return "equal to" if good else "NOT equal to"


def _load() -> str:
    return f"Load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores."


# -- costs ---------------------------------------------------------------------------------

SHORT, LONG = 2, 12  # rounds of the two runs whose difference counts


def costs(home: Path, counts: list[int]) -> None:
    """Print seconds and CPU per round and memory per process, per number of sites."""
    print("| sites | s per round | CPU s per round | MB per site | embedded, s per round | load |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for count in counts:
        cpu, seconds, memory, embedded = {}, {}, 0.0, {}
        for rounds in (SHORT, LONG):
            file = banks(home / f"{count}-{rounds}", count, rounds, seed=1)
            with Parties(file) as parties:
                parties.start()
                parties.wait()
                usages = [parties.usage(party) for party in parties.commands]
            cpu[rounds] = sum(usage["cpu"] for usage in usages)
            memory = max(usage["memory"] for usage in usages[1:]) / 1e6
            seconds[rounds] = json.loads((file.path.parent / "server/timing.json").read_text())
            embedded[rounds] = simulation(file)[2]
        rounds = LONG - SHORT
        wall = (seconds[LONG]["seconds"] - seconds[SHORT]["seconds"]) / rounds
        print(
            f"| {count} | {wall:.2f} | {(cpu[LONG] - cpu[SHORT]) / rounds:.2f} | {memory:.0f} | "
            f"{(embedded[LONG] - embedded[SHORT]) / rounds:.2f} | {os.getloadavg()[0]:.0f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=0, help="runs with one kill each")
    parser.add_argument("--sites", default="", help="numbers of sites, e.g. 2,10,30")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="comity-deployment-") as directory:
        if arguments.sites:
            costs(Path(directory), [int(count) for count in arguments.sites.split(",")])
        if arguments.kills:
            sys.exit(0 if kills(Path(directory), arguments.kills) else 1)


if __name__ == "__main__":
    main()
