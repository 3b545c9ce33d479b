"""Partition: the rows of each client, and which of them are for training, validation and test.

Rows are kept apart by stratum (the same label, the same attribute values). A rule distributes the
rows of each stratum among the clients (``naive``: all rows alike); every client's rows are then
split into its three parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from comity.core.rng import stream
from comity.core.typing import BoolArray, FloatArray, IntArray
from comity.datasets.apportionment import PARTS, apportion, distribute, divide
from comity.errors import UserError

SPLIT = "70:10:20"
"""Default parts of a client's rows for training, validation and test."""
LARGEST = 1e12
"""Largest number in a rule; far larger ones overflow."""
ATTEMPTS = 1000
"""Draws of a capped Dirichlet partition before it counts as impossible."""
LEAST = 40
"""Rows that a capped Dirichlet partition leaves each client (half of a fair share if less)."""


@dataclass(frozen=True)
class PartitionSpec:
    """Number of clients, seed, and the rules that distribute rows among the clients."""

    clients: int
    seed: int
    partition: str = "stratified"
    """Rule: stratified, naive, dirichlet:ALPHA, pathological:S, shards:S or natural."""
    sizes: str = "equal"
    """Sizes of the clients: equal, dirichlet:BETA or relative sizes like 3,2,1."""
    split: str = SPLIT
    """Parts of a client's rows for training, validation and test, e.g. 70:10:20."""

    @property
    def rule(self) -> str:
        """Name of the rule, without its argument."""
        return self.partition.partition(":")[0]

    @property
    def argument(self) -> str:
        """Text after the rule's colon."""
        return self.partition.partition(":")[2]

    @property
    def fractions(self) -> FloatArray:
        """Shares of a client's rows for training, validation and test, which sum to one."""
        where, parts = f"split_ratio: '{self.split}'", self.split.split(":")
        if len(parts) != PARTS:
            raise UserError(
                f"{where} must have numbers for training, validation and test, e.g. {SPLIT}."
            )
        numbers = [_positive(part, where) for part in parts]
        validation, test = (number / sum(numbers) for number in numbers[1:])
        return np.array([1 - test - validation, validation, test])


@dataclass(frozen=True)
class ClientRows:
    """Rows of one client by their use, sorted."""

    train: IntArray
    validation: IntArray
    test: IntArray


@dataclass(frozen=True)
class Strata:
    """Strata and silos of rows: the input of a partition."""

    strata: IntArray
    """Stratum of each row, e.g. of its label and attribute values."""
    needed: Mapping[int, Collection[int]] = field(default_factory=dict)
    """Strata of which every client gets rows for each of its parts.

    Other strata may be absent anywhere. Each needed stratum maps to all strata that serve as well:
    where silos are clients, rows stay where they are, and any of those strata meets the need.
    """
    stratum_names: Mapping[int, str] = field(default_factory=dict)
    """Names of strata for messages; others go by their number."""
    silos: IntArray | None = None
    """Silo of each row, an index into ``silo_names``, where the data name silos."""
    silo_names: Sequence[str] = ()


def partition_rows(
    strata: Strata, spec: PartitionSpec, *, capped: bool = False
) -> list[ClientRows]:
    """Distribute rows among clients, and each client's rows among training, validation and test.

    Args:
        strata: Strata, needs and silos of the rows.
        spec: Number of clients, seed, rules, and split.
        capped: Whether ``dirichlet:ALPHA`` is PFLlib's rule (see `_capped_dirichlet`).
    """
    if spec.clients < 1:
        raise UserError(f"clients: there must be at least one, got {spec.clients}.")
    fractions = spec.fractions
    pool = _Pool(strata, spec)
    for stratum in strata.needed:
        if stratum not in pool.kinds:
            name = pool.name(stratum)
            raise UserError(f"partition: no row is '{name}', but every client needs some.")
    holdings = _rule(spec, capped)(pool)
    return [
        ClientRows(*divide(f"client {client}", rows, pool.index, pool.members, fractions))
        for client, rows in enumerate(holdings)
    ]


