// The model card in words: what the model is, what it was trained on, and how good it is.

import { languageName } from "./model.js";

/** Fills a <dl> with the facts of a model; those that its card lacks are left out. */
export function showCard(list, model) {
  const rows = Object.entries(facts(model)).filter(([, value]) => value);
  list.replaceChildren(...rows.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
}

function facts(model) {
  const card = model.card ?? {};
  return {
    Name: model.name,
    Version: model.version,
    Languages: languages(model.languages),
    Model: [card.preset && `Transformer, preset ${card.preset}`, card.parameters && `${number(card.parameters)} parameters`]
      .filter(Boolean).join(", "),
    Checkpoint: checkpoint(card),
    Data: data(card.data),
    Scores: scores(card.scores),
    Search: search(card.decoding),
    Licence: model.card && (card.licence || "not stated"),
    Made: card.created && new Date(card.created).toLocaleString("en"),
    Signatures: Object.keys(model.signatures).filter((name) => !name.startsWith("__")).sort().join(", "),
    Card: model.card ? "" : "This export has no signature model_card: nothing else is known about it.",
  };
}

function languages({ source, target }) {
  return [source, target].map((code) => (code ? `${languageName(code)} (${code})` : "not stated")).join(" → ");
}

function checkpoint({ checkpoint, imported }) {
  const origin = imported?.from ? `, imported from ${imported.from}` : "";
  return checkpoint && `${checkpoint.name}, step ${number(checkpoint.step)}${origin}`;
}

function data(found) {
  const pairs = Object.entries(found?.pairs ?? {}).map(([split, count]) => `${split} ${number(count)}`);
  return found && [found.corpus ?? "not stated", pairs.length && `pairs: ${pairs.join(", ")}`].filter(Boolean).join("; ");
}

function scores(found) {
  const lines = (found ?? []).flatMap(({ test_set: set, scores: all }) => all.map(({ name, score }) => `${name} ${score.toFixed(1)} (${set})`));
  return found && (lines.join(", ") || "none were measured");
}

function search(found) {
  if (!found) return found;
  const reward = found.length_reward ? `, ${found.length_reward} per token` : "";
  return `beam ${found.beam_size}, alpha ${found.alpha}${reward}, sentences of at most ${found.max_source_length} tokens`;
}

function number(value) {
  return Number(value).toLocaleString("en");
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}
