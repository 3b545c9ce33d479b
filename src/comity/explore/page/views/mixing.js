/** Who learned from whom: matrices between clients round by round, and clusters. */
import { decode } from "comity/arrays";
import { axis, figure, legend, SIGNED, WEIGHTS } from "comity/charts";
import { chosenRow, clientField, clientsOf } from "comity/clients";
import { clusterTree } from "comity/cluster-tree";
import { choice, field, make, message, select } from "comity/elements";
import { number, percent } from "comity/formats";
import { makeScrubber } from "comity/scrubber";
import { newest } from "comity/source";
import { integer } from "comity/state";

export const title = "Who learned from whom";

const KINDS = {
  mixing: { name: "Mixing", meaning: "Share of each giver (column) in what a receiver (row) gets from the server." },
  similarity: {
    name: "Similarity",
    meaning: "Similarity of the updates of two clients, as the algorithm measured it.",
  },
  heard: { name: "Heard", meaning: "Which giver (column) a receiver (row) heard, without a server." },
};
const TOP = 12; // givers and receivers that are listed

/** Runs that have matrices or clusters. */
export function applies(shown) {
  return shown.kind === "run" && Boolean(shown.mixing || shown.similarity || shown.clusters);
}

/** Draw the matrices, the givers of a client and the tree of clusters. */
export function render(root, context) {
  const { document: shown } = context;
  const clients = clientsOf(shown);
  const kinds = Object.keys(KINDS).filter((kind) => shown[kind]);
  if (!kinds.length) {
    root.append(clusterTree(context, clients, () => {}).element);
    return;
  }
  const model = {
    clients,
    shown,
    matrix: null,
    round: null,
    kind: kinds.includes(context.state.kind) ? context.state.kind : kinds[0],
    row: chosenRow(context, clients),
    order: context.state.order ?? (shown.clusters ? "clusters" : "preference"),
  };
  const figures = [
    heatMap(context, model, (row) => choose(row)),
    giving(context, model, false),
    giving(context, model, true),
    ownWeights(context, model),
  ].filter(Boolean);
  const refresh = () => figures.forEach((drawing) => drawing.refresh());
  const chooser = clientField(clients, model.row, (row) => choose(row));
  const choose = (row) => {
    model.row = row;
    chooser.querySelector("select").value = row;
    context.set({ client: clients[row].number });
    refresh();
    branches?.refresh();
  };
  const fault = make("div");
  const load = newest(
    async (round) => ({ round, matrix: await matrixOf(context, model.kind, round) }),
    ({ round, matrix }) => {
      if (!context.here()) return;
      Object.assign(model, { round, matrix });
      fault.replaceChildren();
      refresh();
    },
    (error) => fault.replaceChildren(message(error.message, "fault")),
  );
  const scrubber = makeScrubber(context, (round) => {
    context.set({ round });
    load(round);
  });
  const start = () => scrubber.show(roundsOf(context, model.kind), integer(context.state.round, null, Infinity));
  const branches = shown.clusters ? clusterTree(context, clients, choose, model) : null;
  const sorts = [["preference", "preference"], shown.clusters && ["clusters", "clusters"], ["number", "number"]].filter(
    Boolean,
  );

  root.append(
    make(
      "div",
      { class: "controls" },
      kinds.length > 1 &&
        choice(
          "Matrix",
          kinds.map((kind) => [kind, KINDS[kind].name]),
          model.kind,
          (kind) => {
            model.kind = kind;
            context.set({ kind });
            start();
          },
        ),
      field(
        "Order of clients",
        select(sorts, model.order, (order) => {
          model.order = order;
          context.set({ order });
          refresh();
        }),
      ),
      chooser,
      scrubber.element,
    ),
    fault,
    make(
      "div",
      { class: "halves" },
      make("div", {}, figures[0].element, branches ? branches.element : ""),
      make(
        "div",
        {},
        figures.slice(1).map((drawing) => drawing.element),
      ),
    ),
  );
  start();
}

// -- matrices ---------------------------------------------------------------------------------

function roundsOf({ document: shown, source }, kind) {
  const series = shown[kind];
  return source.saved ? series.rounds : (series.recorded ?? series.rounds);
}

