"""Errors in a user's input, refusals by the other side of a federation, faults of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

_MANY, _NEAR, _SHOWN = 40, 5, 10


class UserError(Exception):
    """Input that cannot work: the message names the field, the fault and the remedy.

    The command line prints it as one line and exits with code 2.
    """


class Faults:
    """Errors in a user's input that are gathered, to be shown together."""

    MOST = 10
    """Largest number of faults in one message."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.texts: list[str] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Keep the error of what is done inside, and go on after it."""
        try:
            yield
        except UserError as error:
            self.texts.append(str(error).removeprefix(f"{self.where}: "))

    def refuse(self) -> None:
        """Raise what was gathered as one error, if there is anything."""
        if len(self.texts) == 1:
            raise UserError(f"{self.where}: {self.texts[0]}")
        if self.texts:
            listed = " ".join(f"({n}) {text}" for n, text in enumerate(self.texts[: self.MOST], 1))
            rest = len(self.texts) - self.MOST
            more = f" … and {rest} more." if rest > 0 else ""
            raise UserError(f"{self.where}: {len(self.texts)} faults: {listed}{more}")


class RefusedError(Exception):
    """Refusal by the other side of a federation: wrong certificate, other federation, a policy.

    The command line prints it as one line and exits with code 3.
    """


class StoppedError(Exception):
    """Work that the machine ended, such as by killing a process; it can be gone on with.

    The command line prints it as one line and exits with code 4, as it does for an `OSError`: a
    full disk, a directory that is gone or read-only.
    """


def unknown(kind: str, name: object, valid: Iterable[str]) -> UserError:
    """Return the error for a name that is not in a list; it proposes the nearest valid name.

    Of more than 40 valid names only the nearest and the first are shown, in this order.

    Args:
        kind: What is named, e.g. "algorithm".
        name: The unknown name.
        valid: The valid names.
    """
    names, text = sorted(valid), str(name)
    near = get_close_matches(text, names, n=1)
    shown = ", ".join(names) or "none"
    if len(names) > _MANY:
        near = [valid for valid in names if text and text.lower() in valid][:_NEAR] or near
        shown = f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more"
    listed = ", ".join(f"'{valid}'" for valid in near)
    hint = f" Did you mean {' or '.join(listed.rsplit(', ', 1))}?" if near else ""
    return UserError(f"unknown {kind} '{name}'.{hint} Valid: {shown}.")
