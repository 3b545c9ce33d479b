/** Differences between two entries, paired by seed: in words, per seed and per client. */
import { lists } from "comity/arrays";
import { axis, figure, legend } from "comity/charts";
import { button, field, fill, make, message, section, select } from "comity/elements";
import { reading } from "comity/entries";
import { count, number, plural, signed } from "comity/formats";
import { numbers } from "comity/state";
import { table } from "comity/tables";

// as in comity.runs: what is level, how many seeds are enough, which p decides
const TOLERANCE = 0.001;
const ENOUGH_SEEDS = 5;
const SURE = 0.05;

const MANY = 60; // clients without names beside their marks

/** How clients fare: colour (a name of the theme's), shape and words. */
const FATES = {
  better: { colour: "good", symbol: "circle", sign: "●", text: "better off on average" },
  level: { colour: "soft", symbol: "rect", sign: "■", text: "level" },
  worse: { colour: "bad", symbol: "path://M0,0L10,0L5,9Z", sign: "▼", text: "worse off on average" },
};

/** Return whether a value is better than another, level with it or worse. */
export function fateOf(value, other) {
  if (Math.abs(value - other) <= TOLERANCE * Math.max(1, Math.abs(other))) return "level";
  return value > other ? "better" : "worse";
}

/** Return the same difference from the other side. */
export function reversed(difference) {
  const minus = (value) => (value === null ? null : value === 0 ? 0 : -value);
  const { entry, over, mean, interval, each, counts, clients } = difference;
  return {
    ...difference, entry: over, over: entry, mean: minus(mean), each: each.map(minus),
    interval: interval && [minus(interval[1]), minus(interval[0])],
    counts: counts && { better: counts.worse, level: counts.level, worse: counts.better },
    clients: clients && {
      ...clients, each: lists(clients.each).map((row) => row.map(minus)), mean: clients.mean.map(minus),
      low: clients.high?.map(minus) ?? null, high: clients.low?.map(minus) ?? null,
    },
  };
}

/** Return what a difference says, in words, and no more than the seeds allow. */
export function sentence({ mean, each, interval, counts, p_holm: p }, name, other) {
  const total = counts && counts.better + counts.level + counts.worse;
  const who = counts ? `better for ${count(counts.better)} of ${count(total)} clients${each.length > 1 ? " of all seeds" : ""} (${count(counts.level)} level, ${count(counts.worse)} worse off), ` : "";
  const start = `${name} against ${other}: ${who}mean ${signed(mean, 4)}`;
  if (each.length === 1) return `${start}; one seed gives no interval.`;
  if (!interval) return `${start}, the same in all ${each.length} seeds.`;
  const range = `${start}, 95 % interval ${number(interval[0], 4)} to ${number(interval[1], 4)} over ${each.length} seeds`;
  if (each.length < ENOUGH_SEEDS) return `${range}: too few to decide.`;
  if (p === null || p >= SURE) return `${range}: not decided.`;
  return `${range}: ${mean > 0 ? "better" : "worse"} (p ${pText(p, "= ")} after Holm's correction).`;
}

function pText(p, equals = "") {
  if (p === null) return "–";
  return p < 0.001 ? "< 0.001" : equals + String(Number(p.toPrecision(2)));
}

/**
 * Make the section about differences.
 * @param {object} context of the view; `context.document` is the comparison
 * @param {string[]} names of the entries
 * @returns {object} `element`; `show(places)`: of which entries all pairs are listed
 */
export function differencesSection(context, names) {
  const { document: shown } = context;
  const known = shown.differences ?? [];
  if (!known.length) return { element: section("Differences", message("No two entries have the same preferences and seeds, so nothing can be paired.")), show: () => {} };
  const between = (entry, over) => known.find((pair) => pair.entry === entry && pair.over === over)
    ?? known.filter((pair) => pair.entry === over && pair.over === entry).map(reversed)[0];
  const partners = (place) => names.flatMap((_, other) => (between(place, other) ? [other] : []));
  const asked = numbers(context.state.pair, 2);
  let pair = (asked && between(...asked)) ?? known[0];

  const words = make("p", { class: "people", "aria-live": "polite" });
  const controls = make("div", { class: "controls" });
  const seeds = bySeed(context, () => pair);
  const clients = byClient(context, () => outcomes(shown, pair));
  const fates = make("ul", { class: "legend" });
  const choose = (next) => {
    pair = next;
    context.set({ pair: `${pair.entry},${pair.over}` });
    draw();
    seeds.refresh();
    clients.refresh();
  };
  const draw = () => {
    const focused = controls.contains(document.activeElement) ? [...controls.querySelectorAll("select, button")].indexOf(document.activeElement) : -1;
    const option = (place) => [place, names[place]];
    const able = names.flatMap((_, place) => (partners(place).length ? [place] : []));
    fill(controls,
      field("Entry", select(able.map(option), pair.entry, (value) => choose(between(Number(value), pair.over) ?? between(Number(value), partners(Number(value))[0])))),
      field("Against", select(partners(pair.entry).map(option), pair.over, (value) => choose(between(pair.entry, Number(value))))),
      button("Swap", () => choose(between(pair.over, pair.entry))));
    if (focused >= 0) controls.querySelectorAll("select, button")[focused].focus();
    words.textContent = sentence(pair, names[pair.entry], names[pair.over]);
    fill(fates, pair.clients && fateCounts(outcomes(shown, pair)));
    clients.element.hidden = !pair.clients;
    clients.note(clientNote(shown, pair));
  };
  draw();
  const pairs = make("div");
  const element = section("Differences", controls, words, fates, make("div", { class: "grid beneath" }, seeds.element, clients.element),
    make("div", { class: "beneath" }, make("h3", {}, "All pairs"), pairs), shown.gains_caption && reading(shown.gains_caption));
  const show = (places) => fill(pairs, pairTable(known.filter((each) => places.includes(each.entry) && places.includes(each.over)), names, choose));
  return { element, show };
}

