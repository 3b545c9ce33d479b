"""Pictures on pages, with their captions."""

from __future__ import annotations

from collections.abc import Mapping

from comity.report.html.charts import Chart
from comity.report.html.markup import Pictures, figure
from comity.report.terms import Terms
from comity.runs.schema import Results

_CONFLICT = (
    "Updates point apart where one client's update would undo the other's (their inner product is "
    "negative). The step taken is the wrapper's; the plain mean is what it replaces."
)
_MAXIMISED = "Objectives are maximised: up and to the right is better."
CAPTIONS = {
    "front": "Each client's model among the objectives, coloured by the client's preference. "
    + _MAXIMISED,
    "scores": "Each client's kept model on the client's own test samples. Black: the constant "
    "classifier, which gives the client's commonest answer to everything.",
    "rounds": "Models as received from the server, and after training on the clients' own samples; "
    "both on validation samples. Lines: mean over clients; bands: the middle half of them.",
    "partition": "The area of a bubble is the number of training samples that a client has of a "
    "class.",
    "conflict": _CONFLICT,
    "conflicts": _CONFLICT + " Mean over seeds; band: population standard deviation over seeds.",
    "spans": "All that each client's model reaches at one preference after another; the "
    "hypervolume per client is the mean over these sets. " + _MAXIMISED,
    "response": "From preference to outcome: a client's scores by its weight on the first "
    "objective.",
    "served": "What a policy that takes any preference misses at each: the best known value minus "
    "the value that it earns on test episodes.",
    "losses": "What training makes small, beside what is judged: at the same preferences, on the "
    "same test samples.",
    "reaches": "An algorithm whose models take any preference has a mean over clients at one after "
    "another: a line, or a cloud with more than two objectives. One with a single model for a "
    "client has a single mean. " + _MAXIMISED,
    "fronts": "The models of all seeds' clients as one set, apart from those that count for no "
    "front; large points are its front. Where the clients of each run share their weights, a point "
    "is the mean over the clients of one run. " + _MAXIMISED,
    "solutions": "The models of all seeds' clients, one panel per algorithm; large points are "
    "those that no other model of the same algorithm dominates. Grey: the known front or reference "
    "set, where there is one. " + _MAXIMISED,
    "rewards": "Mean scalarised validation {terms.value} over the rounds: of the models that "
    "clients keep, that they have just trained, and that they received.",
    "mixing": "Who learns from whom: one row per receiver, one column per giver.",
    "similarity": "How alike two clients' changes are, before the splits of that round; clients of "
    "different clusters are not compared. The colours leave out the diagonal, which is 1.",
    "allotted": "Mean over the last quarter of the rounds: the weight of each giver's head, the "
    "share of classes that two clients have in common, and the one against the other.",
    "agent_rewards": "The terms of the agent's reward before they are weighed: how good models are "
    "that were just delivered, how much better than before, and how far weights are from those "
    "that follow the likeness of embeddings.",
    "embeddings": "Each client's head after the last round, along the two directions in which "
    "clients differ most.",
    "contacts": "One line per client: pale while it is in contact with the server, dark where "
    "messages were planned; vertical lines are mixings.",
    "hours": "Quality against the hours of the contact plan, on validation data. A line begins "
    "when every client that takes part has sent once.",
    "ages": "How late updates were: mixings, since the client was sent its model, that changed "
    "this model. Late updates are measured from the present model before they are mixed.",
    "clusters": "One line per client: together while in one cluster, apart after a split, "
    "together again where clusters join.",
    "attacks": "Mean scalarised value of honest clients, over seeds. Under none all clients are "
    "honest and count.",
    "bars": "Mean over seeds, ± population standard deviation over seeds. Dots stand where bars "
    "from zero would hide the differences.",
    "traffic": "What an algorithm or an encoding costs: the sealed messages of a whole run, both "
    "directions, all clients. Mean over seeds; whiskers: population standard deviation over seeds.",
    "learning": "How good kept models are against the {terms.unit} that a client has spent; "
    "mean over seeds; band: population standard deviation over seeds.",
}


def picture(
    name: str, pictures: Pictures, charts: Mapping[str, Chart], terms: Terms, more: str = ""
) -> str:
    """Return a chart if there is one, otherwise a picture, with its caption.

    Args:
        name: The name of the picture.
        pictures: The files of the pictures.
        charts: The specifications of the charts by picture.
        terms: The terms for the kind of problem.
        more: A text to append to the caption.
    """
    return figure(name, CAPTIONS[name].format(terms=terms) + more, pictures, charts)


def baselines_note(results: Results) -> str:
    """Return the note on the baselines in a picture of objective vectors of clients with data."""
    if "samples" not in results:
        return ""
    parts = ["", "Cross: the constant classifier, mean over clients."]
    if "strict_reference_point" in results:
        parts.append("Dashed: the strict reference point.")
    return " ".join(parts)
