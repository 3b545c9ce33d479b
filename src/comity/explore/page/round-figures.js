/** Figures of rounds: curves, bytes, participants, and the growth of a search. */
import { lists } from "comity/arrays";
import { axis, band, figure, legend } from "comity/charts";
import { bytes, count, number } from "comity/formats";

const STAGES = [
  ["received", "as received", "faint"],
  ["trained", "after local training", "accent"],
  ["kept", "kept", "good"],
];

/** Return [name, tone, points, band points] of each curve that is chosen. */
function series({ history, what, client, clients }) {
  if (!history) return [];
  const { rounds } = history;
  if (what === "hypervolume")
    return [
      [
        "mean validation hypervolume",
        "accent",
        rounds.map((round, index) => [round, history.hypervolume?.[index] ?? null]),
      ],
    ];
  if (what !== "value") {
    return STAGES.map(([stage, name, tone]) => [
      name,
      tone,
      lists(history.objectives?.[stage])?.map((row, index) => [rounds[index], row[Number(what)]]) ?? [],
    ]);
  }
  const row = clients.findIndex((entry) => String(entry.number) === client);
  if (row >= 0) {
    return STAGES.map(([stage, name, tone]) => [
      name,
      tone,
      lists(history.clients?.[stage])?.map((line, index) => [history.clients.rounds[index], line[row]]) ?? [],
    ]);
  }
  return STAGES.map(([stage, name, tone]) => [
    name,
    tone,
    rounds.map((round, index) => [round, history.mean?.[stage]?.[index] ?? null]),
    stage === "kept" &&
      rounds.map((round, index) => [round, history.low?.kept?.[index] ?? null, history.high?.kept?.[index] ?? null]),
  ]);
}

/** Make the validation curves of a run. */
export function curves(context, model) {
  const known = () => series(model).filter(([, , points]) => points.some(([, value]) => value !== null));
  const drawing = figure(context, {
    title: "Validation, round by round",
    name: "rounds",
    wide: true,
    heightOf: () => (known().length ? 340 : 4),
    build: (colour) => {
      drawing.note(noteOf(model, known().length > 0));
      return known().length ? option(colour) : {};
    },
    rows: () => {
      const all = known();
      const rounds = all[0]?.[2].map(([round]) => round) ?? [];
      return {
        head: ["round", ...all.map(([name]) => name)],
        rows: rounds.map((round, index) => [round, ...all.map(([, , points]) => points[index]?.[1] ?? null)]),
      };
    },
  });
  const option = (colour) => ({
    legend: legend(colour, { data: known().map(([name]) => name) }),
    grid: { left: 56, right: 16, top: 34, bottom: 42 },
    xAxis: axis(colour, "round", {
      minInterval: 1,
      scale: false,
      min: 0,
      max: Math.max(model.state.of ?? 0, model.history?.rounds?.at(-1) ?? 0),
    }),
    yAxis: axis(colour, "", {}),
    tooltip: { trigger: "axis", formatter: (items) => hint(items) },
    series: known().flatMap(([name, tone, points, area]) => [
      ...(area ? band(`${name}, middle half`, area, colour[tone]) : []),
      {
        type: "line",
        name,
        data: points,
        symbol: points.length > 60 ? "none" : "circle",
        symbolSize: 4,
        itemStyle: { color: colour[tone] },
        lineStyle: { width: 2 },
        z: 3,
        connectNulls: true,
      },
    ]),
  });
  return drawing;
}

/** Return what the curves are; the organiser of real sites has none. */
function noteOf({ what, client }, known) {
  if (!known) return "No scores are known here: there are none yet, or only the sites have them.";
  if (client && what === "value") return "One client's models on its validation data.";
  return `Means over the clients that took part${what === "value" ? "; the shaded area holds the middle half of the kept ones" : ""}.`;
}

function hint(items) {
  const lines = items.filter(
    ({ seriesName, value }) => !seriesName.endsWith("middle half") && value[1] !== null && value[1] !== undefined,
  );
  return lines.length
    ? [`round ${lines[0].value[0]}`, ...lines.map(({ seriesName, value }) => `${seriesName} ${number(value[1])}`)].join(
        "\n",
      )
    : "";
}

function steps(context, model, title, name, fields, format) {
  const points = (field) =>
    (model.history?.rounds ?? []).map((round, index) => [round, model.history[field]?.[index] ?? null]);
  return figure(context, {
    title,
    name,
    height: 220,
    build: (colour) => ({
      legend: legend(colour),
      grid: { left: 60, right: 12, top: 32, bottom: 40 },
      xAxis: axis(colour, "round", { minInterval: 1 }),
      yAxis: axis(colour, "", { min: 0, scale: false, axisLabel: { formatter: format } }),
      tooltip: { trigger: "axis", valueFormatter: format },
      series: fields.map(([field, label, tone]) => ({
        type: "line",
        name: label,
        step: "middle",
        symbol: "none",
        data: points(field),
        itemStyle: { color: colour[tone] },
      })),
    }),
    rows: () => ({
      head: ["round", ...fields.map(([, label]) => label)],
      rows: (model.history?.rounds ?? []).map((round, index) => [
        round,
        ...fields.map(([field]) => model.history[field]?.[index] ?? null),
      ]),
    }),
  });
}

/** Make the bytes of each round. */
export function traffic(context, model) {
  return steps(
    context,
    model,
    "Bytes per round",
    "bytes",
    [
      ["bytes_up", "sent by clients", "accent"],
      ["bytes_down", "received by clients", "good"],
    ],
    bytes,
  );
}

/** Make the number of clients that took part. */
export function attendance(context, model) {
  const fields = [
    ["participants", "took part", "accent"],
    ["declined", "declined the model", "bad"],
    model.history?.clusters && ["clusters", "clusters", "odd"],
  ].filter(Boolean);
  return steps(context, model, "Clients per round", "participants", fields, count);
}

/** Make the hypervolume of a search. */
export function growth(context, model) {
  const { history } = model;
  return figure(context, {
    title: "Hypervolume by evaluations",
    name: "growth",
    height: 320,
    wide: true,
    build: (colour) => ({
      grid: { left: 60, right: 16, top: 12, bottom: 40 },
      xAxis: axis(colour, "evaluations", { minInterval: 1, scale: false }),
      yAxis: axis(colour, "hypervolume", { nameGap: 44 }),
      tooltip: { trigger: "axis", formatter: ([{ value }]) => `${count(value[0])} evaluations\n${number(value[1])}` },
      series: [
        {
          type: "line",
          step: "end",
          symbolSize: 5,
          data: (model.history?.evaluations ?? []).map((at, index) => [at, model.history.hypervolume?.[index] ?? null]),
          itemStyle: { color: colour.accent },
        },
      ],
    }),
    rows: () => ({
      head: ["iteration", "evaluations", "hypervolume"],
      rows: (history?.rounds ?? []).map((round, index) => [
        round,
        history.evaluations[index],
        history.hypervolume?.[index] ?? null,
      ]),
    }),
  });
}
