/** Aspiration levels: "at least 0.8 accuracy", the other way to say what is wanted. */
import { lists } from "comity/arrays";
import { fresh, make } from "comity/elements";

/**
 * Make one slider and one number per objective; an empty number asks for nothing.
 * @param {object} model of the view: names, clients, shown, levels
 * @param {function} change called with one level or null per objective
 */
export function levelsControl(model, change) {
  const { names, levels } = model;
  const bounds = names.map((_, k) => boundsOf(model, k));
  const rows = names.map((name, k) => {
    const [low, high] = bounds[k];
    const step = Number(((high - low) / 100).toPrecision(1));
    const digits = Math.max(0, Math.min(4, Math.ceil(-Math.log10(step))));
    const number = make("input", {
      type: "number",
      step,
      id: fresh("level"),
      placeholder: "any",
      value: levels?.[k] ?? "",
      input: () => {
        range.value = number.value === "" ? low : number.value;
        change(read());
      },
    });
    const range = make("input", {
      type: "range",
      min: low,
      max: high,
      step,
      value: levels?.[k] ?? low,
      "aria-label": `At least, ${name}`,
      input: () => {
        number.value = Number(range.value) <= low ? "" : Number(range.value).toFixed(digits);
        change(read());
      },
    });
    return {
      number,
      element: make(
        "div",
        { class: "barrow level" },
        make("label", { for: number.id }, `${name} at least`),
        range,
        number,
      ),
    };
  });
  const read = () =>
    rows.map(({ number }) =>
      number.value === "" || !Number.isFinite(number.valueAsNumber) ? null : number.valueAsNumber,
    );
  const element = make(
    "fieldset",
    { class: "levels" },
    make("legend", { class: "hidden" }, "Aspiration levels"),
    rows.map((row) => row.element),
  );
  return { element, read };
}

/** Return the smallest and the largest known value of an objective. */
function boundsOf({ shown, clients, front, knownFront }, k) {
  const spans = shown.spans ? lists(shown.spans.vectors).flat() : [];
  const points = [...clients.map((client) => client.objectives), ...(front ?? []), ...(knownFront ?? []), ...spans];
  if (shown.trivial_point) points.push(shown.trivial_point);
  const values = points.map((point) => point?.[k]).filter((value) => value !== null && value !== undefined);
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low < high ? [low, high] : [low - 0.5, low + 0.5];
}
