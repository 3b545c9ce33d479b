/** Clients of a run as objects, from the columns of its document. */
import { lists } from "comity/arrays";
import { field, select } from "comity/elements";
import { integer } from "comity/state";

/** Return one object per client of a run. */
export function clientsOf(shown) {
  const { clients: columns } = shown;
  const vectors = Object.fromEntries(["preference", "objectives", "last"].map((name) => [name, lists(columns[name])]));
  return columns.number.map((number, row) => ({
    row,
    number,
    label: columns.label[row],
    attacker: columns.attacker?.[row] ?? false,
    preference: vectors.preference?.[row] ?? null,
    objectives: vectors.objectives?.[row] ?? null,
    last: vectors.last?.[row] ?? null,
    scalarised: columns.scalarised?.[row] ?? null,
    trivial: columns.trivial?.[row] ?? null,
    optimum: columns.optimum?.[row] ?? null,
    gain: columns.gain?.[row] ?? null,
    mark: columns.mark?.[row] ?? null,
    keptRound: columns.kept_round?.[row] ?? null,
  }));
}

/** Return the row of the client that the address names; the first one otherwise. */
export function chosenRow(context, clients) {
  const number = integer(context.state.client, -1, Infinity);
  return Math.max(
    0,
    clients.findIndex((client) => client.number === number),
  );
}

/** Make the field in which a client is chosen. */
export function clientField(clients, row, change) {
  return field(
    "Client",
    select(
      clients.map((client) => [client.row, client.label]),
      row,
      (value) => change(Number(value)),
    ),
  );
}
