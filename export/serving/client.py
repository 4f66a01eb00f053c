"""A client for TensorFlow Serving's REST interface in plain Python, without dependencies.

python -m tf_transformer.export.serving.client --url http://127.0.0.1:8501/v1/models/NAME "Hello."
echo "Hello." | python -m tf_transformer.export.serving.client --url http://127.0.0.1:8501 --name NAME
"""

import argparse
import base64
import difflib
import http.client
import json
import random
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence

_MODEL_URL = re.compile(
    r"(?P<base>https?://[^/]+.*?)/v1/models/(?P<name>[^/:]+)(?P<version>/versions/\d+)?(:predict)?/?"
)
_RETRIED = {429, 500, 502, 503, 504}
# With batching, TensorFlow Serving merges a request with one of another rank and rejects both.
_NEIGHBOUR = re.compile("Tensors .*have different shapes", re.DOTALL)


class RequestRejected(ValueError):
    """Raised when the server rejects the request: sending it again would not help."""


class ServerUnavailable(ConnectionError):
    """Raised when there was no answer after all retries."""


class Client:
    """Sends texts to a server and returns its translations.

    Example:
        client = Client("http://127.0.0.1:8501/v1/models/en-de")
        client.translate(["Hello.", "Good night."])

    Args:
        url: The server (`http://host:8501`, with `name`) or the model (`http://host:8501/v1/models/NAME`, or one
            version of it, `…/NAME/versions/3`).
        name: The model's name, if it is not in `url`.
        timeout: Seconds per attempt.
        retries: Further attempts after a failed one: after connection errors, time-outs, 429 and 5xx. A 400 that was
            caused by another client's request in the same batch is retried once.
        batch_size: Rows in one request.
        backoff: Seconds before the first retry, doubled for each further one, with jitter.
    """

    def __init__(
        self,
        url: str,
        name: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        batch_size: int = 32,
        backoff: float = 0.25,
    ) -> None:
        if batch_size < 1 or retries < 0 or timeout <= 0:
            raise ValueError(
                f"expected batch_size >= 1, retries >= 0, timeout > 0. Received: {batch_size}, {retries}, {timeout}"
            )
        self.model_url = _model_url(url, name)
        self.timeout = timeout
        self.retries = retries
        self.batch_size = batch_size
        self.backoff = backoff

    def translate(self, texts: Sequence[str | bytes], target_language: str | Sequence[str] | None = None) -> list[str]:
        """The translation of each text, in their order.

        Args:
            target_language: of a multilingual model, one for all texts or one per text; None: the fixed one.
        """
        if target_language is None:
            return self.predict([_value(text) for text in texts])
        codes = [target_language] * len(texts) if isinstance(target_language, str) else list(target_language)
        if len(codes) != len(texts):
            raise ValueError(f"expected a target language per text. Received: {len(codes)} for {len(texts)} texts")
        rows = [{"text": _value(text), "target_language": code} for text, code in zip(texts, codes, strict=True)]
        found = self.predict(rows, "translate_to")
        self._check_languages(code for text, code, each in zip(texts, codes, found) if text.strip() and not each)
        return found

    def _check_languages(self, codes: Iterable[str]) -> None:
        """Raise RequestRejected for a language that the model does not have: its rows are answered with ""."""
        unsure = list(dict.fromkeys(codes))
        known = self._target_languages() if unsure else []
        for code in unsure:
            if known and code not in known:
                similar = " or ".join(difflib.get_close_matches(code, known, n=3, cutoff=0.4))
                meant = f"Did you mean {similar}? " if similar else ""
                raise RequestRejected(
                    f"Expected a target language of the model. Received: {code!r}. {meant}The model has "
                    f"{', '.join(known)}."
                )

    def _target_languages(self) -> list[str]:
        """The codes in the model card; none where an export has no signature for it."""
        try:
            card = json.loads(self.predict([""], "model_card")[0])
        except RequestRejected:
            return []
        return (card.get("languages") or {}).get("targets") or []

    def translate_document(self, texts: Sequence[str | bytes]) -> list[dict]:
        """For each text, of any length, its `translation`, the number of its `sentences`, and `warnings`."""
        return self.predict([{"text": _value(text)} for text in texts], "document")

    def nbest(self, texts: Sequence[str | bytes]) -> list[dict]:
        """For each text its `translations` and their `scores`, best first, and whether it was `truncated`."""
        return self.predict([{"text": _value(text)} for text in texts], "nbest")

    def score(self, sources: Sequence[str | bytes], targets: Sequence[str | bytes]) -> list[dict]:
        """For each pair the log-probability (`score`) of the target and its number of `tokens`."""
        if len(sources) != len(targets):
            raise ValueError(
                f"expected as many targets as sources. Received: {len(sources)} sources, {len(targets)} targets"
            )
        pairs = zip(sources, targets, strict=True)
        return self.predict([{"source": _value(one), "target": _value(other)} for one, other in pairs], "score")

    def align(self, texts: Sequence[str | bytes]) -> list[dict]:
        """For each sentence its `translation`, the words of both with offsets in characters, `links` and `confidences`.

        `source` and `target` are lists of {"text", "start", "end"}, those of `target` with "confidence"; `links` are
        pairs of places in them. `sentences` above 1 flags a text that is not one sentence.
        """
        return [_aligned(row) for row in self.predict([{"text": _value(text)} for text in texts], "alignment")]

    def predict(self, instances: list, signature: str = "serving_default") -> list:
        """The predictions for instances of any signature, in as many requests as it takes."""
        predictions = []
        for start in range(0, len(instances), self.batch_size):
            part = instances[start : start + self.batch_size]
            answer = self._send(":predict", {"signature_name": signature, "instances": part}).get("predictions")
            if not isinstance(answer, list) or len(answer) != len(part):
                raise ServerUnavailable(
                    f"{self.model_url} answered {len(part)} rows with {str(answer)[:100]}: is it a model?"
                )
            predictions.extend(answer)
        return predictions

    def status(self) -> list[dict]:
        """The state of each version the server knows."""
        return self._send("")["model_version_status"]

    def _send(self, suffix: str, body: dict | None = None) -> dict:
        url = self.model_url + suffix
        data = None if body is None else json.dumps(body).encode("ascii")
        retried_neighbour = False
        for attempt in range(self.retries + 1):
            try:
                request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=self.timeout) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                reason = f"HTTP {error.code}: {_error_of(error)}"
                if error.code not in _RETRIED:
                    neighbour = error.code == 400 and _NEIGHBOUR.search(reason)
                    if not neighbour or retried_neighbour or attempt == self.retries:
                        raise RequestRejected(f"{url} rejected the request. {reason}") from error
                    retried_neighbour = True
            # No connection, a time-out, an incomplete answer, or one that is not JSON.
            except (OSError, ValueError, http.client.HTTPException) as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
            if attempt < self.retries:
                time.sleep(self.backoff * 2**attempt * random.uniform(0.5, 1.0))
        raise ServerUnavailable(
            f"no answer from {url} after {self.retries + 1} attempts: {reason}. Is the server running there?"
        )


