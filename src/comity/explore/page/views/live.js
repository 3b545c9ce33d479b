/** Live: rounds, curves, events, bytes and time left of a run, running or finished. */
import { lists } from "comity/arrays";
import { axis, band, figure, legend } from "comity/charts";
import { clientsOf } from "comity/clients";
import { choice, code, field, fill, make, message, section, select, tile } from "comity/elements";
import { bytes, clock, count, duration, number } from "comity/formats";
import { appended } from "comity/history";
import { table } from "comity/tables";

export const title = "Live";

const EVERY = 1000; // milliseconds between two questions
const STAGES = [["received", "as received", "faint"], ["trained", "after local training", "accent"], ["kept", "kept", "good"]];

/** Runs and searches have rounds. */
export function applies(shown) {
  return shown.kind === "run" || shown.kind === "search";
}

/** Draw the state of a run, and follow it while it runs. */
export function render(root, context) {
  const { document: shown, state } = context;
  const clients = shown.kind === "run" ? clientsOf(shown) : [];
  const model = { shown, clients, state: shown.state, history: shown.history, what: state.what ?? "value", client: state.client ?? "" };
  const places = { head: make("div", { class: "livehead" }), events: make("div"), commands: make("div"), sites: make("div"), fault: make("div") };
  const figures = shown.kind === "search" ? [growth(context, model)] : [curves(context, model), traffic(context, model), attendance(context, model)];
  const draw = () => {
    fill(places.head, head(model));
    fill(places.events, events(model));
    fill(places.commands, commands(model));
    fill(places.sites, sites(model));
    figures.forEach((drawing) => drawing.refresh());
  };
  root.append(places.head, places.fault,
    shown.kind === "run" ? controls(context, model, () => figures[0].refresh()) : "",
    make("div", { class: "grid" }, figures.map((drawing) => drawing.element)),
    places.sites, places.commands, places.events);
  draw();
  if (!context.source.saved && model.state.state !== "finished") follow(context, model, places.fault, draw);
}

/** Ask every second for what is new, until the run is finished. */
function follow(context, model, fault, draw) {
  let timer = null;
  context.onLeave(() => clearTimeout(timer));
  const poll = async () => {
    try {
      const known = model.history?.rounds?.at(-1) ?? 0;
      const news = await context.source.since(model.shown.id, known);
      if (!context.here()) return;
      fill(fault);
      if (news.reset || news.state.state === "finished") {
        context.again();
        return;
      }
      const before = model.state;
      model.state = news.state;
      model.history = appended(model.history, news.history);
      if (news.site_status) model.shown.site_status = news.site_status;
      draw();
      if (before.done !== news.state.done) context.announce(`${news.state.done} of ${news.state.of} rounds`);
    } catch (error) {
      if (!context.here()) return;
      fill(fault, message(error.message, "fault"));
    }
    timer = setTimeout(poll, EVERY);
  };
  timer = setTimeout(poll, EVERY);
}

// -- head, events, commands -------------------------------------------------------------------

function head({ state, history }) {
  const bar = make("div", { class: "progress", role: "progressbar", "aria-label": "Rounds", "aria-valuemin": 0, "aria-valuemax": state.of ?? 0, "aria-valuenow": state.done ?? 0 }, make("i"));
  bar.firstChild.style.width = `${state.of ? (100 * state.done) / state.of : 0}%`;
  const sum = (values) => (values ?? []).reduce((total, value) => total + (value ?? 0), 0);
  return [
    make("div", { class: "tiles" },
      tile(state.state, "state", state.holder),
      tile(`${count(state.done)} of ${count(state.of)}`, "rounds"),
      typeof state.seconds === "number" && tile(duration(state.seconds), state.state === "finished" ? "time in all" : "time so far"),
      state.state === "running" && tile(duration(state.seconds_left), "time left, at this pace"),
      tile(bytes(state.bytes_up ?? sum(history?.bytes_up)), "sent by clients"),
      tile(bytes(state.bytes_down ?? sum(history?.bytes_down)), "received by clients")),
    bar,
  ];
}

