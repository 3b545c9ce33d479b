/** Controls for a preference: a slider for two objectives, a triangle for three, bars for more. */
import { draw, fresh, make, set } from "comity/elements";
import { number } from "comity/formats";

const STEP = 0.01;

/** Return weights brought to the simplex and rounded; the largest takes the rest. */
function normalised(weights, digits = 3) {
  const unit = 10 ** digits;
  const positive = weights.map((value) => Math.max(0, value));
  const total = positive.reduce((sum, value) => sum + value, 0);
  const parts = positive.map((value) => Math.round((total > 0 ? value / total : 1 / weights.length) * unit));
  parts[parts.indexOf(Math.max(...parts))] += unit - parts.reduce((sum, value) => sum + value, 0);
  return parts.map((part) => part / unit);
}

/** Return a preference of a document, whose digits were cut, so that it sums to one again. */
export function exact(preference) {
  return normalised(preference, 6);
}

/** Return weights with one of them changed; the others share what is left as before. */
function withWeight(weights, index, value) {
  const fixed = Math.min(1, Math.max(0, value));
  const others = weights.reduce((sum, weight, other) => (other === index ? sum : sum + weight), 0);
  return normalised(
    weights.map((weight, other) => {
      if (other === index) return fixed;
      return others > 0 ? (weight * (1 - fixed)) / others : (1 - fixed) / (weights.length - 1);
    }),
  );
}

/** Return a preference in words: "accuracy 0.70, fairness 0.30". */
export function words(names, weights) {
  return names.map((name, index) => `${name} ${number(weights[index], 2)}`).join(", ");
}

/**
 * Make the control that suits the number of objectives.
 * @param {string[]} names of the objectives
 * @param {number[]} weights at first
 * @param {number[][]} others preferences of other clients, shown as small marks
 * @param {function} change called with new weights while the reader drags or types
 * @returns {object} `element`, and `show(weights)` to move it from outside
 */
export function preferenceControl(names, weights, others, change) {
  const kind = names.length === 2 ? slider : names.length === 3 ? triangle : bars;
  return kind(names, weights, others, change);
}

// -- two objectives ---------------------------------------------------------------------------

