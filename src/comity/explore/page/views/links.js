/** Links: who was in contact when, how late updates were, and what bytes bought. */
import { axis, figure, legend } from "comity/charts";
import { facts, make } from "comity/elements";
import { bytes, number } from "comity/formats";

export const title = "Links";

/** Runs over a contact plan. */
export function applies(shown) {
  return shown.kind === "run" && Boolean(shown.links);
}

/** Draw the contacts, the ages of updates and quality against bytes. */
export function render(root, context) {
  const { links } = context.document;
  root.append(facts(links.facts), make("div", { class: "grid" }, contacts(context, links), ages(context, links), quality(context, links, false), quality(context, links, true)));
}

const KINDS = [["passes", "in contact", "rule", 0.62], ["down", "receives a model", "good", 0.42], ["up", "sends its update", "accent", 0.42]];

function contacts(context, links) {
  const { rows } = links;
  const build = (colour) => {
    const series = KINDS.map(([field, name, tone, share]) => ({
      type: "custom", name, itemStyle: { color: colour[tone] }, encode: { x: [1, 2], y: 0 }, clip: true,
      data: rows.flatMap((row, index) => row[field].map(([from, to]) => [index, from, to])),
      renderItem: (_, api) => {
        const [start, end] = [api.coord([api.value(1), api.value(0)]), api.coord([api.value(2), api.value(0)])];
        const height = api.size([0, 1])[1] * share;
        return { type: "rect", shape: { x: start[0], y: start[1] - height / 2, width: Math.max(1, end[0] - start[0]), height }, style: { fill: colour[tone] } };
      },
    }));
    return {
      legend: legend(colour), grid: { left: 100, right: 16, top: 34, bottom: 78 },
      dataZoom: [
        { type: "inside", filterMode: "weakFilter", zoomOnMouseWheel: "ctrl" },
        { type: "slider", height: 16, bottom: 8, filterMode: "weakFilter", showDataShadow: false, showDetail: false, brushSelect: false, borderColor: colour.rule, fillerColor: `${colour.accent}22`, handleStyle: { color: colour.accent } },
      ],
      xAxis: axis(colour, "hours", { min: 0, max: links.hours, scale: false }),
      yAxis: { ...axis(colour, "", { type: "category", inverse: true, data: rows.map((row) => row.name), splitLine: { show: false } }), axisLabel: { color: colour.ink, width: 92, overflow: "truncate", fontSize: 11 } },
      tooltip: { formatter: ({ seriesName, value }) => `${rows[value[0]].name}: ${seriesName}\n${number(value[1], 2)} to ${number(value[2], 2)} h` },
      series: [...series, {
        type: "line", name: "mixing", data: [], itemStyle: { color: colour.bad }, lineStyle: { color: colour.bad },
        markLine: { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: colour.bad, width: 1, opacity: 0.6, type: "solid" }, data: links.mixings.map((hour) => ({ xAxis: hour })) },
      }],
      aria: { label: { enabled: true, description: `Contacts of ${rows.length} clients over ${number(links.hours, 1)} hours, with ${links.mixings.length} mixings.` } },
    };
  };
  return figure(context, {
    title: "Contacts, messages and mixings", name: "contacts", wide: true, height: 130 + Math.min(900, 26 * rows.length), build,
    note: "Drag the bar beneath to look at some hours only.",
    rows: () => ({
      head: ["client", "what", "from (h)", "to (h)"],
      rows: rows.flatMap((row) => KINDS.flatMap(([field, name]) => row[field].map(([from, to]) => [row.name, name, from, to]))),
    }),
  }).element;
}

function ages(context, { age }) {
  return figure(context, {
    title: "Age of updates", name: "ages", note: "Mixings by which updates are late.",
    build: (colour) => ({
      legend: legend(colour), grid: { left: 44, right: 12, top: 32, bottom: 40 },
      xAxis: axis(colour, "mixing", { minInterval: 1 }), yAxis: axis(colour, "", { min: 0, scale: false, minInterval: 1 }),
      tooltip: { trigger: "axis", valueFormatter: (value) => number(value, 2) },
      series: [["most", "bad"], ["mean", "accent"]].map(([name, tone]) => ({
        type: "line", name, symbol: "none", data: age.rounds.map((round, index) => [round, age[name][index]]), itemStyle: { color: colour[tone] },
      })),
    }),
    rows: () => ({ head: ["mixing", "mean", "most"], rows: age.rounds.map((round, index) => [round, age.mean[index], age.most[index]]) }),
  }).element;
}

function quality(context, { quality: known }, byTime) {
  const x = byTime ? known.hours : known.bytes;
  return figure(context, {
    title: byTime ? "Quality over time" : "Quality against bytes", name: byTime ? "quality-hours" : "quality-bytes",
    note: "Mean validation value of the models that clients would keep.",
    build: (colour) => ({
      grid: { left: 52, right: 20, top: 12, bottom: 40 },
      xAxis: axis(colour, byTime ? "hours" : "bytes in both directions", { axisLabel: { formatter: (value) => (byTime ? value : bytes(value)) }, scale: false }),
      yAxis: axis(colour, "mean value", { nameGap: 40 }),
      tooltip: { trigger: "axis", formatter: ([{ value }]) => `${byTime ? `${number(value[0], 1)} h` : bytes(value[0])}\n${number(value[1])}` },
      series: [{ type: "line", name: "mean value", step: "end", symbol: "circle", symbolSize: 4, data: x.map((place, index) => [place, known.value[index]]), itemStyle: { color: colour.accent } }],
    }),
    rows: () => ({ head: ["hours", "bytes", "mean value"], rows: known.hours.map((hour, index) => [hour, known.bytes[index], known.value[index]]) }),
  }).element;
}
