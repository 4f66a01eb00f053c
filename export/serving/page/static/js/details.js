// A chosen sentence: its warnings, its uncertain words, and other translations of it from `nbest`.

import { UNCERTAIN } from "./alignment.js";
import { errorText, warningText } from "./messages.js";

const IMPOSSIBLE = -1e8;

export class Details {
  #running = new AbortController();

  /**
   * @param {(id: string) => HTMLElement} find
   * @param {(source: string, translation: string) => void} replace uses another translation of a sentence
   */
  constructor(find, replace) {
    this.find = find;
    this.replace = replace;
    this.source = null;
  }

  /** Shows a sentence and asks for its alternatives. */
  async open(model, source, result, alignment) {
    const isNew = this.source !== source || this.find("details").hidden;
    this.source = source;
    this.#describe(source, result, alignment);
    this.find("details").hidden = false;
    if (!isNew) return this.#press(result.translation);
    this.#running.abort();
    const { signal } = (this.#running = new AbortController());
    this.find("alternatives").replaceChildren();
    this.#say(model.has("nbest") ? "Looking for alternatives …" : "This model offers no alternatives.");
    if (!model.has("nbest")) return;
    try {
      const [row] = await model.predict("nbest", [source], signal);
      if (!signal.aborted) this.#list(row, result);
    } catch (error) {
      if (!signal.aborted) this.#say(errorText(error, model.name));
    }
  }

  close() {
    this.#running.abort();
    this.source = null;
    this.find("details").hidden = true;
  }

  get isOpen() {
    return !this.find("details").hidden;
  }

  #describe(source, { translation, warnings }, alignment) {
    this.find("details-source").textContent = source;
    const list = this.find("details-warnings");
    list.replaceChildren(...warnings.map((code) => item(warningText(code))));
    list.hidden = warnings.length === 0;
    const words = alignment?.translation === translation ? alignment.targets : [];
    const doubtful = words.filter(({ confidence }) => confidence < UNCERTAIN);
    const named = doubtful.map(({ name, confidence }) => `${name} (${Math.round(100 * confidence)}\u00a0%)`);
    this.find("details-words").textContent = `Uncertain words: ${named.join(", ")}`;
    this.find("details-words").hidden = named.length === 0;
  }

  #list(row, result) {
    const found = row.translations.map((text, number) => ({ text, score: row.scores[number] }));
    const texts = new Set();
    const kept = found.filter(({ text, score }) => text && score > IMPOSSIBLE && !texts.has(text) && texts.add(text));
    const several = row.sentences > 1 ? "This passage has several sentences; alternatives are of one sentence. " : "";
    const truncated = row.truncated ? "The sentence is too long: alternatives are of its beginning. " : "";
    this.#say(several + truncated + (kept.length ? "" : "There are no alternatives."));
    this.find("alternatives").replaceChildren(...kept.map((each) => this.#choice(each)));
    this.#press(result.translation);
  }

  #choice({ text, score }) {
    const button = document.createElement("button");
    button.type = "button";
    const [name, figure] = [document.createElement("span"), document.createElement("small")];
    name.textContent = text;
    name.dir = "auto";
    figure.textContent = score.toFixed(2);
    figure.title = "Log-probability";
    button.append(name, figure);
    button.addEventListener("click", () => this.replace(this.source, text));
    return item(button);
  }

  #press(translation) {
    for (const button of this.find("alternatives").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.firstChild.textContent === translation));
    }
  }

  #say(text) {
    this.find("alternatives-note").textContent = text;
    this.find("alternatives-note").hidden = text === "";
  }
}

function item(content) {
  const element = document.createElement("li");
  element.append(content);
  return element;
}
