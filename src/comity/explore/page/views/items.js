/** The list of all items: runs, comparisons and searches. */
import { make } from "comity/elements";
import { itemLabel, plural } from "comity/formats";
import { table } from "comity/tables";

export const title = "All";

/** Draw the list. */
export function render(root, context) {
  const { items } = context.source.index;
  const depth = (item) => (item.parent ? "· " : "");
  const rows = items.map((item) => [
    { value: itemLabel(item), text: depth(item) + itemLabel(item) },
    item.kind,
    item.problem ?? "",
    item.algorithm ?? "",
    { value: item.seed ?? null, text: item.seed ?? "" },
    { value: item.state, class: item.state === "damaged" ? "bad" : item.state === "running" ? "good" : "" },
    item.error ?? "",
  ]);
  const head = ["name", "kind", "problem", "algorithm", "seed", "state", "fault"];
  root.append(
    make("p", { class: "lead" }, `${plural(items.length, "item")}: choose one to look at it.`),
    table({
      caption: "Runs, comparisons and searches",
      head,
      rows,
      filter: "Filter by name",
      click: (row) => context.go("verdict", { item: items[row].id }),
    }),
  );
}
