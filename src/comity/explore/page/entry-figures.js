/** Figures of a comparison: curves, the space of objectives, parallel coordinates. */
import { lists } from "comity/arrays";
import { axis, band, figure, legend } from "comity/charts";
import { field, make, message, section, select } from "comity/elements";
import { lookOf } from "comity/entries";
import { count, number, weights } from "comity/formats";
import { integer } from "comity/state";

/**
 * Make the figure of curves: mean over seeds, and a band of one standard deviation.
 * @param {object} context of the view
 * @param {object} parts `names` of entries; `curves`: {entry, steps, mean, std} objects; `x`, `y`:
 *   what the axes are; `title`; `chosen()`: places of the entries to show
 */
export function curveFigure(context, { names, curves, x, y, title, chosen }) {
  const build = (colour, width) => {
    const known = curves.filter((curve) => chosen().includes(curve.entry));
    const series = known.flatMap((curve) => {
      const look = lookOf(colour, curve.entry);
      const name = names[curve.entry];
      const points = curve.steps.map((step, index) => [step, curve.mean[index], curve.std?.[index] ?? 0]);
      const wide = points.some(([, , std]) => std > 0);
      return [
        ...(wide
          ? band(
              name,
              points.map(([step, mean, std]) => [step, mean - std, mean + std]),
              look.color,
            )
          : []),
        {
          type: "line",
          name,
          data: points.map(([step, mean]) => [step, mean]),
          symbol: look.symbol,
          symbolSize: 7,
          showSymbol: points.length < 40,
          itemStyle: { color: look.color },
          lineStyle: { width: 2, type: look.line, color: look.color },
          z: 3,
        },
      ];
    });
    return {
      legend: legend(colour, {
        data: known.map((curve) => ({
          name: names[curve.entry],
          icon: lookOf(colour, curve.entry).symbol,
          itemStyle: { color: lookOf(colour, curve.entry).color },
        })),
      }),
      grid: { left: 58, right: 16, top: 34, bottom: 44 },
      xAxis: axis(colour, x, {
        axisLabel: { formatter: (value) => (Math.abs(value) >= 1e4 ? `${value / 1000}k` : String(value)) },
        splitNumber: width < 500 ? 4 : 8,
      }),
      yAxis: axis(colour, y, { nameGap: 42 }),
      tooltip: {
        formatter: ({ seriesName, value }) => `${seriesName}\n${count(value[0])} ${x}: ${number(value[1], 4)}`,
      },
      series,
    };
  };
  return figure(context, {
    title,
    name: "curves",
    build,
    note: "Mean over seeds; the band is one population standard deviation.",
    rows: () => ({
      head: ["entry", x, "mean", "std"],
      digits: 4,
      rows: curves
        .filter((curve) => chosen().includes(curve.entry))
        .flatMap((curve) =>
          curve.steps.map((step, index) => [names[curve.entry], step, curve.mean[index], curve.std?.[index] ?? null]),
        ),
    }),
  });
}

/**
 * Make the section about what clients' models reach in several objectives: scatter and parallel coordinates.
 * @param {object} context of the view
 * @param {string[]} names of the entries
 * @param {function} chosen returns places of the entries to show
 * @returns {object} `element`; `refresh()`: draw again
 */