def fingerprint(partition: Sequence[ClientRows]) -> str:
    """Return a SHA-256 that is equal where all clients use the same rows for the same purposes."""
    digest = hashlib.sha256()
    for client in partition:
        for rows in (client.train, client.validation, client.test):
            digest.update(len(rows).to_bytes(8, "little") + rows.astype("<i8").tobytes())
    return digest.hexdigest()


class _Pool:
    """Rows to be distributed, in random order."""

    def __init__(self, strata: Strata, spec: PartitionSpec) -> None:
        self.strata, self.spec = strata, spec
        self.kinds, self.index = np.unique(strata.strata, return_inverse=True)
        self.totals: IntArray = np.bincount(self.index)
        self.order = stream(spec.seed, "partition", 1).permutation(len(strata.strata))

    def name(self, stratum: int) -> str:
        return self.strata.stratum_names.get(stratum, str(stratum))

    @cached_property
    def members(self) -> dict[str, BoolArray]:
        """Which rows meet each need, by the need's name."""
        return {
            self.name(stratum): np.isin(self.strata.strata, list(serving))
            for stratum, serving in self.strata.needed.items()
        }

    @cached_property
    def sizes(self) -> FloatArray:
        """Each client's share of the rows."""
        return _sizes(self.spec)

    def distribute(self, counts: IntArray) -> list[IntArray]:
        """Return each client's rows, given their numbers (strata x clients)."""
        return distribute(self.order, self.index, counts)


Rule = Callable[[_Pool], list[IntArray]]
"""Rule that gives each client its rows."""


def _rule(spec: PartitionSpec, capped: bool) -> Rule:
    plain: dict[str, Rule] = {"stratified": _stratified, "naive": _naive, "natural": _natural}
    with_argument: dict[str, Rule] = {
        "dirichlet": _capped_dirichlet if capped else _dirichlet,
        "pathological": _pathological,
        "shards": _shards,
    }
    rule = plain.get(spec.partition) or with_argument.get(spec.rule)
    if rule is None:
        now = " It is now called stratified; naive distributes rows at random."
        hint = now if spec.partition == "iid" else ""
        raise UserError(
            f"partition: '{spec.partition}' is not one of stratified, naive, dirichlet:ALPHA, "
            f"pathological:S, shards:S or natural.{hint}"
        )
    return rule


# -- rules that give every client rows of every needed stratum -----------------------------


def _stratified(pool: _Pool) -> list[IntArray]:
    """Give every client the same mixture."""
    return _weighted(pool, np.tile(pool.sizes, (len(pool.kinds), 1)))


def _dirichlet(pool: _Pool) -> list[IntArray]:
    """Draw the clients' shares of each stratum from Dirichlet(ALPHA)."""
    sizes = pool.sizes
    alpha = _positive(pool.spec.argument, f"partition: '{pool.spec.partition}'")
    generator = stream(pool.spec.seed, "partition", 2)
    draws = generator.dirichlet([alpha] * len(sizes), size=len(pool.kinds))
    weights = np.maximum(draws * sizes, 1e-300)  # a row of zeros could not be divided
    return _weighted(pool, np.asarray(weights / weights.sum(axis=1, keepdims=True)))


def _weighted(pool: _Pool, weights: FloatArray) -> list[IntArray]:
    """Give clients their shares (strata x clients) of each stratum, and what they need."""
    clients, partition = pool.spec.clients, pool.spec.partition
    needed = np.isin(pool.kinds, list(pool.strata.needed))
    for stratum, total in zip(pool.kinds[needed], pool.totals[needed], strict=True):
        most = total // PARTS
        if most < clients:
            raise UserError(
                f"partition '{partition}': the largest cell of '{pool.name(int(stratum))}' has "
                f"{total} rows, too few for {clients} clients that need {PARTS} each (to "
                "train, validate and test); "
                f"{f'have at most {most} clients, or ' if most else ''}form larger groups."
            )
    return pool.distribute(apportion(weights * pool.totals[:, None], np.where(needed, PARTS, 0)))


