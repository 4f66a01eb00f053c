// Warnings and errors in words.

const WARNINGS = {
  split: "The sentence is longer than the model's limit and was translated in parts.",
  truncated: "A part is too long for the model, and its end is missing.",
  retried: "The first translation failed a check and was replaced by another one.",
  repetition: "The translation repeats words that the text does not repeat.",
  length: "The translation is unusually short or long for this sentence.",
  coverage: "A part of the sentence seems not to be translated.",
};

export function warningText(code) {
  return WARNINGS[code] ?? `Warning of the model: ${code}.`;
}

const ERRORS = {
  down: (error) => `The server at ${error.message} does not answer. The page tries again until it does.`,
  busy: () => "The server is busy. Try again in a moment.",
  missing: (error, model) => `The server does not have the model “${model}”. ${error.message}`,
  large: (error) => `The text is too long for the server. ${error.message}`,
  rejected: (error) => `The server rejected the request. ${error.message}`,
  failed: (error) => `The server failed${error.status ? ` (status ${error.status})` : ""}. ${error.message}`,
};

export function errorText(error, model) {
  return (ERRORS[error.kind] ?? (() => String(error.message || error)))(error, model).trim();
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}