export function objectivesSection(context, names, chosen) {
  const { document: shown, state } = context;
  const objectives = shown.problem.objectives.map((objective) => objective.name);
  const vectors = shown.vectors.map((each) => ({
    ...each,
    objectives: lists(each.objectives),
    preference: lists(each.preference),
  }));
  const seeds = [...new Set(vectors.map((each) => each.seed))].sort((a, b) => a - b);
  const model = {
    names,
    objectives,
    vectors,
    seeds,
    seed: seeds.includes(Number(state.seed)) ? Number(state.seed) : null,
    axes: [integer(state.x, 0, objectives.length), integer(state.y, 1, objectives.length)],
    points: () =>
      vectors.filter((each) => chosen().includes(each.entry) && (model.seed === null || each.seed === model.seed)),
  };
  const figures = [scatter(context, model), parallel(context, model)];
  const refresh = () => figures.forEach((drawing) => drawing.refresh());
  const change = (changes) => {
    context.set(changes);
    refresh();
  };
  const axisField = (caption, position) =>
    field(
      caption,
      select(
        objectives.map((name, k) => [k, name]),
        model.axes[position],
        (value) => {
          model.axes[position] = Number(value);
          change({ x: model.axes[0] || null, y: model.axes[1] === 1 ? null : model.axes[1] });
        },
      ),
    );
  const controls = make(
    "div",
    { class: "controls" },
    seeds.length > 1 &&
      field(
        "Seed",
        select([["", "all"], ...seeds.map((seed) => [seed, seed])], model.seed ?? "", (value) => {
          model.seed = value === "" ? null : Number(value);
          change({ seed: model.seed });
        }),
      ),
    objectives.length > 2 && [axisField("Across", 0), axisField("Up", 1)],
  );
  return {
    element: section(
      "What models reach",
      controls,
      make(
        "div",
        { class: "grid" },
        figures.map((drawing) => drawing.element),
      ),
      message("Test values of kept models, one per client and seed. Larger is better."),
    ),
    refresh,
  };
}

function scatter(context, model) {
  const { document: shown } = context;
  const { names, objectives } = model;
  const build = (colour) => {
    const [x, y] = model.axes;
    const whole = (point) => point && point[x] !== null && point[y] !== null;
    const at = (point) => [point[x], point[y]];
    const places = [...new Set(model.points().map((each) => each.entry))];
    const total = model.points().reduce((sum, each) => sum + each.objectives.length, 0);
    const series = places.map((place) => {
      const look = lookOf(colour, place);
      const data = model
        .points()
        .filter((each) => each.entry === place)
        .flatMap((each) =>
          each.objectives.flatMap((point, row) =>
            whole(point) ? [{ value: at(point), vector: model.vectors.indexOf(each), row }] : [],
          ),
        ); // an index: ECharts copies all
      return {
        type: "scatter",
        name: names[place],
        data,
        symbol: look.symbol,
        symbolSize: total > 2000 ? 4 : total > 300 ? 6 : 9,
        itemStyle: { color: look.color, opacity: 0.8 },
        z: 3,
      };
    });
    const front = (lists(shown.known_front) ?? []).filter(whole);
    const line = objectives.length === 2;
    return {
      legend: legend(colour),
      grid: { left: 58, right: 16, top: 34, bottom: 44 },
      xAxis: axis(colour, objectives[x]),
      yAxis: axis(colour, objectives[y], { nameGap: 42 }),
      tooltip: { formatter: ({ data, value, seriesName }) => hint(model, data, value, seriesName) },
      series: [
        front.length && {
          type: line ? "line" : "scatter",
          name: "known front",
          data: front.map(at).sort((a, b) => a[0] - b[0]),
          symbol: "circle",
          symbolSize: 4,
          itemStyle: { color: colour.best },
          lineStyle: { type: "dashed", width: 1.5, color: colour.best },
          z: 2,
        },
        whole(shown.trivial_point) && {
          type: "scatter",
          name: "trivial",
          data: [at(shown.trivial_point)],
          symbol: "diamond",
          symbolSize: 13,
          z: 4,
          itemStyle: { color: colour.paper, borderColor: colour.ink, borderWidth: 2, opacity: 1 },
        },
        ...series,
      ].filter(Boolean),
    };
  };
  const open = (each) => each?.run && context.go("verdict", { item: each.run });
  return figure(context, {
    title: "Space of objectives",
    name: "objectives",
    build,
    height: 380,
    note: "Choose a point to open its run.",
    rows: () => rowsOf(model),
    click: ({ data }) => open(model.vectors[data?.vector]),
  });
}

function hint({ objectives, axes, vectors }, data, value, seriesName) {
  const [a, b] = data?.value ?? value;
  const at = `${objectives[axes[0]]} ${number(a)}\n${objectives[axes[1]]} ${number(b)}`;
  const each = vectors[data?.vector];
  if (!each) return `${seriesName}\n${at}`;
  const { row } = data;
  return [
    `${seriesName}, seed ${each.seed}: ${each.name[row]}`,
    each.preference && `preference ${weights(each.preference[row])}`,
    at,
    `scalarised ${number(each.scalarised[row])}`,
  ]
    .filter(Boolean)
    .join("\n");
}

