"""Tables of contact plans."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.measures import number, with_unit
from comity.report.tables.layout import empty_table
from comity.runs.plans import PlanResults

_BYTES = ("bytes", "kB", "MB", "GB")


def plan_table(results: PlanResults) -> Table:
    """Return the figures of a plan."""
    title = f"{results['problem']}, {results['algorithm']}, encoding {results['encoding']}"
    table = empty_table(title, "Age: mixings that an update has missed, before it is rebased.")
    table.add_column("contact plan")
    table.add_column("", justify="right")
    counts, age = results["updates_per_client"], results["age"]
    rows = {
        "days": number(results["days"], 3),
        "collect": results["collect"],
        "rounds": str(results["rounds"]),
        "updates": str(results["updates"]),
        "updates per client: least, median, most": f"{counts['least']}, {counts['median']:g}, "
        f"{counts['most']}",
        "age of updates: mean, most": f"{age['mean']:.2f}, {age['most']}",
        "use of passes": f"{results['pass_use']:.1%}",
        "update at most": with_unit(results["update_bytes"], _BYTES),
        "model to a client at most": with_unit(results["delivery_bytes"], _BYTES),
    }
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


def planned_clients_table(results: PlanResults) -> Table:
    """Return one row per client of a plan."""
    table = empty_table("Clients", None)
    for heading in ("client", "updates", "passes", "use", "longest gap"):
        table.add_column(heading, justify="left" if heading == "client" else "right")
    for client in results["clients"]:
        cells = (
            f"{client['updates']}",
            f"{client['passes']}",
            f"{client['use']:.1%}",
            f"{client['longest_gap_hours']:.1f} h",
        )
        table.add_row(Text(client["name"]), *cells)
    return table
