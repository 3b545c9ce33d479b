/** The one place for options of ECharts: themes, axes, tooltips, figures and their export. */
import * as echarts from "comity/vendor/echarts.esm.min";
import { button, download, make } from "comity/elements";
import { tick } from "comity/formats";
import { table } from "comity/tables";
import { onTheme, theme } from "comity/theme";

// in attributes of saved SVG, too, where double quotes would end them
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

// the colours of the report (Okabe and Ito's), with the pale ones first on dark paper
const THEMES = {
  light: {
    ink: "#1d2329",
    soft: "#5b6670",
    faint: "#8b949b",
    rule: "#dfe3e6",
    paper: "#ffffff",
    card: "#f6f7f8",
    accent: "#0072b2",
    good: "#009e73",
    bad: "#d55e00",
    odd: "#cc79a7",
    best: "#b07a00",
    palette: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222"],
  },
  dark: {
    ink: "#e7eaec",
    soft: "#9aa5ae",
    faint: "#76828b",
    rule: "#333b41",
    paper: "#14181b",
    card: "#1d2327",
    accent: "#56b4e9",
    good: "#2fc296",
    bad: "#f0803c",
    odd: "#dd92bb",
    best: "#e69f00",
    palette: ["#56B4E9", "#F0803C", "#2FC296", "#DD92BB", "#E69F00", "#4C8FD0", "#E7EAEC"],
  },
};

/** Marks of clients: colour (a name of the theme's), shape and words. */
export const MARKS = {
  gained: { colour: "good", symbol: "circle", sign: "●", text: "better than trivial" },
  level: { colour: "soft", symbol: "rect", sign: "■", text: "level with trivial" },
  below: { colour: "bad", symbol: "path://M0,0L10,0L5,9Z", sign: "▼", text: "worse than trivial" },
  constant: { colour: "odd", symbol: "diamond", sign: "◆", text: "always the same answer" },
  undefined: { colour: "faint", symbol: "emptyCircle", sign: "○", text: "undefined" },
};

/** viridis without its brightest end, for weights between clients. */
export const WEIGHTS = ["#440154", "#482777", "#3f4a8a", "#31678e", "#26838f", "#1f9d8a", "#6cce5a", "#c5e021"];
/** Blue, nothing, orange: for similarities and differences, which have two directions. */
export const SIGNED = {
  light: ["#d55e00", "#f3d5c2", "#ffffff", "#c2dcec", "#0072b2"],
  dark: ["#f0803c", "#5c3a27", "#1d2327", "#27465a", "#56b4e9"],
};

/** Return the colours in force. */
export function colours(name = theme()) {
  return { name, ...THEMES[name] };
}

/** Return an axis with a name; other options of ECharts go through. */
export function axis(colour, name, options = {}) {
  const { axisLabel, nameGap, ...others } = options;
  return {
    type: "value",
    scale: true,
    name,
    nameLocation: "middle",
    nameGap: nameGap ?? 28,
    nameTextStyle: { color: colour.soft, fontSize: 12 },
    axisLabel: { color: colour.soft, fontSize: 11, hideOverlap: true, ...axisLabel },
    axisLine: { onZero: false, lineStyle: { color: colour.faint } },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: colour.rule } },
    ...others,
  };
}

/** Return limits of an axis around values, at least two per cent apart, and labels that fit them. */
export function limits(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return {};
  const span = Math.max(high - low, 0.02 * Math.max(Math.abs(low), Math.abs(high), 0.1));
  const step = 10 ** Math.floor(Math.log10(span) - 1);
  const [bottom, top] = [(low + high - 1.1 * span) / 2, (low + high + 1.1 * span) / 2];
  return {
    min: Math.floor(bottom / step) * step,
    max: Math.ceil(top / step) * step,
    axisLabel: { formatter: tick, showMinLabel: false, showMaxLabel: false },
  };
}

/** Return a legend above the chart. */
export function legend(colour, options = {}) {
  return {
    type: "scroll",
    top: 0,
    left: 0,
    itemWidth: 16,
    itemHeight: 10,
    itemGap: 14,
    textStyle: { color: colour.ink, fontSize: 12 },
    inactiveColor: colour.faint,
    pageTextStyle: { color: colour.soft },
    pageIconColor: colour.accent,
    ...options,
  };
}