function events({ history }) {
  const all = history?.events ?? [];
  if (!all.length) return "";
  const latest = all.slice(-200).reverse();
  return section("Events", make("ol", { class: "events" }, latest.map(([round, text]) => make("li", {}, make("span", { class: "soft" }, `round ${round}: `), text))),
    all.length > latest.length && message(`The last ${latest.length} of ${count(all.length)} events.`));
}

function commands({ state, shown }) {
  const texts = [state.resume ?? shown.commands?.resume, shown.commands?.start, shown.commands?.report, shown.commands?.explore].filter(Boolean);
  const stop = state.state === "running" && message(state.holder ? `To stop it: Ctrl-C where it runs (${state.holder}). It goes on later with the first command.` : "To stop it: Ctrl-C where it runs. It goes on later with the first command.");
  return section("Commands", stop, texts.map((text) => code(text)), message("This page only shows commands; it never executes them."));
}

function sites({ shown }) {
  const status = shown.site_status;
  if (!status) return "";
  const rows = status.sites.map((site) => [
    site.name, site.rounds ?? null, { value: site.bytes, text: bytes(site.bytes) }, { value: site.seconds, text: duration(site.seconds) },
    { value: site.last_seen, text: clock(site.last_seen) }, { value: site.fault || "", class: "bad" },
  ]);
  return section("Sites",
    make("p", {}, `${status.exchange}. `, make("span", { class: "note" }, `Written ${clock(status.updated)}.`)),
    table({ caption: "Sites", head: ["site", "rounds answered", "bytes", "last answer took", "last seen", "fault"], rows }),
    status.events.length > 0 && make("ol", { class: "events" }, status.events.toReversed().map((text) => make("li", {}, text))));
}

function controls(context, model, changed) {
  const { shown, clients } = model;
  const names = shown.problem.objectives.map((objective) => objective.name);
  const options = [["value", "scalarised value"], ...names.map((name, k) => [String(k), name]), shown.history?.hypervolume && ["hypervolume", "hypervolume"]].filter(Boolean);
  return make("div", { class: "controls" },
    options.length > 2 || names.length > 1 ? choice("What", options, model.what, (value) => {
      model.what = value;
      context.set({ what: value });
      changed();
    }) : "",
    shown.history?.clients && clients.length > 1 && field("Curve of", select([["", "all clients together"], ...clients.map((client) => [client.number, client.label])], model.client, (value) => {
      model.client = value;
      context.set({ client: value || null });
      changed();
    })));
}

// -- figures ----------------------------------------------------------------------------------

/** Return [name, tone, points, band points] of each curve that is chosen. */
function series({ history, what, client, clients }) {
  if (!history) return [];
  const { rounds } = history;
  if (what === "hypervolume") return [["mean validation hypervolume", "accent", rounds.map((round, index) => [round, history.hypervolume?.[index] ?? null])]];
  if (what !== "value") {
    return STAGES.map(([stage, name, tone]) => [name, tone, lists(history.objectives?.[stage])?.map((row, index) => [rounds[index], row[Number(what)]]) ?? []]);
  }
  const row = clients.findIndex((entry) => String(entry.number) === client);
  if (row >= 0) {
    return STAGES.map(([stage, name, tone]) => [name, tone, lists(history.clients?.[stage])?.map((line, index) => [history.clients.rounds[index], line[row]]) ?? []]);
  }
  return STAGES.map(([stage, name, tone]) => [name, tone, rounds.map((round, index) => [round, history.mean?.[stage]?.[index] ?? null]),
    stage === "kept" && rounds.map((round, index) => [round, history.low?.kept?.[index] ?? null, history.high?.kept?.[index] ?? null])]);
}

