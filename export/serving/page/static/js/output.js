// The translation as elements: one per sentence, and inside it one per word where the alignment is known.

import { UNCERTAIN } from "./alignment.js";
import { warningText } from "./messages.js";
import { join, targetSeparators } from "./segments.js";

const PENDING = "…";

export class Output {
  #elements = [];
  #current = 0;

  /**
   * @param {HTMLElement} element
   * @param {(sentences: string[]) => void} seen called with the sentences that come into view
   */
  constructor(element, seen) {
    this.element = element;
    this.observer = new IntersectionObserver((entries) => {
      const visible = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target.source);
      if (visible.length) seen(visible);
    });
  }

  /** Shows a state of the translation; elements of unchanged sentences stay. */
  render(state, alignments) {
    const focused = this.#elements.indexOf(document.activeElement);
    const texts = state.results.map((result) => result?.translation ?? PENDING);
    const separators = targetSeparators(state.separators, texts);
    this.observer.disconnect();
    this.#elements = state.sentences.map((source, number) => {
      const old = this.#elements[number];
      const element = old?.source === source && old.text === texts[number] ? old : newSentence(source, texts[number]);
      describe(element, state.results[number]);
      fill(element, alignments?.get(source));
      this.observer.observe(element);
      return element;
    });
    this.element.replaceChildren(separators[0], ...this.#elements.flatMap((each, number) => [each, separators[number + 1]]));
    this.#moveTo(Math.max(0, Math.min(this.#current, this.#elements.length - 1)));
    if (focused >= 0) this.focus(Math.min(focused, this.#elements.length - 1));
  }

  /** Shows the words of sentences whose alignment has arrived. */
  refill(sources, alignments) {
    const arrived = new Set(sources);
    for (const element of this.#elements) {
      if (arrived.has(element.source)) fill(element, alignments.get(element.source));
    }
  }

  /** The number of the sentence and of the word that an element belongs to; null for neither. */
  placeOf(element) {
    const sentence = element.closest?.(".sentence");
    if (!sentence || !this.element.contains(sentence)) return null;
    const word = element.closest(".word");
    return { sentence: this.#elements.indexOf(sentence), word: word ? Number(word.dataset.number) : null };
  }

  /** Marks a sentence and some of its words; nothing when called without. */
  mark(sentence = -1, words = []) {
    this.#elements.forEach((element, number) => {
      element.classList.toggle("active", number === sentence);
      for (const word of element.querySelectorAll(".word")) {
        word.classList.toggle("linked", number === sentence && words.includes(Number(word.dataset.number)));
      }
    });
  }

  expand(sentence) {
    this.#elements.forEach((element, number) => element.setAttribute("aria-expanded", String(number === sentence)));
  }

  /** Scrolls so that a sentence is not hidden by what is shown about it. */
  reveal(sentence) {
    this.#elements[sentence]?.scrollIntoView({ block: "nearest" });
  }

  focus(sentence) {
    this.#moveTo(sentence);
    this.#elements[sentence]?.focus();
  }

  get size() {
    return this.#elements.length;
  }

  /** One sentence can be reached with Tab, the others with the arrow keys. */
  #moveTo(sentence) {
    this.#current = sentence;
    this.#elements.forEach((element, number) => (element.tabIndex = number === sentence ? 0 : -1));
  }
}

/** The whole translation of a state as text. */
export function textOf(state) {
  const texts = state.results.map((result) => result?.translation ?? PENDING);
  return join(targetSeparators(state.separators, texts), texts);
}

function newSentence(source, text) {
  const element = document.createElement("span");
  element.source = source;
  element.text = text;
  element.setAttribute("role", "button");
  element.setAttribute("aria-controls", "details");
  element.setAttribute("aria-expanded", "false");
  element.textContent = text;
  return element;
}

function describe(element, result) {
  const warnings = result?.warnings ?? [];
  element.className = "sentence";
  element.classList.toggle("pending", result === null);
  element.classList.toggle("warned", warnings.length > 0);
  element.title = warnings.map(warningText).join(" ");
}

function fill(element, alignment) {
  if (alignment?.translation !== element.text || element.alignment === alignment) return;
  element.alignment = alignment;
  let place = 0;
  const parts = [];
  alignment.targets.forEach((word, number) => {
    parts.push(element.text.slice(place, word.start), newWord(element.text.slice(word.start, word.end), word, number));
    place = word.end;
  });
  element.replaceChildren(...parts, element.text.slice(place));
}

function newWord(text, { confidence }, number) {
  const element = document.createElement("span");
  element.className = "word";
  element.dataset.number = number;
  element.textContent = text;
  if (confidence < UNCERTAIN) {
    element.classList.add("uncertain");
    element.style.setProperty("--shade", `${Math.round(30 + 70 * (1 - confidence / UNCERTAIN))}%`);
  }
  return element;
}