/** Return the matrix of a round: from the document, or from the server. */
async function matrixOf({ document: shown, source }, kind, round) {
  const series = shown[kind];
  const index = series.rounds.indexOf(round);
  if (kind === "heard") {
    const count = shown.clients.number.length;
    const values = new Float32Array(count * count);
    for (const [receiver, giver] of series.pairs[index]) values[receiver * count + giver] = 1;
    return { at: (row, column) => values[row * count + column] };
  }
  const numbers = index >= 0 ? decode(series.matrices).at(index) : decode((await source.mixing(shown.id, round))[kind]);
  const width = numbers.shape[1];
  return { at: (row, column) => numbers.values[row * width + column] };
}

function ordered({ shown, clients, order }) {
  const rows = clients.map((client) => client.row);
  if (order === "clusters" && shown.clusters) return shown.clusters.order;
  if (order === "preference" && clients.every((client) => client.preference))
    return rows.sort((a, b) => clients[a].preference[0] - clients[b].preference[0]);
  return rows;
}

function heatMap(context, model, choose) {
  const build = (colour, width) => {
    if (!model.matrix) return {};
    const order = ordered(model);
    const data = [];
    let [low, high] = [Infinity, -Infinity];
    order.forEach((receiver, y) =>
      order.forEach((giver, x) => {
        const value = model.matrix.at(receiver, giver);
        if (Number.isNaN(value)) return;
        data.push([x, y, value]);
        low = Math.min(low, value);
        high = Math.max(high, value);
      }),
    );
    const labels = order.map((row) => model.clients[row].label);
    const names = order.length <= 30;
    const side = (name, inverse) => ({
      ...axis(colour, names ? "" : name, {
        type: "category",
        data: labels,
        inverse,
        nameGap: 8,
        splitLine: { show: false },
      }),
      axisLabel: {
        show: names,
        color: colour.soft,
        fontSize: 11,
        width: 84,
        overflow: "truncate",
        rotate: inverse ? 0 : 45,
        interval: 0,
      },
      axisLine: { show: false },
    });
    const chosen = order.indexOf(model.row);
    return {
      grid: { left: names ? 92 : 26, right: 8, top: 8, bottom: names ? 116 : 66 },
      xAxis: side("giver", false),
      yAxis: side("receiver", true),
      visualMap: {
        min: model.kind === "similarity" ? -1 : 0,
        max: model.kind === "similarity" ? 1 : Math.max(high, 1e-6),
        calculable: true,
        orient: "horizontal",
        left: "center",
        bottom: 0,
        itemHeight: Math.min(180, width / 2),
        itemWidth: 12,
        precision: 2,
        textStyle: { color: colour.soft, fontSize: 11 },
        inRange: { color: model.kind === "similarity" ? SIGNED[colour.name] : WEIGHTS },
      },
      tooltip: { formatter: ({ value: [x, y, value] }) => `${labels[y]} from ${labels[x]}\n${number(value)}` },
      series: [
        {
          type: "heatmap",
          data,
          progressive: 20000,
          itemStyle: { borderWidth: 0 },
          emphasis: { itemStyle: { borderColor: colour.ink, borderWidth: 1 } },
          markLine: {
            silent: true,
            symbol: "none",
            label: { show: false },
            animation: false,
            lineStyle: { color: colour.ink, width: 1, type: "dotted" },
            data: chosen < 0 ? [] : [{ yAxis: chosen }],
          },
        },
      ],
      aria: {
        label: {
          enabled: true,
          description: `${KINDS[model.kind].name} of round ${model.round}: ${order.length} by ${order.length} clients.`,
        },
      },
    };
  };
  return figure(context, {
    title: "Between clients",
    name: "matrix",
    height: Math.min(620, 300 + 18 * model.clients.length),
    build,
    note: `${KINDS[model.kind].meaning} Empty rows: absent receivers.`,
    rows: () => {
      const order = ordered(model);
      return {
        head: ["receiver", ...order.map((row) => model.clients[row].label)],
        rows: order.map((row) => [
          model.clients[row].label,
          ...order.map((giver) => none(model.matrix.at(row, giver))),
        ]),
      };
    },
    click: ({ value }) => value && choose(ordered(model)[value[1]]),
  });
}

