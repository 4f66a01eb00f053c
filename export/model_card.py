"""The model card of an export: `model.json` for machines, `README.md` for whoever receives the folder."""

import dataclasses
import datetime
import json
import pathlib

from tf_transformer.export.candidate import Candidate
from tf_transformer.export.card_text import card_text
from tf_transformer.export.inspect_report import Report
from tf_transformer.export.verify import Trial
from tf_transformer.training.checkpoints import read_info
from tf_transformer.workdir import Workdir, package_versions

JSON, README = "model.json", "README.md"
IMPORTED = "import.json"
FORMAT = 1


def model_card(candidate: Candidate, report: Report, trial: Trial, files: dict[str, dict]) -> dict:
    """What there is to know of an export.

    Args:
        report: from `inspect`.
        trial: from `verify`.
        files: size and SHA-256 by name, of all files but the card's.
    """
    workdir, decoding, data = candidate.workdir, candidate.decoding, candidate.workdir.dataset_info
    imported = _imported(workdir)
    return {
        "format": FORMAT,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "languages": {"source": data.get("source_language"), "target": data.get("target_language")},
        "preset": workdir.config.preset,
        "model": workdir.config.model.to_dict(),
        "parameters": candidate.model.count_params(),
        "weights": candidate.weights,
        "rounding": dataclasses.asdict(candidate.rounding) if candidate.rounding else None,
        "checkpoint": _checkpoint(candidate.checkpoint),
        "data": _data(data),
        "scores": scores_of(workdir, candidate.checkpoint),
        "imported": imported,
        "licence": (imported or data).get("licence"),
        "decoding": decoding.to_dict() | {"n_best": decoding.n_best or decoding.beam_size},
        "tokenizer": {"sha256": workdir.tokenizers.sha256},
        "signatures": {each.name: _tensors(each) for each in report.signatures},
        "oldest_server": report.oldest_server,
        "verified": {"sentences": len(candidate.sentences), "from": candidate.sentences_from}
        | dataclasses.asdict(trial),
        "versions": package_versions(),
        "files": files,
    }


def _checkpoint(path: pathlib.Path) -> dict:
    info = read_info(path)
    return {"name": path.name, "step": info["step"], "sha256": info["files"]["model.safetensors"]["sha256"]}


def write_model_card(directory: pathlib.Path, card: dict) -> None:
    """Writes both forms of the card into a SavedModel's directory."""
    text = json.dumps(card, indent=2, ensure_ascii=False)
    (directory / JSON).write_text(text + "\n", encoding="utf-8")
    (directory / README).write_text(card_text(card), encoding="utf-8")


def scores_of(workdir: Workdir, checkpoint: pathlib.Path) -> list[dict]:
    """The scores that `evaluate` found for this very checkpoint, each with its signature and the search it is of."""
    weights = read_info(checkpoint)["files"]["model.safetensors"]["sha256"]
    found = []
    for directory in sorted(workdir.evaluation.glob("*/")):
        try:
            config, figures = (_read(directory / name) for name in ("config.json", "scores.json"))
            if config["checkpoint"]["files"]["model.safetensors"]["sha256"] != weights:
                continue
            scores = [each for each in figures.values() if isinstance(each, dict) and "signature" in each]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # of an export, or torn: it says nothing about this checkpoint
        found.append({"test_set": config["test_set"], "decoding": config["decoding"], "scores": scores})
    return found


def _data(info: dict) -> dict:
    """What the data's description says, without what it says about the machine it was prepared on."""
    pairs = {name: split["pairs"] for name, split in info.get("splits", {}).items() if "pairs" in split}
    return {"corpus": info.get("corpus", {}).get("spec"), "pairs": pairs}


def _imported(workdir: Workdir) -> dict | None:
    """What `import` wrote about weights that were trained elsewhere, their licence too; None for our own."""
    file = workdir.path / IMPORTED
    return _read(file) if file.is_file() else None


def _read(file: pathlib.Path) -> dict:
    return json.loads(file.read_text(encoding="utf-8"))


def _tensors(signature) -> dict[str, dict[str, str]]:
    return {
        kind: {tensor.name: str(tensor).partition(": ")[2] for tensor in tensors}
        for kind, tensors in (("inputs", signature.inputs), ("outputs", signature.outputs))
    }
