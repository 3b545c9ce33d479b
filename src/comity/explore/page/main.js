/** The shell: which item, which view, and the way between them. */
import { fill, make, message } from "comity/elements";
import { itemLabel } from "comity/formats";
import { openSource } from "comity/source";
import { format, go, read, replace } from "comity/state";
import { switchTheme } from "comity/theme";
import * as compare from "comity/views/compare";
import * as items from "comity/views/items";
import * as links from "comity/views/links";
import * as live from "comity/views/live";
import * as mixing from "comity/views/mixing";
import * as preference from "comity/views/preference";
import * as takeHome from "comity/views/take-home";
import * as verdict from "comity/views/verdict";

const VIEWS = { verdict, preference, "take-home": takeHome, mixing, live, compare, links };
const LIST = "items";

const places = {
  items: document.getElementById("items"),
  views: document.getElementById("views"),
  main: document.getElementById("view"),
};
const status = document.getElementById("status");

const leaving = [];
let turn = 0;

/** Say something to those who listen to the page. */
function announce(text) {
  status.textContent = text;
}

async function show(source) {
  turn += 1;
  const mine = turn;
  for (const end of leaving.splice(0)) end();
  const state = read();
  const id = state.item ?? source.index.start;
  places.main.setAttribute("aria-busy", "true");
  try {
    if (state.view === LIST || !id) {
      showItems(source, null, "verdict");
      fill(places.views);
      await enter(items, LIST, null, "All", source, state, mine);
      return;
    }
    const shown = await source.document(id);
    if (mine !== turn) return;
    const names = Object.keys(VIEWS).filter((name) => VIEWS[name].applies(shown, source));
    const name = names.includes(state.view) ? state.view : names[0];
    showItems(source, id, name);
    showViews(names, name, id, state);
    await enter(VIEWS[name], name, shown, shown.title, source, { ...state, item: id }, mine);
  } catch (error) {
    if (mine !== turn) return;
    showItems(source, id, "verdict");
    fill(places.main, message(error.message, "fault"));
    console.warn(error.message);
  } finally {
    if (mine === turn) places.main.removeAttribute("aria-busy");
  }
}

/** Draw a view; what it hands to `onLeave` is called before the next one is drawn. */
async function enter(view, name, shown, title, source, state, mine) {
  const here = () => mine === turn;
  const item = state.item;
  document.title = `${view.title} · ${title} · Comity`;
  const root = make("div", { class: `view ${name}`, "data-item": item });
  const notes = [...(shown?.sampled ?? []), ...source.reduced];
  fill(
    places.main,
    make("h1", { class: "hidden" }, `${view.title}: ${title}`),
    root,
    notes.length > 0 &&
      make(
        "div",
        { class: "notes" },
        notes.map((text) => message(text)),
      ),
  );
  await view.render(root, {
    source,
    document: shown,
    state: { ...state, view: name },
    announce,
    here,
    set: (changes) => here() && replace({ view: name, item, ...changes }),
    go: (next, changes = {}) => go({ view: next, item, ...changes }),
    again: () => here() && show(source),
    onLeave: (end) => (here() ? leaving.push(end) : end()),
  });
}

function showItems(source, id, view) {
  const { items: entries } = source.index;
  if (entries.length === 1) {
    fill(places.items, make("span", { class: "item" }, entries[0].title));
    return;
  }
  const chooser = make("select", {
    "aria-label": "Run",
    change: () => go(chooser.value ? { view, item: chooser.value } : { view: LIST }),
  });
  const option = (entry) => make("option", { value: entry.id }, itemLabel(entry));
  chooser.append(make("option", { value: "" }, `All (${entries.length})`));
  for (const entry of entries.filter((other) => !other.parent)) {
    chooser.append(option(entry));
    const children = entries.filter((other) => other.parent === entry.id);
    if (children.length) chooser.append(make("optgroup", { label: `In ${entry.title}` }, children.map(option)));
  }
  chooser.value = id ?? "";
  fill(places.items, chooser);
}

function showViews(names, current, item, state) {
  const kept = state.client === undefined ? {} : { client: state.client };
  fill(
    places.views,
    make(
      "ul",
      {},
      names.map((name) => {
        const here = name === current ? "page" : false;
        return make(
          "li",
          {},
          make("a", { href: format({ view: name, item, ...kept }), "aria-current": here }, VIEWS[name].title),
        );
      }),
    ),
  );
}

switchTheme(document.getElementById("theme"));
try {
  const source = await openSource();
  addEventListener("hashchange", () => show(source));
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    places.main.focus();
  });
  await show(source);
} catch (error) {
  fill(places.main, message(error.message, "fault"));
}
