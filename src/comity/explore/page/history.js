/** Histories of rounds, which grow while a run goes on. */
import { lists } from "comity/arrays";

/** Return a history with the rounds of another appended; both have the same columns. */
export function appended(known, news) {
  if (!known?.rounds?.length) return news;
  if (!news?.rounds?.length) return known;
  return joined(known, news);
}

function joined(a, b) {
  if (a === null || a === undefined) return b;
  if (b === null || b === undefined) return a;
  if (Array.isArray(a) || "dtype" in a) return [...lists(a), ...lists(b)];
  return Object.fromEntries(Object.keys({ ...a, ...b }).map((key) => [key, joined(a[key], b[key])]));
}
