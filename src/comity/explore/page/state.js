/** The state of the page, which is in its address: #preference?item=ID&client=3&w=0.3,0.7 */

/** Return the state that a fragment stands for: `view`, `item` and the view's own parameters, as texts. */
export function parse(fragment) {
  const [view, ...query] = fragment.replace(/^#/, "").split("?");
  return { ...Object.fromEntries(new URLSearchParams(query.join("?"))), view };
}

/** Return the fragment of a state; empty parameters are left out. */
export function format({ view, ...parameters }) {
  const query = Object.entries(parameters)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    // commas and slashes stay readable
    .map(
      ([key, value]) =>
        `${encodeURIComponent(key)}=${encodeURIComponent(value).replace(/%2C/g, ",").replace(/%2F/g, "/")}`,
    )
    .join("&");
  return `#${view}${query ? `?${query}` : ""}`;
}

/** Return the present state. */
export function read() {
  return parse(location.hash);
}

/** Change parameters of the present state without a new entry in the browser's history. */
export function replace(changes) {
  history.replaceState(null, "", format({ ...read(), ...changes }));
}

/** Go to another state, which the back button leaves again. */
export function go(state) {
  location.hash = format(state);
}

/** Return a list of numbers from a parameter; null where it is none. */
export function numbers(text, length = null) {
  if (!text) return null;
  const values = text.split(",").map(Number);
  return values.every(Number.isFinite) && (length === null || values.length === length) ? values : null;
}

/** Return a whole number from a parameter, or the fallback where it is none in the range. */
export function integer(text, fallback, count) {
  const value = /^\d+$/.test(text ?? "") ? Number(text) : fallback;
  return value < count ? value : fallback;
}
