// Keys: shortcuts of the page, and moving among the sentences and words of the translation.

/** @param {{[name: string]: () => void}} actions translate, open, download, help, close, write */
export function installShortcuts(actions) {
  document.addEventListener("keydown", (event) => {
    const action = actions[nameOf(event)];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function nameOf(event) {
  if (document.querySelector("dialog[open]")) return undefined;
  if (event.key === "Escape") return "close";
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
    return { Enter: "translate", o: "open", s: "download" }[event.key];
  }
  const writing = event.target.closest("textarea, input, select");
  return writing || event.ctrlKey || event.altKey || event.metaKey ? undefined : { "/": "write", "?": "help" }[event.key];
}

/**
 * Arrow keys, Home, End and Enter on a sentence.
 * @param {Output} output
 * @param {{go: (sentence: number) => void, step: (sentence: number, by: number) => void, choose: (sentence: number) => void}} actions
 */
export function installMoves(output, actions) {
  output.element.addEventListener("keydown", (event) => {
    const place = output.placeOf(event.target);
    if (!place || event.ctrlKey || event.altKey || event.metaKey) return;
    const { sentence } = place;
    const backward = getComputedStyle(event.target).direction === "rtl";
    const moves = {
      ArrowUp: () => actions.go(Math.max(0, sentence - 1)),
      ArrowDown: () => actions.go(Math.min(output.size - 1, sentence + 1)),
      Home: () => actions.go(0),
      End: () => actions.go(output.size - 1),
      ArrowLeft: () => actions.step(sentence, backward ? 1 : -1),
      ArrowRight: () => actions.step(sentence, backward ? -1 : 1),
      Enter: () => actions.choose(sentence),
      " ": () => actions.choose(sentence),
    };
    if (!Object.hasOwn(moves, event.key)) return;
    event.preventDefault();
    moves[event.key]();
  });
}
