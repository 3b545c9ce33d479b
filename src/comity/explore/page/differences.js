/** Differences between two entries, paired by seed: in words, per seed and per client. */
import { lists } from "comity/arrays";
import { byClient, bySeed, FATES } from "comity/difference-figures";
import { button, field, fill, make, message, section, select } from "comity/elements";
import { reading } from "comity/entries";
import { count, number, plural, signed } from "comity/formats";
import { numbers } from "comity/state";
import { table } from "comity/tables";

// as in comity.runs: what is level, how many seeds are enough, which p decides
const TOLERANCE = 0.001;
const ENOUGH_SEEDS = 5;
const SURE = 0.05;

/** Return whether a value is better than another, level with it or worse. */
export function fateOf(value, other) {
  if (Math.abs(value - other) <= TOLERANCE * Math.max(1, Math.abs(other))) return "level";
  return value > other ? "better" : "worse";
}

/** Return the same difference from the other side. */
function reversed(difference) {
  const minus = (value) => (value === null ? null : value === 0 ? 0 : -value);
  const { entry, over, mean, interval, each, counts, clients } = difference;
  return {
    ...difference,
    entry: over,
    over: entry,
    mean: minus(mean),
    each: each.map(minus),
    interval: interval && [minus(interval[1]), minus(interval[0])],
    counts: counts && { better: counts.worse, level: counts.level, worse: counts.better },
    clients: clients && {
      ...clients,
      each: lists(clients.each).map((row) => row.map(minus)),
      mean: clients.mean.map(minus),
      low: clients.high?.map(minus) ?? null,
      high: clients.low?.map(minus) ?? null,
    },
  };
}

/** Return what a difference says, in words, and no more than the seeds allow. */
export function sentence({ mean, each, interval, counts, p_holm: p }, name, other) {
  const total = counts && counts.better + counts.level + counts.worse;
  const who = counts
    ? `better for ${count(counts.better)} of ${count(total)} clients${each.length > 1 ? " of all seeds" : ""} (${count(counts.level)} level, ${count(counts.worse)} worse off), `
    : "";
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
  if (!known.length)
    return {
      element: section(
        "Differences",
        message("No two entries have the same preferences and seeds, so nothing can be paired."),
      ),
      show: () => {},
    };
  const between = (entry, over) =>
    known.find((pair) => pair.entry === entry && pair.over === over) ??
    known.filter((pair) => pair.entry === over && pair.over === entry).map(reversed)[0];
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
    const focused = controls.contains(document.activeElement)
      ? [...controls.querySelectorAll("select, button")].indexOf(document.activeElement)
      : -1;
    const option = (place) => [place, names[place]];
    const able = names.flatMap((_, place) => (partners(place).length ? [place] : []));
    fill(
      controls,
      field(
        "Entry",
        select(able.map(option), pair.entry, (value) =>
          choose(between(Number(value), pair.over) ?? between(Number(value), partners(Number(value))[0])),
        ),
      ),
      field(
        "Against",
        select(partners(pair.entry).map(option), pair.over, (value) => choose(between(pair.entry, Number(value)))),
      ),
      button("Swap", () => choose(between(pair.over, pair.entry))),
    );
    if (focused >= 0) controls.querySelectorAll("select, button")[focused].focus();
    words.textContent = sentence(pair, names[pair.entry], names[pair.over]);
    fill(fates, pair.clients && fateCounts(outcomes(shown, pair)));
    clients.element.hidden = !pair.clients;
    clients.note(clientNote(shown, pair));
  };
  draw();
  const pairs = make("div");
  const element = section(
    "Differences",
    controls,
    words,
    fates,
    make("div", { class: "grid beneath" }, seeds.element, clients.element),
    make("div", { class: "beneath" }, make("h3", {}, "All pairs"), pairs),
    shown.gains_caption && reading(shown.gains_caption),
  );
  const show = (places) =>
    fill(
      pairs,
      pairTable(
        known.filter((each) => places.includes(each.entry) && places.includes(each.over)),
        names,
        choose,
      ),
    );
  return { element, show };
}

function fateCounts({ order, seeds }) {
  const start = make(
    "li",
    {},
    `Of ${plural(order.length, "client")}${seeds.length > 1 ? `, over ${seeds.length} seeds` : ""}:`,
  );
  return [
    start,
    ...Object.entries(FATES).map(([name, fate]) =>
      make(
        "li",
        {},
        make("span", { class: `sign fate-${name}`, "aria-hidden": "true" }, fate.sign),
        ` ${count(order.filter((client) => client.fate === name).length)} ${fate.text}`,
      ),
    ),
  ];
}

/** Return the clients of a pair, the one that gains most first, and the seeds. */
function outcomes(shown, { clients, seeds, over }) {
  if (!clients) return { seeds, order: [] };
  const each = lists(clients.each);
  const others = shown.vectors.filter((vector) => vector.entry === over && seeds.includes(vector.seed));
  const order = clients.name.map((name, place) => {
    const [mean, other] = [
      clients.mean[place],
      others.reduce((sum, vector) => sum + vector.scalarised[place], 0) / others.length,
    ];
    return {
      name,
      mean,
      low: clients.low?.[place] ?? null,
      high: clients.high?.[place] ?? null,
      each: each.map((row) => row[place]),
      fate: mean === null ? null : fateOf(other + mean, other),
    };
  });
  return { seeds, order: order.sort((a, b) => (b.mean ?? -Infinity) - (a.mean ?? -Infinity)) };
}

function clientNote(shown, pair) {
  const { clients, seeds } = pair;
  if (!clients) return "";
  const parts = [`Mean over ${plural(seeds.length, "seed")}`, seeds.length > 1 && "small dots are single seeds"];
  if (clients.low)
    parts.push("lines are 95 % intervals (Student's t over seeds, not corrected for the number of clients)");
  const vectors = shown.vectors
    .filter((each) => each.entry === pair.entry)
    .map((each) => JSON.stringify(lists(each.preference)));
  const anew =
    new Set(vectors).size > 1
      ? " Preferences differ between seeds: the same name does not want the same in each of them."
      : "";
  return `${parts.filter(Boolean).join("; ")}. Level: within ${TOLERANCE}.${anew}`;
}

function pairTable(known, names, choose) {
  const head = ["entry", "against", "gain", "95 % interval", "p", "p (Holm)", "better / level / worse"];
  const rows = known.map((pair) => [
    names[pair.entry],
    names[pair.over],
    { value: pair.mean, text: signed(pair.mean) + (pair.each.length > 1 ? ` ± ${number(pair.std)}` : "") },
    pair.interval ? `${number(pair.interval[0])} to ${number(pair.interval[1])}` : "–",
    { value: pair.p, text: pText(pair.p) },
    { value: pair.p_holm, text: pText(pair.p_holm) },
    pair.counts ? [pair.counts.better, pair.counts.level, pair.counts.worse].map(count).join(" / ") : "–",
  ]);
  return table({
    caption: "Differences of pairs of entries; choose one to look at it",
    name: "differences",
    head,
    rows,
    click: (row) => choose(known[row]),
  });
}
