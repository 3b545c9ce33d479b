/** The space of objectives: a client's model on its front, among everything else that is known. */
import { decode, dot, lists, nondominated } from "comity/arrays";
import { axis, figure, legend, limits, ring } from "comity/charts";
import { number, weights } from "comity/formats";

const DOTS = "its other preferences";

/**
 * Make the scatter chart of two objectives.
 * @param {object} context of the view
 * @param {object} model of the view: shown, names, clients, row, judgement, axes, levels
 * @param {function} choose called with the row of a client that the reader points at
 */
export function objectiveSpace(context, model, choose) {
  const { shown, names } = model;
  const spans = fronts(shown);
  const seen = [];
  const build = (colour) => {
    const [x, y] = model.axes;
    const at = (point) => (point && point[x] !== null && point[y] !== null ? [point[x], point[y]] : null);
    const points = (rows) => (rows ?? []).map(at).filter(Boolean);
    const along = (rows) => points(rows).sort((a, b) => a[0] - b[0]);
    const now = model.judgement?.parts.test.objectives ?? null;
    const kept = model.judgement?.baseline?.test?.objectives ?? model.clients[model.row]?.objectives ?? null;
    if (now) seen.push(now);
    const own = model.row === null ? null : spans?.(model.row);
    const two = names.length === 2;
    const others = model.clients.filter((client) => client.row !== model.row && at(client.objectives));
    const best =
      model.knownFront?.length && model.judgement
        ? model.knownFront.reduce((a, b) =>
            dot(model.judgement.preference, b) > dot(model.judgement.preference, a) ? b : a,
          )
        : null;
    const line = (name, rows, style) => ({
      type: two ? "line" : "scatter",
      name,
      data: two ? along(rows) : points(rows),
      symbol: "circle",
      symbolSize: 4,
      z: 2,
      itemStyle: { color: style.color },
      lineStyle: { width: 1.5, ...style },
    });
    const dots = (name, data, options) => ({ type: "scatter", name, data, ...options });
    const levels = model.levels ? levelLines(model, colour) : null;
    const series = [
      model.knownFront?.length && line("known front", model.knownFront, { color: colour.best, type: "dashed" }),
      model.front?.length &&
        line(shown.kind === "search" ? "front of the search" : "front of all clients", nondominated(model.front), {
          color: colour.faint,
        }),
      own &&
        dots(DOTS, points(own.all), {
          symbolSize: 3,
          itemStyle: { color: colour.accent, opacity: 0.35 },
          silent: true,
          large: own.all.length > 2000,
        }),
      own && two && line("its front", own.front, { color: colour.accent }),
      others.length &&
        dots(
          "other clients",
          others.map((client) => ({ value: at(client.objectives), client })),
          {
            symbolSize: others.length > 200 ? 4 : 8,
            itemStyle: { color: colour.soft, opacity: 0.75 },
            z: 3,
          },
        ),
      shown.trivial_point &&
        dots("trivial", points([shown.trivial_point]), {
          symbol: "diamond",
          symbolSize: 13,
          itemStyle: ring(colour.bad),
          z: 4,
        }),
      best &&
        dots("optimum at this preference", points([best]), { symbolSize: 19, itemStyle: ring(colour.best), z: 4 }),
      kept && dots("kept model", points([kept]), { symbolSize: 13, itemStyle: ring(colour.accent), z: 5 }),
      now &&
        dots("model now", points([now]), {
          symbolSize: 15,
          itemStyle: { color: colour.accent, borderColor: colour.paper, borderWidth: 1.5, opacity: 1 },
          z: 6,
          ...levels,
        }),
    ].filter(Boolean);
    const known = [
      ...points(model.knownFront),
      ...points(model.front),
      ...points(own?.all),
      ...points(model.clients.map((client) => client.objectives)),
      ...points([shown.trivial_point, kept, best]),
      ...points(seen),
    ];
    return {
      legend: legend(colour, {
        data: series
          .map(({ name }) => name)
          .filter((name) => name !== DOTS)
          .reverse(),
      }),
      grid: { left: 56, right: 16, top: 34, bottom: 44 },
      xAxis: axis(colour, names[x], limits(known.map((point) => point[0]))),
      yAxis: axis(colour, names[y], { nameGap: 42, ...limits(known.map((point) => point[1])) }),
      tooltip: { formatter: (item) => hint(item, model, [x, y]) },
      series,
    };
  };
  return figure(context, {
    title: "What the model reaches",
    name: "preference",
    height: 430,
    build,
    note: `Test values. Larger is better on both axes.${spans ? " Small dots: this client at other preferences." : ""}`,
    rows: () => table(model),
    click: ({ data }) => data?.client && choose(data.client.row),
  });
}

