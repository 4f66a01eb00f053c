// Words of a sentence and of its translation, the links between them, and how certain the model is of each.

import { pause } from "./server.js";

const ROWS = 8;
const PAUSE = 200;
export const UNCERTAIN = 0.5;

/** The alignments of sentences, requested once each, some time after they are needed. */
export class Alignments {
  #known = new Map();
  #wanted = new Set();
  #running = new AbortController();

  /**
   * @param {Model} model
   * @param {(sentences: string[]) => void} report called with the sentences whose alignments have arrived
   */
  constructor(model, report) {
    this.model = model;
    this.report = report;
  }

  get(sentence) {
    return this.#known.get(sentence);
  }

  want(sentences) {
    if (!this.model.has("alignment")) return;
    const isWaiting = this.#wanted.size > 0;
    sentences.filter((sentence) => !this.#known.has(sentence)).forEach((sentence) => this.#wanted.add(sentence));
    if (!isWaiting && this.#wanted.size) this.#load(this.#running.signal);
  }

  /** Forgets what is wanted, and cancels what is running. */
  cancel() {
    this.#wanted.clear();
    this.#running.abort();
    this.#running = new AbortController();
  }

  /** Without alignments the translation is still there: only marks and shades are missing. */
  async #load(signal) {
    try {
      await pause(PAUSE, signal);
      while (this.#wanted.size) await this.#ask([...this.#wanted].slice(0, ROWS), signal);
    } catch {
      if (!signal.aborted) this.#wanted.clear();
    }
  }

  async #ask(rows, signal) {
    const found = await this.model.predict("alignment", rows, signal);
    signal.throwIfAborted();
    rows.forEach((sentence, number) => {
      this.#known.set(sentence, alignmentOf(sentence, found[number]));
      this.#wanted.delete(sentence);
    });
    this.report(rows);
  }
}

function alignmentOf(source, row) {
  const targets = words(row.translation, row.target_words, row.target_starts, row.target_ends);
  targets.forEach((word, number) => (word.confidence = row.confidences[number]));
  return {
    translation: row.translation,
    sources: words(source, row.source_words, row.source_starts, row.source_ends),
    targets,
    links: row.links.filter(([source, target]) => source >= 0 && target >= 0),
  };
}

/** Words with their places in a JavaScript string; servers count code points, and padding begins with -1. */
function words(text, names, starts, ends) {
  const places = codeUnits(text);
  const padding = starts.findIndex((start) => start < 0);
  return names.slice(0, padding < 0 ? names.length : padding).map((name, number) => {
    const end = places[ends[number]] ?? text.length;
    return { name, start: Math.min(places[starts[number]] ?? end, end), end };
  });
}

/** The place in UTF-16 of each code point, and of the end. */
export function codeUnits(text) {
  const places = [0];
  for (const character of text) places.push(places.at(-1) + character.length);
  return places;
}

/** The numbers of the source words that a target word is linked to, or the other way round. */
export function linkedTo(alignment, side, number) {
  const [from, to] = side === "target" ? [1, 0] : [0, 1];
  return alignment.links.filter((link) => link[from] === number).map((link) => link[to]);
}
