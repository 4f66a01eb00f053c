"""Export to CTranslate2, an inference engine in C++: weights, configuration and vocabulary.

    model.bin                  the weights
    config.json                CTranslate2's configuration
    shared_vocabulary.json     or source_vocabulary.json and target_vocabulary.json
    tokenizer.model            or source.model and target.model: SentencePiece, which CTranslate2 leaves to its caller

CTranslate2 divides the log-probability by length ** length_penalty, we by ((5 + length) / 6) ** alpha: with both at 0
and no length reward, which it lacks, the scores are the same. Its lengths are options of the call (`max_input_length`,
`max_decoding_length`); ours, input plus 50, are part of the configuration.
"""

import logging
import os
import pathlib
from typing import Any

import numpy as np

from tf_transformer._files import atomic_directory, remove_leftovers_of
from tf_transformer.config import DecodingConfig, ModelConfig
from tf_transformer.text import Tokenizer, TokenizerPair, save_tokenizers
from tf_transformer.workdir import Workdir
from tf_transformer.workdir.checkpoints import load_model_tensors

# CTranslate2 writes bfloat16 only through PyTorch; it also makes it from float32 when it loads a model.
QUANTIZATIONS = ("float32", "float16", "int16", "int8", "int8_float32", "int8_float16")

UNKNOWN = "<unk>"

# CTranslate2's default for max_input_length, and what it may decode beyond: longer ones it rejects.
_MIN_POSITIONS = 2048

logger = logging.getLogger(__name__)


def export_ctranslate2(
    workdir: Workdir | str | os.PathLike,
    output: str | os.PathLike,
    checkpoint: str | os.PathLike = "auto",
    quantization: str | None = None,
) -> pathlib.Path:
    """Write a checkpoint as the CTranslate2 model directory `output`, which must not exist, and return its path.

    Args:
        workdir: a `Workdir` or its path.
        output: written atomically.
        checkpoint: as in `Workdir.checkpoint`.
        quantization: of the weights, one of `QUANTIZATIONS`; None: float32.
    """
    workdir = workdir if isinstance(workdir, Workdir) else Workdir(workdir)
    tensors = load_model_tensors(workdir.checkpoint(checkpoint))
    config = workdir.config
    if config.decoding.length_reward:
        logger.warning(
            "decoding.length_reward=%g is not part of the export, and CTranslate2 may translate shorter: it has no "
            "length reward. Export a SavedModel to keep it.",
            config.decoding.length_reward,
        )
    return write_ctranslate2(config.model, tensors, workdir.tokenizers, output, config.decoding, quantization)


def write_ctranslate2(
    model: ModelConfig,
    tensors: dict[str, np.ndarray],
    tokenizers: TokenizerPair,
    output: str | os.PathLike,
    decoding: DecodingConfig | None = None,
    quantization: str | None = None,
) -> pathlib.Path:
    """Write weights by name as the CTranslate2 model directory `output`: see `export_ctranslate2`."""
    output = pathlib.Path(output)
    remove_leftovers_of(output)
    if model.decoder_autoregression != "attention":
        raise ValueError(
            "CTranslate2 has no SSRU: expected a model with decoder_autoregression='attention'. Received: "
            f"decoder_autoregression={model.decoder_autoregression!r}. Export a SavedModel instead."
        )
    _check(tensors, output, quantization)
    spec = _specification(model, tensors, tokenizers, decoding or DecodingConfig())
    spec.optimize(quantization=quantization)
    with atomic_directory(output, replace=False, exclusive=True) as directory:
        spec.save(str(directory))
        save_tokenizers(tokenizers, directory)
    return output


def _check(tensors: dict[str, np.ndarray], output: pathlib.Path, quantization: str | None) -> None:
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ValueError(
            f"Expected weights for CTranslate2 among {', '.join(QUANTIZATIONS)}. Received: {quantization!r}. For "
            "others, export float32 and set `compute_type` when the model is loaded."
        )
    if output.exists():
        raise ValueError(
            f"Expected a new directory. Received: {output}, which exists. Remove it, or choose another --output."
        )
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise ValueError(
                f"Expected finite weights. Received: {name} with NaN or infinite values. Export another checkpoint."
            )


def _specification(model: ModelConfig, tensors: dict, tokenizers: TokenizerPair, decoding: DecodingConfig) -> Any:
    """The validated specification with its vocabularies."""
    try:
        from tf_transformer.export._ctranslate2_spec import transformer_spec_of
    except ModuleNotFoundError as error:
        raise ValueError(
            f"The export needs the package ctranslate2 ({error}); "
            "install it with `pip install tf_transformer[ctranslate2]`."
        ) from error
    longest = decoding.max_source_length + decoding.max_extra_length + 1
    spec = transformer_spec_of(model, tensors, max(_MIN_POSITIONS, longest))
    source = vocabulary(tokenizers.source, model.vocab_size)
    target = vocabulary(tokenizers.target, model.decoder_vocab_size)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token, spec.config.eos_token = UNKNOWN, target[model.eos_id]
    spec.config.bos_token = spec.config.decoder_start_token = target[model.bos_id]
    spec.config.add_source_eos = tokenizers.source.add_eos
    spec.validate()
    return spec


def vocabulary(tokenizer: Tokenizer, size: int) -> list[str]:
    """The pieces of the ids 0 to `size` - 1; ids without a piece, or with one in use, get a unique name."""
    special = {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id}
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    pieces[tokenizer.unk_id] = UNKNOWN
    taken = {pieces[i] for i in special}
    names = []
    for i in range(size):
        piece = pieces[i] if i < len(pieces) else f"<unused_{i}>"
        if i not in special and piece in taken:
            piece = f"<unused_{i}>"
        taken.add(piece)
        names.append(piece)
    return names
