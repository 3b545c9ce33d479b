"""What a user did that cannot work, said in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MANY = 40


class UserError(Exception):
    """Input that cannot work: the message names the field, what was wrong and what is valid.

    The command line prints it as one line and exits with code 2.
    """


def unknown(kind: str, name: object, valid: Iterable[str]) -> UserError:
    """The error for a name that is not in a list, with the nearest valid one first.

    Of a long list only the nearest and the beginning are shown.
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
