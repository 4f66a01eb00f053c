// The page: what is typed goes to the model, and what comes back is shown.

import { Alignments } from "./alignment.js";
import { showCard } from "./card.js";
import { MAX_CHARACTERS, readConfig, rememberModel } from "./config.js";
import { Details } from "./details.js";
import { acceptDrops, copy, download, nameOfTranslation, readText } from "./files.js";
import { installMoves, installShortcuts } from "./keys.js";
import { Mirror } from "./mirror.js";
import { languageName, Model } from "./model.js";
import { Output, textOf } from "./output.js";
import { Pointing } from "./pointing.js";
import { Server } from "./server.js";
import { installTheme } from "./theme.js";
import { NOTHING, Translation } from "./translation.js";
import { View } from "./view.js";

const TYPING_PAUSE = 300;
const RECOVERY_PAUSE = 3000;
const COPIED_PAUSE = 2000;

export class App {
  #state = NOTHING;
  #timer = 0;
  #loading = new AbortController();
  #fileName = "";

  constructor(find) {
    this.find = find;
    this.source = find("source");
    this.view = new View(find);
    this.mirror = new Mirror(find("mirror"));
    this.output = new Output(find("translation"), (sentences) => this.#state.done && this.alignments?.want(sentences));
    this.pointing = new Pointing(this.source, this.mirror, this.output, (text) => this.view.announce(text));
    this.details = new Details(find, (sentence, text) => this.#replace(sentence, text));
  }

  async start() {
    installTheme(this.find("theme-button"));
    this.#listen();
    this.#listenToKeys();
    this.pointing.listen();
    this.mirror.setText(this.source.value);
    this.config = await readConfig();
    this.#offerModels();
    if (this.config.chosen) return this.#useModel(this.config.chosen);
    this.#fail(new Error("config.json names no model. Add its name to “models”, or open the page with ?model=NAME."));
  }

  #offerModels() {
    const options = this.config.models.map((name) => new Option(name, name));
    this.find("model").replaceChildren(...options);
    this.find("model").value = this.config.chosen ?? "";
    this.find("model-choice").hidden = options.length < 2;
  }

  async #useModel(name) {
    this.#stop();
    this.#loading.abort();
    const { signal } = (this.#loading = new AbortController());
    this.server = new Server(this.config.server, name);
    this.model = null;
    try {
      const model = await Model.load(this.server, signal);
      if (signal.aborted) return;
      this.#offerTargets(model);
      this.#adopt(model);
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  #offerTargets(model) {
    const codes = [...new Set([model.languages.target, ...model.targets])];
    this.find("target").replaceChildren(...codes.map((code) => new Option(languageName(code), code)));
    this.find("target-choice").hidden = codes.length < 2;
    this.find("target").onchange = ({ target }) => this.#adopt(model.to(target.value));
  }

  #adopt(model) {
    this.#stop();
    this.model = model;
    this.translation = new Translation(model, (state) => this.#show(state));
    this.alignments = new Alignments(model, (sentences) => {
      this.output.refill(sentences, this.alignments);
      this.pointing.again();
      if (sentences.includes(this.details.source)) this.#describe(this.#state.sentences.indexOf(this.details.source));
    });
    this.view.languages(model);
    this.#show(NOTHING);
    this.#translate();
  }

  #input() {
    this.mirror.setText(this.source.value);
    this.#stop();
    this.#timer = setTimeout(() => this.#translate(), TYPING_PAUSE);
  }

  /** Cancels requests whose answers would be about another text. */
  #stop() {
    clearTimeout(this.#timer);
    this.translation?.cancel();
    this.alignments?.cancel();
    this.pointing.clear();
  }

  async #translate() {
    const text = this.source.value;
    this.#stop();
    this.view.length(text);
    if (!this.model) return this.server && this.#useModel(this.server.model);
    if (text.length > MAX_CHARACTERS) return this.#reject();
    this.view.busy(true);
    try {
      await this.translation.translate(text);
    } catch (error) {
      this.#fail(error);
    }
  }

