"""Page of a tuning."""

from __future__ import annotations

from comity.report.html.markup import Pictures, figure, page, section, table, text, verdict
from comity.report.tunings import trial_headings, trial_rows, trials_caption
from comity.tuning import Tuning
from comity.tuning.directory import BEST, PROPOSALS

_PICTURES = {
    "trials": (
        "From trial to trial",
        "Each trial's value on validation data: points are seeds, rings their mean, the line the "
        "best mean so far. Star: the chosen trial; dashed: the settings as they were (trial 0).",
    ),
    "settings": (
        "By setting",
        "The mean of each trial against each tuned setting; the others differ, too. Star: the "
        "chosen trial; dashed: the settings as they were (trial 0).",
    ),
    "front": (
        "Front of trials",
        "The first two objectives; large points are trials that no other one dominates. Star: the "
        "chosen trial.",
    ),
}
"""Pictures of a tuning, with headings and captions."""


def tuning_page(tuning: Tuning, pictures: Pictures) -> str:
    """Return the page of a finished tuning.

    Args:
        tuning: The tuning.
        pictures: The files of its pictures.
    """
    results = tuning.results
    title = f"{results['algorithm']} tuned on {results['problem']}"
    cells = [row for _, row in trial_rows(tuning)]
    trials = table(trial_headings(results), cells, trials_caption(results))
    body = [f"<h1>{text(title)}</h1>", verdict(results["verdict"]["sentences"])]
    for name, (heading, caption) in _PICTURES.items():
        if name in pictures:
            body.append(section(heading, figure(name, caption, pictures, {})))
    body.append(section("Trials", trials + _files(tuning)))
    return page(title, body, None)


def _files(tuning: Tuning) -> str:
    """Return links to the files of a tuning."""
    chosen = "" if tuning.results["chosen"] is None else f'<a href="{BEST}">{BEST}</a> (chosen), '
    return (
        f'<p class="note">As files: {chosen}<a href="tuning.json">tuning.json</a>, '
        f'<a href="{PROPOSALS}">{PROPOSALS}</a>. The runs of each trial lie beside this page; '
        "<code>comity report DIRECTORY</code> draws one.</p>"
    )
