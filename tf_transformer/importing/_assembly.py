"""From an external model to ours: configuration, weights in our order of ids, positions, tokenizers.

There are three formulas about. Marian itself, in C++, has tensor2tensor's ("t2t"): sines before cosines, exponents
i / (d/2 - 1). Hugging Face's and CTranslate2's converters of the same models write 2i / d ("marian"), and translate so
ever since. OpenNMT-tf's, which CTranslate2 computes where a model has no table, is tensor2tensor's counted from 1.
"""

import dataclasses
from typing import Any, Literal

import numpy as np

from tf_transformer.config import Config, ConfigError, DecodingConfig, ModelConfig
from tf_transformer.importing._external_model import ExternalModel, ImportedModelError, RowOrder, Vocabulary
from tf_transformer.importing._layer_weights import check_tensors
from tf_transformer.importing._pieces import target_pieces, tokenizer
from tf_transformer.layers import POSITIONAL_ENCODINGS, sinusoidal_encoding
from tf_transformer.model import Transformer
from tf_transformer.text import LanguageError, TokenizerPair
from tf_transformer.workdir import named_variables

_COMPUTED = [kind for kind in POSITIONAL_ENCODINGS if kind != "learned"]
# A table in float16 or computed in float32 at large angles is this near to ours.
_TOLERANCE = 2e-3
_COMPARED = 512
_OPENNMT_ROWS = 2048


def position_fields(source: np.ndarray | None, target: np.ndarray | None, layers: dict, dim: int) -> dict:
    """`positions` and `max_positions` of `ModelConfig`; tables that no formula gives go into `layers` as learned.

    Args:
        source, target: tables (positions, D); None: OpenNMT-tf's positions.
        layers: the model's weights by our names.
        dim: D.
    """
    source, target = (_opennmt(dim) if table is None else np.asarray(table, np.float32) for table in (source, target))
    for kind in _COMPUTED if dim % 2 == 0 else ():
        if all(_is(kind, table) for table in (source, target)):
            return {"positions": kind}
    rows = min(len(source), len(target))
    layers["source_positions/table"], layers["target_positions/table"] = source[:rows].copy(), target[:rows].copy()
    return {"positions": "learned", "max_positions": rows}


def _is(kind: str, table: np.ndarray) -> bool:
    rows = min(len(table), _COMPARED)
    expected = np.asarray(sinusoidal_encoding(np.arange(rows), table.shape[1], kind))
    return np.allclose(table[:rows], expected, rtol=0, atol=_TOLERANCE)


def _opennmt(dim: int) -> np.ndarray:
    return np.asarray(sinusoidal_encoding(np.arange(1, _OPENNMT_ROWS + 1), dim, "t2t"))


@dataclasses.dataclass(frozen=True)
class ImportedModel:
    """The contents of a work directory: configuration, weights and tokenizers."""

    config: Config
    tensors: dict[str, np.ndarray]
    tokenizers: TokenizerPair


def assemble(external: ExternalModel) -> ImportedModel:
    """Our model of an external one. The same numbers come out of it, at ids in our order."""
    source_order = _order(external.source, external.source_table, "source")
    target_order = _order(external.target, external.target_table, "target")
    _check_output(external)
    _check_shapes(external)
    _check_languages(external)
    tables, tied = _tables(external, source_order, target_order)
    bias = target_order.bias(external.output_bias)
    tensors = external.layers | tables | ({} if bias is None else {"output_bias": bias})
    check_tensors(tensors, external.format)
    sizes = len(source_order.rows), len(target_order.rows)
    try:
        model = ModelConfig(
            **external.architecture,
            vocab_size=sizes[0],
            target_vocab_size=None if sizes[0] == sizes[1] else sizes[1],
            tied_embeddings=tied,
            output_bias=bias is not None,
        )
    except ConfigError as error:
        raise ImportedModelError(f"expected a model that we can build. Received: {error}") from error
    # One search, as in the model's own program. The checks of failure detection need lengths of training data.
    config = Config("imported", model, decoding=DecodingConfig(failure_detection=False, **external.search))
    return ImportedModel(config, tensors, _tokenizers(external, source_order, target_order))


def check_names(imported: ImportedModel) -> None:
    """Reject weights that are not those of the configuration's model.

    Their names are compared with those of a model of the same parts and depth but the smallest sizes: one of the full
    size would need as much memory again. Shapes were checked before.
    """
    model = imported.config.model
    sizes: dict[str, Any] = {
        "model_dim": 2,
        "feed_forward_dim": 1,
        "num_heads": 1,
        "key_dim": 1,
        "value_dim": 1,
        "max_positions": 1,
    }
    other = None if model.target_vocab_size is None else 4
    smallest = Transformer(dataclasses.replace(model, **sizes, vocab_size=4, target_vocab_size=other))
    different = sorted(named_variables(smallest).keys() ^ imported.tensors.keys())
    if different:
        raise ImportedModelError(
            f"expected the weights of the model that the settings describe. Received: {len(different)} more or less, "
            f"such as {different[0]}."
        )


