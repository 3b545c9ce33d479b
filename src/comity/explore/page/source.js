/** Where documents come from: the server, or the page itself if it was saved. Views do not know which. */
import { judgeFront, judgeGrid } from "comity/judging";
import { lists } from "comity/arrays";

/** Open the source of this page. */
export async function openSource() {
  const embedded = document.getElementById("comity-data");
  return embedded ? new Saved(JSON.parse(embedded.textContent)) : new Served(await ask("index"));
}

async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Start `comity explore` again and open the address that it prints.");
  }
  if (answer.ok) return answer.headers.get("content-type")?.includes("json") ? answer.json() : answer.text();
  const body = await answer.json().catch(() => ({}));
  throw new Error(body.error ?? `The server answered ${answer.status}.`);
}

function query(parameters) {
  const known = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return new URLSearchParams(known).toString().replaceAll("%2C", ",");
}

function levelsText(aspiration) {
  return aspiration && aspiration.map((level) => level ?? "").join(",");
}

class Served {
  saved = false;
  reduced = [];
  #documents = new Map();

  constructor(index) {
    this.index = index;
  }

  /** Return the document of an item; a finished one is asked for once. */
  async document(id, fresh = false) {
    if (fresh || !this.#documents.has(id)) {
      this.#documents.set(id, ask(`item?${query({ id })}`));
      this.#documents.get(id).catch(() => this.#documents.delete(id));
    }
    const shown = await this.#documents.get(id);
    if (shown.state && shown.state.state !== "finished") this.#documents.delete(id);
    return shown;
  }

  /** Return what is new of an item after a round. */
  since(id, round) {
    return ask(`item?${query({ id, since: round })}`);
  }

  /** Return the full matrices of a round. */
  mixing(id, round) {
    return ask(`mixing?${query({ id, round })}`);
  }

  /** Return the judgement of a model at a preference, or of the one that reaches levels. */
  judge(shown, { client = null, preference, threshold = null, aspiration = null }) {
    const asked = {
      id: shown.id,
      client,
      preference: preference.join(","),
      threshold,
      aspiration: levelsText(aspiration),
    };
    return ask(`judge?${query(asked)}`);
  }

  /** Return the address of an exported model. */
  exportAddress(id, parameters) {
    return `export?${query({ id, ...parameters })}`;
  }

  /** Return the tables of a comparison as text. */
  table(id, format) {
    return ask(`table?${query({ id, format })}`);
  }

  /** Return a comparison of finished runs. */
  compare(ids) {
    return ask(`compare?${query({ ids: ids.join(",") })}`);
  }
}

class Saved {
  saved = true;

  constructor(data) {
    this.index = data.index;
    this.reduced = data.reduced ?? [];
    this.data = data;
  }

  /** Return the document of an item. */
  async document(id) {
    const shown = this.data.items[id];
    if (!shown) throw new Error("This saved page does not hold this item.");
    return shown;
  }

  /** Return the judgement of a client's models, from what was computed before. */
  async judge(shown, { client = null, preference, aspiration = null }) {
    const names = shown.problem.objectives.map((objective) => objective.name);
    if (shown.kind === "search") return judgeFront(shown.front, names, { preference, aspiration });
    const grid = this.data.grids[`${shown.id}/${client}`];
    if (!grid) throw new Error("This saved page holds no models of this client.");
    const row = shown.clients.number.indexOf(client);
    return judgeGrid(grid, lists(shown.clients.preference)[row], names, { preference, aspiration });
  }

  /** Saved pages hold no models. */
  exportAddress() {
    return null;
  }

  async mixing() {
    throw new Error("This saved page holds only the largest weights of each client.");
  }

  async table() {
    throw new Error("This saved page holds no files.");
  }

  async compare() {
    throw new Error("A saved page compares only what was compared when it was saved.");
  }
}

/** Return a function that runs requests one at a time; of those that wait only the newest is run. */
export function newest(request, done, failed) {
  let busy = false;
  let waiting = null;
  return async function next(argument) {
    if (busy) {
      waiting = { argument };
      return;
    }
    busy = true;
    try {
      done(await request(argument));
    } catch (error) {
      failed(error);
    }
    busy = false;
    if (waiting) {
      const { argument: latest } = waiting;
      waiting = null;
      next(latest);
    }
  };
}
