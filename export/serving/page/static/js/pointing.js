// Pointing at a word or a sentence, by mouse, touch or keys, marks what it translates.

import { linkedTo } from "./alignment.js";
import { starts } from "./segments.js";
import { NOTHING } from "./translation.js";

const NO_WORDS = { sources: [], targets: [] };

export class Pointing {
  #state = NOTHING;
  #starts = [];
  #alignments = null;
  #last = null;

  /**
   * @param {HTMLTextAreaElement} source
   * @param {Mirror} mirror
   * @param {Output} output
   * @param {(text: string) => void} announce tells those who do not see the marks
   */
  constructor(source, mirror, output, announce) {
    Object.assign(this, { source, mirror, output, announce });
  }

  setState(state, alignments) {
    this.#state = state;
    this.#alignments = alignments;
    this.#starts = starts(state.separators, state.sentences);
    this.again();
  }

  /** Points at a sentence, and at a word on one of its sides ("source" or "target") if it is given. */
  at(sentence, side, word) {
    if (!(sentence in this.#starts) || this.source.value !== this.#state.text) return this.clear();
    this.#last = { sentence, side, word };
    const alignment = this.#alignmentOf(sentence);
    if (!alignment && this.#state.done) this.#alignments.want([this.#state.sentences[sentence]]);
    const { sources, targets } = alignment && word !== null ? wordsOf(alignment, side, word) : NO_WORDS;
    const start = this.#starts[sentence];
    const places = sources.map((number) => alignment.sources[number]).map((each) => ({ start: start + each.start, end: start + each.end }));
    this.mirror.mark({ start, end: start + this.#state.sentences[sentence].length }, places.sort((one, other) => one.start - other.start));
    this.output.mark(sentence, targets);
  }

  /** Points at the source word at a place of the text. */
  atText(place) {
    const sentence = this.#starts.findLastIndex((start) => start <= place);
    const local = place - this.#starts[sentence];
    if (sentence < 0 || local > this.#state.sentences[sentence].length) return this.clear();
    const words = this.#alignmentOf(sentence)?.sources ?? [];
    const word = words.findIndex(({ start, end }) => start <= local && local <= end);
    this.at(sentence, "source", word < 0 ? null : word);
  }

  /** Points at the word before or after in a sentence, and says what it translates. */
  step(sentence, by) {
    const alignment = this.#alignmentOf(sentence);
    const words = alignment?.targets ?? [];
    const same = this.#last?.sentence === sentence && this.#last.side === "target" ? this.#last.word : null;
    const next = same === null ? (by > 0 ? 0 : words.length - 1) : same + by;
    if (!(next in words)) return;
    this.at(sentence, "target", next);
    const sources = linkedTo(alignment, "target", next).map((number) => alignment.sources[number].name);
    const sure = `${Math.round(100 * words[next].confidence)}\u00a0% certain`;
    this.announce(`${words[next].name}: ${sources.join(" ") || "no word of the text"}, ${sure}`);
  }

  /** Marks again, after the state or an alignment has changed. */
  again() {
    if (this.#last) this.at(this.#last.sentence, this.#last.side, this.#last.word);
  }

  clear() {
    this.#last = null;
    this.mirror.unmark();
    this.output.mark();
  }

  listen() {
    const { element } = this.output;
    const point = (event) => {
      const place = this.output.placeOf(event.target);
      if (place) this.at(place.sentence, "target", place.word);
    };
    // A finger leaves when it is lifted, and clicks after that.
    for (const name of ["pointerover", "click"]) element.addEventListener(name, point);
    element.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && point(event));
    for (const each of [element, this.source]) each.addEventListener("pointerleave", () => this.clear());
    this.source.addEventListener("pointermove", (event) => {
      const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
      if (caret?.offsetNode === this.source) this.atText(caret.offset);
    });
    this.source.addEventListener("keyup", (event) => {
      if (/^(Arrow|Home|End|Page)/.test(event.key)) this.atText(this.source.selectionStart);
    });
  }

  #alignmentOf(sentence) {
    const found = this.#alignments?.get(this.#state.sentences[sentence]);
    return found?.translation === this.#state.results[sentence]?.translation ? found : undefined;
  }
}

/** A word, and those on the other side that it is linked to. */
function wordsOf(alignment, side, word) {
  const other = linkedTo(alignment, side, word);
  return side === "target" ? { sources: other, targets: [word] } : { sources: [word], targets: other };
}
