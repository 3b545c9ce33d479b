/** The chart of contacts: one row per client or relay, windows over hours, mixings as lines. */
import { axis, figure, legend } from "comity/charts";
import { button, download } from "comity/elements";
import { number } from "comity/formats";
import { toCsv } from "comity/tables";

// windows of a row: field, words, colour (a name of the theme's), opacity, top and bottom as shares of the row
const KINDS = [
  ["passes", "in contact", "faint", 0.5, -0.36, 0.36],
  ["up", "sends updates", "accent", 1, -0.36, -0.03],
  ["down", "receives models", "best", 1, 0.03, 0.36],
];
const LEAST = 2; // pixels: messages take seconds

/** Return spans as pixels inside an area, those that touch as one: never more than there are pixels. */
function merged(spans, pixel, left, right) {
  const parts = [];
  for (const [from, to] of spans) {
    const start = pixel(from);
    const end = Math.max(pixel(to), start + LEAST);
    if (end < left || start > right) continue;
    const last = parts.at(-1);
    if (last && start <= last[1] + 0.5) last[1] = Math.max(last[1], Math.min(end, right));
    else parts.push([Math.max(start, left), Math.min(end, right)]);
  }
  return parts;
}

/** Return the hours in contact, and the longest wait for a contact, of spans in their order. */
function contactTimes(spans, hours) {
  let [end, total, wait] = [0, 0, 0];
  for (const [from, to] of spans) {
    wait = Math.max(wait, from - end);
    total += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  return { total, wait: Math.max(wait, hours - end) };
}

/** Return an hour beneath the axis; ends of the part that are no round numbers have no text. */
function hourText(value) {
  const text = String(Math.round(value * 1000) / 1000);
  return text.length > 5 ? "" : text;
}

/** Return the part of all hours that the address asks for. */
function asked({ from, to }, hours) {
  const [start, end] = [Number(from), Number(to)];
  return from && to && start >= 0 && end > start && end <= hours ? [start, end] : [0, hours];
}

/**
 * Make the chart of contacts.
 * @param {object} context of the view
 * @param {object} links of the run's document
 */
export function contactFigure(context, links) {
  const { rows, hours, mixings } = links;
  let part = asked(context.state, hours);
  let pointer = 0;
  let timer = null;

  const build = (colour, width) => {
    const room = Math.min(width * 0.26, 120, 16 + 7 * rows.reduce((most, row) => Math.max(most, row.name.length), 0));
    const zoom = { startValue: part[0], endValue: part[1], filterMode: "none", minValueSpan: hours / 5000 };
    return {
      legend: legend(colour, { data: [...KINDS.map(([, name]) => name), "mixing"] }),
      grid: { left: room + 8, right: 16, top: 34, bottom: 82 },
      dataZoom: [
        { type: "inside", ...zoom, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, preventDefaultMouseMove: false },
        {
          type: "slider",
          ...zoom,
          height: 18,
          bottom: 8,
          showDataShadow: false,
          showDetail: false,
          brushSelect: false,
          borderColor: colour.rule,
          fillerColor: `${colour.accent}33`,
          handleStyle: { color: colour.accent },
          moveHandleStyle: { color: colour.accent, opacity: 0.6 },
        },
      ],
      xAxis: axis(colour, "hours", {
        min: 0,
        max: hours,
        scale: false,
        splitLine: { show: false },
        axisLabel: { formatter: hourText },
      }),
      yAxis: axis(colour, "", {
        type: "category",
        inverse: true,
        data: rows.map((row) => row.name),
        scale: false,
        splitLine: { show: false },
        axisLabel: { color: colour.ink, width: room, overflow: "truncate" },
      }),
      tooltip: {
        formatter: ({ seriesName, value, seriesType }) =>
          seriesType === "custom" && value ? hint(rows[value[0]], seriesName) : "",
      },
      series: [
        ...KINDS.map((kind) => windows(rows, hours, kind, colour)),
        mixingLines(mixings, hours, rows.length, colour),
      ],
      aria: {
        label: {
          description: `Contacts of ${rows.length} clients over ${number(hours, 1)} hours, with ${mixings.length} mixings.`,
        },
      },
    };
  };
  const hint = (row, name) => {
    const field = KINDS.find(([, words]) => words === name)?.[0];
    const hour = drawing.chart?.convertFromPixel({ xAxisIndex: 0 }, pointer);
    if (!field || hour === undefined) return "";
    const distance = ([from, to]) => Math.max(from - hour, hour - to, 0);
    const nearest = row[field].reduce((best, span) => (best && distance(best) <= distance(span) ? best : span), null);
    return nearest ? `${row.name}: ${name}\n${number(nearest[0])} to ${number(nearest[1])} h` : "";
  };
  const remember = () => {
    clearTimeout(timer);
    const whole = part[1] - part[0] > 0.9995 * hours;
    timer = setTimeout(
      () => context.set({ from: whole ? null : part[0].toFixed(3), to: whole ? null : part[1].toFixed(3) }),
      250,
    );
  };
  const ready = (chart) => {
    chart.getZr().on("mousemove", (event) => (pointer = event.offsetX));
    chart.on("datazoom", () => {
      const { startValue, endValue } = chart.getOption().dataZoom[0];
      part = [startValue, endValue];
      remember();
    });
  };
  const move = (start, length) => {
    const span = Math.min(hours, Math.max(hours / 5000, length));
    const from = Math.min(Math.max(0, start), hours - span);
    part = [from, from + span];
    drawing.refresh();
    remember();
    context.announce(`${number(part[0], 2)} to ${number(part[1], 2)} hours`);
  };
  const tools = [
    ["◀", "Earlier", (from, span) => move(from - span / 2, span)],
    ["▶", "Later", (from, span) => move(from + span / 2, span)],
    ["+", "Closer", (from, span) => move(from + span / 4, span / 2)],
    ["−", "Wider", (from, span) => move(from - span / 2, span * 2)],
    ["All", "All hours", () => move(0, hours)],
  ].map(([text, label, act]) =>
    button(text, () => act(part[0], part[1] - part[0]), { class: "quiet", "aria-label": label, title: label }),
  );
  const save = button(
    "Windows",
    () =>
      download(
        "windows.csv",
        toCsv(
          ["client", "what", "from (h)", "to (h)"],
          rows.flatMap((row) =>
            KINDS.flatMap(([field, name]) => row[field].map(([from, to]) => [row.name, name, from, to])),
          ),
        ),
        "text/csv",
      ),
    {
      class: "quiet",
      "aria-label": "Save all windows as CSV",
    },
  );
  context.onLeave(() => clearTimeout(timer));
  const drawing = figure(context, {
    title: "Contacts, messages and mixings",
    name: "contacts",
    wide: true,
    height: 124 + Math.min(900, rows.length * (rows.length > 20 ? 17 : 26)),
    build,
    ready,
    tools: [...tools, save],
    note: "Drag the bar beneath, or turn the wheel with Ctrl, to look at some hours only. Messages take seconds: their marks are wider than they are.",
    rows: () => ({
      head: ["client", "contacts", "hours in contact", "longest wait (h)", "updates sent", "models received"],
      filter: "Filter clients by name",
      rows: rows.map((row) => {
        const { total, wait } = contactTimes(row.passes, hours);
        return [row.name, row.passes.length, total, wait, row.up.length, row.down.length];
      }),
    }),
  });
  return drawing.element;
}

/** Return the series of one kind of windows: one shape per row, which is quick with thousands of them. */
function windows(rows, hours, [field, name, tone, opacity, top, bottom], colour) {
  const renderItem = ({ coordSys }, api) => {
    const row = api.value(0);
    const [[x0, y], [x1]] = [api.coord([0, row]), api.coord([hours, row])];
    const height = api.size([0, 1])[1];
    const parts = merged(
      rows[row][field],
      (hour) => x0 + (hour / hours) * (x1 - x0),
      coordSys.x,
      coordSys.x + coordSys.width,
    );
    if (!parts.length) return null;
    const [up, down] = [(y + top * height).toFixed(1), (y + bottom * height).toFixed(1)];
    const d = parts
      .map(([from, to]) => `M${from.toFixed(1)},${up}H${to.toFixed(1)}V${down}H${from.toFixed(1)}Z`)
      .join("");
    return { type: "path", shape: { d }, style: { fill: colour[tone], opacity } };
  };
  return {
    type: "custom",
    name,
    renderItem,
    encode: { x: [1, 2], y: 0 },
    data: rows.map((_, index) => [index, 0, hours]),
    itemStyle: { color: colour[tone], opacity },
  };
}

/** Return the series of mixings: lines through all rows, as one shape. */
function mixingLines(mixings, hours, count, colour) {
  const renderItem = ({ coordSys }, api) => {
    const [[x0], [x1]] = [api.coord([0, 0]), api.coord([hours, 0])];
    const places = mixings.map((hour) => Math.round(x0 + (hour / hours) * (x1 - x0)) + 0.5);
    const seen = [...new Set(places)].filter((x) => x >= coordSys.x && x <= coordSys.x + coordSys.width);
    const opacity = seen.length > coordSys.width / 4 ? 0.15 : seen.length > 30 ? 0.3 : 0.45;
    const d = seen.map((x) => `M${x},${coordSys.y}V${coordSys.y + coordSys.height}`).join("");
    return d
      ? { type: "path", silent: true, shape: { d }, style: { fill: null, stroke: colour.ink, lineWidth: 1, opacity } }
      : null;
  };
  return {
    type: "custom",
    name: "mixing",
    renderItem,
    encode: { x: [1, 2], y: 0 },
    data: [[0, 0, hours]],
    itemStyle: { color: colour.ink },
    silent: true,
    z: 3,
  };
}
