// A model of the server: its signatures, its card and its languages.

const PAIR = /^([a-z]{2,3})[-_]([a-z]{2,3})$/i;

export class Model {
  constructor(server, signatures, version, card) {
    this.server = server;
    this.name = server.model;
    this.signatures = signatures;
    this.version = version;
    this.card = card;
    this.languages = languagesOf(this.name, card);
  }

  /** Reads what the server says about a model. */
  static async load(server, signal) {
    const answer = await server.metadata(signal);
    const signatures = answer.metadata?.signature_def?.signature_def ?? {};
    const version = answer.model_spec?.version ?? "";
    return new Model(server, signatures, version, await readCard(server, signatures, signal));
  }

  has(signature) {
    return Object.hasOwn(this.signatures, signature);
  }

  predict(signature, texts, signal) {
    return this.server.predict(signature, texts, signal);
  }

  /** Results of sentences: {translation, warnings}. */
  async translate(sentences, signal) {
    return (await this.predict(this.has("document") ? "document" : "serving_default", sentences, signal)).map(resultOf);
  }

  /** The languages that a multilingual model translates to, and the same model for one of them. */
  get targets() {
    const found = this.has("translate_to") ? this.card?.languages?.targets : [];
    return Array.isArray(found) ? found : [];
  }

  to(target) {
    return target === this.languages.target ? this : new OtherTarget(this, target);
  }
}

/** A multilingual model for another target language: the other signatures are for its first one. */
class OtherTarget extends Model {
  constructor(model, target) {
    super(model.server, model.signatures, model.version, model.card);
    this.languages = { ...model.languages, target };
  }

  has(signature) {
    return ["segments", "translate_to", "model_card"].includes(signature) && super.has(signature);
  }

  async translate(sentences, signal) {
    const others = { target_language: this.languages.target };
    return (await this.server.predict("translate_to", sentences, signal, others)).map(resultOf);
  }
}

function resultOf(row) {
  if (typeof row === "string") return { translation: row, warnings: [] };
  const warnings = typeof row.warnings === "string" ? row.warnings.split(",").filter(Boolean) : [];
  return { translation: String(row.translation ?? ""), warnings };
}

async function readCard(server, signatures, signal) {
  if (!Object.hasOwn(signatures, "model_card")) return null;
  try {
    const card = JSON.parse((await server.predict("model_card", [""], signal))[0]);
    return card !== null && typeof card === "object" ? card : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function languagesOf(name, card) {
  const [, source, target] = PAIR.exec(name) ?? [];
  return { source: card?.languages?.source || source || "", target: card?.languages?.target || target || "" };
}

/** The English name of a language's code; "" for none. */
export function languageName(code) {
  try {
    return code ? new Intl.DisplayNames(["en"], { type: "language" }).of(code.replace("_", "-")) : "";
  } catch {
    return code;
  }
}
