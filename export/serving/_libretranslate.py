"""LibreTranslate's `/translate` and `/languages`, so that its clients can use a served model.

A model is chosen by its languages, which are in its model card, or in its name (`en-de`) where the card has none.
"""

import asyncio
import dataclasses
import difflib
import re
import urllib.parse
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_transformer.export.serving._errors import BadRequest
from tf_transformer.export.serving._json import parse_object, shown
from tf_transformer.export.serving._models import ModelVersions

if TYPE_CHECKING:
    from tf_transformer.export.serving._batching import Batcher
    from tf_transformer.export.serving._loading import ServedModel

# Pairs of languages in an error message; `/languages` has all of them.
_LISTED = 20
_PAIR = re.compile(r"(?:.*[^a-z])?([a-z]{2,3})-([a-z]{2,3})")

# English names of the languages that models are usually made for; others are called by their code.
_NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "ga": "Irish", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian",
    "it": "Italian", "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nb": "Norwegian Bokmål",
    "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sv": "Swedish", "th": "Thai", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A request for translations: texts, whether they came as a list, languages, and how many alternatives."""

    texts: list[str]
    as_list: bool
    source: str
    target: str
    alternatives: int


def parse(body: bytes, content_type: str, max_rows: int) -> Wanted:
    """Parse the body of a `/translate` request, JSON or a form."""
    fields = parse_object(body, 2 * max_rows + 16) if content_type == "application/json" else _form(body, max_rows)
    texts, as_list = fields.get("q"), isinstance(fields.get("q"), list)
    texts = texts if isinstance(texts, list) else [texts]
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest(f"expected a text or a list of texts as 'q'. Received: {shown(fields.get('q'))}")
    if len(texts) > max_rows:
        raise BadRequest(f"expected at most {max_rows} rows in a request. Received: 'q' with {len(texts)} rows")
    for name in ("source", "target"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            raise BadRequest(f"expected the code of a language as {name!r}. Received: {shown(fields.get(name))}")
    if fields.get("format", "text") not in ("text", None, ""):
        raise BadRequest(f"expected 'text' as 'format'. Received: {shown(fields['format'])}. Send plain text")
    return Wanted(texts, as_list, fields["source"], fields["target"], _count(fields.get("alternatives")))


def _form(body: bytes, max_rows: int) -> dict:
    try:
        text = body.decode("utf-8", "surrogateescape")
        pairs = urllib.parse.parse_qsl(text, keep_blank_values=True, max_num_fields=max_rows + 16)
    except ValueError as error:
        raise BadRequest(f"the form cannot be read: {error}") from error
    fields: dict = {}
    for key, value in pairs:
        fields.setdefault(key, value)
    return fields


def _count(value: Any) -> int:
    try:
        count = int(value or 0)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequest(f"expected a number as 'alternatives'. Received: {shown(value)}") from error
    return max(0, count)


def languages(models: dict[str, ModelVersions]) -> list[dict]:
    """The languages that can be translated, each with those that it can be translated to."""
    targets: dict[str, set[str]] = {}
    for source, target in _pairs(models):
        targets.setdefault(source, set()).add(target)
    return [
        {"code": code, "name": _NAMES.get(code, code), "targets": sorted(targets[code])} for code in sorted(targets)
    ]


async def translate(models: dict[str, ModelVersions], batcher: "Batcher", wanted: Wanted) -> dict:
    """The answer to a `/translate` request."""
    source, model = _choose(models, wanted)
    answer: dict = {}
    texts = np.array([text.encode("utf-8", "surrogateescape") for text in wanted.texts], dtype=object)
    name = "document" if "document" in model.signatures else "serving_default"
    inputs = {"text": texts}
    other = "translate_to" in model.signatures and wanted.target != _card_languages(model).get("target")
    if other:
        name = "translate_to"
        inputs["target_language"] = np.array([wanted.target.encode()] * len(texts), dtype=object)
    calls = [batcher.run(model.signature(name), inputs)]
    if wanted.alternatives and "nbest" in model.signatures and not other:
        calls.append(batcher.run(model.signature("nbest"), {"text": texts}))
    outputs = await asyncio.gather(*calls)
    answer["translatedText"] = _shape([_text(each) for each in outputs[0]["translation"]], wanted)
    if len(outputs) > 1:
        rows = [[_text(each) for each in row[1 : 1 + wanted.alternatives]] for row in outputs[1]["translations"]]
        answer["alternatives"] = _shape(rows, wanted)
    if wanted.source == "auto":
        detected = {"confidence": 0.0, "language": source}  # nothing is detected: it is the model's language
        answer["detectedLanguage"] = _shape([detected] * len(wanted.texts), wanted)
    return answer


def _choose(models: dict[str, ModelVersions], wanted: Wanted) -> "tuple[str, ServedModel]":
    pairs = _pairs(models)
    for (source, target), versions in pairs.items():
        if wanted.source in (source, "auto") and wanted.target == target:
            return source, versions.get()
    known, asked = [f"{source} to {target}" for source, target in pairs], f"{wanted.source} to {wanted.target}"
    similar = " or ".join(difflib.get_close_matches(asked, known, n=3, cutoff=0.8))
    meant = f" Did you mean {similar}?" if similar else ""
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    listed = ", ".join(known[:_LISTED]) or "none: the models' languages are unknown"
    raise BadRequest(f"{asked[:100]} is not supported.{meant} Supported: {listed}{more}")


def _pairs(models: dict[str, ModelVersions]) -> dict[tuple[str, str], ModelVersions]:
    """The models by their languages; of two for the same languages the first."""
    found: dict[tuple[str, str], ModelVersions] = {}
    for name, versions in models.items():
        if not versions.available:
            continue
        known = _card_languages(versions.get())
        source, target = (known.get(side) for side in ("source", "target"))
        if not (source and target) and (match := _PAIR.fullmatch(name)):
            source, target = match.groups()
        if source and target:
            found.setdefault((source, target), versions)
            for code in known.get("targets") or ():
                found.setdefault((source, code), versions)
    return found


def _card_languages(model: "ServedModel") -> dict:
    known = model.card.get("languages")
    return known if isinstance(known, dict) else {}


def _shape(values: list, wanted: Wanted) -> Any:
    return values if wanted.as_list else values[0]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
