/** For classifiers: the threshold, the rates per attribute value, and what changes for people. */
import { axis, figure, legend } from "comity/charts";
import { choice, fresh, make, section } from "comity/elements";
import { number, percent } from "comity/formats";
import { groupLabel, RATES, ratesAt, sentence } from "comity/rates";

/**
 * Make the section about answers; it stays hidden where a model gives none.
 * @param {object} context of the view
 * @param {object} model of the view: judgement, threshold
 * @param {function} change called with a new threshold
 * @returns {object} `element`, and `update()` after each judgement
 */
export function answers(context, model, change) {
  let rate = "accepted";
  let now = null;
  let before = null;
  const text = make("p", { class: "people", "aria-live": "polite" });
  const output = make("output");
  const id = fresh("threshold");
  const range = make("input", {
    type: "range",
    min: 0.01,
    max: 0.99,
    step: 0.01,
    id,
    value: model.threshold,
    input: () => {
      change(Number(range.value));
      update();
    },
  });
  const build = (colour) => {
    const labels = now.map(groupLabel);
    const bar = (name, groups, style) => ({
      type: "bar",
      name,
      data: groups.map((group) => group[rate]),
      barMaxWidth: 16,
      itemStyle: style,
      label: {
        show: true,
        position: "right",
        color: colour.ink,
        fontSize: 11,
        formatter: ({ value }) => (value === null || Number.isNaN(value) ? "undefined" : percent(value, 1)),
      },
    });
    return {
      legend: legend(colour),
      grid: { left: 128, right: 52, top: 30, bottom: 36 },
      xAxis: axis(colour, RATES[rate], { min: 0, scale: false, axisLabel: { formatter: (value) => percent(value) } }),
      yAxis: {
        ...axis(colour, "", { type: "category", inverse: true, data: labels }),
        axisLabel: { color: colour.ink, width: 118, overflow: "truncate" },
        splitLine: { show: false },
      },
      tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, valueFormatter: (value) => percent(value, 1) },
      series: [
        bar("now", now, { color: colour.accent }),
        before && bar("kept model, threshold 0.5", before, { color: colour.faint }),
      ].filter(Boolean),
    };
  };
  const drawing = figure(context, {
    title: "Rates per attribute value",
    name: "rates",
    build: (colour) => (now ? build(colour) : {}),
    heightOf: () => now && 76 + now.length * 44,
    tools: [
      choice("Rate", Object.entries(RATES), rate, (value) => {
        rate = value;
        drawing.refresh();
      }),
    ],
    rows: () => ({
      head: ["people", "rows", ...Object.values(RATES)],
      rows: now.map((group) => [groupLabel(group), group.rows, ...Object.keys(RATES).map((key) => group[key])]),
    }),
  });
  const note = make("p", { class: "note" });
  const element = section(
    "Answers",
    text,
    make(
      "div",
      { class: "threshold" },
      make("label", { for: id }, "Yes where the probability is above"),
      range,
      output,
    ),
    note,
    drawing.element,
  );
  element.hidden = true;

  const update = () => {
    const { judgement, threshold } = model;
    element.hidden = !judgement?.yes;
    if (element.hidden) return;
    now = ratesAt(judgement.yes, threshold);
    const { baseline } = judgement;
    before = baseline?.yes ? ratesAt({ ...judgement.yes, counts: baseline.yes.counts ?? baseline.yes }, 0.5) : null;
    output.textContent = number(threshold, 2);
    range.setAttribute("aria-valuetext", `above ${number(threshold, 2)}`);
    text.textContent = before ? sentence(now, before) : "";
    note.textContent =
      context.source.saved && threshold !== 0.5
        ? "The values of the objectives above are those at 0.5; this saved page knows no others."
        : "";
    drawing.refresh();
  };
  return { element, update };
}