  #reject() {
    this.#show(NOTHING);
    const most = MAX_CHARACTERS.toLocaleString("en");
    this.#fail(new Error(`The text is too long: the page translates at most ${most} characters. Translate files with tf-transformer translate --documents.`));
  }

  #show(state) {
    this.#state = state;
    this.output.render(state, this.alignments);
    this.pointing.setState(state, this.alignments);
    this.view.state(state);
    const opened = state.sentences.indexOf(this.details.source);
    if (this.details.isOpen && opened < 0) this.details.close();
    else if (this.details.isOpen) this.#describe(opened);
  }

  #fail(error) {
    this.view.error(error, this.server?.model);
    if (error.kind === "down") this.#timer = setTimeout(() => this.#recover(), RECOVERY_PAUSE);
  }

  async #recover() {
    try {
      await this.server.status();
      this.#translate();
    } catch (error) {
      this.#fail(error);
    }
  }

  #choose(sentence) {
    this.#describe(sentence);
    this.output.reveal(sentence);
  }

  #describe(sentence) {
    const { sentences, results } = this.#state;
    if (!results[sentence]) return;
    this.output.expand(sentence);
    this.details.open(this.model, sentences[sentence], results[sentence], this.alignments.get(sentences[sentence]));
  }

  #replace(sentence, text) {
    this.translation.replace(sentence, text);
    const results = this.#state.results.map((result, number) =>
      this.#state.sentences[number] === sentence ? { ...result, translation: text } : result);
    this.#show({ ...this.#state, results });
    this.view.announce("The translation was replaced.");
  }

  #close() {
    if (!this.details.isOpen) return this.pointing.clear();
    const sentence = this.#state.sentences.indexOf(this.details.source);
    this.details.close();
    this.output.expand(-1);
    if (sentence >= 0) this.output.focus(sentence);
  }

  #setText(text, fileName = "") {
    this.source.value = text;
    this.#fileName = fileName;
    this.#input();
    this.#translate();
  }

  async #open(file) {
    try {
      if (file) this.#setText(await readText(file), file.name);
    } catch (error) {
      this.#fail(error);
    }
  }

  #download() {
    if (this.find("download-button").disabled) return;
    download(nameOfTranslation(this.#fileName, this.model.languages.target), textOf(this.#state));
  }

  async #copy() {
    const button = this.find("copy-button");
    try {
      await copy(textOf(this.#state));
      this.view.announce("Copied.");
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), COPIED_PAUSE);
    } catch (error) {
      this.#fail(error);
    }
  }

  #showCard() {
    if (!this.model) return;
    showCard(this.find("card-facts"), this.model);
    this.find("card").showModal();
  }

  #listen() {
    const on = (id, name, action) => this.find(id).addEventListener(name, action);
    on("source", "input", () => this.#input());
    on("retry-button", "click", () => this.#translate());
    on("clear-button", "click", () => {
      this.#setText("");
      this.source.focus();
    });
    on("copy-button", "click", () => this.#copy());
    on("download-button", "click", () => this.#download());
    on("open-button", "click", () => this.find("file").click());
    on("file", "change", ({ target }) => this.#open(target.files[0]).then(() => (target.value = "")));
    on("close-details", "click", () => this.#close());
    on("help-button", "click", () => this.find("help").showModal());
    on("card-button", "click", () => this.#showCard());
    on("model", "change", ({ target }) => {
      rememberModel(target.value);
      this.#useModel(target.value);
    });
    on("translation", "click", (event) => {
      const place = getSelection().isCollapsed && this.output.placeOf(event.target);
      if (place) this.#choose(place.sentence);
    });
    acceptDrops(this.find("source-panel"), (file) => this.#open(file));
  }

  #listenToKeys() {
    installShortcuts({
      translate: () => this.#translate(),
      open: () => this.find("file").click(),
      download: () => this.#download(),
      help: () => this.find("help").showModal(),
      write: () => this.source.focus(),
      close: () => this.#close(),
    });
    installMoves(this.output, {
      go: (sentence) => this.output.focus(sentence),
      step: (sentence, by) => this.pointing.step(sentence, by),
      choose: (sentence) => this.#choose(sentence),
    });
  }
}
