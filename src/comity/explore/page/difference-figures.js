/** Figures of a difference between two entries: per seed and per client. */
import { axis, figure, legend } from "comity/charts";
import { signed } from "comity/formats";

const MANY = 60; // clients without names beside their marks

/** How clients fare: colour (a name of the theme's), shape and words. */
export const FATES = {
  better: { colour: "good", symbol: "circle", sign: "●", text: "better off on average" },
  level: { colour: "soft", symbol: "rect", sign: "■", text: "level" },
  worse: { colour: "bad", symbol: "path://M0,0L10,0L5,9Z", sign: "▼", text: "worse off on average" },
};

/** Return a series of horizontal lines from low to high; data are [low, high, y]. */
function intervals(data, color, width) {
  const renderItem = (_, api) => {
    const [from, to] = [api.coord([api.value(0), api.value(2)]), api.coord([api.value(1), api.value(2)])];
    const style = { stroke: color, lineWidth: width };
    const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
    const end = width > 1 ? 4 : 0;
    return {
      type: "group",
      children: [
        line(...from, ...to),
        line(from[0], from[1] - end, from[0], from[1] + end),
        line(to[0], to[1] - end, to[0], to[1] + end),
      ],
    };
  };
  return { type: "custom", renderItem, encode: { x: [0, 1], y: 2 }, data, silent: true, z: 2, clip: true };
}

/** Return what is compared, in words. */
function valueOf({ document: { problem } }) {
  return problem.objectives.length > 1 ? "scalarised values" : problem.objectives[0].name;
}

function zero(colour) {
  return {
    silent: true,
    symbol: "none",
    label: { show: false },
    data: [{ xAxis: 0 }],
    lineStyle: { color: colour.ink, width: 1, type: "solid", opacity: 0.7 },
  };
}

/** Return axes of differences (x) over rows with names (y), and the grid that has room for the names. */
function rowAxes(colour, labels, width, name) {
  const room = Math.min(width * 0.3, 130, 14 + 7 * labels.reduce((most, text) => Math.max(most, text.length), 0));
  const many = labels.length > MANY;
  return {
    grid: { left: many ? 28 : room + 8, right: 14, top: 30, bottom: 44 },
    xAxis: axis(colour, name, {
      scale: false,
      axisLabel: {
        formatter: (value) =>
          signed(value, 5)
            .replace(/(\.\d*?)0+$/, "$1")
            .replace(/\.$/, ""),
      },
    }),
    yAxis: axis(colour, many ? "clients, by difference" : "", {
      min: -0.6,
      max: labels.length - 0.4,
      inverse: true,
      scale: false,
      splitLine: { show: false },
      nameGap: 10,
      axisLine: { show: false },
      axisLabel: many
        ? { show: false }
        : {
            customValues: labels.map((_, index) => index),
            formatter: (value) => labels[value] ?? "",
            width: room,
            overflow: "truncate",
            color: colour.ink,
            hideOverlap: false,
          },
    }),
  };
}

/** Make the figure of differences per seed, with the interval of their mean. */
export function bySeed(context, current) {
  const labels = () => ["mean", ...current().seeds.map((seed) => `seed ${seed}`)];
  const build = (colour, width) => {
    const { each, mean, interval } = current();
    const dots = each.map((value, index) => ({ value: [value, index + 1] }));
    return {
      ...rowAxes(colour, labels(), width, `difference of mean ${valueOf(context)}`),
      tooltip: {
        formatter: ({ value, seriesName }) =>
          `${seriesName === "mean" ? "mean" : labels()[value[1]]}: ${signed(value[0], 4)}`,
      },
      series: [
        interval && intervals([[...interval, 0]], colour.accent, 2),
        {
          type: "scatter",
          name: "seeds",
          data: dots,
          symbolSize: 8,
          itemStyle: { color: colour.soft, opacity: 1 },
          z: 3,
          markLine: zero(colour),
        },
        {
          type: "scatter",
          name: "mean",
          data: [[mean, 0]],
          symbol: "diamond",
          symbolSize: 14,
          itemStyle: { color: colour.accent, opacity: 1 },
          z: 4,
        },
      ].filter(Boolean),
    };
  };
  return figure(context, {
    title: "Difference per seed",
    name: "differences-seeds",
    build,
    heightOf: () => 84 + 22 * labels().length,
    rows: () => {
      const { seeds, each, mean, interval } = current();
      return {
        head: ["seed", "difference", "low", "high"],
        digits: 4,
        rows: [
          ["mean", mean, interval?.[0] ?? null, interval?.[1] ?? null],
          ...seeds.map((seed, index) => [String(seed), each[index], null, null]),
        ],
      };
    },
  });
}

/** Make the figure of differences per client; `current()` returns their `order` and `seeds`. */
export function byClient(context, current) {
  const build = (colour, width) => {
    const { order, seeds } = current();
    const many = order.length > MANY;
    const known = order.map((client, y) => ({ client, y })).filter(({ client }) => client.fate);
    const single =
      seeds.length > 1 && !many
        ? known.flatMap(({ client, y }) => client.each.filter((value) => value !== null).map((value) => [value, y]))
        : [];
    const marks = Object.entries(FATES)
      .map(([name, fate]) => ({
        type: "scatter",
        name: fate.text,
        symbol: fate.symbol,
        symbolSize: many ? Math.max(3, 8 - order.length / 150) : 10,
        z: 4,
        itemStyle: { color: colour[fate.colour], opacity: 1 },
        data: known
          .filter(({ client }) => client.fate === name)
          .map(({ client, y }) => ({ value: [client.mean, y], client })),
      }))
      .filter((series) => series.data.length);
    if (marks.length) marks[0].markLine = zero(colour);
    return {
      legend: legend(colour, { data: marks.map((series) => series.name) }),
      ...rowAxes(
        colour,
        order.map((client) => client.name),
        width,
        `difference of ${valueOf(context)} (test)`,
      ),
      tooltip: { formatter: ({ data }) => (data?.client ? clientText(data.client, seeds) : "") },
      series: [
        intervals(
          known.filter(({ client }) => client.low !== null).map(({ client, y }) => [client.low, client.high, y]),
          many ? colour.rule : colour.faint,
          many ? 0.6 : 1.5,
        ),
        {
          type: "scatter",
          data: single,
          symbolSize: 4,
          itemStyle: { color: colour.soft, opacity: 0.6 },
          silent: true,
          z: 3,
        },
        ...marks,
      ],
    };
  };
  const heightOf = () => {
    const { length } = current().order;
    return length > MANY ? 460 : 84 + 20 * Math.max(1, length);
  };
  return figure(context, {
    title: "Difference per client",
    name: "differences-clients",
    build,
    heightOf,
    rows: () => {
      const { order, seeds } = current();
      return {
        head: ["client", "outcome", "mean", "low", "high", ...seeds.map((seed) => `seed ${seed}`)],
        digits: 4,
        filter: "Filter clients by name",
        rows: order.map((client) => [
          client.name,
          client.fate ?? "–",
          client.mean,
          client.low,
          client.high,
          ...client.each,
        ]),
      };
    },
  });
}

function clientText(client, seeds) {
  const range = client.low === null ? "" : `\n95 % interval ${signed(client.low)} to ${signed(client.high)}`;
  const each =
    seeds.length > 8 ? "" : `\n${seeds.map((seed, index) => `seed ${seed}: ${signed(client.each[index])}`).join("\n")}`;
  return `${client.name}: ${signed(client.mean, 4)}${range}${each}`;
}
