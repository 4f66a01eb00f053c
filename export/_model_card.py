"""Model card of an export: `model.json` for programs, `README.md` for readers."""

import dataclasses
import json
import pathlib
from typing import Any

from tf_transformer.decoding import SMALL_STEP, WARNINGS
from tf_transformer.export._candidate import Candidate
from tf_transformer.export._verify import Trial
from tf_transformer.export.inspection import Report

_USE = """\
## Use

With TensorFlow Serving {oldest_server} or later; `MODEL_BASE` is the folder above this one:

    docker run --rm -p 8501:8501 -e TF_ENABLE_ONEDNN_OPTS=1 -e MODEL_NAME=translate \\
        -v "$PWD/MODEL_BASE:/models/translate" tensorflow/serving \\
        --enable_batching --enable_per_model_batching_parameters \\
        --rest_api_num_threads=64 --max_num_load_retries=0
    curl -d '{{"instances": ["…"]}}' http://localhost:8501/v1/models/translate:predict

With `--enable_batching`: reject empty batches (`{{"inputs": []}}`) in front of the server, because each of them blocks
a REST thread until another request arrives, and use a liveness probe. Retry a 400 "Tensors … have different shapes"
once: another client sent a request of wrong rank. Do not set `pad_variable_length_inputs`. Answers of `attention` and
`alignment` are padded to the widest row in the batch.

In Python, with `tensorflow` and `tensorflow-text`:

    import tensorflow as tf
    import tensorflow_text  # without it, loading fails: "Op type not registered 'Sentencepiece…'"

    model = tf.saved_model.load("this folder")
    model.signatures["serving_default"](text=tf.constant(["…"]))["translation"]

{languages}Nothing else is needed: tokenizers and search are in the graph. Text is UTF-8; bytes that are not are
replaced. `""` gives `""`. {lengths}

`alignment` gives the words of text and translation with their offsets in characters (code points), pairs of word
numbers that translate each other (`links`, the source's first), and a confidence from 0 to 1 per target word: the
lowest probability of its pieces. Padding is `""`, 0.0 and -1.
"""

_MULTILINGUAL = """\
All signatures translate from {source}, and to {target} except for `translate_to`, which has a language per row:

    curl -d '{{"signature_name": "translate_to", "instances": [{{"text": "…", "target_language": "{target}"}}]}}' \\
        http://localhost:8501/v1/models/translate:predict

Its languages: {targets}. A request with another one is rejected with status 400, and so are requests that the server
merges with it: check the code in the client.

"""

_SEGMENTED = """\
A row may have any number of sentences and lines: `serving_default` and `document` translate it sentence by sentence
and join the translations. `document` keeps line breaks, blank lines, indentation and bullets of every row, counts the
`sentences` and reports `warnings` ("" or codes with commas between them, see below; sentences of more than
{max_source_length} tokens are `split`). `nbest`, `score`, `attention` and `alignment` take a row for one sentence:
`sentences` above 1 flags a row that contains more, and of more than {max_source_length} tokens the rest is truncated,
which `nbest` reports in `truncated`."""

_NOT_SEGMENTED = """\
A row is one sentence: it was exported with `--no-segmentation`. A source of more than {max_source_length} tokens is
truncated; `nbest` reports it in `truncated`."""


def card_text(card: dict) -> str:
    """README.md from the contents of model.json."""
    parts = [_title(card), _facts(card), _use(card), _signatures(card), _warnings(card), _scores(card), _checks(card)]
    return "\n".join(parts)


def _title(card: dict) -> str:
    languages = [card["languages"][side] or "?" for side in ("source", "target")]
    return f"# Translation {' → '.join(languages)}\n"


def _facts(card: dict) -> str:
    checkpoint, search, data = card["checkpoint"], card["decoding"], card["data"]
    pairs = ", ".join(f"{name} {count:,}" for name, count in data["pairs"].items())
    rows = {
        "model": f"Transformer, preset `{card['preset']}`, {card['parameters']:,} parameters",
        "checkpoint": f"{checkpoint['name']}, step {checkpoint['step']:,}{_origin(card['imported'])}",
        "weights": card["weights"] + _rounding(card) + _packed(card),
        **_shortlist(card),
        "search": f"{_search(search)}, output at most {_limits(search)}, source at most "
        f"{search['max_source_length']} tokens",
        "data": f"{data['corpus'] or 'not known'}{f' (pairs: {pairs})' if pairs else ''}",
        "licence": card["licence"] or "not stated",
        "tokenizer": " / ".join(f"`{value[:16]}…`" for value in dict.fromkeys(card["tokenizer"]["sha256"].values())),
        "made": f"{card['created']} with " + ", ".join(f"{name} {value}" for name, value in card["versions"].items()),
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items()), ""])


def _limits(decoding: dict) -> str:
    """The limits of an output's length; the strictest holds."""
    limits = [f"{decoding['max_extra_length']} tokens longer than the source"]
    limits += [f"{decoding['max_length_factor']:g} times as long"] if decoding.get("max_length_factor") else []
    limits += [f"{decoding['max_length']} tokens"] if decoding.get("max_length") else []
    return ", ".join(limits)


def _search(decoding: dict) -> str:
    average = " of the average" if decoding.get("length_penalty") == "average" else ""
    reward = f", {decoding['length_reward']} per token" if decoding.get("length_reward") else ""
    return f"beam {decoding['beam_size']}, alpha {decoding['alpha']}{average}{reward}"


