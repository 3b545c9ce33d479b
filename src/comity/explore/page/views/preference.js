/** The preference: move it, and see what a client's model becomes. */
import { dot, lists } from "comity/arrays";
import { chosenRow, clientField, clientsOf } from "comity/clients";
import { choice, field, fill, make, message, select } from "comity/elements";
import { count, number, signed, weights } from "comity/formats";
import { levelsControl } from "comity/levels";
import { objectiveSpace, parallelLines } from "comity/objective-space";
import { answers } from "comity/answers";
import { exact, preferenceControl, words } from "comity/simplex";
import { newest } from "comity/source";
import { integer, numbers } from "comity/state";

export const title = "Preference";

/** Finished runs and searches with at least two objectives. */
export function applies(shown) {
  if (shown.problem?.objectives.length < 2) return false;
  return shown.kind === "search" ? Boolean(shown.front) : shown.kind === "run" && Boolean(shown.clients.objectives);
}

/** Draw the controls, the numbers and the space of objectives. */
export function render(root, context) {
  const { document: shown, state, source } = context;
  const names = shown.problem.objectives.map((objective) => objective.name);
  const clients = shown.kind === "run" ? clientsOf(shown) : [];
  const model = {
    shown,
    names,
    clients,
    row: clients.length ? chosenRow(context, clients) : null,
    judgement: null,
    axes: [integer(state.x, 0, names.length), integer(state.y, 1, names.length)],
    levels: state.a ? levelsFrom(state.a, names.length) : null,
    threshold: Number(state.t) > 0 && Number(state.t) < 1 ? Number(state.t) : 0.5,
    knownFront: lists(shown.known_front),
    front: shown.kind === "search" ? lists(shown.front.objectives) : lists(shown.front),
  };
  const own = () => exact(clients[model.row]?.preference ?? names.map(() => 1));
  model.preference = exact(numbers(state.w, names.length) ?? own());

  const parts = {
    how: message(""),
    aspiration: make("p", { class: "aspiration" }),
    values: make("div", { class: "values" }),
    fault: make("div"),
  };
  const space = objectiveSpace(context, model, (row) => choose(row));
  const lines = names.length > 2 ? parallelLines(context, model) : null;
  const rates = answers(context, model, (threshold) => {
    model.threshold = threshold;
    remember();
    if (!source.saved) request();
  });

  const remember = () =>
    context.set({
      client: clients[model.row]?.number,
      w: model.preference.join(","),
      a: model.levels ? model.levels.map((level) => level ?? "").join(",") : null,
      t: model.threshold === 0.5 ? null : model.threshold,
      x: model.axes[0] || null,
      y: model.axes[1] === 1 ? null : model.axes[1],
    });
  const ask = newest(
    (asked) => source.judge(shown, asked),
    (judgement) => context.here() && update(judgement),
    (error) => fill(parts.fault, message(error.message, "fault")),
  );
  const request = () =>
    ask({
      client: clients[model.row]?.number ?? null,
      preference: model.preference,
      aspiration: model.levels,
      threshold: model.threshold === 0.5 ? null : model.threshold,
    });
  const update = (judgement) => {
    model.judgement = judgement;
    fill(parts.fault);
    if (model.levels && judgement.aspiration) {
      model.preference = exact(judgement.preference);
      weighing.show(model.preference);
    }
    parts.how.textContent = judgement.how;
    const { aspiration } = judgement;
    parts.aspiration.textContent = aspiration?.text ?? "";
    parts.aspiration.className = `aspiration ${aspiration && !aspiration.met ? "bad" : "good"}`;
    fill(parts.values, valueTable(model));
    space.refresh();
    lines?.refresh();
    rates.update();
    announceSoon(context, model);
  };
  const choose = (row) => {
    model.row = row;
    model.preference = own();
    weighing.show(model.preference);
    chooser?.querySelector("select") && (chooser.querySelector("select").value = row);
    model.judgement = null;
    remember();
    request();
  };

  const weighing = preferenceControl(
    names,
    model.preference,
    clients.map((client) => client.preference).filter(Boolean),
    (next) => {
      model.preference = next;
      remember();
      request();
    },
  );
  const levels = levelsControl(model, (next) => {
    model.levels = next;
    remember();
    request();
  });
  const chooser = clients.length > 1 ? clientField(clients, model.row, choose) : null;
  const reset =
    clients.length > 0 &&
    ownButton(model, own, weighing, () => {
      remember();
      request();
    });
  const way = choice(
    "How to say it",
    [
      ["weights", "Weights"],
      ["levels", "At least"],
    ],
    model.levels ? "levels" : "weights",
    (value) => {
      model.levels = value === "levels" ? levels.read() : null;
      show();
      remember();
      request();
    },
  );
  const show = () => {
    levels.element.hidden = !model.levels;
    weighing.element.disabled = Boolean(model.levels);
    if (reset) reset.hidden = Boolean(model.levels);
  };
  show();

  root.append(
    make(
      "div",
      { class: "split" },
      make(
        "div",
        { class: "side" },
        make("div", { class: "controls" }, chooser, way, reset),
        make("div", {}, levels.element, weighing.element, parts.aspiration, parts.fault),
        make("div", {}, parts.values, parts.how),
      ),
      make(
        "div",
        { class: "wide" },
        names.length > 2
          ? axesFields(model, () => {
              remember();
              space.refresh();
            })
          : "",
        space.element,
        lines ? lines.element : "",
      ),
    ),
    rates.element,
  );
  request();
}

