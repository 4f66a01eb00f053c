// The copy of the text under the text area, in which sentences and words are marked.

export class Mirror {
  #text = "";

  constructor(element) {
    this.element = element;
  }

  /** Shows a text without marks. The line break at its end gives the last line its height. */
  setText(text) {
    this.#text = text;
    this.element.textContent = `${text}\n`;
  }

  /** Marks a passage and passages inside it, given as {start, end} in order. */
  mark(outer, inner = []) {
    const mark = document.createElement("mark");
    mark.className = "in-sentence";
    let place = outer.start;
    for (const { start, end } of inner) {
      const word = document.createElement("mark");
      word.className = "in-word";
      word.textContent = this.#text.slice(start, end);
      mark.append(this.#text.slice(place, start), word);
      place = end;
    }
    mark.append(this.#text.slice(place, outer.end));
    this.element.replaceChildren(this.#text.slice(0, outer.start), mark, `${this.#text.slice(outer.end)}\n`);
  }

  unmark() {
    if (this.element.querySelector("mark")) this.setText(this.#text);
  }
}
