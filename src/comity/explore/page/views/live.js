/** Live: rounds, curves, events, bytes and time left of a run, running or finished. */
import { clientsOf } from "comity/clients";
import { choice, code, field, fill, make, message, section, select, tile } from "comity/elements";
import { bytes, clock, count, duration } from "comity/formats";
import { appended } from "comity/history";
import { attendance, curves, growth, traffic } from "comity/round-figures";
import { table } from "comity/tables";

export const title = "Live";

const EVERY = 1000; // milliseconds between two questions

/** Runs and searches have rounds. */
export function applies(shown) {
  return shown.kind === "run" || shown.kind === "search";
}

/** Draw the state of a run, and follow it while it runs. */
export function render(root, context) {
  const { document: shown, state } = context;
  const clients = shown.kind === "run" ? clientsOf(shown) : [];
  const model = {
    shown,
    clients,
    state: shown.state,
    history: shown.history,
    what: state.what ?? "value",
    client: state.client ?? "",
  };
  const places = {
    head: make("div", { class: "livehead" }),
    events: make("div"),
    commands: make("div"),
    sites: make("div"),
    fault: make("div"),
  };
  const figures =
    shown.kind === "search"
      ? [growth(context, model)]
      : [curves(context, model), traffic(context, model), attendance(context, model)];
  const draw = () => {
    fill(places.head, head(model));
    fill(places.events, events(model));
    fill(places.commands, commands(model));
    fill(places.sites, sites(model));
    figures.forEach((drawing) => drawing.refresh());
  };
  root.append(
    places.head,
    places.fault,
    shown.kind === "run" ? controls(context, model, () => figures[0].refresh()) : "",
    make(
      "div",
      { class: "grid" },
      figures.map((drawing) => drawing.element),
    ),
    places.sites,
    places.commands,
    places.events,
  );
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
  const bar = make(
    "div",
    {
      class: "progress",
      role: "progressbar",
      "aria-label": "Rounds",
      "aria-valuemin": 0,
      "aria-valuemax": state.of ?? 0,
      "aria-valuenow": state.done ?? 0,
    },
    make("i"),
  );
  bar.firstChild.style.width = `${state.of ? (100 * state.done) / state.of : 0}%`;
  const sum = (values) => (values ?? []).reduce((total, value) => total + (value ?? 0), 0);
  return [
    make(
      "div",
      { class: "tiles" },
      tile(state.state, "state", state.holder),
      tile(`${count(state.done)} of ${count(state.of)}`, "rounds"),
      typeof state.seconds === "number" &&
        tile(duration(state.seconds), state.state === "finished" ? "time in all" : "time so far"),
      state.state === "running" && tile(duration(state.seconds_left), "time left, at this pace"),
      tile(bytes(state.bytes_up ?? sum(history?.bytes_up)), "sent by clients"),
      tile(bytes(state.bytes_down ?? sum(history?.bytes_down)), "received by clients"),
    ),
    bar,
  ];
}

function events({ history }) {
  const all = history?.events ?? [];
  if (!all.length) return "";
  const latest = all.slice(-200).reverse();
  return section(
    "Events",
    make(
      "ol",
      { class: "events" },
      latest.map(([round, text]) => make("li", {}, make("span", { class: "soft" }, `round ${round}: `), text)),
    ),
    all.length > latest.length && message(`The last ${latest.length} of ${count(all.length)} events.`),
  );
}

function commands({ state, shown }) {
  const texts = [
    state.resume ?? shown.commands?.resume,
    shown.commands?.start,
    shown.commands?.report,
    shown.commands?.explore,
  ].filter(Boolean);
  const stop =
    state.state === "running" &&
    message(
      state.holder
        ? `To stop it: Ctrl-C where it runs (${state.holder}). It goes on later with the first command.`
        : "To stop it: Ctrl-C where it runs. It goes on later with the first command.",
    );
  return section(
    "Commands",
    stop,
    texts.map((text) => code(text)),
    message("This page only shows commands; it never executes them."),
  );
}

function sites({ shown }) {
  const status = shown.site_status;
  if (!status) return "";
  const rows = status.sites.map((site) => [
    site.name,
    site.rounds ?? null,
    { value: site.bytes, text: bytes(site.bytes) },
    { value: site.seconds, text: duration(site.seconds) },
    { value: site.last_seen, text: clock(site.last_seen) },
    { value: site.fault || "", class: "bad" },
  ]);
  return section(
    "Sites",
    make("p", {}, `${status.exchange}. `, make("span", { class: "note" }, `Written ${clock(status.updated)}.`)),
    table({
      caption: "Sites",
      head: ["site", "rounds answered", "bytes", "last answer took", "last seen", "fault"],
      rows,
    }),
    status.events.length > 0 &&
      make(
        "ol",
        { class: "events" },
        status.events.toReversed().map((text) => make("li", {}, text)),
      ),
  );
}

function controls(context, model, changed) {
  const { shown, clients } = model;
  const names = shown.problem.objectives.map((objective) => objective.name);
  const options = [
    ["value", "scalarised value"],
    ...names.map((name, k) => [String(k), name]),
    shown.history?.hypervolume && ["hypervolume", "hypervolume"],
  ].filter(Boolean);
  return make(
    "div",
    { class: "controls" },
    options.length > 2 || names.length > 1
      ? choice("What", options, model.what, (value) => {
          model.what = value;
          context.set({ what: value });
          changed();
        })
      : "",
    shown.history?.clients &&
      clients.length > 1 &&
      field(
        "Curve of",
        select(
          [["", "all clients together"], ...clients.map((client) => [client.number, client.label])],
          model.client,
          (value) => {
            model.client = value;
            context.set({ client: value || null });
            changed();
          },
        ),
      ),
  );
}
