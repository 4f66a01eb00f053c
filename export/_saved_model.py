"""Export to a SavedModel: text in, text out, self-contained, published after a parity check.

    MODEL_BASE/<version>/
        saved_model.pb  variables/  fingerprint.pb   the graph with tokenizers and search, and the weights
        assets.extra/tf_serving_warmup_requests      replayed by the server when it loads
        batching_params.pbtxt                        for --enable_per_model_batching_parameters
        README.md  model.json                        the model card

A version is written to a hidden directory, checked and renamed. Existing versions are never changed.
"""

import dataclasses
import logging
import os
import pathlib
from typing import Any

from tf_transformer.export import _publishing
from tf_transformer.export._candidate import Candidate
from tf_transformer.export._model_card import model_card, write_model_card
from tf_transformer.export._verify import ExportRejected, Trial, require_sound, verify_export
from tf_transformer.workdir import Workdir

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Export:
    """A published version: its directory, its number, and the result of the parity check."""

    path: pathlib.Path
    version: int
    trial: Trial


def export_saved_model(
    workdir: Workdir | str | os.PathLike,
    output: str | os.PathLike,
    checkpoint: str | os.PathLike = "auto",
    weights: str = "float32",
    shortlist: str | os.PathLike | None = None,
    languages: tuple[str | None, str | None] = (None, None),
    packed: bool = False,
    **decoding: Any,
) -> Export:
    """Publish a checkpoint as the next version in `output`.

    Whatever precision and strategy the model was trained with, the graph is plain float32 and needs no GPU.

    Args:
        workdir: a `Workdir` or its path.
        output: MODEL_BASE, created if missing.
        checkpoint: as in `Workdir.checkpoint`.
        weights: "float32"; "float16" or "bfloat16" for files of half the size; "int8" for files of a quarter of the
            size and products in integers, which take oneDNN on x86-64 and are fast on CPUs with VNNI.
        shortlist: file of a shortlist that restricts translations to the candidates of their sources.
        languages: source and target language of a multilingual model, which all signatures but `translate_to` have;
            None: those of the work directory.
        packed: whether oneDNN packs the decoder's weights once instead of at each call, in the signatures
            `serving_default`, `document` and `translate_to`. Only steps of at most 6 hypotheses (sentences x beams) use
            the packed copies: single sentences are faster, for more memory, and other batches as fast as without. The
            export needs TensorFlow with oneDNN for Linux on x86-64. Rejected with weights "int8", which are always
            packed, and with a beam size above 6.
        **decoding: fields of `DecodingConfig` to change. `nbest` is the K of the signature `nbest`; None:
            all beams.
    """
    workdir = workdir if isinstance(workdir, Workdir) else Workdir(workdir)
    base = pathlib.Path(output)
    if (base / "saved_model.pb").exists():
        raise ValueError(
            f"Expected a directory of versions. Received: {base}, a SavedModel. Give the directory above it."
        )
    candidate = Candidate(workdir, workdir.checkpoint(checkpoint), weights, decoding, shortlist, languages, packed)
    with _publishing.workspace(base) as place:
        return _publish(candidate, place, base)


def _publish(candidate: Candidate, place: pathlib.Path, base: pathlib.Path) -> Export:
    requests, expected, seconds = candidate.trial()
    directory = place / "written"
    candidate.save(directory, base.resolve().name, expected[0]["translation"].tolist())
    report = require_sound(directory)
    written = _publishing.checksums(directory)
    # Moved and read-only, as on another machine.
    directory = directory.rename(place / "moved elsewhere")
    _publishing.make_read_only(directory)
    logger.info("Checking the export in a separate process (%d requests) …", len(requests))
    trial = verify_export(directory, requests, expected, timeout=600 + 20 * seconds, scratch=place)
    if _publishing.checksums(directory) != written:
        raise ExportRejected(
            "The files of the export changed while it was loaded; nothing was published. Export again."
        )
    _publishing.set_modes(directory, 0o755, 0o644)
    write_model_card(directory, model_card(candidate, report, trial, written))
    path = _publishing.publish(directory, base)
    logger.info("Published %s: loads in %.1f s, %d rows as from the checkpoint.", path, trial.load_seconds, trial.rows)
    return Export(path, int(path.name), trial)