function fateCounts({ order, seeds }) {
  const start = make("li", {}, `Of ${plural(order.length, "client")}${seeds.length > 1 ? `, over ${seeds.length} seeds` : ""}:`);
  return [start, ...Object.entries(FATES).map(([name, fate]) => make("li", {},
    make("span", { class: `sign fate-${name}`, "aria-hidden": "true" }, fate.sign),
    ` ${count(order.filter((client) => client.fate === name).length)} ${fate.text}`))];
}

/** Return the clients of a pair, the one that gains most first, and the seeds. */
function outcomes(shown, { clients, seeds, over }) {
  if (!clients) return { seeds, order: [] };
  const each = lists(clients.each);
  const others = shown.vectors.filter((vector) => vector.entry === over && seeds.includes(vector.seed));
  const order = clients.name.map((name, place) => {
    const [mean, other] = [clients.mean[place], others.reduce((sum, vector) => sum + vector.scalarised[place], 0) / others.length];
    return {
      name, mean, low: clients.low?.[place] ?? null, high: clients.high?.[place] ?? null, each: each.map((row) => row[place]),
      fate: mean === null ? null : fateOf(other + mean, other),
    };
  });
  return { seeds, order: order.sort((a, b) => (b.mean ?? -Infinity) - (a.mean ?? -Infinity)) };
}

function clientNote(shown, pair) {
  const { clients, seeds } = pair;
  if (!clients) return "";
  const parts = [`Mean over ${plural(seeds.length, "seed")}`, seeds.length > 1 && "small dots are single seeds"];
  if (clients.low) parts.push("lines are 95 % intervals (Student's t over seeds, not corrected for the number of clients)");
  const vectors = shown.vectors.filter((each) => each.entry === pair.entry).map((each) => JSON.stringify(lists(each.preference)));
  const anew = new Set(vectors).size > 1 ? " Preferences differ between seeds: the same name does not want the same in each of them." : "";
  return `${parts.filter(Boolean).join("; ")}. Level: within ${TOLERANCE}.${anew}`;
}

function pairTable(known, names, choose) {
  const head = ["entry", "against", "gain", "95 % interval", "p", "p (Holm)", "better / level / worse"];
  const rows = known.map((pair) => [
    names[pair.entry], names[pair.over],
    { value: pair.mean, text: signed(pair.mean) + (pair.each.length > 1 ? ` ± ${number(pair.std)}` : "") },
    pair.interval ? `${number(pair.interval[0])} to ${number(pair.interval[1])}` : "–",
    { value: pair.p, text: pText(pair.p) }, { value: pair.p_holm, text: pText(pair.p_holm) },
    pair.counts ? [pair.counts.better, pair.counts.level, pair.counts.worse].map(count).join(" / ") : "–",
  ]);
  return table({ caption: "Differences of pairs of entries; choose one to look at it", name: "differences", head, rows, click: (row) => choose(known[row]) });
}

// -- figures ----------------------------------------------------------------------------------

/** Return a series of horizontal lines from low to high; data are [low, high, y]. */
function intervals(data, color, width) {
  const renderItem = (_, api) => {
    const [from, to] = [api.coord([api.value(0), api.value(2)]), api.coord([api.value(1), api.value(2)])];
    const style = { stroke: color, lineWidth: width };
    const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
    const end = width > 1 ? 4 : 0;
    return { type: "group", children: [line(...from, ...to), line(from[0], from[1] - end, from[0], from[1] + end), line(to[0], to[1] - end, to[0], to[1] + end)] };
  };
  return { type: "custom", renderItem, encode: { x: [0, 1], y: 2 }, data, silent: true, z: 2, clip: true };
}

/** Return what is compared, in words. */
function valueOf({ document: { problem } }) {
  return problem.objectives.length > 1 ? "scalarised values" : problem.objectives[0].name;
}

function zero(colour) {
  return { silent: true, symbol: "none", label: { show: false }, data: [{ xAxis: 0 }], lineStyle: { color: colour.ink, width: 1, type: "solid", opacity: 0.7 } };
}

