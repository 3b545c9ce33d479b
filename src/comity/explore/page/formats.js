/** Numbers, sizes and times as texts. */

/** Return a number with so many digits after the point, fewer from ten on; a dash where there is none. */
export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const large = Math.abs(value) >= 1000;
  const text = large
    ? value.toLocaleString("en", { maximumFractionDigits: 1 })
    : value.toFixed(
        Number.isInteger(value) && Math.abs(value) > 1
          ? 0
          : Math.max(0, digits - Math.max(0, Math.floor(Math.log10(Math.abs(value))))),
      );
  return /^-0(\.0*)?$/.test(text) ? text.slice(1) : text.replace("-", "−");
}

/** Return a number for an axis: no more digits than it needs. */
export function tick(value) {
  return number(value, 3)
    .replace(/(\.\d*?)0+$/, "$1")
    .replace(/\.$/, "");
}

/** Return a number with its sign. */
export function signed(value, digits = 3) {
  const text = number(value, digits);
  return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

/** Return a whole number with commas between thousands. */
export function count(value) {
  return value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en").replace("-", "−");
}

/** Return a share as per cent. */
export function percent(value, digits = 0) {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`;
}

/** Return a number of bytes in the unit that suits it. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let index = 0;
  let amount = value;
  while (amount >= 1000 && index < units.length - 1) {
    amount /= 1000;
    index += 1;
  }
  return `${index ? amount.toPrecision(3) : amount} ${units[index]}`;
}

/** Return seconds as hours, minutes and seconds. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/** Return a moment, in seconds since 1970, as the reader's clock shows it. */
export function clock(seconds) {
  return typeof seconds === "number" && seconds > 0
    ? new Date(1000 * seconds).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" })
    : "–";
}

/** Return weights as text: "0.30, 0.70". */
export function weights(values, digits = 2) {
  return values.map((value) => number(value, digits)).join(", ");
}

/** Return "1 client", "2 clients". */
export function plural(amount, noun) {
  return `${count(amount)} ${noun}${amount === 1 ? "" : "s"}`;
}

/** Return how an item is called; runs of a comparison by their algorithm and seed. */
export function itemLabel(item) {
  return item.parent && item.algorithm && item.seed !== null ? `${item.algorithm}, seed ${item.seed}` : item.title;
}
