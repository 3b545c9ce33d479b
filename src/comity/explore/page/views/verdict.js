/** The verdict: the words of a run, its measures, and who gained. */
import { decode, lists } from "comity/arrays";
import { axis, figure, legend, MARKS } from "comity/charts";
import { clientsOf } from "comity/clients";
import { code, facts, make, section, tile } from "comity/elements";
import { measureTable, namesOf } from "comity/entries";
import { number, signed, weights } from "comity/formats";
import { table } from "comity/tables";

export const title = "Verdict";

/** Every item has a verdict. */
export function applies() {
  return true;
}

/** Draw the verdict of a run, a search or a comparison. */
export function render(root, context) {
  const { document: shown } = context;
  root.append(head(shown), sentences(shown));
  if (shown.kind === "run") run(root, context);
  else if (shown.kind === "search") search(root, context);
  else entries(root, context);
  if (shown.configuration) {
    root.append(make("details", {}, make("summary", {}, "Configuration"), code(shown.configuration)));
  }
}

function head(shown) {
  const { problem, algorithm } = shown;
  const parts = [problem?.title ?? problem?.name, algorithm && (algorithm.title ?? algorithm.name)].filter(Boolean);
  const wrapper = algorithm?.wrapper && algorithm.wrapper !== "none" ? ` with ${algorithm.wrapper}` : "";
  return make(
    "header",
    {},
    make("p", { class: "title" }, parts.join(" · ") + wrapper),
    facts([...(shown.facts ?? []), ["directory", shown.path]]),
  );
}

function sentences(shown) {
  const { state, verdict } = shown;
  if (verdict)
    return make(
      "div",
      { class: "sentences" },
      verdict.sentences.map((text) => make("p", {}, text)),
    );
  const words = {
    running: `Still running: ${state.done} of ${state.of} rounds.`,
    interrupted: `Interrupted after ${state.done} of ${state.of} rounds. It goes on with:`,
  };
  return make(
    "div",
    { class: "sentences" },
    make("p", {}, words[state?.state] ?? "There is no verdict."),
    state?.resume && code(state.resume),
  );
}

function measures(shown) {
  const known = (shown.metrics ?? []).filter((metric) => metric.value !== null);
  if (!known.length) return null;
  const arrow = { higher: " ↑", lower: " ↓" };
  const text = (metric, value) => number(value, metric.name === "cardinality" ? 0 : 3);
  const beside = (metric) =>
    [
      ["trivial", metric.trivial],
      ["optimum", metric.optimum],
    ]
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => `${name} ${text(metric, value)}`)
      .join(" · ");
  return make(
    "div",
    { class: "tiles" },
    known.map((metric) =>
      tile(text(metric, metric.value), metric.label + (arrow[metric.better] ?? ""), beside(metric)),
    ),
  );
}

// -- runs -------------------------------------------------------------------------------------

function run(root, context) {
  const { document: shown } = context;
  const clients = clientsOf(shown);
  if (clients.some((client) => client.mark)) root.append(marks(clients));
  root.append(measures(shown) ?? "");
  if (clients.some((client) => client.scalarised !== null)) root.append(outcomes(context, clients));
  root.append(section("Clients", clientTable(context, clients)));
}

function marks(clients) {
  const known = Object.entries(MARKS).map(([name, mark]) => ({
    name,
    ...mark,
    count: clients.filter((client) => client.mark === name).length,
  }));
  const bar = make("div", { class: "markbar", "aria-hidden": "true" });
  for (const mark of known.filter((entry) => entry.count)) {
    const part = make("i", { class: `mark-${mark.name}` });
    part.style.flexGrow = mark.count;
    bar.append(part);
  }
  const words = known
    .filter((mark) => mark.count)
    .map((mark) =>
      make(
        "li",
        {},
        make("span", { class: `sign mark-${mark.name}`, "aria-hidden": "true" }, mark.sign),
        ` ${mark.count} ${mark.text}`,
      ),
    );
  return make("div", { class: "marks" }, bar, make("ul", { class: "legend" }, words));
}

function outcomes(context, clients) {
  const { document: shown } = context;
  const judged = clients.filter((client) => client.scalarised !== null);
  const order = [...judged].sort((a, b) => (a.gain ?? a.scalarised) - (b.gain ?? b.scalarised));
  const many = order.length > 40;
  const build = (colour) => {
    const series = [
      many ? null : gains(order, colour),
      baseline(order, "trivial", colour.soft, many),
      baseline(order, "optimum", colour.best, many),
      ...Object.entries(MARKS).map(([mark, style]) => ({
        type: "scatter",
        name: style.text,
        symbol: style.symbol,
        symbolSize: many ? Math.max(3, 9 - order.length / 120) : 12,
        z: 3,
        data: order
          .map((client, x) => ({ value: [x, client.scalarised], client }))
          .filter(({ client }) => (client.mark ?? "undefined") === mark),
        itemStyle: { color: colour[style.colour], opacity: 1 },
      })),
    ].filter((entry) => entry?.data.length);
    return {
      legend: legend(colour, { data: series.filter((entry) => entry.name).map((entry) => entry.name) }),
      grid: { left: 52, right: 12, top: 34, bottom: many || order.length <= 6 ? 28 : 62 },
      xAxis: axis(colour, many ? "clients, by gain" : "", {
        min: -0.5,
        max: order.length - 0.5,
        scale: false,
        splitLine: { show: false },
        nameGap: 8,
        axisLabel: many
          ? { show: false }
          : {
              customValues: order.map((_, index) => index),
              rotate: order.length > 6 ? 35 : 0,
              width: 90,
              overflow: "truncate",
              formatter: (value) => order[value]?.label ?? "",
            },
      }),
      yAxis: axis(colour, "scalarised test value", { nameGap: 40, axisLine: { show: false, onZero: false } }),
      tooltip: { formatter: ({ data }) => (data?.client ? clientText(shown, data.client) : "") },
      series,
    };
  };
  const drawing = figure(context, {
    title: "Value of each client's model at its own preference",
    name: "clients",
    height: 290,
    build,
    note: "Clients in order of their gain over the trivial baseline. Choose a point to move that client's preference.",
    rows: () => ({
      head: ["client", "scalarised", "trivial", "optimum", "gain"],
      rows: order.map((client) => [client.label, client.scalarised, client.trivial, client.optimum, client.gain]),
    }),
    click: ({ data }) => data?.client && context.go("preference", { client: data.client.number }),
  });
  if (!many) drawing.element.style.maxWidth = `${Math.max(34, 5 * order.length)}rem`;
  return drawing.element;
}

