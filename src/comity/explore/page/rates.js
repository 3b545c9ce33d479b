/** Answers of a classifier at a threshold: rates per attribute value, and what changes for people. */
import { decode } from "comity/arrays";

/** Rates that are shown, with their names and what they are computed from. */
export const RATES = {
  accepted: "answered yes",
  tpr: "true positive rate",
  fpr: "false positive rate",
  wrong: "wrong answers",
};

/**
 * Return the counts and rates of each group at a threshold.
 * @param {object} yes thresholds, groups, and counts (groups x 2 x thresholds) of rows answered yes
 * @param {number} threshold rows with a larger probability are answered yes
 */
export function ratesAt(yes, threshold) {
  const counts = decode(yes.counts);
  const index = nearestIndex(yes.thresholds, threshold);
  return yes.groups.map((group, g) => {
    const fp = counts.at(g).at(0).at(index);
    const tp = counts.at(g).at(1).at(index);
    const { negatives, positives } = group;
    const rows = negatives + positives;
    const share = (part, whole) => (whole > 0 ? part / whole : null);
    return {
      ...group,
      rows,
      yes: fp + tp,
      mistakes: fp + positives - tp,
      accepted: share(fp + tp, rows),
      tpr: share(tp, positives),
      fpr: share(fp, negatives),
      wrong: share(fp + positives - tp, rows),
    };
  });
}

function nearestIndex(thresholds, threshold) {
  const distances = thresholds.map((value) => Math.abs(value - threshold));
  return distances.indexOf(Math.min(...distances));
}

/** Return how a group is called: "gender Female", or "all". */
export function groupLabel(group) {
  return group.attribute === null ? "all" : `${group.attribute} ${group.value}`;
}

/**
 * Return what changes for 1,000 people between two sets of rates.
 * @param {object[]} now rates at the present threshold
 * @param {object[]} before rates of the kept model at one half
 */
export function sentence(now, before) {
  const all = now.findIndex((group) => group.attribute === null);
  const total = now[all].rows;
  const per = (change) => Math.round((1000 * change) / total);
  const more = (amount) => `${Math.abs(amount)} ${amount < 0 ? "fewer" : "more"}`;
  const people = now.flatMap((group, g) => {
    const change = per(group.yes - before[g].yes);
    return group.attribute === null || change === 0 ? [] : [`${more(change)} with ${groupLabel(group)}`];
  });
  const wrong = per(now[all].mistakes - before[all].mistakes);
  if (!people.length && wrong === 0)
    return "Of 1,000 people, none is answered otherwise than by the kept model, in sum.";
  const answered = people.length ? `${listed(people)} are answered yes` : "as many are answered yes";
  return `Of 1,000 people: ${answered}; ${wrong === 0 ? "as many answers are wrong" : `${more(wrong)} answers are wrong`}.`;
}

function listed(texts) {
  return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
}