/** Return the coordinates of clients: objectives and the scalarised value; what is wanted before them if there is room. */
function coordinatesOf({ objectives, vectors }) {
  const wanted =
    objectives.length < 4 && vectors.every((each) => each.preference)
      ? objectives
          .slice(0, objectives.length - 1)
          .map((name, k) => [`weight of\n${name}`, (each, row) => each.preference[row][k]])
      : [];
  return [
    ...wanted,
    ...objectives.map((name, k) => [name, (each, row) => each.objectives[row][k]]),
    ["scalarised", (each, row) => each.scalarised[row]],
  ];
}

function rowsOf(model) {
  const coordinates = coordinatesOf(model);
  return {
    head: ["client", "entry", "seed", ...coordinates.map(([name]) => name.replace("\n", " "))],
    filter: "Filter clients by name",
    rows: model
      .points()
      .flatMap((each) =>
        each.name.map((name, row) => [
          name,
          model.names[each.entry],
          each.seed,
          ...coordinates.map(([, value]) => value(each, row)),
        ]),
      ),
  };
}

function parallel(context, model) {
  const coordinates = coordinatesOf(model);
  const build = (colour, width) => {
    const places = [...new Set(model.points().map((each) => each.entry))];
    const total = model.points().reduce((sum, each) => sum + each.name.length, 0);
    const upright = width < 90 * coordinates.length;
    const series = places.map((place) => {
      const look = lookOf(colour, place);
      const data = model
        .points()
        .filter((each) => each.entry === place)
        .flatMap((each) =>
          each.name.map((name, row) => ({
            name: `${name}, seed ${each.seed}`,
            value: coordinates.map(([, value]) => value(each, row)),
          })),
        )
        .filter(({ value }) => value.every((each) => each !== null));
      return {
        type: "parallel",
        name: model.names[place],
        data,
        smooth: false,
        itemStyle: { color: look.color },
        lineStyle: {
          color: look.color,
          type: look.line,
          width: total > 300 ? 1 : 1.5,
          opacity: total > 2000 ? 0.12 : total > 200 ? 0.35 : 0.75,
        },
        inactiveOpacity: 0.04,
        activeOpacity: 1,
        emphasis: { lineStyle: { width: 3, opacity: 1 } },
      };
    });
    return {
      legend: legend(colour),
      parallel: {
        layout: upright ? "vertical" : "horizontal",
        left: upright ? 14 : 60,
        right: upright ? 26 : 60,
        top: upright ? 60 : 66,
        bottom: upright ? 30 : 22,
        parallelAxisDefault: {
          type: "value",
          scale: true,
          nameLocation: upright ? "start" : "end",
          nameGap: upright ? 4 : 12,
          splitNumber: 4,
          axisTick: { show: false },
          nameTextStyle: {
            color: colour.ink,
            fontSize: 12,
            lineHeight: 14,
            ...(upright ? { align: "left", verticalAlign: "bottom", padding: [0, 0, 6, 0] } : {}),
          },
          axisLabel: {
            color: colour.soft,
            fontSize: 11,
            backgroundColor: colour.paper,
            padding: [1, 2],
            borderRadius: 2,
          },
          axisLine: { lineStyle: { color: colour.faint, width: 1.5 } },
          areaSelectStyle: { width: 18, color: colour.accent, borderColor: colour.accent, opacity: 0.3 },
        },
      },
      parallelAxis: coordinates.map(([name], dim) => ({ dim, name: upright ? name.replace("\n", " ") : name })),
      tooltip: {
        formatter: ({ name, seriesName, value }) =>
          [
            `${seriesName}: ${name}`,
            ...coordinates.map(([text], k) => `${text.replace("\n", " ")} ${number(value[k])}`),
          ].join("\n"),
      },
      series,
    };
  };
  return figure(context, {
    title: "Parallel coordinates",
    name: "parallel",
    build,
    height: 380,
    rows: () => rowsOf(model),
    note: "One line per client and seed. Drag along an axis to pick out the lines through that part; click the axis to have all again.",
  });
}