function slider(names, weights, others, change) {
  const range = make("input", {
    type: "range",
    min: 0,
    max: 1,
    step: STEP,
    id: fresh("slider"),
    "aria-label": `Weight of ${names[1]}; the rest is the weight of ${names[0]}`,
    input: () => {
      const second = Number(range.value);
      const next = normalised([1 - second, second]);
      show(next);
      change(next);
    },
  });
  const numbers = fields(
    names,
    () => current,
    (next) => {
      show(next);
      change(next);
    },
  );
  const ticks = draw(
    "svg",
    { class: "ticks", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
    others.map((other) => draw("rect", { x: 100 * other[1] - 0.15, y: 0, width: 0.3, height: 4 })),
  );
  const element = make(
    "fieldset",
    { class: "preference slider" },
    make("legend", { class: "hidden" }, "Preference"),
    numbers.element,
    range,
    ticks,
  );
  let current = weights;
  const show = (next) => {
    current = next;
    range.value = next[1];
    range.setAttribute("aria-valuetext", words(names, next));
    numbers.show(next);
  };
  show(weights);
  return { element, show };
}

// -- three objectives -------------------------------------------------------------------------

const CORNERS = [
  [50, 6],
  [6, 82],
  [94, 82],
];

function place(weights) {
  return [0, 1].map((axis) => weights.reduce((sum, weight, corner) => sum + weight * CORNERS[corner][axis], 0));
}

/** Return the weights of a place in the triangle; outside of it those of the nearest border. */
function weightsAt([x, y]) {
  const [[ax, ay], [bx, by], [cx, cy]] = CORNERS;
  const area = (by - cy) * (ax - cx) + (cx - bx) * (ay - cy);
  const first = ((by - cy) * (x - cx) + (cx - bx) * (y - cy)) / area;
  const second = ((cy - ay) * (x - cx) + (ax - cx) * (y - cy)) / area;
  return normalised([first, second, 1 - first - second]);
}

function triangle(names, weights, others, change) {
  const handle = draw("circle", { class: "handle", r: 3.2 });
  const lines = CORNERS.map(() => draw("line", { class: "arm" }));
  const drawing = draw(
    "svg",
    {
      class: "triangle",
      viewBox: "0 0 100 92",
      tabindex: "0",
      role: "application",
      "aria-label": "Preference among three objectives. Arrow keys move it; the numbers beside it can be typed.",
    },
    draw("polygon", { class: "area", points: CORNERS.map((corner) => corner.join(",")).join(" ") }),
    lines,
    others.map((other) => {
      const [cx, cy] = place(other);
      return draw("circle", { class: "other", cx, cy, r: 1 });
    }),
    handle,
    draw("text", { x: 50, y: 3.5, "text-anchor": "middle" }, names[0]),
    draw("text", { x: 2, y: 89, "text-anchor": "start" }, names[1]),
    draw("text", { x: 98, y: 89, "text-anchor": "end" }, names[2]),
  );
  let current = weights;
  const show = (next) => {
    current = next;
    const [cx, cy] = place(next);
    set(handle, { cx, cy });
    lines.forEach((line, corner) => set(line, { x1: cx, y1: cy, x2: CORNERS[corner][0], y2: CORNERS[corner][1] }));
    drawing.setAttribute("aria-description", words(names, next));
    numbers.show(next);
  };
  const move = (next) => {
    show(next);
    change(next);
  };
  const pointer = (event) => {
    if (event.type === "pointerdown") drawing.setPointerCapture(event.pointerId);
    else if (!drawing.hasPointerCapture(event.pointerId)) return;
    const box = drawing.getScreenCTM().inverse();
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(box);
    move(weightsAt([point.x, point.y]));
    event.preventDefault();
  };
  drawing.addEventListener("pointerdown", (event) => {
    pointer(event);
    drawing.focus({ preventScroll: true });
  });
  drawing.addEventListener("pointermove", pointer);
  drawing.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!steps) return;
    event.preventDefault();
    const length = event.shiftKey ? 5 : 1;
    const here = place(current);
    move(weightsAt([here[0] + steps[0] * length, here[1] + steps[1] * length]));
  });
  const numbers = fields(names, () => current, move);
  show(weights);
  const element = make(
    "fieldset",
    { class: "preference" },
    make("legend", { class: "hidden" }, "Preference"),
    drawing,
    numbers.element,
  );
  return { element, show };
}

// -- more objectives --------------------------------------------------------------------------

function bars(names, weights, others, change) {
  let current = weights;
  const ranges = names.map((name, index) => {
    const range = make("input", {
      type: "range",
      min: 0,
      max: 1,
      step: STEP,
      "aria-label": `Weight of ${name}`,
      input: () => {
        const next = withWeight(current, index, Number(range.value));
        show(next);
        change(next);
      },
    });
    return range;
  });
  const outputs = names.map(() => make("output"));
  const show = (next) => {
    current = next;
    ranges.forEach((range, index) => {
      range.value = next[index];
      range.setAttribute("aria-valuetext", number(next[index], 2));
      outputs[index].textContent = number(next[index], 2);
    });
  };
  show(weights);
  const rows = names.map((name, index) =>
    make("div", { class: "barrow" }, make("span", {}, name), ranges[index], outputs[index]),
  );
  return {
    element: make("fieldset", { class: "preference bars" }, make("legend", { class: "hidden" }, "Preference"), rows),
    show,
  };
}

/** Make one number field per objective; typing in one rescales the others. */
function fields(names, current, change) {
  const inputs = names.map((name, index) => {
    const input = make("input", {
      type: "number",
      min: 0,
      max: 1,
      step: STEP,
      id: fresh("weight"),
      change: () => Number.isFinite(input.valueAsNumber) && change(withWeight(current(), index, input.valueAsNumber)),
    });
    return input;
  });
  const element = make(
    "div",
    { class: "weights" },
    names.map((name, index) =>
      make("div", { class: "field" }, make("label", { for: inputs[index].id }, name), inputs[index]),
    ),
  );
  const show = (weights) =>
    inputs.forEach((input, index) => {
      if (document.activeElement !== input) input.value = number(weights[index], 3).replace(/0$/, "");
    });
  return { element, show };
}
