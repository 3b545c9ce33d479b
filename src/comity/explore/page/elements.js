/** DOM helpers. Data become text nodes and attributes only, never markup. */

/**
 * Make an element.
 * @param {string} name tag name
 * @param {object} properties attributes; functions become listeners ("click": f); true and false
 *   set and leave out an attribute
 * @param {...(Node|string|number|null|Array)} children nodes; anything else becomes text
 */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  set(element, properties);
  element.append(...nodes(children));
  return element;
}

/** Make an element of an SVG drawing; arguments as for `make`. */
export function draw(name, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  set(element, properties);
  element.append(...nodes(children));
  return element;
}

/** Set attributes and listeners of an element. */
export function set(element, properties) {
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (key === "value") element.value = value;
    else if (value === false || value === null || value === undefined) element.removeAttribute(key);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
}

/** Replace all children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

let count = 0;

/** Return an id that no other element has. */
export function fresh(prefix = "e") {
  count += 1;
  return `${prefix}-${count}`;
}

/** Make a labelled field: a caption and an input, select or output beneath it. */
export function field(caption, control, note = null) {
  control.id ||= fresh("field");
  return make("div", { class: "field" }, make("label", { for: control.id }, caption), control, note);
}

/** Make a select; `options` are [value, text] pairs. */
export function select(options, value, change) {
  const element = make("select", { change: () => change(element.value) });
  element.append(...options.map(([key, text]) => make("option", { value: key }, text)));
  element.value = value;
  return element;
}

/** Make a button with a text. */
export function button(text, click, properties = {}) {
  return make("button", { type: "button", click, ...properties }, text);
}

/** Make a set of buttons of which one is pressed; `options` are [value, text] pairs. */
export function choice(label, options, value, change) {
  const group = make("div", { class: "choice", role: "group", "aria-label": label });
  const press = (chosen) => {
    for (const item of group.children) set(item, { "aria-pressed": String(item.dataset.value === chosen) });
  };
  for (const [key, text] of options) {
    const item = button(text, () => {
      press(String(key));
      change(key);
    });
    item.dataset.value = key;
    group.append(item);
  }
  press(String(value));
  return group;
}

/** Make a section with a heading. */
export function section(title, ...children) {
  const id = fresh("heading");
  return make("section", { "aria-labelledby": id }, make("h2", { id }, title), ...children);
}

/** Make a list of terms with their values from [term, value] pairs. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return make(
    "dl",
    { class: "facts" },
    known.map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value))),
  );
}

/** Make a tile with a figure, what it is, and what stands beside it. */
export function tile(value, caption, beside = null) {
  return make(
    "div",
    { class: "tile" },
    make("b", {}, value),
    make("span", {}, caption),
    beside && make("small", {}, beside),
  );
}

/** Make a block of code with a button that copies it. */
export function code(text, label = "Copy") {
  const copy = button(
    label,
    async () => {
      await copyText(text);
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = label), 1500);
    },
    { class: "quiet copy", "aria-label": `Copy: ${text.split("\n")[0]}` },
  );
  return make("div", { class: "code" }, make("pre", { tabindex: "0" }, make("code", {}, text)), copy);
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // without permission, or from a file: an invisible text that the browser copies itself
    const area = make("textarea", { class: "hidden", value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** Hand a text or blob to the browser as a file. */
export function download(name, content, type = "text/plain") {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const address = URL.createObjectURL(blob);
  const link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Make a sentence about something that is missing or went wrong. */
export function message(text, kind = "note") {
  return make("p", { class: kind, role: kind === "fault" ? "alert" : false }, text);
}
