"""Facts of a model card that are known before the export is written: those that the signature `model_card` answers."""

import datetime
import json
import pathlib

from tf_transformer.config import DecodingConfig
from tf_transformer.workdir import Workdir, package_versions
from tf_transformer.workdir.checkpoints import read_info

IMPORTED = "import.json"
FORMAT = 1


def card_facts(
    workdir: Workdir,
    checkpoint: pathlib.Path,
    decoding: DecodingConfig,
    weights: str,
    parameters: int,
    packed: bool = False,
) -> dict:
    """Languages, model, checkpoint, data, scores, licence, search and versions.

    Args:
        checkpoint: its directory.
        decoding: the search of the export.
        weights: "float32", "float16", "bfloat16" or "int8".
        parameters: the number of the model's parameters.
        packed: whether oneDNN packs the decoder's weights once.
    """
    data, imported = workdir.dataset_info, _imported(workdir)
    return {
        "format": FORMAT,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "languages": {"source": data.get("source_language"), "target": data.get("target_language")},
        "preset": workdir.config.preset,
        "model": workdir.config.model.to_dict(),
        "parameters": parameters,
        "weights": weights,
        "packed": packed,
        "checkpoint": _checkpoint(checkpoint),
        "data": _data(data),
        "scores": scores_of(workdir, checkpoint),
        "imported": imported,
        "licence": (imported or data).get("licence"),
        "decoding": decoding.to_dict() | {"nbest": decoding.nbest or decoding.beam_size},
        "tokenizer": {"sha256": workdir.tokenizers.sha256},
        "versions": package_versions(),
    }


def _checkpoint(path: pathlib.Path) -> dict:
    info = read_info(path)
    return {"name": path.name, "step": info["step"], "sha256": info["files"]["model.safetensors"]["sha256"]}


def scores_of(workdir: Workdir, checkpoint: pathlib.Path) -> list[dict]:
    """The scores that `evaluate` recorded for this checkpoint, each with its signature and search."""
    weights = read_info(checkpoint)["files"]["model.safetensors"]["sha256"]
    found = []
    for directory in sorted(workdir.evaluation.glob("*/")):
        try:
            config, figures = (_read(directory / name) for name in ("config.json", "scores.json"))
            if config["checkpoint"]["files"]["model.safetensors"]["sha256"] != weights:
                continue
            scores = [each for each in figures.values() if isinstance(each, dict) and "signature" in each]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # the record of an export, or incomplete
        found.append({"test_set": config["test_set"], "decoding": config["decoding"], "scores": scores})
    return found


def _data(info: dict) -> dict:
    """Corpus and numbers of pairs, from dataset.json."""
    pairs = {name: split["pairs"] for name, split in info.get("splits", {}).items() if "pairs" in split}
    return {"corpus": info.get("corpus", {}).get("spec"), "pairs": pairs}


def _imported(workdir: Workdir) -> dict | None:
    """import.json of an imported model, with its licence; None for other models."""
    file = workdir.path / IMPORTED
    return _read(file) if file.is_file() else None


def _read(file: pathlib.Path) -> dict:
    return json.loads(file.read_text(encoding="utf-8"))
