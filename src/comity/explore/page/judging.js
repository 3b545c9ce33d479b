/** Judgements of a saved page: what the server would answer, from grids that were computed before. */
import { decode, dot, lists } from "comity/arrays";

/** Return the judgement of a client's models at a preference, from its grid. */
export function judgeGrid(grid, own, { preference, aspiration = null }) {
  const preferences = lists(grid.preferences);
  const test = lists(grid.test);
  const validation = lists(grid.validation);
  const choice = aspiration ? reaching(validation ?? test, own, aspiration) : null;
  const index = grid.made ? choice?.index ?? nearest(preferences, preference) : 0;
  const asked = choice && grid.made ? preferences[index] : preference;
  const part = (rows) => rows && { rows: null, objectives: rows[index], scalarised: dot(asked, rows[index]) };
  return {
    client: grid.client, preference: asked, made: grid.made, point: null, threshold: 0.5,
    how: grid.made
      ? `This saved page knows ${preferences.length} preferences of each client; shown is the nearest, ${preferences[index].map((value) => value.toFixed(2)).join(", ")}.`
      : "This model is fixed: another preference only weighs its values differently.",
    parts: { test: part(test), validation: part(validation) },
    baseline: grid.baseline && { ...grid.baseline, test: rescored(grid.baseline.test, asked) },
    yes: grid.yes && { ...grid.yes, counts: decode(grid.yes.counts).at(index) },
    aspiration: choice && described(choice, aspiration, test[index], validation?.[index] ?? null, asked),
  };
}

/** Return the judgement of a search: the model of its front that is best at a preference. */
export function judgeFront(front, { preference, aspiration = null }) {
  const points = lists(front.objectives);
  const choice = aspiration ? reaching(points, preference, aspiration) : null;
  const index = choice?.index ?? best(points, preference);
  return {
    client: null, preference, made: false, point: index, threshold: 0.5, how: "The model of the front that is best at this preference.",
    parts: { test: { rows: null, objectives: points[index], scalarised: dot(preference, points[index]) }, validation: null },
    baseline: null, yes: null,
    aspiration: choice && described(choice, aspiration, points[index], null, preference),
  };
}

function rescored(part, preference) {
  return part && { ...part, scalarised: dot(preference, part.objectives) };
}

function nearest(preferences, preference) {
  return best(preferences.map((row) => [-Math.hypot(...row.map((value, k) => value - preference[k]))]), [1]);
}

/** Return the first row with the largest sum of products; rows with missing values come last. */
function best(rows, weights) {
  const values = rows.map((row) => dot(weights, row)).map((value) => (Number.isNaN(value) ? -Infinity : value));
  return values.indexOf(Math.max(...values));
}

/** Return the row that reaches all levels and is best at a preference, or the one that lacks least. */
function reaching(rows, preference, levels) {
  const wanted = levels.flatMap((level, k) => (level === null ? [] : [k]));
  const reached = rows.map((row) => wanted.every((k) => row[k] !== null && row[k] >= levels[k]));
  if (reached.includes(true)) {
    const values = rows.map((row, index) => (reached[index] ? dot(preference, row) : -Infinity));
    return { index: values.indexOf(Math.max(...values)), met: true };
  }
  const spans = levels.map((_, k) => {
    const column = rows.map((row) => row[k]).filter((value) => value !== null);
    return Math.max(...column) - Math.min(...column) || 1;
  });
  const lacks = rows.map((row) => Math.max(...wanted.map((k) => (row[k] === null ? Infinity : (levels[k] - row[k]) / spans[k]))));
  return { index: lacks.indexOf(Math.min(...lacks)), met: false };
}

function described(choice, levels, test, validation, preference) {
  const text = choice.met ? "A model reaches these levels." : "No model reaches all these levels; this one lacks least.";
  return { levels, met: choice.met, preference, validation, test, text };
}