def _naive(pool: _Pool) -> list[IntArray]:
    """Cut all rows, in random order, into the clients' shares, whatever their strata."""
    counts = apportion(pool.sizes[None] * len(pool.order), np.zeros(1, dtype=np.int64))[0]
    holdings = np.split(pool.order, np.cumsum(counts)[:-1])
    for client, rows in enumerate(holdings):
        for name, member in pool.members.items():
            if (count := int(member[rows].sum())) < PARTS:
                raise UserError(
                    f"partition 'naive': client {client} gets {count} rows of '{name}', but needs "
                    f"{PARTS} (to train, validate and test); have fewer clients, another seed, or "
                    "partition 'stratified'."
                )
    return holdings


def _natural(pool: _Pool) -> list[IntArray]:
    """Make every silo a client."""
    strata, spec = pool.strata, pool.spec
    if strata.silos is None:
        raise UserError(
            "partition 'natural': the data does not say which silo a row comes from; name the "
            "column that does (client = …), or use 'stratified' or 'dirichlet:ALPHA'."
        )
    names = strata.silo_names
    if spec.clients != len(names):
        raise UserError(
            f"partition 'natural': the data has {len(names)} silos ({', '.join(names)}), "
            f"one per client, so say clients = {len(names)} instead of {spec.clients}."
        )
    if spec.sizes != "equal":
        raise UserError(
            f"sizes: '{spec.sizes}' does not go with partition 'natural', where silos are as large "
            "as they are."
        )
    for client, silo in enumerate(names):
        for stratum, serving in strata.needed.items():
            member = np.isin(strata.strata, list(serving))
            count = int(((strata.silos == client) & member).sum())
            if count < PARTS:
                raise UserError(
                    f"partition 'natural': client {client} ({silo}) has {count} rows of "
                    f"'{pool.name(stratum)}', but needs {PARTS} (to train, validate and test); "
                    "leave this silo out of the data, use partition 'stratified' or "
                    "'dirichlet:ALPHA', or form larger groups."
                )
    holder = strata.silos[pool.order]
    return [pool.order[holder == client] for client in range(spec.clients)]


# -- rules of the literature for classes, which a client may lack --------------------------


