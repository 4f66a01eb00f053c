"""Export of a model in memory, such as one trained with `fit`."""

import os
import pathlib
from typing import Any

from tf_transformer.config import Config
from tf_transformer.export import _publishing
from tf_transformer.export._saved_model import Export, export_saved_model
from tf_transformer.model import Transformer
from tf_transformer.text import Tokenizer, TokenizerPair
from tf_transformer.workdir import Workdir, model_tensors
from tf_transformer.workdir.checkpoints import save_checkpoint, step_directory


def export_model(
    model: Transformer,
    tokenizers: TokenizerPair | Tokenizer,
    output: str | os.PathLike,
    weights: str = "float32",
    languages: tuple[str | None, str | None] = (None, None),
    **decoding: Any,
) -> Export:
    """Export a model in memory as a SavedModel that accepts strings, the next version under `output`.

    The result is that of `export_saved_model`: signatures for text, tokenizers inside, warm-up requests, model card and
    parity check. `keras.Model.export` writes the forward pass on ids only.

    Args:
        model: a `Transformer`, trained in any way.
        tokenizers: those it was trained with; one `Tokenizer` for both sides, or a pair.
        output: MODEL_BASE, created if it does not exist.
        weights: "float32", "float16", "bfloat16" or "int8": see `export_saved_model`.
        languages: codes of source and target, for the model card.
        **decoding: fields of `DecodingConfig`, such as `beam_size`.

    Example:
        model.fit(dataset)
        export_model(model, tokenizer, "models/en-de", languages=("en", "de"), beam_size=4)
    """
    pair = TokenizerPair.of(tokenizers) if isinstance(tokenizers, Tokenizer) else tokenizers
    optimizer = getattr(model, "optimizer", None)
    step = 0 if optimizer is None else int(optimizer.iterations)
    data = {"source_language": languages[0], "target_language": languages[1], "tokenizer": {"sha256": pair.sha256}}
    with _publishing.workspace(pathlib.Path(output)) as folder:
        workdir = Workdir.create(folder / "run", Config(preset="custom", model=model.config), pair, data)
        save_checkpoint(workdir.checkpoints / step_directory(step), model_tensors(model), step=step)
        return export_saved_model(workdir, output, weights=weights, **decoding)
