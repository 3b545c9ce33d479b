/** Judgements of a saved page: what the server would answer, from grids that were computed before. */
import { decode, dot, lists } from "comity/arrays";
import { number } from "comity/formats";

/** Return the judgement of a client's models at a preference, from its grid. */
export function judgeGrid(grid, own, names, { preference, aspiration = null }) {
  const preferences = lists(grid.preferences);
  const test = lists(grid.test);
  const validation = lists(grid.validation);
  const choice = aspiration ? reaching(validation ?? test, own, aspiration) : null;
  const many = preferences.length > 1; // otherwise the model is fixed
  const index = many ? (choice?.index ?? nearest(preferences, preference)) : 0;
  const asked = choice && many ? preferences[index] : preference;
  const part = (rows) => rows && { rows: null, objectives: rows[index], scalarised: dot(asked, rows[index]) };
  return {
    client: grid.client,
    preference: asked,
    made: grid.made,
    point: null,
    threshold: 0.5,
    how: many
      ? `This saved page knows ${preferences.length} preferences of each client; shown is the nearest, ${preferences[index].map((value) => value.toFixed(2)).join(", ")}.`
      : grid.how,
    parts: { test: part(test), validation: part(validation) },
    baseline: grid.baseline && { ...grid.baseline, test: rescored(grid.baseline.test, asked) },
    yes: grid.yes && { ...grid.yes, counts: decode(grid.yes.counts).at(index) },
    aspiration: choice && described(choice, aspiration, names, test[index], validation?.[index] ?? null, asked),
  };
}

/** Return the judgement of a search: the model of its front that is best at a preference. */
export function judgeFront(front, names, { preference, aspiration = null }) {
  const points = lists(front.objectives);
  const choice = aspiration ? reaching(points, preference, aspiration) : null;
  const index = choice?.index ?? best(points, preference);
  return {
    client: null,
    preference,
    made: false,
    point: index,
    threshold: 0.5,
    how: "The model of the front that is best at this preference.",
    parts: {
      test: { rows: null, objectives: points[index], scalarised: dot(preference, points[index]) },
      validation: null,
    },
    baseline: null,
    yes: null,
    aspiration: choice && described(choice, aspiration, names, points[index], null, preference),
  };
}

function rescored(part, preference) {
  return part && { ...part, scalarised: dot(preference, part.objectives) };
}

function nearest(preferences, preference) {
  return best(
    preferences.map((row) => [-Math.hypot(...row.map((value, k) => value - preference[k]))]),
    [1],
  );
}

/** Return the first row with the largest sum of products; rows with missing values come last. */
function best(rows, weights) {
  const values = rows.map((row) => dot(weights, row)).map((value) => (Number.isNaN(value) ? -Infinity : value));
  return values.indexOf(Math.max(...values));
}

/** Return the row that reaches all levels and is best at a preference, or the one that lacks least. */
function reaching(rows, preference, levels) {
  const defined = rows.map((row) => row.every((value) => value !== null));
  const reached = rows.map(
    (row, index) => defined[index] && levels.every((level, k) => level === null || row[k] >= level),
  );
  if (reached.includes(true)) {
    const values = rows.map((row, index) => (reached[index] ? dot(preference, row) : -Infinity));
    return { index: values.indexOf(Math.max(...values)), met: true };
  }
  const spans = levels.map((_, k) => {
    const column = rows.filter((_, index) => defined[index]).map((row) => row[k]);
    return Math.max(...column) - Math.min(...column) || 1;
  });
  const shortfall = (row) =>
    Math.max(...levels.map((level, k) => (level === null ? -Infinity : (level - row[k]) / spans[k])));
  const lacks = rows.map((row, index) => (defined[index] ? shortfall(row) : Infinity));
  return { index: lacks.indexOf(Math.min(...lacks)), met: false };
}

/** Return a choice in the words of the server. */
function described({ met }, levels, names, test, validation, preference) {
  const values = validation ?? test;
  const lacking = names.flatMap((name, k) =>
    levels[k] === null || values[k] >= levels[k]
      ? []
      : [`${name} reaches ${number(values[k])} of ${number(levels[k])}`],
  );
  const text = met ? "All levels are reached." : `No model reaches all levels; the nearest: ${lacking.join(", ")}.`;
  return { levels, met, preference, validation, test, text };
}