def _pathological(pool: _Pool) -> list[IntArray]:
    """Distribute blocks of classes by PFLlib's pathological rule, in which nothing is drawn.

    Class by class, the first ⌈N·S/K⌉ clients that have fewer than S classes share it, so clients
    come in blocks with the same classes. Classes that are left in the end go to no client.
    """
    _refuse_needs(pool)
    sizes, totals = pool.sizes, pool.totals
    clients, classes = len(sizes), len(totals)
    quota = np.full(clients, _whole(pool.spec, classes, "as many as there are classes"))
    receivers = -(-clients * quota[0] // classes)
    counts = np.zeros((classes, clients), dtype=np.int64)
    for row, total in zip(counts, totals, strict=True):
        chosen = np.flatnonzero(quota)[:receivers]
        if len(chosen):
            shares = total * sizes[chosen] / sizes[chosen].sum()
            row[chosen] = apportion(shares[None], np.zeros(1, dtype=np.int64))[0]
            quota[chosen] -= 1
    return pool.distribute(counts)


def _shards(pool: _Pool) -> list[IntArray]:
    """Cut rows sorted by class into N·S equal shards, S per client (McMahan's rule)."""
    _refuse_needs(pool)
    if pool.spec.sizes != "equal":
        raise UserError(
            f"sizes: '{pool.spec.sizes}' does not go with partition '{pool.spec.partition}', whose "
            "shards are equally large."
        )
    clients, totals = pool.spec.clients, pool.totals
    total = int(totals.sum())
    each = _whole(pool.spec, total // clients, "as many as there are rows per client")
    shards = clients * each
    owner = np.empty(shards, dtype=np.int64)
    owner[stream(pool.spec.seed, "partition", 5).permutation(shards)] = np.arange(shards) // each
    counts = np.zeros((len(totals), clients), dtype=np.int64)
    label, row = np.repeat(np.arange(len(totals)), totals), np.arange(total)
    np.add.at(counts, (label, owner[row * shards // total]), 1)
    return pool.distribute(counts)


def _capped_dirichlet(pool: _Pool) -> list[IntArray]:
    """Draw Dirichlet shares of each class among clients below their fair share (PFLlib's rule).

    All is drawn anew until every client has `LEAST` rows.
    """
    _refuse_needs(pool)
    sizes, totals, partition = pool.sizes, pool.totals, pool.spec.partition
    alpha = _positive(pool.spec.argument, f"partition: '{partition}'")
    generator, fair = stream(pool.spec.seed, "partition", 4), sizes * totals.sum()
    least = np.minimum(LEAST, fair / 2)
    for _ in range(ATTEMPTS):
        counts = np.zeros((len(totals), len(sizes)), dtype=np.int64)
        held = np.zeros(len(sizes), dtype=np.int64)
        for row, total in zip(counts, totals, strict=True):
            row[:] = cut(generator.dirichlet([alpha] * len(sizes)) * sizes, held, fair, total)
            held += row
        if (held >= least).all():
            return pool.distribute(counts)
    raise UserError(
        f"partition '{partition}': in {ATTEMPTS:,} attempts there was always one of {len(sizes)} "
        f"clients with fewer than {np.ceil(least.max()):.0f} of {totals.sum():,} rows; use a "
        "larger ALPHA, fewer clients, or 'pathological:S'."
    )


def cut(shares: FloatArray, held: IntArray, fair: FloatArray, size: int | np.int64) -> IntArray:
    """Cut the ``size`` rows of a class in proportion to ``shares`` among some clients.

    Clients that have ``held`` their ``fair`` number of rows get none.
    """
    parts = np.where(held < fair, shares, 0.0)
    if not parts.any():  # tiny draws may be zeros
        parts = np.eye(len(held))[held.argmin()]
    ends = np.floor(np.cumsum(parts / parts.sum()) * size + 1e-9).astype(np.int64)
    return np.diff(ends, prepend=0)


def _refuse_needs(pool: _Pool) -> None:
    for stratum in pool.strata.needed:
        raise UserError(
            f"partition '{pool.spec.partition}': leaves clients without some classes, but here "
            f"every client needs rows of '{pool.name(stratum)}'; use 'stratified' or 'natural'."
        )


# -- arguments -----------------------------------------------------------------------------


def _sizes(spec: PartitionSpec) -> FloatArray:
    """Return each client's share of the rows."""
    sizes, clients = spec.sizes, spec.clients
    kind, colon, argument = sizes.partition(":")
    if sizes == "equal":
        return np.full(clients, 1 / clients)
    if kind == "dirichlet":
        beta = _positive(argument, f"sizes: '{sizes}'")
        return stream(spec.seed, "partition", 3).dirichlet([beta] * clients)
    if colon or not any(letter.isdigit() for letter in sizes):
        raise UserError(
            f"sizes: '{sizes}' is not one of equal, dirichlet:BETA or relative sizes like 3,2,1."
        )
    parts = sizes.split(",")
    if len(parts) != clients:
        raise UserError(
            f"sizes: '{sizes}' must list one relative size a client, got {len(parts)} for "
            f"{clients} clients."
        )
    relative = np.array([_positive(part, f"sizes: '{sizes}'") for part in parts])
    return np.asarray(relative / relative.sum())


def _whole(spec: PartitionSpec, most: int, reason: str) -> int:
    """Return the rule's argument as a whole number from 1 to ``most``."""
    value = int(spec.argument) if spec.argument.isdecimal() else 0
    if not 1 <= value <= most:
        raise UserError(
            f"partition: '{spec.partition}' needs a whole number from 1 to {most} ({reason}) in "
            f"place of '{spec.argument}'."
        )
    return value


def _positive(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= LARGEST:
        raise UserError(f"{where} needs a positive number in place of '{text}'.")
    return value