def _aligned(row: dict) -> dict:
    """A row of the signature `alignment` without its padding."""
    sides: dict[str, list[dict]] = {}
    for side in ("source", "target"):
        places = zip(row[f"{side}_words"], row[f"{side}_starts"], row[f"{side}_ends"])
        sides[side] = [{"text": text, "start": start, "end": end} for text, start, end in places if text]
    for word, confidence in zip(sides["target"], row["confidences"]):
        word["confidence"] = confidence
    links = [link for link in row["links"] if link[0] >= 0]
    kept = {name: row[name] for name in ("translation", "sentences") if name in row}
    return kept | sides | {"links": links}


def _model_url(url: str, name: str | None) -> str:
    match = _MODEL_URL.fullmatch(url)
    name = name and urllib.parse.quote(name, safe="")
    if match:
        return f"{match['base']}/v1/models/{name or match['name']}{match['version'] or ''}"
    if not re.match(r"https?://[^/]", url):
        raise ValueError(f"expected an address like http://127.0.0.1:8501. Received: {url!r}")
    if not name:
        raise ValueError(f"expected the name of a model, or an address ending in /v1/models/NAME. Received: {url!r}")
    return f"{url.rstrip('/')}/v1/models/{name}"


def _value(text: str | bytes) -> str | dict[str, str]:
    """Text as a JSON value: bytes as base64; lone surrogates, which JSON text cannot contain, are replaced."""
    if isinstance(text, bytes):
        return {"b64": base64.b64encode(text).decode("ascii")}
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _error_of(error: urllib.error.HTTPError) -> str:
    try:
        text = error.read().decode("utf-8", "replace")
        return str(json.loads(text)["error"])
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return error.reason


def main(argv: list[str] | None = None) -> int:
    """Translate the arguments, or the lines of stdin, to lines of stdout."""
    parser = argparse.ArgumentParser(
        prog="client", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", nargs="*", help="what to translate (default: the lines of stdin)")
    parser.add_argument("--url", required=True, help="the server or the model: http://host:8501[/v1/models/NAME]")
    parser.add_argument("--name", help="the model's name, if it is not in the address")
    parser.add_argument("--target-language", metavar="CODE", help="of a multilingual model (default: the fixed one)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds per attempt (default: %(default)s)")
    parser.add_argument(
        "--retries", type=int, default=3, help="further attempts after a failed one (default: %(default)s)"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="lines in one request (default: %(default)s)")
    args = parser.parse_args(argv)
    try:
        client = Client(args.url, args.name, args.timeout, args.retries, args.batch_size)
        texts = args.text or [line.rstrip("\n") for line in sys.stdin]
        for line in client.translate(texts, args.target_language):
            print(line)
    except (ValueError, OSError) as error:
        print(f"client: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