/** Return a function from a client to what its models reach at all preferences; null without such. */
function fronts(shown) {
  if (!shown.spans) return null;
  const vectors = decode(shown.spans.vectors);
  const cache = new Map();
  return (row) => {
    if (!cache.has(row)) {
      const all = vectors.at(row).lists();
      cache.set(row, { all, front: nondominated(all) });
    }
    return cache.get(row);
  };
}

function levelLines(model, colour) {
  const data = model.axes.flatMap((k, position) =>
    model.levels[k] === null ? [] : [{ [position === 0 ? "xAxis" : "yAxis"]: model.levels[k] }],
  );
  return {
    markLine: {
      silent: true,
      symbol: "none",
      data,
      lineStyle: { color: colour.good, type: "dotted", width: 2 },
      label: {
        formatter: ({ value }) => `at least ${number(value, 2)}`,
        color: colour.good,
        position: "insideEndTop",
        fontSize: 11,
      },
    },
  };
}

function hint({ seriesName, data, value }, { names }, axes) {
  const [a, b] = data?.value ?? value;
  const at = `${names[axes[0]]} ${number(a)}\n${names[axes[1]]} ${number(b)}`;
  if (!data?.client) return `${seriesName}\n${at}`;
  const { client } = data;
  return [client.label, client.preference && `preference ${weights(client.preference)}`, at].filter(Boolean).join("\n");
}

function table({ names, clients, judgement, shown, front }) {
  const rows = [
    judgement && ["model now", ...judgement.parts.test.objectives],
    judgement?.baseline && ["kept model", ...judgement.baseline.test.objectives],
    shown.trivial_point && ["trivial", ...shown.trivial_point],
    ...(clients.length
      ? clients.filter((client) => client.objectives).map((client) => [client.label, ...client.objectives])
      : (front ?? []).map((point, index) => [`point ${index}`, ...point])),
  ].filter(Boolean);
  return { head: ["model", ...names], rows };
}

/** Make parallel coordinates of all objectives: one line per client, the model now in front. */
export function parallelLines(context, model) {
  const { shown, names } = model;
  const build = (colour) => {
    const rows = model.clients.length ? model.clients.map((client) => client.objectives) : (model.front ?? []);
    const whole = (row) => row?.every((value) => value !== null);
    const line = (name, data, style) => ({
      type: "parallel",
      name,
      data: data.filter(whole),
      smooth: false,
      lineStyle: style,
      emphasis: { disabled: true },
      silent: true,
    });
    const now = model.judgement?.parts.test.objectives;
    return {
      legend: legend(colour),
      parallel: {
        left: 40,
        right: 60,
        top: 60,
        bottom: 24,
        parallelAxisDefault: {
          type: "value",
          scale: true,
          nameTextStyle: { color: colour.ink, fontSize: 12 },
          nameGap: 10,
          axisLine: { lineStyle: { color: colour.faint } },
          splitNumber: 4,
          axisTick: { show: false },
        },
      },
      parallelAxis: names.map((name, dim) => {
        const { min, max, axisLabel } = limits(
          [...rows, now, shown.trivial_point].filter(whole).map((row) => row[dim]),
        );
        return { dim, name, min, max, axisLabel: { color: colour.soft, fontSize: 11, ...axisLabel } };
      }),
      series: [
        line(model.clients.length ? "clients" : "front", rows, {
          color: colour.soft,
          width: 1,
          opacity: rows.length > 100 ? 0.15 : 0.5,
        }),
        shown.trivial_point &&
          line("trivial", [shown.trivial_point], { color: colour.bad, width: 2, type: "dashed", opacity: 1 }),
        now && line("model now", [now], { color: colour.accent, width: 3, opacity: 1 }),
      ]
        .filter(Boolean)
        .map((series) => ({ ...series, itemStyle: { color: series.lineStyle.color } })),
    };
  };
  return figure(context, {
    title: "All objectives",
    name: "objectives",
    height: 260,
    build,
    rows: () => ({
      head: ["model", ...names],
      rows: lists(shown.clients?.objectives)?.map((row, index) => [model.clients[index].label, ...row]) ?? [],
    }),
  });
}
