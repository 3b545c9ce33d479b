"""The policy of a site: what it agrees to, checked before it joins and before each answer."""

from __future__ import annotations

from collections.abc import Mapping

from comity.configuration import Configuration
from comity.configuration.federation_file import Policy
from comity.errors import RefusedError
from comity.federation.agreement import Agreement
from comity.federation.sent_log import SentLog
from comity.federation.site import RefusalError
from comity.problems import DataProblem


def check_policy(
    policy: Policy,
    configuration: Configuration,
    agreement: Agreement,
    rows: Mapping[str, Mapping[str, int]],
) -> None:
    """Refuse a federation that a site's policy forbids.

    Args:
        policy: The site's policy.
        configuration: The federation's configuration.
        agreement: What its messages carry.
        rows: Number of the site's rows by value, by sensitive attribute.

    Raises:
        RefusedError: names the rule.
    """
    if policy.algorithms and configuration.algorithm not in policy.algorithms:
        raise RefusedError(
            f"policy.algorithms: this federation runs {configuration.algorithm}; the site allows "
            f"{', '.join(policy.algorithms)}."
        )
    forbidden = [n for n in agreement.statistics if n not in policy.statistics]
    if forbidden:
        raise RefusedError(
            f"policy.statistics: {configuration.algorithm} asks for {', '.join(forbidden)}; the "
            f"site allows {', '.join(policy.statistics) or 'none'}. Add the name to the policy, or "
            "ask for another algorithm."
        )
    if configuration.clients - 1 < policy.least_partners:
        raise RefusedError(
            f"policy.least_partners = {policy.least_partners}: this federation has "
            f"{configuration.clients - 1} other sites."
        )
    for attribute, counts in rows.items():
        for value, count in counts.items():
            if count < policy.least_rows:
                raise RefusedError(
                    f"policy.least_rows = {policy.least_rows}: only {count} rows here have "
                    f"{attribute} = {value}."
                )


def rows_by_value(configuration: Configuration) -> dict[str, dict[str, int]]:
    """Return the number of rows held here by value, by sensitive attribute.

    Args:
        configuration: The configuration of a site.
    """
    problem = configuration.get_problem()
    if not isinstance(problem, DataProblem):
        return {}
    columns = problem.samples().columns
    return {
        name: {str(value): int((columns[name] == value).sum()) for value in range(count)}
        for name, count in problem.attributes.items()
    }


class Limits:
    """The daily limits of a policy, which every answer must keep to before it leaves.

    Args:
        policy: The site's policy.
        log: The site's log.
    """

    def __init__(self, policy: Policy, log: SentLog) -> None:
        self._policy, self._log = policy, log

    def __call__(self, exchange: str, round: int, size: int) -> None:
        """Refuse an answer beyond a limit.

        Args:
            exchange: What is asked.
            round: The round.
            size: Bytes of the sealed answer; 0 before it is made.

        Raises:
            RefusalError: the text names the rule.
        """
        policy = self._policy
        if not policy.rounds_per_day and not policy.bytes_per_day:
            return
        rounds, sent = self._log.last_day()
        more = exchange in ("survey", "round") and round not in rounds
        if policy.rounds_per_day and more and len(rounds) >= policy.rounds_per_day:
            raise RefusalError(f"policy.rounds_per_day = {policy.rounds_per_day} is reached")
        if policy.bytes_per_day and sent + size > policy.bytes_per_day:
            raise RefusalError(f"policy.bytes_per_day = {policy.bytes_per_day} is reached")
