"""Partition: which rows of a table each client holds, and which of them it learns from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from comity.core.rng import stream
from comity.core.typing import BoolArray, FloatArray, IntArray
from comity.errors import UserError

PARTS = 3
"""Training, validation and test."""
ATTEMPTS = 1000
"""How often a capped Dirichlet deal is drawn before it counts as impossible."""
LEAST = 40
"""Rows that a capped Dirichlet deal leaves everybody (half of a fair share where that is less)."""


@dataclass(frozen=True)
class Share:
    """The rows of one client, by what it uses them for; sorted."""

    train: IntArray
    validation: IntArray
    test: IntArray


def shares(
    cells: IntArray,
    clients: int,
    seed: int,
    *,
    partition: str = "iid",
    sizes: str = "equal",
    silos: IntArray | None = None,
    silo_names: Sequence[str] = (),
    cell_names: Mapping[int, str] | None = None,
    needed: Collection[int] | Mapping[int, Collection[int]] = (),
    test: float = 0.2,
    validation: float = 0.1,
    capped: bool = False,
) -> list[Share]:
    """Deal the rows out to clients, and each client's rows to training, validation and test.

    ``cells`` is the stratum of each row (its label and groups). Every client gets rows of every
    ``needed`` cell for each of its three parts; other cells may be absent anywhere. Where clients
    are sites, on whose rows nobody has a say, other cells may serve as well: ``needed`` then maps
    a cell to all that do. ``capped`` makes 'dirichlet:ALPHA' PFLlib's rule, see `_capped`.
    """
    serving = needed if isinstance(needed, Mapping) else {cell: (cell,) for cell in needed}
    if clients < 1:
        raise UserError(f"clients: there must be at least one, got {clients}.")
    if not (test > 0 and validation > 0 and test + validation < 1):
        raise UserError(
            f"test and validation must be shares above 0 that leave something to train with, got "
            f"{test} and {validation}."
        )
    kinds, cell_of = np.unique(cells, return_inverse=True)
    names = {int(cell): str(cell) for cell in (*kinds, *needed)} | dict(cell_names or {})
    must = np.isin(kinds, list(needed))
    for cell in needed:
        if cell not in kinds:
            raise UserError(f"partition: no row is '{names[cell]}', but every client needs some.")
    order = stream(seed, "partition", 1).permutation(len(cells))
    totals = np.bincount(cell_of)

    if partition == "natural":
        holder = _silos(silos, silo_names, clients, sizes)
        for client, site in enumerate(silo_names):
            for cell, alike in serving.items():
                count = int(((holder == client) & np.isin(cells, list(alike))).sum())
                if count < PARTS:
                    raise UserError(
                        f"partition 'natural': client {client} ({site}) has {count} rows of "
                        f"'{names[cell]}', but needs {PARTS} (to train, validate and test); leave "
                        "this site out of the data, use partition 'iid' or 'dirichlet:ALPHA', or "
                        "form larger groups."
                    )
        held = [order[holder[order] == client] for client in range(clients)]
    elif rule := _class_rule(partition, capped):
        if needed:
            raise UserError(
                f"partition '{partition}': leaves clients without some classes, but here every "
                f"client needs rows of '{names[next(iter(needed))]}'; use 'iid' or 'natural'."
            )
        if rule is _shards and sizes != "equal":
            raise UserError(
                f"sizes: '{sizes}' does not go with partition '{partition}', whose shards are "
                "equally large."
            )
        counts = rule(partition, totals, _sizes(sizes, clients, seed), seed)
        held = _dealt(order, cell_of, counts)
    else:
        weights = _weights(partition, _sizes(sizes, clients, seed), len(kinds), seed)
        for cell, total in zip(kinds[must], totals[must], strict=True):
            most = total // PARTS
            if most < clients:
                raise UserError(
                    f"partition '{partition}': the largest cell of '{names[int(cell)]}' has "
                    f"{total} rows, too few for {clients} clients that need {PARTS} each (to "
                    "train, validate and test); "
                    f"{f'have at most {most} clients, or ' if most else ''}form larger groups."
                )
        counts = deal(weights * totals[:, None], np.where(must, PARTS, 0))
        held = _dealt(order, cell_of, counts)
    member = {names[cell]: np.isin(cells, list(alike)) for cell, alike in serving.items()}
    fractions = np.array([1 - test - validation, validation, test])
    return [
        _split(f"client {client}", rows, cell_of, member, fractions)
        for client, rows in enumerate(held)
    ]


def fingerprint(shares: Sequence[Share]) -> str:
    """SHA-256 of a deal: the same where all clients use the same rows for the same purposes."""
    found = hashlib.sha256()
    for share in shares:
        for rows in (share.train, share.validation, share.test):
            found.update(len(rows).to_bytes(8, "little") + rows.astype("<i8").tobytes())
    return found.hexdigest()


def deal(wanted: FloatArray, least: IntArray) -> IntArray:
    """Whole numbers near ``wanted`` (cells x receivers), each cell with its total kept.

    What rounding owes a receiver in one cell is made up in the next ones, so the receivers' totals
    are right, too. No receiver gets fewer than ``least`` of a cell: whoever has most gives.
    """
    counts = np.zeros(wanted.shape, dtype=np.int64)
    owed = np.zeros(wanted.shape[1])
    for given, quota, floor in zip(counts, wanted, least, strict=True):
        given[:] = np.floor(quota + 1e-9)
        over = round(quota.sum()) - given.sum()
        given[np.argsort(given - quota - owed, kind="stable")[:over]] += 1
        while given.min() < floor:
            poorest, richest = given.argmin(), given.argmax()
            given[poorest] += 1
            given[richest] -= 1
        owed += quota - given
    return counts


def _split(
    who: str,
    rows: IntArray,
    cell_of: IntArray,
    member: Mapping[str, BoolArray],
    fractions: FloatArray,
) -> Share:
    """A client's rows, in random order, dealt to its three parts cell by cell.

    ``member`` says which rows serve a need; every part gets one of each, from the part that has
    most. So does a part that would be empty: three rows are enough.
    """
    if len(rows) < PARTS:
        raise UserError(
            f"partition: {who} gets {len(rows)} rows, too few to train, validate and test; have "
            "fewer clients, more equal sizes or a less skewed partition."
        )
    member = {**member, "any kind": np.ones(len(cell_of), dtype=bool)}
    counts = np.bincount(cell_of[rows], minlength=int(cell_of.max()) + 1)
    nothing = np.zeros(len(counts), dtype=np.int64)
    parts = _dealt(rows, cell_of, deal(counts[:, None] * fractions, nothing))
    for _ in range(PARTS * len(member) + 1):  # a move may leave another need open, so again
        short = [
            (name, part)
            for name, serves in member.items()
            for part in range(PARTS)
            if not serves[parts[part]].any()
        ]
        if not short:
            break
        name, part = short[0]
        richest = max(range(PARTS), key=lambda other: member[name][parts[other]].sum())
        _move(parts, richest, part, member, name)
    else:
        raise UserError(f"partition: {who} has too few rows of '{short[0][0]}' for its parts.")
    return Share(*map(np.sort, parts))


def _move(
    parts: list[IntArray], giver: int, taker: int, member: Mapping[str, BoolArray], name: str
) -> None:
    """Move one row that serves a need, best one that its part can spare for all other needs."""
    rows = parts[giver]
    places = np.flatnonzero(member[name][rows])
    rare = [
        sum(serves[rows[place]] and serves[rows].sum() < 2 for serves in member.values())
        for place in places
    ]
    place = places[int(np.argmin(rare))]
    parts[taker] = np.append(parts[taker], rows[place])
    parts[giver] = np.delete(rows, place)


def _dealt(rows: IntArray, cell_of: IntArray, counts: IntArray) -> list[IntArray]:
    """Each receiver's rows, where ``counts`` (cells x receivers) says how many of each cell."""
    piles = [
        np.split(rows[cell_of[rows] == cell], np.cumsum(given))[:-1]  # the last one is nobody's
        for cell, given in enumerate(counts)
    ]
    return [np.concatenate(pile) for pile in zip(*piles, strict=True)]