def _order(vocabulary: Vocabulary, table: np.ndarray, side: str) -> RowOrder:
    if table.ndim != 2 or len(table) < len(vocabulary.tokens):
        raise ImportedModelError(
            f"expected an embedding with a row for each of the {len(vocabulary.tokens):,} tokens of the {side} "
            f"vocabulary. Received: the shape {table.shape}. Get vocabulary and weights of the same model."
        )
    return RowOrder.of(vocabulary, len(table))


def _check_output(external: ExternalModel) -> None:
    """Reject an output layer of another size than the target's vocabulary."""
    table, output, bias = external.target_table, external.output_table, external.output_bias
    if output.shape != table.shape or (bias is not None and bias.shape != (len(table),)):
        biased = "" if bias is None else f", with a bias of {bias.shape}"
        raise ImportedModelError(
            f"expected an output layer of the shape of the target's embedding, {table.shape}. Received: {output.shape}"
            f"{biased}. Get the weights again."
        )


def _check_shapes(external: ExternalModel) -> None:
    """Reject weights of other shapes than the architecture says, before a model of that size is built."""
    fields = external.architecture
    dim, inner = fields["model_dim"], fields["feed_forward_dim"]
    keys, values = (fields["num_heads"] * fields[f"{part}_dim"] for part in ("key", "value"))
    shapes = {"query": (dim, keys), "key": (dim, keys), "value": (dim, values), "output": (values, dim)}
    shapes |= {"inner": (dim, inner), "outer": (inner, dim), "input": (dim, dim), "forget": (dim, dim)}
    for name, tensor in external.layers.items():
        *_, part, kind = name.split("/")
        if kind in ("kernel", "bias"):
            expected = shapes[part] if kind == "kernel" else shapes[part][1:]
        else:
            expected = (len(tensor), dim) if kind == "table" else (dim,)
        if tensor.shape != expected:
            raise ImportedModelError(f"expected {name} of shape {expected}. Received: shape {tensor.shape}.")
    if external.source_table.shape[1] != dim or external.target_table.shape[1] != dim:
        raise ImportedModelError(f"expected embeddings of {dim} columns. Received: {external.source_table.shape}.")


def _check_languages(external: ExternalModel) -> None:
    """Reject languages, given or stated by the files, that a multilingual model does not have."""
    if external.multilingual is None:
        return
    source, target = external.languages
    try:
        if source is not None:
            external.multilingual.check("source", source)
        if target is not None:
            external.multilingual.check("target", target)
    except LanguageError as error:
        raise ImportedModelError(str(error)) from None


def _tables(
    external: ExternalModel, source_order: RowOrder, target_order: RowOrder
) -> tuple[dict, Literal["all", "target", "none"]]:
    """The embeddings under our names, equal ones once, and `tied_embeddings`."""
    if external.source_table is external.target_table is external.output_table and source_order.equals(target_order):
        return {"source_embedding/table": source_order.table(external.source_table)}, "all"
    source = source_order.table(external.source_table)
    target = target_order.table(external.target_table)
    output = target_order.table(external.output_table)
    if not np.array_equal(target, output):
        tables = {"source_embedding/table": source, "target_embedding/table": target, "output_embedding/table": output}
        return tables, "none"
    if np.array_equal(source, target):
        return {"source_embedding/table": source}, "all"
    return {"source_embedding/table": source, "target_embedding/table": target}, "target"


def _tokenizers(external: ExternalModel, source_order: RowOrder, target_order: RowOrder) -> TokenizerPair:
    known, names = external.multilingual, [f"the {side}'s SentencePiece model" for side in ("source", "target")]
    controls = [] if known is None else [external.target.tokens[row] for row in known.tokens.values()]
    source = tokenizer(
        external.source_pieces, external.source, source_order, names[0], external.add_source_eos, controls=controls
    )
    written = external.target_pieces or target_pieces(external.source_pieces, external.target)
    target = tokenizer(written, external.target, target_order, names[1], controls=controls)
    if known is None:
        return TokenizerPair(source, target)
    ids = target_order.ids_of_rows()
    languages = dataclasses.replace(known, tokens={code: ids[row] for code, row in known.tokens.items()})
    return TokenizerPair(source, target, languages)
