/** Links: who was in contact when, how late updates were, and what bytes bought. */
import { axis, figure, legend } from "comity/charts";
import { contactFigure } from "comity/contacts";
import { facts, make, message } from "comity/elements";
import { bytes, number } from "comity/formats";

export const title = "Links";

/** Runs over a contact plan. */
export function applies(shown) {
  return shown.kind === "run" && Boolean(shown.links);
}

/** Draw the contacts, the ages of updates and quality against hours and bytes. */
export function render(root, context) {
  const { links, state } = context.document;
  const late = links.age.most.some((value) => value > 0);
  root.append(
    facts(links.facts),
    state.state === "finished"
      ? ""
      : message(`${state.done} of ${state.of} rounds so far; open this view again for what came after.`),
    !late && links.age.rounds.length > 0
      ? message("No update was late: each was mixed before the model that it started from had changed.")
      : "",
    contactFigure(context, links),
    make(
      "div",
      { class: "grid beneath" },
      late ? ages(context, links) : "",
      links.quality.hours.length ? [quality(context, links, "hours"), quality(context, links, "bytes")] : "",
    ),
  );
}

function ages(context, { age }) {
  const lines = [
    ["most", "largest", "bad", "dashed"],
    ["mean", "mean", "accent", "solid"],
  ];
  return figure(context, {
    title: "Age of updates",
    name: "ages",
    note: "By how many mixings the updates of a round are late.",
    height: 280,
    build: (colour) => ({
      legend: legend(colour),
      grid: { left: 48, right: 12, top: 32, bottom: 42 },
      xAxis: axis(colour, "round", { minInterval: 1 }),
      yAxis: axis(colour, "mixings late", { min: 0, scale: false, minInterval: 1 }),
      tooltip: {
        trigger: "axis",
        formatter: (items) =>
          [
            `round ${items[0].value[0]}`,
            ...items.map(({ seriesName, value }) => `${seriesName} ${number(value[1], 2)}`),
          ].join("\n"),
      },
      series: lines.map(([field, name, tone, type]) => ({
        type: "line",
        name,
        symbol: "none",
        step: "middle",
        data: age.rounds.map((round, index) => [round, age[field][index]]),
        itemStyle: { color: colour[tone] },
        lineStyle: { type, width: 2, color: colour[tone] },
      })),
    }),
    rows: () => ({
      head: ["round", "mean", "largest"],
      rows: age.rounds.map((round, index) => [String(round), age.mean[index], age.most[index]]),
    }),
  }).element;
}

function quality(context, { quality: known }, field) {
  const text = field === "hours" ? (value) => `${number(value, 1)} h` : bytes;
  return figure(context, {
    title: `Quality against ${field}`,
    name: `quality-${field}`,
    height: 280,
    note: `Mean validation value of the models that clients would keep${field === "bytes" ? "; bytes of all messages up to then, in both directions" : ""}.`,
    build: (colour, width) => ({
      grid: { left: 58, right: 24, top: 14, bottom: 42 },
      xAxis: axis(colour, field === "hours" ? "hours" : "bytes sent", {
        axisLabel: { formatter: field === "hours" ? String : bytes },
        min: 0,
        scale: false,
        splitNumber: width < 420 ? 3 : 6,
      }),
      yAxis: axis(colour, "mean value", { nameGap: 42 }),
      tooltip: { trigger: "axis", formatter: ([{ value }]) => `${text(value[0])}\n${number(value[1])}` },
      series: [
        {
          type: "line",
          name: "mean value",
          step: "end",
          symbol: "circle",
          symbolSize: 4,
          showSymbol: known.hours.length < 100,
          data: known[field].map((place, index) => [place, known.value[index]]),
          itemStyle: { color: colour.accent },
          lineStyle: { width: 2 },
        },
      ],
    }),
    rows: () => ({
      head: ["hours", "bytes", "mean value"],
      rows: known.hours.map((hour, index) => [hour, known.bytes[index], known.value[index]]),
    }),
  }).element;
}
