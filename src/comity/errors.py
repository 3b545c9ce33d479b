"""Errors in a user's input, and refusals by the other side of a federation."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MANY = 40


class UserError(Exception):
    """Input that cannot work: the message names the field, the fault and the remedy.

    The command line prints it as one line and exits with code 2.
    """


class RefusedError(Exception):
    """Refusal by the other side of a federation: wrong certificate, other federation, a policy.

    The command line prints it as one line and exits with code 3.
    """


def unknown(kind: str, name: object, valid: Iterable[str]) -> UserError:
    """Return the error for a name that is not in a list; it proposes the nearest valid name.

    Of more than 40 valid names only the nearest and the first are shown.

    Args:
        kind: What is named, e.g. "algorithm".
        name: The unknown name.
        valid: The valid names.
    """
    names = sorted(valid)
    near = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    shown = ", ".join(names) or "none"
    if len(names) > _MANY:
        others = [*get_close_matches(str(name), names, n=5, cutoff=0.4)[1:], *names]
        some = list(dict.fromkeys(others))[:10]
        shown = f"{', '.join(some)} and {len(names) - len(some)} more"
    return UserError(f"unknown {kind} '{name}'.{hint} Valid: {shown}.")
