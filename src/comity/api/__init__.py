"""The functions that users call."""

from comity.api.catalogue import Catalogue, Entry, algorithms, generators, problems, wrappers
from comity.api.directories import cross, has_plan, open, open_directory, report
from comity.api.execution import (
    compare,
    compare_searches,
    pretrain,
    reproduce,
    resume,
    run,
    search,
    tune,
)
from comity.api.finishing import Finished, lacks_report

__all__ = [
    "Catalogue",
    "Entry",
    "Finished",
    "algorithms",
    "compare",
    "compare_searches",
    "cross",
    "generators",
    "has_plan",
    "lacks_report",
    "open",
    "open_directory",
    "pretrain",
    "problems",
    "report",
    "reproduce",
    "resume",
    "run",
    "search",
    "tune",
    "wrappers",
]
