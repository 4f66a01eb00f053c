"""Toy models in the formats of others, written from known weights of ours."""

import dataclasses
import json
import pathlib
import re

import numpy as np
import safetensors.numpy
import yaml
from marian_files import INTGEMM8, binary_model, shortlist
from sentencepiece import sentencepiece_model_pb2
from toy_workdir import randomize, toy_tokenizers

from tf_transformer.config import ModelConfig
from tf_transformer.importing._external_model import NEVER
from tf_transformer.model import Transformer
from tf_transformer.workdir._weights import assign_tensors, model_tensors, named_variables

PAD, UNKNOWN, BOS, EOS = range(4)
TOY_MARIAN = ModelConfig(
    num_layers=2,
    num_decoder_layers=3,
    model_dim=26,
    feed_forward_dim=37,
    num_heads=13,
    key_dim=2,
    value_dim=2,
    activation="swish",
    output_bias=True,
)
_HUGGING_FACE = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_HUGGING_FACE |= {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_HUGGING_FACE |= {"self_attention_norm": "self_attn_layer_norm", "cross_attention_norm": "encoder_attn_layer_norm"}
_HUGGING_FACE |= {"inner": "fc1", "outer": "fc2", "feed_forward_norm": "final_layer_norm", "feed_forward": ""}
_HUGGING_FACE |= {"kernel": "weight", "gamma": "weight", "beta": "bias"}
_MARIAN = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn"}
_MARIAN |= {"query": "q", "key": "k", "value": "v", "output": "o", "inner": "1", "outer": "2"}
_MARIAN |= {"ssru": "rnn", "input": "", "forget": "f"}
_MARIAN_NORMS = {"ssru_norm": "rnn_ffn"}
_MARIAN_NORMS |= {
    "self_attention_norm": "self_Wo",
    "cross_attention_norm": "context_Wo",
    "feed_forward_norm": "ffn_ffn",
}


@dataclasses.dataclass(frozen=True)
class ExternalToy:
    """A folder of an external format, and the model of ours that it must become."""

    folder: pathlib.Path
    model: Transformer
    pieces: list[str]


def huggingface_toy(folder: pathlib.Path) -> ExternalToy:
    """A Marian folder with model.safetensors: `</s>` is row 0, and the padding, the last row, starts the decoder."""
    toy = _toy(folder, norm_epsilon=1e-5, positions="marian")
    tensors = model_tensors(toy.model)
    tensors["source_embedding/table"][BOS] = tensors["source_embedding/table"][PAD]
    tensors["output_bias"][BOS] = NEVER
    assign_tensors(named_variables(toy.model), tensors, "toy")
    rows = [EOS, UNKNOWN, *range(4, len(toy.pieces)), PAD]
    weights = {"model.shared.weight": tensors["source_embedding/table"][rows]}
    weights["final_logits_bias"] = tensors["output_bias"][rows][None]
    for name, value in tensors.items():
        if name.startswith(("encoder", "decoder")):
            stack, layer, *parts = name.split("/")
            path = [_HUGGING_FACE.get(part, part) for part in parts]
            key = ".".join(["model", stack, "layers", layer.removeprefix("layer_"), *filter(None, path)])
            weights[key] = np.ascontiguousarray(value.T) if name.endswith("kernel") else value
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    _write_json(folder / "vocab.json", {toy.pieces[i]: row for row, i in enumerate(rows)})
    _write_json(folder / "config.json", _huggingface_config(toy.model.config, len(rows)))
    _write_json(folder / "tokenizer_config.json", {"source_lang": "en", "target_lang": "de"})
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A toy\n", encoding="utf-8")
    return toy


def marian_toy(folder: pathlib.Path, **options) -> ExternalToy:
    """An OPUS-MT folder with model.npz: no padding at all, and a decoder that starts from zeros.

    Args:
        **options: of Marian, to change; "_" stands for "-".
    """
    toy = _toy(folder, norm_epsilon=1e-6, positions="t2t")
    rows = _start_from_zeros(toy)
    arrays = _marian_arrays(toy.model, rows)
    np.savez(folder / "model.npz", **arrays, **_marian_yaml(toy.model.config, options))
    lines = [f"{json.dumps(toy.pieces[i], ensure_ascii=False)}: {row}" for row, i in enumerate(rows)]
    (folder / "vocab.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "LICENSE").write_text("Attribution 4.0 International\n", encoding="utf-8")
    return toy


def student_toy(folder: pathlib.Path, quantized: bool = False, **options) -> ExternalToy:
    """A folder of a Firefox student: model.toy.bin with SSRUs, vocab.toy.spm, config.toy.yml, lex.toy.bin.

    Args:
        quantized: whether matrices are int8 with factors, as in Firefox.
        **options: of Marian, to change; "_" stands for "-".
    """
    toy = _toy(folder, norm_epsilon=1e-6, positions="t2t", activation="relu", decoder_autoregression="ssru")
    rows = _start_from_zeros(toy)
    tensors = _marian_arrays(toy.model, rows)
    if quantized:
        tensors |= {f"{name}_QuantMultA": np.ones((1, 1), np.float32) for name in tensors if _is_matrix(name)}
    integers = {name: INTGEMM8 for name in tensors if quantized and _is_matrix(name)}
    tensors |= _marian_yaml(toy.model.config, {"dec_cell": "ssru", "transformer_decoder_autoreg": "rnn"} | options)
    (folder / "model.toy.bin").write_bytes(binary_model(tensors, integers))
    (folder / "vocab.toy.spm").write_bytes(_spm_of_rows((folder / "source.spm").read_bytes(), rows))
    for side in ("source", "target"):
        (folder / f"{side}.spm").unlink()
    names = {"models": ["model.toy.bin"], "vocabs": ["vocab.toy.spm"] * 2, "shortlist": ["lex.toy.bin", False]}
    (folder / "config.toy.yml").write_text(yaml.safe_dump(names | {"beam-size": 1, "normalize": 1.0}))
    (folder / "lex.toy.bin").write_bytes(shortlist([[]] * len(rows)))
    return toy


def _is_matrix(name: str) -> bool:
    return name == "Wemb" or re.fullmatch(r".*_W[a-z0-9]?", name) is not None


def _spm_of_rows(model: bytes, rows: list[int]) -> bytes:
    """The SentencePiece model as Marian trains it: </s> is piece 0, <unk> 1, and there is neither BOS nor PAD."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    pieces = [proto.pieces[row] for row in rows]
    kept = sentencepiece_model_pb2.ModelProto(trainer_spec=proto.trainer_spec, normalizer_spec=proto.normalizer_spec)
    kept.pieces.extend(pieces)
    kept.trainer_spec.eos_id, kept.trainer_spec.unk_id = 0, 1
    kept.trainer_spec.bos_id = kept.trainer_spec.pad_id = -1
    return kept.SerializeToString()


def _start_from_zeros(toy: ExternalToy) -> list[int]:
    """Gives the model no PAD and a BOS of zeros, as Marian's have it; the ids of Marian's rows."""
    tensors = model_tensors(toy.model)
    tensors["source_embedding/table"][[PAD, BOS]] = 0.0
    tensors["output_bias"][[PAD, BOS]] = NEVER
    assign_tensors(named_variables(toy.model), tensors, "toy")
    return [EOS, UNKNOWN, *range(4, len(toy.pieces))]


def _marian_arrays(model: Transformer, rows: list[int]) -> dict[str, np.ndarray]:
    tensors = model_tensors(model)
    arrays = {"Wemb": tensors["source_embedding/table"][rows]}
    arrays["decoder_ff_logit_out_b"] = tensors["output_bias"][rows][None]
    for name, value in tensors.items():
        if name.startswith(("encoder", "decoder")):
            arrays[_marian_name(name)] = value if name.endswith("kernel") else value[None]
    return arrays


def _marian_yaml(config: ModelConfig, options: dict) -> dict[str, np.ndarray]:
    text = yaml.safe_dump(_marian_options(config) | {name.replace("_", "-"): value for name, value in options.items()})
    return {"special:model.yml": np.frombuffer(text.encode() + b"\0", np.int8)}


def _toy(folder: pathlib.Path, **fields) -> ExternalToy:
    folder.mkdir(parents=True)
    tokenizer = toy_tokenizers().source
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(tokenizer.model)
    model = Transformer(dataclasses.replace(TOY_MARIAN, vocab_size=tokenizer.vocab_size, **fields))
    randomize(model)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return ExternalToy(folder, model, pieces)


def _huggingface_config(config: ModelConfig, size: int) -> dict:
    values = {"model_type": "marian", "d_model": config.model_dim, "vocab_size": size, "scale_embedding": True}
    values |= {"activation_function": config.activation, "eos_token_id": 0, "pad_token_id": size - 1}
    values |= {"decoder_start_token_id": size - 1, "static_position_embeddings": True}
    for stack, layers in (("encoder", config.num_layers), ("decoder", config.decoder_layers)):
        values |= {f"{stack}_layers": layers, f"{stack}_attention_heads": config.num_heads}
        values |= {f"{stack}_ffn_dim": config.feed_forward_dim}
    return values


def _marian_options(config: ModelConfig) -> dict:
    return {
        "type": "transformer",
        "enc-depth": config.num_layers,
        "dec-depth": config.decoder_layers,
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.feed_forward_dim,
        "transformer-ffn-activation": config.activation,
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-decoder-autoreg": "self-attention",
        "dim-emb": config.model_dim,
    }


def _marian_name(name: str) -> str:
    stack, layer, part, *rest = name.split("/")
    prefix = f"{stack}_l{int(layer.removeprefix('layer_')) + 1}"
    if part in _MARIAN_NORMS:
        return f"{prefix}_{_MARIAN_NORMS[part]}_ln_{'scale' if rest[0] == 'gamma' else 'bias'}"
    return f"{prefix}_{_MARIAN[part]}_{'W' if rest[1] == 'kernel' else 'b'}{_MARIAN[rest[0]]}"


def _write_json(file: pathlib.Path, values: dict) -> None:
    file.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