function curves(context, model) {
  const known = () => series(model).filter(([, , points]) => points.some(([, value]) => value !== null));
  const drawing = figure(context, {
    title: "Validation, round by round", name: "rounds", wide: true, heightOf: () => (known().length ? 340 : 4),
    build: (colour) => {
      drawing.note(noteOf(model, known().length > 0));
      return known().length ? option(colour) : {};
    },
    rows: () => {
      const all = known();
      const rounds = all[0]?.[2].map(([round]) => round) ?? [];
      return { head: ["round", ...all.map(([name]) => name)], rows: rounds.map((round, index) => [round, ...all.map(([, , points]) => points[index]?.[1] ?? null)]) };
    },
  });
  const option = (colour) => ({
    legend: legend(colour, { data: known().map(([name]) => name) }), grid: { left: 56, right: 16, top: 34, bottom: 42 },
    xAxis: axis(colour, "round", { minInterval: 1, scale: false, min: 0, max: Math.max(model.state.of ?? 0, model.history?.rounds?.at(-1) ?? 0) }),
    yAxis: axis(colour, "", {}),
    tooltip: { trigger: "axis", formatter: (items) => hint(items) },
    series: known().flatMap(([name, tone, points, area]) => [
      ...(area ? band(`${name}, middle half`, area, colour[tone]) : []),
      { type: "line", name, data: points, symbol: points.length > 60 ? "none" : "circle", symbolSize: 4, itemStyle: { color: colour[tone] }, lineStyle: { width: 2 }, z: 3, connectNulls: true },
    ]),
  });
  return drawing;
}

/** Return what the curves are; the organiser of real sites has none. */
function noteOf({ what, client }, known) {
  if (!known) return "No scores are known here: there are none yet, or only the sites have them.";
  if (client && what === "value") return "One client's models on its validation data.";
  return `Means over the clients that took part${what === "value" ? "; the shaded area holds the middle half of the kept ones" : ""}.`;
}

function hint(items) {
  const lines = items.filter(({ seriesName, value }) => !seriesName.endsWith("middle half") && value[1] !== null && value[1] !== undefined);
  return lines.length ? [`round ${lines[0].value[0]}`, ...lines.map(({ seriesName, value }) => `${seriesName} ${number(value[1])}`)].join("\n") : "";
}

function steps(context, model, title, name, fields, format) {
  const points = (field) => (model.history?.rounds ?? []).map((round, index) => [round, model.history[field]?.[index] ?? null]);
  return figure(context, {
    title, name, height: 220,
    build: (colour) => ({
      legend: legend(colour), grid: { left: 60, right: 12, top: 32, bottom: 40 },
      xAxis: axis(colour, "round", { minInterval: 1 }), yAxis: axis(colour, "", { min: 0, scale: false, axisLabel: { formatter: format } }),
      tooltip: { trigger: "axis", valueFormatter: format },
      series: fields.map(([field, label, tone]) => ({ type: "line", name: label, step: "middle", symbol: "none", data: points(field), itemStyle: { color: colour[tone] } })),
    }),
    rows: () => ({ head: ["round", ...fields.map(([, label]) => label)], rows: (model.history?.rounds ?? []).map((round, index) => [round, ...fields.map(([field]) => model.history[field]?.[index] ?? null)]) }),
  });
}

function traffic(context, model) {
  return steps(context, model, "Bytes per round", "bytes", [["bytes_up", "sent by clients", "accent"], ["bytes_down", "received by clients", "good"]], bytes);
}

function attendance(context, model) {
  const fields = [["participants", "took part", "accent"], ["declined", "declined the model", "bad"], model.history?.clusters && ["clusters", "clusters", "odd"]].filter(Boolean);
  return steps(context, model, "Clients per round", "participants", fields, count);
}

function growth(context, model) {
  const { history } = model;
  return figure(context, {
    title: "Hypervolume by evaluations", name: "growth", height: 320, wide: true,
    build: (colour) => ({
      grid: { left: 60, right: 16, top: 12, bottom: 40 },
      xAxis: axis(colour, "evaluations", { minInterval: 1, scale: false }), yAxis: axis(colour, "hypervolume", { nameGap: 44 }),
      tooltip: { trigger: "axis", formatter: ([{ value }]) => `${count(value[0])} evaluations\n${number(value[1])}` },
      series: [{ type: "line", step: "end", symbolSize: 5, data: (model.history?.evaluations ?? []).map((at, index) => [at, model.history.hypervolume?.[index] ?? null]), itemStyle: { color: colour.accent } }],
    }),
    rows: () => ({ head: ["iteration", "evaluations", "hypervolume"], rows: (history?.rounds ?? []).map((round, index) => [round, history.evaluations[index], history.hypervolume?.[index] ?? null]) }),
  });
}
