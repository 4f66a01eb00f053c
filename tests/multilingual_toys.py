"""Toy folders of M2M-100, NLLB-200 and mBART-50 with random weights, as `save_pretrained` writes them."""

import dataclasses
import functools
import io
import json
import pathlib

import numpy as np
import safetensors.numpy
import sentencepiece
from toy_workdir import toy_sentences

from tf_transformer.importing.huggingface._language_rows import _M2M_LANGUAGES

DIM, INNER, HEADS, POSITIONS, LAYERS = 10, 13, 5, 64, 2
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
LANGUAGES = {
    "M2M-100": [f"__{code}__" for code in _M2M_LANGUAGES["m2m100"]],
    "NLLB-200": ["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans"],
    "mBART-50": ["de_DE", "en_XX", "fr_XX"],
}
CLASSES = {"M2M-100": "M2M100Tokenizer", "NLLB-200": "NllbTokenizer", "mBART-50": "MBart50Tokenizer"}
EXTRA_ROWS = 2


@dataclasses.dataclass(frozen=True)
class MultilingualToy:
    """A folder, its weights by PyTorch's names, the pieces in the order of rows, and the first language's row."""

    folder: pathlib.Path
    weights: dict[str, np.ndarray]
    tokens: list[str]
    first_language: int


@functools.cache
def fairseq_pieces() -> bytes:
    """A SentencePiece model that begins with <unk>, <s> and </s>, as fairseq's do."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(toy_sentences(200)),
        model_writer=model,
        model_type="unigram",
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def multilingual_toy(folder: pathlib.Path, family: str = "NLLB-200", seed: int = 3) -> MultilingualToy:
    """A folder of a family, with the rows of languages in tokenizer_config.json where the family has them there."""
    folder.mkdir(parents=True)
    processor = sentencepiece.SentencePieceProcessor(model_proto=fairseq_pieces())
    tokens = [*SPECIAL, *(processor.id_to_piece(i) for i in range(3, len(processor)))]
    (folder / "sentencepiece.bpe.model").write_bytes(fairseq_pieces())
    first, languages = len(tokens), LANGUAGES[family]
    size = first + len(languages) + EXTRA_ROWS
    weights = _weights(family, size, np.random.default_rng(seed))
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    write_json(folder / "config.json", _config(family, size))
    settings = {"tokenizer_class": CLASSES[family], "src_lang": "eng_Latn" if family == "NLLB-200" else None}
    if family == "M2M-100":
        write_json(folder / "vocab.json", {token: row for row, token in enumerate(tokens)})
        settings["language_codes"] = "m2m100"
    else:
        settings["added_tokens_decoder"] = {
            str(first + place): {"content": token, "special": True} for place, token in enumerate(languages)
        }
    write_json(folder / "tokenizer_config.json", settings)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    return MultilingualToy(folder, weights, [*tokens, *languages], first)


def write_json(file: pathlib.Path, values: object) -> None:
    file.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")


def change_json(file: pathlib.Path, **changes: object) -> None:
    """Changes fields of a JSON file; None removes one."""
    values = json.loads(file.read_text(encoding="utf-8")) | changes
    write_json(file, {name: value for name, value in values.items() if value is not None})


def _config(family: str, size: int) -> dict:
    sides = {f"{stack}_{name}": value for stack in ("encoder", "decoder") for name, value in _SIDE.items()}
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    kind = {"model_type": "m2m_100", "activation_function": "relu"}
    if family == "mBART-50":
        kind = {"model_type": "mbart", "activation_function": "gelu", "max_position_embeddings": POSITIONS}
    return sides | special | kind | {"d_model": DIM, "vocab_size": size, "scale_embedding": True, "num_beams": 5}


_SIDE = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": INNER}


def _weights(family: str, size: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    weights: dict[str, np.ndarray] = {}

    def put(name: str, *shape: int) -> None:
        centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        weights[name] = random.normal(centre, 0.3, shape).astype(np.float32)

    put("model.shared.weight", size, DIM)
    for stack in ("encoder", "decoder"):
        norms = [f"model.{stack}.layer_norm"]
        for layer in range(LAYERS):
            name = f"model.{stack}.layers.{layer}"
            kinds = ["self_attn", *(["encoder_attn"] if stack == "decoder" else [])]
            linears = {f"{name}.{kind}.{part}_proj": (DIM, DIM) for kind in kinds for part in ("q", "k", "v", "out")}
            linears |= {f"{name}.fc1": (INNER, DIM), f"{name}.fc2": (DIM, INNER)}
            for linear, shape in linears.items():
                put(f"{linear}.weight", *shape)
                put(f"{linear}.bias", shape[0])
            norms += [f"{name}.{kind}_layer_norm" for kind in kinds] + [f"{name}.final_layer_norm"]
        if family == "mBART-50":
            put(f"model.{stack}.embed_positions.weight", POSITIONS + 2, DIM)
            norms.append(f"model.{stack}.layernorm_embedding")
        for norm in norms:
            put(f"{norm}.weight", DIM)
            put(f"{norm}.bias", DIM)
    if family == "mBART-50":
        weights["final_logits_bias"] = np.zeros((1, size), np.float32)
    return weights
