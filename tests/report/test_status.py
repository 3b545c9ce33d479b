"""The live status of a federation."""

from __future__ import annotations

import json

from tests.federation.processes import until

from comity.federation.engines.deployed import Incident
from comity.report.status import PAGE, LiveStatus
from comity.runs.serve import STATUS, SiteStatus, Status


def test_the_last_change_is_in_the_files_though_nothing_follows_it(tmp_path):
    """The server may wait for hours after it: nobody calls `show` again."""
    status = Status("ab" * 32, "fedpref", 20, sites={"bank-a": SiteStatus()})

    def rounds() -> int:
        path = tmp_path / STATUS
        return json.loads(path.read_text())["round"] if path.is_file() else 0

    with LiveStatus(tmp_path) as live:
        for number in (1, 2, 3):
            status.note(Incident("bank-a", number, "round"))
            status.round = number
            live.show(status)
        until(lambda: rounds() == 3, seconds=20)
        page = tmp_path / PAGE  # written just after the other file
        until(lambda: page.is_file() and "3 of 20 rounds" in page.read_text(), seconds=20)
        status.round = 4
        live.show(status)
    assert rounds() == 4
