"""The model card as a page of text: what the folder is, how to use it, what is known of its quality."""

_USE = """\
## Use

With TensorFlow Serving {oldest_server} or later; `MODEL_BASE` is the folder above this one:

    docker run --rm -p 8501:8501 -e TF_ENABLE_ONEDNN_OPTS=1 -e MODEL_NAME=translate \\
        -v "$PWD/MODEL_BASE:/models/translate" tensorflow/serving \\
        --enable_batching --enable_per_model_batching_parameters
    curl -d '{{"instances": ["…"]}}' http://localhost:8501/v1/models/translate:predict

In Python, with `tensorflow` and `tensorflow-text`:

    import tensorflow as tf
    import tensorflow_text  # without it, loading fails: "Op type not registered 'Sentencepiece…'"

    model = tf.saved_model.load("this folder")
    model.signatures["serving_default"](text=tf.constant(["…"]))["translation"]

Nothing else is needed: tokenizers and search are in the graph. Text is UTF-8; bytes that are not are replaced.
`""` gives `""`. A source of more than {max_source_length} tokens is cut there, and `nbest` says so in `truncated`.
"""


def card_text(card: dict) -> str:
    """README.md from the contents of model.json."""
    parts = [_title(card), _facts(card), _use(card), _signatures(card), _scores(card), _checks(card)]
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
        "weights": card["weights"] + _rounding(card),
        "search": f"beam {search['beam_size']}, alpha {search['alpha']}, output at most {search['max_extra_length']} "
        f"tokens longer than the source, source at most {search['max_source_length']} tokens",
        "data": f"{data['corpus'] or 'not known'}{f' (pairs: {pairs})' if pairs else ''}",
        "licence": card["licence"] or "not stated",
        "tokenizer": " / ".join(f"`{value[:16]}…`" for value in dict.fromkeys(card["tokenizer"]["sha256"].values())),
        "made": f"{card['created']} with " + ", ".join(f"{name} {value}" for name, value in card["versions"].items()),
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items()), ""])


def _origin(imported: dict | None) -> str:
    return f", imported from {imported['from']} ({imported['format']})" if imported else ""


def _rounding(card: dict) -> str:
    effect = card["rounding"]
    if effect is None:
        return ""
    return (
        f" in the files, widened to float32 when loaded; {effect['changed']} of {effect['sentences']} translations are "
        f"not those of the full weights, a token's log-probability differs by {effect['per_token']:.1e} on the average"
    )


def _use(card: dict) -> str:
    server = card["oldest_server"] or "(no known release)"
    return _USE.format(oldest_server=server, max_source_length=card["decoding"]["max_source_length"])


def _signatures(card: dict) -> str:
    lines = ["## Signatures", "", "| name | in | out |", "|---|---|---|"]
    for name, tensors in card["signatures"].items():
        columns = (", ".join(f"`{key}` {value}" for key, value in tensors[kind].items()) for kind in tensors)
        lines.append(f"| `{name}` | {' | '.join(columns)} |")
    return "\n".join([*lines, ""])


def _scores(card: dict) -> str:
    if not card["scores"]:
        return "## Scores\n\nNone were measured: `tf-transformer evaluate --workdir WORKDIR` does.\n"
    lines = ["## Scores", "", "| test set | search | score | signature |", "|---|---|---|---|"]
    for evaluation in card["scores"]:
        search = "beam {beam_size}, alpha {alpha}".format_map(evaluation["decoding"])
        for score in evaluation["scores"]:
            value, signature = f"{score['name']} {score['score']:.2f}", score["signature"].replace("|", "\\|")
            lines.append(f"| {evaluation['test_set']} | {search} | {value} | `{signature}` |")
    return "\n".join([*lines, ""])


def _checks(card: dict) -> str:
    verified = card["verified"]
    return (
        "## Checked\n\n"
        f"Before it was published this export, moved and read-only, was loaded in a process that imports only "
        f"tensorflow and tensorflow_text. It gave the checkpoint's answers to {verified['requests']} requests: "
        f"{verified['sentences']} sentences ({verified['from']}), and empty, broken and very long text. "
        "`model.json` lists the files with their SHA-256.\n"
    )
