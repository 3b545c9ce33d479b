/** The cross-site matrix: every client's model on every client's rows. */
import { lists } from "comity/arrays";
import { axis, figure, SIGNED, WEIGHTS } from "comity/charts";
import { choice, code, make, message } from "comity/elements";
import { fateOf } from "comity/differences";
import { number, plural, signed } from "comity/formats";

/**
 * Make the cross-site matrix of a run, or what to do where there is none.
 * @param {object} context of the view
 * @param {object} run its document
 */
export function crossSite(context, run) {
  if (!run.cross) {
    return make(
      "div",
      {},
      message("Nobody has tried every model on every client of this run yet:"),
      code(`comity cross ${quoted(run.path)}`),
    );
  }
  const { cross } = run;
  const { clients, models } = cross;
  const model = { by: "by_client", against: "value" };
  const square = models.length === clients.length && models.every((name, row) => name === clients[row]);
  const tables = { by_client: lists(cross.by_client), by_model: lists(cross.by_model) };
  const drawing = matrix(context, cross, tables, model);
  const change = (changes) => {
    Object.assign(model, changes);
    drawing.refresh();
  };
  const controls = make(
    "div",
    { class: "controls" },
    captioned(
      "Weighed by the preference of",
      [
        ["by_client", "whose rows they are"],
        ["by_model", "whose model it is"],
      ],
      model.by,
      (by) => change({ by }),
    ),
    square &&
      captioned(
        "Shown as",
        [
          ["value", "value"],
          ["own", "difference to own model"],
        ],
        model.against,
        (against) => change({ against }),
      ),
  );
  const element = make(
    "div",
    {},
    square && make("p", { class: "lead" }, served(cross, tables.by_client)),
    controls,
    drawing.element,
  );
  return element;
}

function captioned(caption, options, value, change) {
  return make(
    "div",
    { class: "field" },
    make("span", { class: "note" }, caption),
    choice(caption, options, value, change),
  );
}

function quoted(path) {
  return /^[\w./~-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/** Return how many clients another's model serves better, in words. */
function served({ clients }, values) {
  const better = clients.filter((_, place) =>
    values.some(
      (row, other) =>
        other !== place &&
        row[place] !== null &&
        values[place][place] !== null &&
        fateOf(row[place], values[place][place]) === "better",
    ),
  );
  const some = better.slice(0, 6).join(", ") + (better.length > 6 ? ` and ${better.length - 6} more` : "");
  return better.length === 0
    ? `Nobody's model serves any of the ${plural(clients.length, "client")} better than its own.`
    : `Of ${plural(clients.length, "client")}, ${better.length} ${better.length === 1 ? "is" : "are"} served better by another's model than by ${better.length === 1 ? "its" : "their"} own: ${some}.`;
}

function matrix(context, { clients, models, trivial }, tables, model) {
  const withTrivial = () => model.by === "by_client" && trivial?.some((value) => value !== null);
  const rows = () => (withTrivial() ? [...models, "trivial"] : models);
  const value = (row, column) => {
    const table = tables[model.by];
    const known = row < models.length ? table[row][column] : trivial[column];
    const own = model.against === "own" ? table[column][column] : 0;
    return known === null || own === null ? null : known - own;
  };
  const build = (colour, width) => {
    const data = rows()
      .flatMap((_, row) => clients.map((_client, column) => [column, row, value(row, column)]))
      .filter((cell) => cell[2] !== null);
    let [low, high] = data.reduce(
      ([least, most], [, , each]) => [Math.min(least, each), Math.max(most, each)],
      [Infinity, -Infinity],
    );
    const own = model.against === "own";
    if (own)
      [low, high] = [-Math.max(Math.abs(low), Math.abs(high), 1e-6), Math.max(Math.abs(low), Math.abs(high), 1e-6)];
    const room = Math.min(width * 0.28, 110);
    const names = (texts) => ({ type: "category", data: texts, splitLine: { show: false }, scale: false });
    const label = { width: room, overflow: "truncate", color: colour.ink };
    const text = own ? signed : number;
    return {
      grid: { left: room + 26, right: 12, top: 8, bottom: clients.length > 8 ? 118 : 92 },
      xAxis: axis(colour, "rows of the client", {
        ...names(clients),
        nameGap: clients.length > 8 ? 62 : 28,
        axisLabel: { ...label, rotate: clients.length > 8 ? 60 : 0, width: 70 },
      }),
      yAxis: axis(colour, "model of", { ...names(rows()), inverse: true, nameGap: room + 8, axisLabel: label }),
      visualMap: {
        min: low,
        max: high,
        calculable: false,
        orient: "horizontal",
        left: "center",
        bottom: 0,
        itemWidth: 12,
        itemHeight: Math.min(220, width - 190),
        textStyle: { color: colour.soft, fontSize: 11 },
        text: [text(high), text(low)],
        inRange: { color: own ? SIGNED[colour.name] : WEIGHTS },
        hoverLink: false,
      },
      tooltip: {
        formatter: ({ value: [column, row, each] }) =>
          `${row < models.length ? `model of ${models[row]}` : "trivial"} on ${clients[column]}\n${text(each, 4)}`,
      },
      series: [
        {
          type: "heatmap",
          data,
          itemStyle: { borderColor: colour.paper, borderWidth: clients.length > 40 ? 0 : 1 },
          label: {
            show: clients.length <= Math.floor((width - room) / 52),
            formatter: ({ value: [, , each] }) => text(each),
            fontSize: 11,
          },
          emphasis: { itemStyle: { borderColor: colour.ink, borderWidth: 1.5 } },
        },
      ],
    };
  };
  return figure(context, {
    title: "Every model on every client",
    name: "cross-site",
    build,
    wide: true,
    heightOf: () => Math.min(900, 130 + Math.max(10, Math.min(34, 700 / rows().length)) * rows().length),
    note: "Scalarised test values. Test rows serve here a second time: describe with it, but do not choose by it.",
    rows: () => ({
      head: ["model of", ...clients.map((name) => `on ${name}`)],
      rows: rows().map((name, row) => [name, ...clients.map((_, column) => value(row, column))]),
      filter: "Filter models by name",
    }),
  });
}