def _origin(imported: dict | None) -> str:
    return f", imported from {imported['from']} ({imported['format']})" if imported else ""


def _rounding(card: dict) -> str:
    effect = card["rounding"]
    if effect is None:
        return ""
    quantized = "in files and products (oneDNN on x86-64; fast on CPUs with VNNI)"
    use = quantized if card["weights"] == "int8" else "in the files, widened to float32 when loaded"
    return (
        f" {use}; {effect['changed']} of {effect['sentences']} translations are "
        f"not those of the full weights, log-probabilities per token differ by {effect['per_token']:.1e} on average"
    )


def _packed(card: dict) -> str:
    if not card["packed"]:
        return ""
    return (
        f"; the decoder's are packed once for steps of at most {SMALL_STEP} hypotheses, which needs TensorFlow with "
        "oneDNN for Linux on x86-64, and memory for the copies"
    )


def _shortlist(card: dict) -> dict[str, str]:
    effect = card["shortlist"]
    if effect is None:
        return {}
    table = effect["shortlist"]
    return {
        "shortlist": f"{table['per_source_id']} target tokens per source token and {table['frequent']} frequent ones, "
        f"{effect['candidates']:,} candidates per sentence; {effect['changed']} of {effect['sentences']} translations "
        "are not those of the whole vocabulary; scores of `nbest` are relative to the candidates"
    }


def _use(card: dict) -> str:
    server = card["oldest_server"] or "(no known release)"
    lengths = _SEGMENTED if card["decoding"]["segmentation"] else _NOT_SEGMENTED
    return _USE.format(
        oldest_server=server,
        lengths=lengths.format(max_source_length=card["decoding"]["max_source_length"]),
        languages=_MULTILINGUAL.format(**_named(card["languages"])) if card["languages"].get("targets") else "",
    )


def _named(languages: dict) -> dict[str, str]:
    return {name: ", ".join(value) if isinstance(value, list) else value or "?" for name, value in languages.items()}


def _signatures(card: dict) -> str:
    lines = ["## Signatures", "", "| name | in | out |", "|---|---|---|"]
    for name, tensors in card["signatures"].items():
        columns = (", ".join(f"`{key}` {value}" for key, value in tensors[kind].items()) for kind in tensors)
        lines.append(f"| `{name}` | {' | '.join(columns)} |")
    return "\n".join([*lines, ""])


def _warnings(card: dict) -> str:
    if not card["decoding"]["segmentation"]:
        return ""
    off = "" if card["decoding"].get("failure_detection", True) else "Only the first two: failure detection is off.\n\n"
    rows = [f"| `{code}` | {meaning} |" for code, meaning in WARNINGS.items()]
    return "\n".join(["## Warnings of `document`", "", f"{off}| code | meaning |", "|---|---|", *rows, ""])


def _scores(card: dict) -> str:
    if not card["scores"]:
        return "## Scores\n\nNone were measured; run `tf-transformer evaluate --workdir WORKDIR`.\n"
    lines = ["## Scores", "", "| test set | search | score | signature |", "|---|---|---|---|"]
    for evaluation in card["scores"]:
        search = _search(evaluation["decoding"])
        for score in evaluation["scores"]:
            value, signature = f"{score['name']} {score['score']:.2f}", score["signature"].replace("|", "\\|")
            lines.append(f"| {evaluation['test_set']} | {search} | {value} | `{signature}` |")
    return "\n".join([*lines, ""])


def _checks(card: dict) -> str:
    verified = card["verified"]
    return (
        "## Checked\n\n"
        f"Before it was published this export, moved and read-only, was loaded in a process that imports only "
        f"tensorflow and tensorflow_text. It gave the same answers as the checkpoint to {verified['requests']} "
        f"requests: {verified['sentences']} sentences ({verified['from']}), and empty, malformed and very long text. "
        "`model.json` lists the files with their SHA-256.\n"
    )


JSON, README = "model.json", "README.md"


def model_card(candidate: Candidate, report: Report, trial: Trial, files: dict[str, dict]) -> dict:
    """The contents of model.json.

    Args:
        report: from `inspect`.
        trial: from `verify`.
        files: size and SHA-256 by name, of all files but the card's.
    """
    return candidate.facts | {
        "shortlist": dataclasses.asdict(candidate.restriction) if candidate.restriction else None,
        "rounding": dataclasses.asdict(candidate.rounding) if candidate.rounding else None,
        "signatures": {each.name: _tensors(each) for each in report.signatures},
        "oldest_server": report.oldest_server,
        "verified": {"sentences": len(candidate.sentences), "from": candidate.sentences_from}
        | dataclasses.asdict(trial),
        "files": files,
    }


def write_model_card(directory: pathlib.Path, card: dict) -> None:
    """Write model.json and README.md into a SavedModel's directory."""
    text = json.dumps(card, indent=2, ensure_ascii=False)
    (directory / JSON).write_text(text + "\n", encoding="utf-8")
    (directory / README).write_text(card_text(card), encoding="utf-8")


def _tensors(signature: Any) -> dict[str, dict[str, str]]:
    return {
        kind: {tensor.name: str(tensor).partition(": ")[2] for tensor in tensors}
        for kind, tensors in (("inputs", signature.inputs), ("outputs", signature.outputs))
    }
