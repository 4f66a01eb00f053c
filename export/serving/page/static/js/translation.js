// Translation of a changing text: only new sentences are sent, and only the newest text is shown.

import { segment } from "./segments.js";

const ROWS = 16;
const KEPT = 5000;

/** What the page shows: `sentences` with `separators`, and for each sentence its result, or null while it is waiting. */
export const NOTHING = { text: "", sentences: [], separators: [""], results: [], done: true };

export class Translation {
  #known = new Map();
  #running = new AbortController();

  /**
   * @param {Model} model
   * @param {(state: object) => void} show called with each new state
   */
  constructor(model, show) {
    this.model = model;
    this.show = show;
  }

  /** Cancels what is running. */
  cancel() {
    this.#running.abort();
  }

  /** Translates a text. Rejected with the reason if that fails, unless another text has taken its place. */
  async translate(text) {
    this.cancel();
    const { signal } = (this.#running = new AbortController());
    try {
      await this.#run(text, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /** Uses another translation of a sentence. */
  replace(sentence, translation) {
    this.#known.set(sentence, { ...this.#known.get(sentence), translation });
  }

  async #run(text, signal) {
    if (text.trim() === "") return this.show({ ...NOTHING, text, separators: [text] });
    const { sentences, separators } = await segment(this.model, text, signal);
    signal.throwIfAborted();
    const missing = [...new Set(sentences)].filter((sentence) => !this.#known.has(sentence));
    const state = () => {
      const results = sentences.map((sentence) => this.#known.get(sentence) ?? null);
      return { text, sentences, separators, results, done: !results.includes(null) };
    };
    for (let start = 0; start < missing.length; start += ROWS) {
      const rows = missing.slice(start, start + ROWS);
      const found = await this.model.translate(rows, signal);
      signal.throwIfAborted();
      rows.forEach((sentence, number) => this.#known.set(sentence, found[number]));
      if (start + ROWS < missing.length) this.show(state());
    }
    this.show(state());
    this.#forget(new Set(sentences));
  }

  #forget(shown) {
    for (const sentence of this.#known.size > KEPT ? [...this.#known.keys()] : []) {
      if (!shown.has(sentence)) this.#known.delete(sentence);
    }
  }
}
