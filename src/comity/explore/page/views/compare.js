/** Compare: measures, paired differences, curves and objectives of entries or of chosen runs. */
import { crossSite } from "comity/cross-site";
import { differencesSection } from "comity/differences";
import { button, field, fill, make, message, section, select } from "comity/elements";
import { entryChoice, measureTable, namesOf } from "comity/entries";
import { curveFigure, objectivesSection } from "comity/entry-figures";
import { plural } from "comity/formats";

export const title = "Compare";

/** Finished comparisons, and runs that can be compared with others or have a cross-site matrix. */
export function applies(shown, source) {
  if (shown.kind === "comparison" || shown.kind === "searches") return shown.entries.length > 0;
  return shown.kind === "run" && (Boolean(shown.cross) || peers(shown, source).length > 1);
}

/** Draw a comparison; for a run, the choice of others to compare it with first. */
export async function render(root, context) {
  if (context.document.kind === "run") await chosenRuns(root, context);
  else comparison(root, context);
}

// -- runs that the reader chooses ---------------------------------------------------------------

/** Return the finished runs of the same problem; a saved page cannot compare them anew. */
function peers(shown, source) {
  if (source.saved) return [];
  return source.index.items.filter(
    (item) => item.kind === "run" && item.state === "finished" && item.problem === shown.problem.name,
  );
}

async function chosenRuns(root, context) {
  const { document: shown, source, state } = context;
  const others = peers(shown, source);
  const ids = (state.ids ?? "").split(",").filter((id) => others.some((item) => item.id === id));
  if (others.length > 1) root.append(runChoice(context, others, ids.length ? ids : [shown.id]));
  if (ids.length > 1) {
    const place = make("div", { class: "beneath" });
    root.append(place);
    try {
      const compared = await source.compare(ids);
      if (!context.here()) return;
      place.append(make("p", { class: "title" }, compared.title));
      comparison(place, { ...context, document: compared });
    } catch (error) {
      if (context.here()) fill(place, message(error.message, "fault"));
    }
  }
  root.append(section("Cross-site", crossSite(context, shown)));
}

function runChoice(context, others, ticked) {
  const boxes = others.map((item) =>
    make("input", { type: "checkbox", value: item.id, checked: ticked.includes(item.id), change: () => count() }),
  );
  const chosen = () => boxes.filter((box) => box.checked).map((box) => box.value);
  const compare = button("Compare", () => context.go("compare", { ids: chosen().join(",") }), { class: "primary" });
  const all = button(
    "All",
    () => {
      for (const box of boxes) box.checked = true;
      count();
    },
    { class: "quiet", "aria-label": "All of the runs" },
  );
  const count = () => {
    compare.disabled = chosen().length < 2;
    compare.textContent = chosen().length < 2 ? "Compare" : `Compare ${plural(chosen().length, "run")}`;
  };
  count();
  const label = (item, place) =>
    make(
      "label",
      {},
      boxes[place],
      " ",
      `${item.algorithm}, seed ${item.seed}`,
      make("span", { class: "note" }, item.id.replaceAll("~", "/")),
    );
  return make(
    "fieldset",
    { class: "runs" },
    make(
      "legend",
      {},
      "Runs of this problem: choose at least two. Runs of one algorithm are one entry, with one run per seed.",
    ),
    make("div", { class: "boxes" }, others.map(label)),
    make("div", { class: "tools" }, compare, all),
  );
}

// -- comparisons --------------------------------------------------------------------------------

function comparison(root, context) {
  const { document: shown } = context;
  const names = namesOf(shown);
  const parts = [];
  const entries = entryChoice(context, names, () => parts.forEach((part) => part()));
  const measures = measureTable(context, names);
  parts.push(() => measures.show(entries.chosen()));
  measures.show(entries.chosen());
  root.append(entries.element, section("Measures", measures.element));
  if (shown.kind === "searches") {
    growth(root, context, names, entries, parts);
    return;
  }
  const differences = differencesSection(context, names);
  differences.show(entries.chosen());
  parts.push(() => differences.show(entries.chosen()));
  root.append(differences.element);
  const curves = curveFigure(context, {
    names,
    curves: shown.curves,
    x: "steps",
    y: shown.curve_label,
    title: "Learning curves",
    chosen: entries.chosen,
  });
  parts.push(curves.refresh);
  root.append(make("div", { class: "beneath" }, curves.element));
  if (shown.problem.objectives.length > 1) {
    const objectives = objectivesSection(context, names, entries.chosen);
    parts.push(objectives.refresh);
    root.append(objectives.element);
  }
  if (shown.id) root.append(section("Cross-site", crossOfEntries(context, names)));
}

function growth(root, context, names, entries, parts) {
  const { document: shown } = context;
  const curves = shown.entries.map((entry, place) => ({
    entry: place,
    steps: entry.growth.evaluations,
    mean: entry.growth.mean,
    std: entry.growth.std,
  }));
  const drawing = curveFigure(context, {
    names,
    curves,
    x: "evaluations",
    y: "hypervolume (validation)",
    title: "Growth of the archive",
    chosen: entries.chosen,
  });
  parts.push(drawing.refresh);
  root.append(make("div", { class: "beneath" }, drawing.element));
}

/** Make the choice of a run of the comparison, and its cross-site matrix. */
function crossOfEntries(context, names) {
  const { document: shown, source, state } = context;
  const runs = shown.entries
    .flatMap((entry, place) => entry.runs.map((id, index) => [id, `${names[place]}, seed ${entry.seeds[index]}`]))
    .filter(([id]) => id);
  const place = make("div");
  const show = async (id) => {
    context.set({ cross: id || null });
    fill(place);
    if (!id) return;
    try {
      const run = await source.document(id);
      if (context.here() && chooser.value === id) fill(place, crossSite(context, run));
    } catch (error) {
      if (context.here()) fill(place, message(error.message, "fault"));
    }
  };
  const asked = runs.some(([id]) => id === state.cross) ? state.cross : "";
  const chooser = select([["", "choose a run"], ...runs], asked, show);
  if (asked) show(asked);
  return make(
    "div",
    {},
    make("div", { class: "controls" }, field("Every model on every client, of the run", chooser)),
    place,
  );
}