def _weights(partition: str, sizes: FloatArray, cells: int, seed: int) -> FloatArray:
    """The share of every cell that goes to each client (cells x clients)."""
    kind, _, argument = partition.partition(":")
    if partition == "iid":
        return np.tile(sizes, (cells, 1))
    if kind == "dirichlet":
        alpha = _positive(argument, f"partition: '{partition}'")
        draws = stream(seed, "partition", 2).dirichlet([alpha] * len(sizes), size=cells)
        weights = np.maximum(draws * sizes, 1e-300)  # a row of zeros could not be divided
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))
    raise UserError(
        f"partition: '{partition}' is not one of iid, dirichlet:ALPHA, pathological:S, shards:S or "
        "natural."
    )


# -- rules for classes, which a client may lack --------------------------------------------

Rule = Callable[[str, IntArray, FloatArray, int], IntArray]
"""From the partition's text, rows of each class, clients' shares and the seed: how many rows of
each class (classes x clients) a client gets."""


def _class_rule(partition: str, capped: bool) -> Rule | None:
    rules: dict[str, Rule] = {"pathological": _blocks, "shards": _shards}
    if capped:
        rules["dirichlet"] = _capped
    return rules.get(partition.partition(":")[0])


def _blocks(partition: str, totals: IntArray, sizes: FloatArray, seed: int) -> IntArray:
    """PFLlib's pathological rule, in which nothing is drawn.

    Class by class, the first ⌈N·S/K⌉ clients that have fewer than S classes share it, so clients
    come in blocks with the same classes. Classes that are left in the end go to nobody.
    """
    clients, classes = len(sizes), len(totals)
    quota = np.full(clients, _whole(partition, classes, "as many as there are classes"))
    receivers = -(-clients * quota[0] // classes)
    counts = np.zeros((classes, clients), dtype=np.int64)
    for given, total in zip(counts, totals, strict=True):
        chosen = np.flatnonzero(quota)[:receivers]
        if len(chosen):
            wanted = total * sizes[chosen] / sizes[chosen].sum()
            given[chosen] = deal(wanted[None], np.zeros(1, dtype=np.int64))[0]
            quota[chosen] -= 1
    return counts


def _shards(partition: str, totals: IntArray, sizes: FloatArray, seed: int) -> IntArray:
    """McMahan's rule: rows sorted by class are cut into N·S equal shards; S go to each client."""
    clients, total = len(sizes), int(totals.sum())
    each = _whole(partition, total // clients, "as many as there are rows a client")
    shards = clients * each
    owner = np.empty(shards, dtype=np.int64)
    owner[stream(seed, "partition", 5).permutation(shards)] = np.arange(shards) // each
    counts = np.zeros((len(totals), clients), dtype=np.int64)
    row = np.arange(total)
    np.add.at(counts, (np.repeat(np.arange(len(totals)), totals), owner[row * shards // total]), 1)
    return counts


def _capped(partition: str, totals: IntArray, sizes: FloatArray, seed: int) -> IntArray:
    """PFLlib's rule: Dirichlet shares of each class, for those who have not got their share yet.

    All is drawn anew until everybody has `LEAST` rows.
    """
    alpha = _positive(partition.partition(":")[2], f"partition: '{partition}'")
    generator, fair = stream(seed, "partition", 4), sizes * totals.sum()
    least = np.minimum(LEAST, fair / 2)
    for _ in range(ATTEMPTS):
        counts = np.zeros((len(totals), len(sizes)), dtype=np.int64)
        held = np.zeros(len(sizes), dtype=np.int64)
        for given, total in zip(counts, totals, strict=True):
            given[:] = cut(generator.dirichlet([alpha] * len(sizes)) * sizes, held, fair, total)
            held += given
        if (held >= least).all():
            return counts
    raise UserError(
        f"partition '{partition}': in {ATTEMPTS:,} attempts there was always one of {len(sizes)} "
        f"clients with fewer than {np.ceil(least.max()):.0f} of {totals.sum():,} rows; use a "
        "larger ALPHA, fewer clients, or 'pathological:S'."
    )


def cut(wanted: FloatArray, held: IntArray, fair: FloatArray, size: int | np.int64) -> IntArray:
    """A class cut into ``wanted`` proportions, of which clients with a ``fair`` share get none."""
    parts = np.where(held < fair, wanted, 0.0)
    if not parts.any():  # tiny draws may be zeros
        parts = np.eye(len(held))[held.argmin()]
    ends = np.floor(np.cumsum(parts / parts.sum()) * size + 1e-9).astype(np.int64)
    return np.diff(ends, prepend=0)


def _sizes(sizes: str, clients: int, seed: int) -> FloatArray:
    """Each client's share of the rows."""
    kind, colon, argument = sizes.partition(":")
    if sizes == "equal":
        return np.full(clients, 1 / clients)
    if kind == "dirichlet":
        beta = _positive(argument, f"sizes: '{sizes}'")
        return stream(seed, "partition", 3).dirichlet([beta] * clients)
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
    given = np.array([_positive(part, f"sizes: '{sizes}'") for part in parts])
    return np.asarray(given / given.sum())


def _silos(silos: IntArray | None, silo_names: Sequence[str], clients: int, sizes: str) -> IntArray:
    """The client that holds each row, where sites are clients."""
    if silos is None:
        raise UserError(
            "partition 'natural': the data does not say which site a row comes from; name the "
            "column that does (client = …), or use 'iid' or 'dirichlet:ALPHA'."
        )
    if clients != len(silo_names):
        raise UserError(
            f"partition 'natural': the data has {len(silo_names)} sites ({', '.join(silo_names)}), "
            f"one a client, so say clients = {len(silo_names)} instead of {clients}."
        )
    if sizes != "equal":
        raise UserError(
            f"sizes: '{sizes}' does not go with partition 'natural', where sites are as large as "
            "they are."
        )
    return silos


def _whole(partition: str, most: int, why: str) -> int:
    argument = partition.partition(":")[2]
    value = int(argument) if argument.isdecimal() else 0
    if not 1 <= value <= most:
        raise UserError(
            f"partition: '{partition}' needs a whole number from 1 to {most} ({why}) in place of "
            f"'{argument}'."
        )
    return value


def _positive(text: str, about: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UserError(f"{about} needs a positive number in place of '{text}'.")
    return value
