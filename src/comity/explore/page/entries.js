/** Entries of a comparison: their names and looks, which of them are chosen, their measures. */
import { colours } from "comity/charts";
import { button, download, fill, make, message } from "comity/elements";
import { number } from "comity/formats";
import { numbers } from "comity/state";
import { table, toLatex } from "comity/tables";
import { onTheme } from "comity/theme";

// a shape and a line beside each colour, for those who see few colours
const SYMBOLS = [
  ["circle", "●"],
  ["rect", "■"],
  ["triangle", "▲"],
  ["diamond", "◆"],
  ["path://M0,0L10,0L5,9Z", "▼"],
  ["path://M3,0H7V3H10V7H7V10H3V7H0V3H3Z", "✚"],
  ["path://M5,0L6.5,3.5L10,4L7.4,6.4L8,10L5,8.1L2,10L2.6,6.4L0,4L3.5,3.5Z", "★"],
];
const LINES = ["solid", "dashed", "dotted", [9, 3, 2, 3], [14, 4]];

/** Return the names of entries; with several preference distributions these are in them. */
export function namesOf({ entries }) {
  const several = new Set(entries.map((entry) => entry.preferences)).size > 1;
  return entries.map((entry) => (several ? `${entry.label}, ${entry.preferences}` : entry.label));
}

/** Return the colour, symbol, sign and kind of line of an entry. */
export function lookOf(colour, place) {
  const [symbol, sign] = SYMBOLS[place % SYMBOLS.length];
  return { color: colour.palette[place % colour.palette.length], symbol, sign, line: LINES[place % LINES.length] };
}

/**
 * Make one box per entry; those that are ticked are shown.
 * @param {object} context of the view
 * @param {string[]} names of the entries
 * @param {function} change called after each choice
 * @returns {object} `element`; `chosen()`: places of the chosen entries
 */
export function entryChoice(context, names, change) {
  const { entries: text } = context.state;
  const asked = text === "none" ? [] : numbers(text)?.filter((place) => place in names);
  const boxes = names.map((_, place) =>
    make("input", { type: "checkbox", checked: !asked || asked.includes(place), change: () => apply() }),
  );
  const chosen = () => names.flatMap((_, place) => (boxes[place].checked ? [place] : []));
  const signs = names.map((_, place) =>
    make("span", { class: "sign", "aria-hidden": "true" }, lookOf(colours(), place).sign),
  );
  const paint = () => signs.forEach((sign, place) => (sign.style.color = lookOf(colours(), place).color));
  const apply = () => {
    context.set({ entries: chosen().length === names.length ? null : chosen().join(",") || "none" });
    change();
  };
  const all =
    names.length > 3 &&
    [
      ["All", true],
      ["None", false],
    ].map(([text, ticked]) =>
      button(
        text,
        () => {
          for (const box of boxes) box.checked = ticked;
          apply();
        },
        { class: "quiet", "aria-label": `${text} of the entries` },
      ),
    );
  paint();
  context.onLeave(onTheme(paint));
  const element = make(
    "fieldset",
    { class: "entries" },
    make("legend", {}, "Entries"),
    names.map((name, place) => make("label", {}, boxes[place], signs[place], " ", name)),
    all,
  );
  return { element, chosen };
}

/**
 * Make the table of measures, mean ± standard deviation, with its export.
 * @param {object} context of the view
 * @param {string[]} names of the entries
 * @returns {object} `element`; `show(places)`: which entries are in it
 */
export function measureTable(context, names) {
  const { document: shown, source } = context;
  const element = make("div");
  const arrows = { higher: " ↑", lower: " ↓" };
  const head = ["entry", "seeds", ...shown.measures.map((measure) => measure.label + (arrows[measure.better] ?? ""))];
  const whole =
    shown.id &&
    !source.saved &&
    shown.kind === "comparison" &&
    make(
      "p",
      { class: "note" },
      "All entries with their differences, as the report writes them: ",
      ["csv", "latex"].map((format) => [
        " ",
        button(
          format === "csv" ? "CSV" : "LaTeX",
          async () => {
            const text = await source
              .table(shown.id, format)
              .catch((error) => fill(element, message(error.message, "fault")) && null);
            if (text !== null) download(`comparison.${format === "csv" ? "csv" : "tex"}`, text);
          },
          { class: "quiet", "aria-label": `Save the whole comparison as ${format === "csv" ? "CSV" : "LaTeX"}` },
        ),
      ]),
    );
  const show = (places) => {
    const cells = shown.measures.map((measure) => column(shown, places, measure));
    const rows = places.map((place, row) => [
      names[place],
      shown.entries[place].seeds.length,
      ...cells.map((cell) => cell[row]),
    ]);
    for (const [name, values] of Object.entries(shown.baselines ?? {})) {
      if (values)
        rows.push([name, { value: null, text: "" }, ...shown.measures.map((measure) => values[measure.name] ?? null)]);
    }
    const latex = button("LaTeX", () => download("measures.tex", toLatex(head, rows)), {
      class: "quiet",
      "aria-label": "Save “Measures of each entry” as LaTeX",
    });
    const drawn = table({ caption: "Measures of each entry", name: "measures", head, rows });
    drawn.querySelector(".tools > button").after(latex);
    fill(element, drawn);
  };
  return { element: make("div", {}, element, whole, shown.caption && reading(shown.caption)), show };
}

/** Make a long caption that opens when it is asked for. */
export function reading(text) {
  return make("details", {}, make("summary", {}, "How to read this"), message(text));
}

/** Return the cells of one measure: ★ marks the best of a preference distribution, grey what is worse than trivial. */
function column(shown, places, measure) {
  const scores = places.map((place) => score(shown.entries[place].metrics, measure));
  const kinds = places.map((place) => shown.entries[place].preferences);
  const best = (row) =>
    scores.every(
      (other, place) =>
        kinds[place] !== kinds[row] || other === null || other <= scores[row] + 1e-9 * Math.abs(scores[row]),
    );
  return places.map((place, row) => {
    const metric = shown.entries[place].metrics[measure.name];
    if (!metric) return null;
    const trivial = shown.entries[place].trivial ?? shown.baselines?.trivial ?? {};
    const standing = above(scores[row], score(spread(trivial), measure));
    const star = scores[row] !== null && standing > 0 && best(row) ? "★ " : "";
    const one = shown.entries[place].seeds.length === 1;
    return {
      value: metric.mean,
      text: star + meanAndStd(one ? { mean: metric.mean } : metric),
      class: standing < 0 ? "soft below" : "",
    };
  });
}

/** Return a value with the sign for which more is better; null if it does not compete. */
function score(metrics, measure) {
  const value = metrics[measure.name]?.mean;
  const alone = measure.name === "sparsity" && metrics.cardinality?.mean < 2; // no gaps: that is no merit
  if (measure.better === null || value === null || value === undefined || alone) return null;
  return measure.better === "higher" ? value : -value;
}

function above(value, line) {
  if (value === null || line === null) return 1;
  const near = Math.max(1e-9, 1e-6 * Math.max(Math.abs(value), Math.abs(line)));
  return Math.abs(value - line) <= near ? 0 : Math.sign(value - line);
}

function spread(values) {
  return Object.fromEntries(Object.entries(values).map(([name, mean]) => [name, { mean }]));
}

/** Return "0.85 ± 0.03"; the mean alone where there is no spread. */
function meanAndStd({ mean, std }) {
  if (std === null || std === undefined) return number(mean);
  const digits = Number.isInteger(mean) && Number.isInteger(std) ? 0 : 3;
  return `${number(mean, digits)} ± ${number(std, digits)}`;
}