/** Return axes of differences (x) over rows with names (y), and the grid that has room for the names. */
function rowAxes(colour, labels, width, name) {
  const room = Math.min(width * 0.3, 130, 14 + 7 * labels.reduce((most, text) => Math.max(most, text.length), 0));
  const many = labels.length > MANY;
  return {
    grid: { left: many ? 28 : room + 8, right: 14, top: 30, bottom: 44 },
    xAxis: axis(colour, name, { scale: false, axisLabel: { formatter: (value) => signed(value, 5).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "") } }),
    yAxis: axis(colour, many ? "clients, by difference" : "", {
      min: -0.6, max: labels.length - 0.4, inverse: true, scale: false, splitLine: { show: false }, nameGap: 10, axisLine: { show: false },
      axisLabel: many ? { show: false } : {
        customValues: labels.map((_, index) => index), formatter: (value) => labels[value] ?? "", width: room, overflow: "truncate", color: colour.ink, hideOverlap: false,
      },
    }),
  };
}

/** Make the figure of differences per seed, with the interval of their mean. */
function bySeed(context, current) {
  const labels = () => ["mean", ...current().seeds.map((seed) => `seed ${seed}`)];
  const build = (colour, width) => {
    const { each, mean, interval } = current();
    const dots = each.map((value, index) => ({ value: [value, index + 1] }));
    return {
      ...rowAxes(colour, labels(), width, `difference of mean ${valueOf(context)}`),
      tooltip: { formatter: ({ value, seriesName }) => `${seriesName === "mean" ? "mean" : labels()[value[1]]}: ${signed(value[0], 4)}` },
      series: [
        interval && intervals([[...interval, 0]], colour.accent, 2),
        { type: "scatter", name: "seeds", data: dots, symbolSize: 8, itemStyle: { color: colour.soft, opacity: 1 }, z: 3, markLine: zero(colour) },
        { type: "scatter", name: "mean", data: [[mean, 0]], symbol: "diamond", symbolSize: 14, itemStyle: { color: colour.accent, opacity: 1 }, z: 4 },
      ].filter(Boolean),
    };
  };
  return figure(context, {
    title: "Difference per seed", name: "differences-seeds", build, heightOf: () => 84 + 22 * labels().length,
    rows: () => {
      const { seeds, each, mean, interval } = current();
      return {
        head: ["seed", "difference", "low", "high"], digits: 4,
        rows: [["mean", mean, interval?.[0] ?? null, interval?.[1] ?? null], ...seeds.map((seed, index) => [String(seed), each[index], null, null])],
      };
    },
  });
}

/** Make the figure of differences per client; `current()` returns their `order` and `seeds`. */
function byClient(context, current) {
  const build = (colour, width) => {
    const { order, seeds } = current();
    const many = order.length > MANY;
    const known = order.map((client, y) => ({ client, y })).filter(({ client }) => client.fate);
    const single = seeds.length > 1 && !many ? known.flatMap(({ client, y }) => client.each.filter((value) => value !== null).map((value) => [value, y])) : [];
    const marks = Object.entries(FATES).map(([name, fate]) => ({
      type: "scatter", name: fate.text, symbol: fate.symbol, symbolSize: many ? Math.max(3, 8 - order.length / 150) : 10, z: 4,
      itemStyle: { color: colour[fate.colour], opacity: 1 },
      data: known.filter(({ client }) => client.fate === name).map(({ client, y }) => ({ value: [client.mean, y], client })),
    })).filter((series) => series.data.length);
    if (marks.length) marks[0].markLine = zero(colour);
    return {
      legend: legend(colour, { data: marks.map((series) => series.name) }),
      ...rowAxes(colour, order.map((client) => client.name), width, `difference of ${valueOf(context)} (test)`),
      tooltip: { formatter: ({ data }) => (data?.client ? clientText(data.client, seeds) : "") },
      series: [
        intervals(known.filter(({ client }) => client.low !== null).map(({ client, y }) => [client.low, client.high, y]), many ? colour.rule : colour.faint, many ? 0.6 : 1.5),
        { type: "scatter", data: single, symbolSize: 4, itemStyle: { color: colour.soft, opacity: 0.6 }, silent: true, z: 3 },
        ...marks,
      ],
    };
  };
  const heightOf = () => {
    const { length } = current().order;
    return length > MANY ? 460 : 84 + 20 * Math.max(1, length);
  };
  return figure(context, {
    title: "Difference per client", name: "differences-clients", build, heightOf,
    rows: () => {
      const { order, seeds } = current();
      return {
        head: ["client", "outcome", "mean", "low", "high", ...seeds.map((seed) => `seed ${seed}`)], digits: 4, filter: "Filter clients by name",
        rows: order.map((client) => [client.name, client.fate ?? "–", client.mean, client.low, client.high, ...client.each]),
      };
    },
  });
}

function clientText(client, seeds) {
  const range = client.low === null ? "" : `\n95 % interval ${signed(client.low)} to ${signed(client.high)}`;
  const each = seeds.length > 8 ? "" : `\n${seeds.map((seed, index) => `seed ${seed}: ${signed(client.each[index])}`).join("\n")}`;
  return `${client.name}: ${signed(client.mean, 4)}${range}${each}`;
}