/** Return two series that fill the area between a lower and an upper line; points are [x, low, high]. */
export function band(name, points, fill, options = {}) {
  const part = {
    type: "line",
    name,
    stack: name,
    stackStrategy: "all",
    symbol: "none",
    silent: true,
    lineStyle: { opacity: 0 },
    z: 1,
    ...options,
  };
  const known = points.filter(([, low, high]) => low !== null && high !== null);
  return [
    { ...part, data: known.map(([x, low]) => [x, low]), itemStyle: { color: fill } },
    {
      ...part,
      data: known.map(([x, low, high]) => [x, high - low]),
      itemStyle: { color: fill },
      areaStyle: { color: fill, opacity: 0.16 },
    },
  ];
}

/** Return the style of a ring: a mark that hides nothing. */
export function ring(color, width = 2) {
  return { color: "transparent", borderColor: color, borderWidth: width, opacity: 1 };
}

function complete(option, colour, title) {
  const tooltip = {
    renderMode: "richText",
    confine: true,
    backgroundColor: colour.card,
    borderColor: colour.rule,
    borderWidth: 1,
    textStyle: { color: colour.ink, fontSize: 12, fontFamily: FONT },
    padding: [6, 9],
    transitionDuration: 0,
  };
  return {
    animation: false,
    color: colour.palette,
    backgroundColor: "transparent",
    textStyle: { fontFamily: FONT, color: colour.ink },
    ...option,
    aria: { enabled: true, label: { description: `${title}. “Table” shows the numbers.` }, ...option.aria },
    tooltip: { ...tooltip, ...option.tooltip },
  };
}

/**
 * Make a figure: a heading, a chart, a table of the same numbers, and its export.
 * @param {object} context of the view, which ends the chart when the reader leaves
 * @param {object} parts `title`; `name` of exported files; `build(colours)`: the option; `rows()`:
 *   {head, rows} of the table beside it; `height` in pixels; `note` beneath; `renderer`;
 *   `click(event)`; `wide`: over the whole width; `tools`: elements beside the heading
 * @returns {object} `element`; `refresh()`: draw again; `chart`: the instance of ECharts
 */
export function figure(context, parts) {
  const {
    title,
    name,
    build,
    rows,
    height = 320,
    note = null,
    renderer = "canvas",
    click,
    wide = false,
    tools = [],
  } = parts;
  const canvas = make("div", { class: "chart", role: "img", "aria-label": title });
  canvas.style.height = `${height}px`;
  const caption = make("p", { class: "note" }, note ?? "");
  const beside = make("div", { class: "beside", hidden: true });
  const show =
    rows &&
    button(
      "Table",
      () => {
        beside.hidden = !beside.hidden;
        show.setAttribute("aria-expanded", String(!beside.hidden));
        if (!beside.hidden) beside.replaceChildren(table({ caption: title, name, ...rows() }));
      },
      { class: "quiet", "aria-expanded": "false" },
    );
  const save = button("SVG", () => download(`${name}.svg`, svg(build, canvas, title), "image/svg+xml"), {
    class: "quiet",
    "aria-label": `Save “${title}” as SVG`,
  });
  const head = make(
    "div",
    { class: "head" },
    make("h2", {}, title),
    make("div", { class: "tools" }, tools, show, save),
  );
  const element = make("figure", { class: wide ? "figure wide" : "figure" }, head, canvas, caption, beside);

  let chart = null;
  const refresh = () => {
    if (!canvas.isConnected || canvas.clientWidth === 0) return;
    if (chart === null) {
      chart = echarts.init(canvas, null, { renderer });
      if (click) chart.on("click", click);
      parts.ready?.(chart);
    }
    const colour = colours();
    const height = parts.heightOf?.();
    if (height) {
      canvas.style.height = `${height}px`;
      chart.resize();
    }
    chart.setOption(complete(build(colour, canvas.clientWidth), colour, title), { notMerge: true });
    if (rows && !beside.hidden) beside.replaceChildren(table({ caption: title, name, ...rows() }));
  };
  const watcher = new ResizeObserver(() => {
    if (chart === null) refresh();
    else {
      chart.resize();
      refresh();
    }
  });
  watcher.observe(canvas);
  const forget = onTheme(refresh);
  context.onLeave(() => {
    watcher.disconnect();
    forget();
    chart?.dispose();
  });
  return {
    element,
    refresh,
    get chart() {
      return chart;
    },
    note(text) {
      caption.textContent = text;
    },
  };
}

/** Return a figure as SVG, in light colours and without the page. */
function svg(build, canvas, title) {
  const colour = colours("light");
  const width = Math.max(480, canvas.clientWidth);
  const copy = echarts.init(null, null, { renderer: "svg", ssr: true, width, height: canvas.clientHeight || 320 });
  copy.setOption({ ...complete(build(colour, width), colour, title), backgroundColor: "#ffffff" });
  const text = copy.renderToSVGString();
  copy.dispose();
  return text;
}
