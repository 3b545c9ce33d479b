/** Tables that sort, filter and go out as CSV. */
import { button, download, fill, fresh, make } from "comity/elements";
import { number, plural } from "comity/formats";

const LIMIT = 50; // rows that are shown at first

/**
 * Make a table.
 * @param {object} parts `caption`, for those who cannot see; `head`: texts; `rows`: lists of texts,
 *   numbers (aligned right) or {value, text, class} objects; `name` of the CSV file; `filter`: a
 *   caption of a search field over the first column; `click(row index)`; `digits`
 */
export function table({ caption, head, rows, name = null, filter = null, click = null, digits = 3 }) {
  let order = rows.map((_, index) => index);
  let sorted = { column: null, up: true };
  let words = "";
  let all = false;
  const numeric = head.map((_, column) => rows.some((row) => typeof plain(row[column]) === "number"));
  const places = head.map((_, column) => (rows.every((row) => !(plain(row[column]) % 1)) ? 0 : digits)); // whole numbers stay whole
  const body = make("tbody");
  const more = make("p", { class: "note" });
  const heads = head.map((text, column) => {
    const sort = button(
      text,
      () => {
        sorted = { column, up: sorted.column === column ? !sorted.up : !numeric[column] };
        for (const [index, cell] of heads.entries())
          cell.setAttribute("aria-sort", index === column ? (sorted.up ? "ascending" : "descending") : "none");
        order = [...order].sort(
          (a, b) => compare(plain(rows[a][column]), plain(rows[b][column])) * (sorted.up ? 1 : -1),
        );
        show();
      },
      { class: "sort" },
    );
    return make("th", { scope: "col", class: numeric[column] ? "number" : false, "aria-sort": "none" }, sort);
  });
  const show = () => {
    const kept = words ? order.filter((index) => String(plain(rows[index][0])).toLowerCase().includes(words)) : order;
    const shown = all ? kept : kept.slice(0, LIMIT);
    fill(
      body,
      shown.map((index) => line(rows[index], numeric, places, click && (() => click(index)))),
    );
    const rest = kept.length - shown.length;
    fill(
      more,
      rest > 0 &&
        button(
          `Show ${plural(rest, "more row")}`,
          () => {
            all = true;
            show();
          },
          { class: "quiet" },
        ),
      kept.length === 0 && "Nothing has this name.",
    );
  };
  show();
  const search =
    filter &&
    rows.length > 12 &&
    make("input", {
      type: "search",
      placeholder: filter,
      "aria-label": filter,
      id: fresh("filter"),
      input: (event) => {
        words = event.target.value.trim().toLowerCase();
        show();
      },
    });
  const csv =
    name &&
    button("CSV", () => download(`${name}.csv`, toCsv(head, rows), "text/csv"), {
      class: "quiet",
      "aria-label": `Save “${caption}” as CSV`,
    });
  const tools = (search || csv) && make("div", { class: "tools" }, search, csv);
  const element = make(
    "table",
    {},
    make("caption", { class: "hidden" }, caption),
    make("thead", {}, make("tr", {}, heads)),
    body,
  );
  return make(
    "div",
    { class: "table" },
    tools,
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, element),
    more,
  );
}

function line(row, numeric, places, click) {
  const cells = row.map((cell, column) => {
    const text =
      cell?.text ??
      (typeof plain(cell) === "number" || cell === null ? number(plain(cell), places[column]) : plain(cell));
    const kind = [numeric[column] && "number", cell?.class].filter(Boolean).join(" ");
    if (column > 0) return make("td", { class: kind || false }, text);
    return make("th", { scope: "row", class: kind || false }, click ? button(text, click, { class: "link" }) : text);
  });
  return make("tr", {}, cells);
}

function plain(cell) {
  return cell !== null && typeof cell === "object" && "value" in cell ? cell.value : cell;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Return rows as CSV, in full precision. */
export function toCsv(head, rows) {
  return [head, ...rows].map((row) => row.map((cell) => quoted(plain(cell))).join(",")).join("\n") + "\n";
}

function quoted(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Return rows as a plain tabular environment of LaTeX. */
export function toLatex(head, rows, digits = 3) {
  const texts = rows.map((row) =>
    row.map(
      (cell) => cell?.text ?? (typeof plain(cell) === "number" ? number(plain(cell), digits) : (plain(cell) ?? "")),
    ),
  );
  const columns = head
    .map((_, column) => (rows.some((row) => typeof plain(row[column]) === "number") ? "r" : "l"))
    .join("");
  const lines = [head, ...texts].map((row) => `${row.map(escaped).join(" & ")} \\\\`);
  return [
    `\\begin{tabular}{${columns}}`,
    "\\hline",
    lines[0],
    "\\hline",
    ...lines.slice(1),
    "\\hline",
    "\\end{tabular}",
    "",
  ].join("\n");
}

const SPECIAL = {
  "\\": "\\textbackslash{}",
  "~": "\\textasciitilde{}",
  "^": "\\textasciicircum{}",
  "–": "--",
  "−": "$-$",
  "±": "$\\pm$",
  "<": "$<$",
  ">": "$>$",
  "↑": "$\\uparrow$",
  "↓": "$\\downarrow$",
  "★": "$\\star$",
};

function escaped(value) {
  return String(value).replace(/[\\~^–−±<>↑↓★&%$#_{}]/g, (sign) => SPECIAL[sign] ?? `\\${sign}`);
}