/** Return lines from the trivial value of each client to what its model reaches. */
function gains(order, colour) {
  const renderItem = (_, api) => {
    const [from, to] = [api.coord([api.value(0), api.value(1)]), api.coord([api.value(0), api.value(2)])];
    return {
      type: "line",
      silent: true,
      shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] },
      style: { stroke: colour.rule, lineWidth: 3 },
    };
  };
  const data = order.flatMap((client, x) => (client.trivial === null ? [] : [[x, client.trivial, client.scalarised]]));
  return { type: "custom", renderItem, encode: { x: 0, y: [1, 2] }, data, z: 1, silent: true };
}

/** Return the trivial or optimal values: a dash per client, or a line where there are many. */
function baseline(order, field, colour, many) {
  const data = order.flatMap((client, x) => (client[field] === null ? [] : [{ value: [x, client[field]], client }]));
  return many
    ? {
        type: "line",
        name: field,
        data,
        symbol: "none",
        silent: true,
        lineStyle: { width: 1.2, color: colour },
        itemStyle: { color: colour },
        z: 2,
      }
    : {
        type: "scatter",
        name: field,
        data,
        symbol: "rect",
        symbolSize: [22, 3],
        itemStyle: { color: colour, opacity: 1 },
        z: 2,
      };
}

function clientText(shown, client) {
  const names = shown.problem.objectives.map((objective) => objective.name);
  const values = names.map((name, k) => `${name} ${number(client.objectives?.[k])}`);
  return [
    client.label,
    `preference ${client.preference ? weights(client.preference) : "private"}`,
    ...values,
    `scalarised ${number(client.scalarised)}, trivial ${number(client.trivial)}`,
  ].join("\n");
}

function keptText(round, rounds) {
  return round > rounds ? { value: round, text: "last delivery" } : round;
}

function clientTable(context, clients) {
  const { document: shown } = context;
  const names = shown.problem.objectives.map((objective) => objective.name);
  const has = (field) => clients.some((client) => client[field] !== null);
  const columns = [
    ["client", (client) => client.label],
    [
      "outcome",
      (client) =>
        client.mark && {
          value: client.mark,
          text: `${MARKS[client.mark].sign} ${client.mark}`,
          class: `mark-${client.mark}`,
        },
      "mark",
    ],
    ["preference", (client) => client.preference && weights(client.preference), "preference"],
    ...names.map((name, k) => [name, (client) => client.objectives?.[k] ?? null, "objectives"]),
    ["scalarised", (client) => client.scalarised, "scalarised"],
    ["trivial", (client) => client.trivial, "trivial"],
    ["gain", (client) => ({ value: client.gain, text: signed(client.gain) }), "gain"],
    ["optimum", (client) => client.optimum, "optimum"],
    ["kept round", (client) => keptText(client.keptRound, shown.state.of), "keptRound"],
  ].filter(([, , needed]) => !needed || has(needed));
  return table({
    caption: "Clients of the run",
    name: "clients",
    filter: "Filter clients by name",
    head: columns.map(([head]) => head),
    rows: clients.map((client) => columns.map(([, cell]) => cell(client))),
    click: shown.state.state === "finished" ? (row) => context.go("preference", { client: clients[row].number }) : null,
  });
}

// -- searches and comparisons -----------------------------------------------------------------

function search(root, context) {
  const { document: shown } = context;
  root.append(measures(shown) ?? "");
  if (!shown.front) return;
  const objectives = lists(shown.front.objectives);
  const weight = lists(shown.front.weight);
  const names = shown.problem.objectives.map((objective) => objective.name);
  const rows = objectives.map((point, index) => [
    String(index),
    ...point,
    weights(weight[index]),
    shown.front.iteration[index],
    shown.front.model[index],
  ]);
  root.append(
    section(
      "Models of the front",
      table({
        caption: "Models of the front",
        name: "front",
        head: ["point", ...names, "weight", "iteration", "file"],
        rows,
        click: (index) => context.go("preference", { w: normal(decode(shown.front.weight).at(index).values) }),
      }),
    ),
  );
}

function normal(values) {
  return Array.from(values, (value) => Math.round(value * 1000) / 1000).join(",");
}

function entries(root, context) {
  const { entries: known } = context.document;
  const measures = measureTable(context, namesOf(context.document));
  measures.show(known.map((_, place) => place));
  root.append(section("Entries", measures.element));
}
