/** A slider over rounds, with a button that plays them. */
import { button, fresh, make } from "comity/elements";

const PLAY = 600; // milliseconds per round

/**
 * Make the slider.
 * @param {object} context of the view
 * @param {function} change called with the round that is chosen
 * @returns {object} `element`; `show(rounds, round)`: the rounds that can be chosen, and the first
 */
export function makeScrubber(context, change) {
  let rounds = [];
  let timer = null;
  const id = fresh("round");
  const output = make("output", { for: id });
  const range = make("input", {
    type: "range",
    id,
    min: 0,
    step: 1,
    "aria-label": "Round",
    input: () => pick(Number(range.value)),
  });
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  const play = button("Play", () => {
    if (timer) {
      stop();
      return;
    }
    play.textContent = "Pause";
    if (Number(range.value) === rounds.length - 1) pick(0);
    timer = setInterval(() => (Number(range.value) < rounds.length - 1 ? pick(Number(range.value) + 1) : stop()), PLAY);
  });
  const pick = (index) => {
    range.value = index;
    output.textContent = `round ${rounds[index]} of ${rounds.at(-1)}`;
    range.setAttribute("aria-valuetext", output.textContent);
    change(rounds[index]);
  };
  context.onLeave(stop);
  const show = (known, round) => {
    rounds = known;
    range.max = rounds.length - 1;
    pick(rounds.includes(round) ? rounds.indexOf(round) : rounds.length - 1);
  };
  return { element: make("div", { class: "scrubber" }, play, range, output), show };
}