function levelsFrom(text, length) {
  const levels = text.split(",").map((part) => (part === "" ? null : Number(part)));
  return levels.length === length && levels.every((level) => level === null || Number.isFinite(level)) ? levels : null;
}

function ownButton(model, own, weighing, done) {
  return make(
    "button",
    {
      type: "button",
      class: "quiet",
      click: () => {
        model.preference = own();
        weighing.show(model.preference);
        done();
      },
    },
    "Client's own preference",
  );
}

function axesFields(model, changed) {
  const options = model.names.map((name, index) => [index, name]);
  const pick = (position) =>
    select(options, model.axes[position], (value) => {
      model.axes[position] = Number(value);
      changed();
    });
  return make("div", { class: "controls" }, field("Horizontal", pick(0)), field("Vertical", pick(1)));
}

/** Return the table of what the model reaches, beside what else there is. */
function valueTable({ names, judgement, shown, knownFront, clients, row }) {
  const { preference, parts, baseline } = judgement;
  const now = parts.test;
  const trivial = shown.trivial_point ?? null;
  const best = knownFront?.length
    ? knownFront.reduce((a, b) => (dot(preference, b) > dot(preference, a) ? b : a))
    : null;
  const kept = baseline?.test ?? null;
  const columns = [
    kept && ["kept", kept.objectives, kept.scalarised],
    trivial && ["trivial", trivial, dot(preference, trivial)],
    best && ["optimum", best, dot(preference, best)],
  ].filter(Boolean);
  const change = (value, before) => {
    const gain = value === null || before === null ? null : value - before;
    return make(
      "td",
      { class: `number ${gain === null || Math.abs(gain) < 5e-4 ? "soft" : gain > 0 ? "good" : "bad"}` },
      signed(gain),
    );
  };
  const line = (name, value, others, properties) =>
    make(
      "tr",
      { ...properties, "data-objective": name },
      make("th", { scope: "row" }, name),
      make("td", { class: "number now" }, number(value)),
      kept && change(value, others[0]),
      others.map((other) => make("td", { class: "number" }, number(other))),
    );
  const heads = ["now", kept && "change", ...columns.map(([name]) => name)].filter(Boolean);
  const head = make(
    "tr",
    {},
    make("th", { scope: "col" }, "on test data"),
    heads.map((name) => make("th", { scope: "col", class: "number" }, name)),
  );
  const lines = names.map((name, k) =>
    line(
      name,
      now.objectives[k],
      columns.map(([, values]) => values[k]),
    ),
  );
  const total = line(
    "weighted sum",
    now.scalarised,
    columns.map(([, , value]) => value),
    { class: "total" },
  );
  const rows = now.rows ? `${count(now.rows)} test rows. ` : "";
  const which =
    row === null
      ? `Point ${judgement.point} of the front.`
      : kept
        ? `Kept: the model that ${clients[row].label} holds${baseline.preference ? `, for ${weights(baseline.preference)}` : ""}; the change is from it.`
        : "";
  return [
    make(
      "table",
      { class: "compact" },
      make("caption", { class: "hidden" }, "Values of this model"),
      make("thead", {}, head),
      make("tbody", {}, lines, total),
    ),
    message(rows + which),
  ];
}

let timer = null;

/** Say the numbers once the reader rests. */
function announceSoon(context, { names, judgement }) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (!context.here()) return;
    const { objectives } = judgement.parts.test;
    context.announce(
      `At ${words(names, judgement.preference)}: ${names.map((name, k) => `${name} ${number(objectives[k])}`).join(", ")}.`,
    );
  }, 600);
}
