"""The report of an import: files read, parameters, languages, licence, a sample translation, next commands."""

import json
import logging
import os
import shlex
from collections.abc import Sequence

from tf_transformer._files import write_json
from tf_transformer.config import DecodingConfig
from tf_transformer.importing._importer import FACTS
from tf_transformer.workdir import Workdir

# Firefox, OPUS-MT and Argos write two letters; NLLB and others write the code of the language first: "deu_Latn".
_SAMPLES = {
    ("ar", "ara", "arb"): "الطقس جميل اليوم.",
    ("bg", "bul"): "Днес времето е хубаво.",
    ("cs", "ces"): "Dnes je hezké počasí.",
    ("da", "dan"): "Vejret er smukt i dag.",
    ("de", "deu"): "Das Wetter ist heute schön.",
    ("el", "ell"): "Ο καιρός είναι καλός σήμερα.",
    ("es", "spa"): "Hoy hace buen tiempo.",
    ("et", "est"): "Täna on ilus ilm.",
    ("fi", "fin"): "Tänään on kaunis sää.",
    ("fr", "fra"): "Il fait beau aujourd'hui.",
    ("hi", "hin"): "आज मौसम अच्छा है।",
    ("hu", "hun"): "Ma szép az idő.",
    ("it", "ita"): "Oggi il tempo è bello.",
    ("ja", "jpn"): "今日は天気がいいです。",
    ("ko", "kor"): "오늘은 날씨가 좋습니다.",
    ("nl", "nld"): "Het weer is mooi vandaag.",
    ("no", "nb", "nob"): "Været er fint i dag.",
    ("pl", "pol"): "Dzisiaj jest ładna pogoda.",
    ("pt", "por"): "O tempo está bonito hoje.",
    ("ro", "ron"): "Astăzi vremea este frumoasă.",
    ("ru", "rus"): "Сегодня хорошая погода.",
    ("sv", "swe"): "Vädret är vackert idag.",
    ("tr", "tur"): "Bugün hava güzel.",
    ("uk", "ukr"): "Сьогодні гарна погода.",
    ("zh", "zho", "cmn"): "今天天气很好。",
}
_ENGLISH = "The weather is beautiful today."
_LISTED = 12

logger = logging.getLogger(__name__)


def sample_sentence(language: str | None) -> str:
    """A short sentence in a language; in English where the language is unknown."""
    code = (language or "").lower().replace("-", "_").partition("_")[0]
    return next((text for codes, text in _SAMPLES.items() if code in codes), _ENGLISH)


def translate_sample(workdir: Workdir, text: str | None = None) -> dict | None:
    """Translate a sentence with an imported model and add it to import.json.

    The import is complete before: a model that needs more to translate, such as a target language, gives a warning.

    Args:
        text: the sentence; None: one in the source language.
    """
    from tf_transformer.decoding import Translator

    text = text or sample_sentence(workdir.dataset_info.get("source_language"))
    try:
        sample = {"source": text, "translation": Translator.from_workdir(workdir.path)([text])[0]}
    except ValueError as error:
        logger.warning("There is no sample translation: %s", error)
        return None
    write_json(workdir.path / FACTS, read_facts(workdir) | {"sample": sample})
    return sample


def read_facts(workdir: Workdir) -> dict:
    """import.json of a work directory."""
    return json.loads((workdir.path / FACTS).read_text(encoding="utf-8"))


def report(workdir: Workdir) -> str:
    """The report of an import as text, from import.json."""
    facts = read_facts(workdir)
    languages = [language or "not stated" for language in facts["languages"]]
    origin = f" (commit {facts['revision']})" if "revision" in facts else ""
    path = shlex.quote(os.fspath(workdir.path))
    lines = [
        str(workdir.path),
        f"From: {facts['from']}{origin}",
        f"Model: {facts['format']}, {facts['parameters']:,} parameters",
        *_files(facts["files"]),
        f"Languages: {' to '.join(languages)}{_several(workdir)}",
        f"Licence: {facts['licence'] or 'not stated'}",
        f"Search: {_search(workdir.config.decoding)}",
    ]
    if "trimmed" in facts:
        kept = [f"{facts['trimmed'][side][1]:,} of {facts['trimmed'][side][0]:,}" for side in ("source", "target")]
        lines.append(f"Vocabulary: {kept[0]} source rows and {kept[1]} target rows kept")
    if "sample" in facts:
        lines.append(f"Sample: {facts['sample']['source']} -> {facts['sample']['translation']}")
    flags = _language_flags(workdir, facts["languages"])
    lines += ["Next:", f"  tf-transformer translate --workdir {path}{flags}"]
    return "\n".join([*lines, f"  tf-transformer export --workdir {path} --output MODEL_BASE{flags}"])


def _language_flags(workdir: Workdir, languages: Sequence[str | None]) -> str:
    """The flags of the languages of a multilingual model that the import did not fix."""
    known = workdir.tokenizers.languages
    missing = [side for side, language in zip(("source", "target"), languages) if language is None]
    return "" if known is None else "".join(f" --{side}-language CODE" for side in missing)


def _search(decoding: DecodingConfig) -> str:
    """The search settings of the work directory, those that are not set left out."""
    parts = [f"beam {decoding.beam_size}", f"length penalty {decoding.length_penalty}", f"alpha {decoding.alpha:g}"]
    parts += [f"{decoding.length_reward:g} per token"] if decoding.length_reward else []
    parts += ["early stopping"] * decoding.early_stopping
    parts += [f"at most {decoding.max_length} tokens"] if decoding.max_length else []
    parts += [f"at most {decoding.max_length_factor:g} x the source"] if decoding.max_length_factor else []
    parts += [f"no repeated {decoding.no_repeat_ngram}-grams"] if decoding.no_repeat_ngram else []
    return ", ".join([*parts, f"failure detection {'on' if decoding.failure_detection else 'off'}"])


def _several(workdir: Workdir) -> str:
    """Number of languages of a multilingual model, and the flags that choose among them."""
    known = workdir.tokenizers.languages
    return "" if known is None else f" ({len(known.targets)} languages; --source-language, --target-language)"


def _files(files: list[dict]) -> list[str]:
    lines = [f"  {file['name']} ({file['bytes']:,} bytes)" for file in files[:_LISTED]]
    rest = [f"  and {len(files) - _LISTED} more"] if len(files) > _LISTED else []
    return [f"Files read: {len(files)}", *lines, *rest]
