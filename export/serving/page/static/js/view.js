// What the page says about the translation: its state, warnings, errors, and the languages.

import { count, errorText, warningText } from "./messages.js";
import { languageName } from "./model.js";

export class View {
  constructor(find) {
    this.find = find;
  }

  /** The languages of a model in the headings, and for the browser's fonts, hyphenation and voices. */
  languages(model) {
    const { source, target } = model.languages;
    this.find("languages").textContent = source && target ? `${languageName(source)} → ${languageName(target)}` : model.name;
    document.title = `${this.find("languages").textContent} · Translate`;
    this.find("source-title").firstElementChild.textContent = languageName(source) || "Text";
    this.find("target-title").textContent = languageName(target) || "Translation";
    this.find("source").lang = this.find("details-source").lang = source;
    this.find("translation").lang = this.find("alternatives").lang = target;
  }

  length(text) {
    this.find("source-note").textContent = text ? count([...text].length, "character") : "";
  }

  busy(isBusy) {
    this.find("translation").ariaBusy = String(isBusy);
  }

  state({ sentences, results, done }) {
    this.find("error").hidden = true;
    this.busy(!done);
    this.find("copy-button").disabled = this.find("download-button").disabled = !done || sentences.length === 0;
    const all = count(sentences.length, "sentence");
    const ready = results.filter(Boolean).length.toLocaleString("en");
    this.find("status").textContent = done ? (sentences.length ? all : "") : `Translating: ${ready} of ${all} …`;
    this.#warnings(results.flatMap((result) => result?.warnings ?? []));
  }

  #warnings(codes) {
    const rows = [...new Set(codes)].map((code) => {
      const number = codes.filter((each) => each === code).length;
      const row = document.createElement("li");
      row.textContent = `${count(number, "sentence")}: ${warningText(code)}`;
      return row;
    });
    this.find("warnings").replaceChildren(...rows);
    this.find("warnings").hidden = rows.length === 0;
  }

  error(error, model) {
    this.busy(false);
    this.find("status").textContent = "";
    this.find("error-text").textContent = errorText(error, model);
    this.find("error").hidden = false;
  }

  announce(text) {
    this.find("announcement").textContent = text;
  }
}