function none(value) {
  return Number.isNaN(value) ? null : value;
}

// -- one client -------------------------------------------------------------------------------

/** Make the bars of what a client gets from others, or gives to them. */
function giving(context, model, gives) {
  const list = () => {
    if (!model.matrix) return [];
    return model.clients
      .map((client) => ({
        label: client.label,
        own: client.row === model.row,
        value: gives ? model.matrix.at(client.row, model.row) : model.matrix.at(model.row, client.row),
      }))
      .filter(({ value }) => !Number.isNaN(value) && value !== 0)
      .sort((a, b) => b.value - a.value);
  };
  const drawing = figure(context, {
    title: gives ? "Who got from this client" : "From whom this client got",
    name: gives ? "gave" : "got",
    height: 240,
    heightOf: () => (list().length ? 40 + 22 * Math.max(2, Math.min(TOP, list().length)) : 4),
    build: (colour) => {
      const all = list();
      const top = all.slice(0, TOP);
      const rest = all.length - top.length;
      drawing.note(
        `${model.clients[model.row].label}, round ${model.round ?? "–"}.${all.length ? "" : " Nothing: it was absent, or mixed with nobody."}${rest > 0 ? ` ${rest} more with smaller values: see the table.` : ""}`,
      );
      if (!all.length) return {};
      return {
        grid: { left: 100, right: 48, top: 6, bottom: 24 },
        xAxis: axis(colour, "", { scale: false }),
        yAxis: {
          ...axis(colour, "", {
            type: "category",
            inverse: true,
            data: top.map(({ label }) => label),
            splitLine: { show: false },
          }),
          axisLabel: { color: colour.ink, width: 92, overflow: "truncate", fontSize: 11 },
        },
        tooltip: { formatter: ({ name, value }) => `${name}\n${number(value)}` },
        series: [
          {
            type: "bar",
            barMaxWidth: 14,
            data: top.map(({ value, own }) => ({ value, itemStyle: { color: own ? colour.faint : colour.accent } })),
            label: {
              show: true,
              position: "right",
              color: colour.ink,
              fontSize: 11,
              formatter: ({ value }) => number(value),
            },
          },
        ],
      };
    },
    rows: () => ({ head: ["client", "value"], rows: list().map(({ label, value }) => [label, value]) }),
  });
  return drawing;
}

/** Make the curve of the share that clients keep of themselves. */
function ownWeights(context, model) {
  const { shown } = model;
  if (!shown.mixing) return null;
  const matrices = decode(shown.mixing.matrices);
  const [count, size] = matrices.shape;
  const diagonal = (row) =>
    Array.from({ length: count }, (_, index) => none(matrices.values[(index * size + row) * size + row]));
  const all = model.clients.map((client) => diagonal(client.row));
  const means = shown.mixing.rounds.map((_, index) => {
    const known = all.map((line) => line[index]).filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
  });
  const points = (values) => values.map((value, index) => [shown.mixing.rounds[index], value]);
  return figure(context, {
    title: "Share that clients keep of themselves",
    name: "own-share",
    height: 240,
    build: (colour) => ({
      legend: legend(colour),
      grid: { left: 48, right: 12, top: 32, bottom: 40 },
      xAxis: axis(colour, "round", { minInterval: 1 }),
      yAxis: axis(colour, "", { min: 0, max: 1, scale: false, axisLabel: { formatter: (value) => percent(value) } }),
      tooltip: { trigger: "axis", valueFormatter: (value) => number(value) },
      series: [
        {
          type: "line",
          name: "mean of all clients",
          data: points(means),
          symbol: "none",
          itemStyle: { color: colour.faint },
        },
        {
          type: "line",
          name: model.clients[model.row].label,
          data: points(all[model.row]),
          symbol: "circle",
          symbolSize: 4,
          connectNulls: false,
          itemStyle: { color: colour.accent },
        },
      ],
    }),
    rows: () => ({
      head: ["round", "mean of all clients", model.clients[model.row].label],
      rows: shown.mixing.rounds.map((round, index) => [round, means[index], all[model.row][index]]),
    }),
  });
}
