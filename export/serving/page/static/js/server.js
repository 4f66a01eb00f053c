// TensorFlow Serving's REST interface: status, metadata and predict, with retries while the server is busy.

const ATTEMPTS = 5;
const FIRST_PAUSE = 500;
const BUSY = new Set([429, 502, 503, 504]);
// With batching, a server merges a request with one of another rank and rejects both.
const NEIGHBOUR = /Tensors .*have different shapes/s;

/** A request without an answer. `kind`: "down", "busy", "missing", "large", "rejected" or "failed". */
export class ServerError extends Error {
  constructor(kind, message = "", status = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

export class Server {
  /** @param {string} base the server's address, with a slash at its end */
  constructor(base, model) {
    this.base = base;
    this.model = model;
    this.path = `${base}v1/models/${encodeURIComponent(model)}`;
  }

  status(signal) {
    return this.#send(this.path, { signal });
  }

  metadata(signal) {
    return this.#send(`${this.path}/metadata`, { signal });
  }

  /**
   * The rows of a signature's answer to texts: objects of its outputs, or values where it has only one.
   * @param {object} others further inputs of each row
   */
  async predict(signature, texts, signal, others = {}) {
    const instances = texts.map((text) => ({ text: wellFormed(text), ...others }));
    const body = JSON.stringify({ signature_name: signature, instances });
    const headers = { "Content-Type": "application/json" };
    const answer = await this.#patiently(`${this.path}:predict`, { method: "POST", headers, body, signal });
    if (!Array.isArray(answer.predictions) || answer.predictions.length !== texts.length) {
      throw new ServerError("failed", `expected ${texts.length} predictions`);
    }
    return answer.predictions;
  }

  async #patiently(url, options) {
    let rejected = false;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#send(url, options);
      } catch (error) {
        const neighbour = error.kind === "rejected" && !rejected && NEIGHBOUR.test(error.message);
        rejected ||= neighbour;
        if (attempt === ATTEMPTS || !(error.kind === "busy" || neighbour)) throw error;
        await pause(Math.max(error.wait ?? 0, FIRST_PAUSE * 2 ** (attempt - 1)), options.signal);
      }
    }
  }

  async #send(url, options) {
    let answer, body;
    try {
      answer = await fetch(url, options);
      body = await answer.text();
    } catch (error) {
      throw options.signal?.aborted ? error : new ServerError("down", this.base);
    }
    const parsed = parse(body);
    if (answer.ok && parsed) return parsed;
    throw errorOf(answer, parsed);
  }
}

function errorOf(answer, parsed) {
  if (answer.ok) return new ServerError("failed", "the answer is not that of a model server", answer.status);
  const kinds = { 400: "rejected", 404: "missing", 408: "busy", 413: "large" };
  const kind = BUSY.has(answer.status) ? "busy" : kinds[answer.status] ?? "failed";
  const error = new ServerError(kind, String(parsed?.error ?? ""), answer.status);
  error.wait = 1000 * Math.min(30, Number(answer.headers.get("Retry-After")) || 0);
  return error;
}

function parse(body) {
  try {
    const found = JSON.parse(body);
    return found !== null && typeof found === "object" ? found : null;
  } catch {
    return null;
  }
}

/** The text without halves of surrogate pairs, which servers reject. */
export function wellFormed(text) {
  return text.replace(/[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, (found) => (found.length === 2 ? found : "\ufffd"));
}

/** Waits, unless the request is cancelled. */
export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    }, { once: true });
  });
}
