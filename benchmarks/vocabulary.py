"""Speed of a model with a vocabulary of 256,000 rows, whole and trimmed to one script.

    python -m benchmarks.vocabulary --json

The model has random weights and the shape of NLLB-200's smallest (12 + 12 layers of 1024 / 4096). It is written as a
Hugging Face folder, imported as it is and with `--keep-languages`, and both translate the same sentences to the same
length, in turn. One piece of eight is in Latin script.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

SCRIPTS = ("abcdefghijklmnopqrst", "абвгдежзийклмнопрсту", "αβγδεζηθικλμνξοπρστυ", "कखगघचछजझटठडढणतथदधनपफ")
SCRIPTS += (
    "ابتثجحخدذرزسشصضطظعغف",
    "가나다라마바사아자차카타파하거너더러머버",
    "あいうえおかきくけこさしすせそたちつてと",
    "აბგდევზთიკლმნოპჟრსტუ",
)
SPECIAL = ("</s>", "<unk>")


def main() -> None:
    args = _parse()
    with tempfile.TemporaryDirectory(dir=args.scratch) as scratch:
        folder = pathlib.Path(scratch)
        write_model(folder / "model", args)
        figures = compare(folder, args)
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def pieces(count: int) -> list[str]:
    """Words of one to four letters, of all scripts in turn; all single letters come first."""
    words = [itertools.chain(letters, _words(letters)) for letters in SCRIPTS]
    return list(itertools.islice((word for group in zip(*words) for word in group), count))


def _words(letters: str):
    for length in (2, 3, 4):
        for word in itertools.product(letters, repeat=length):
            yield "▁" + "".join(word)


def write_model(folder: pathlib.Path, args: argparse.Namespace) -> None:
    """A folder as `MarianMTModel.save_pretrained` writes it."""
    import safetensors.numpy
    from sentencepiece import sentencepiece_model_pb2

    folder.mkdir()
    tokens = [*SPECIAL, "▁", *pieces(args.rows - len(SPECIAL) - 2), "<pad>"]
    proto = sentencepiece_model_pb2.ModelProto()
    proto.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
    kind = sentencepiece_model_pb2.ModelProto.SentencePiece
    for rank, token in enumerate(tokens[:-1]):
        kinds = {"</s>": kind.CONTROL, "<unk>": kind.UNKNOWN}
        proto.pieces.add(piece=token, score=-float(np.log(rank + 2)), type=kinds.get(token, kind.NORMAL))
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(proto.SerializeToString())
    (folder / "vocab.json").write_text(json.dumps({token: row for row, token in enumerate(tokens)}), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(_config(args)), encoding="utf-8")
    safetensors.numpy.save_file(_weights(args), folder / "model.safetensors")


def _config(args: argparse.Namespace) -> dict:
    values = {"model_type": "marian", "d_model": args.dim, "vocab_size": args.rows, "scale_embedding": True}
    values |= {"activation_function": "relu", "eos_token_id": 0, "pad_token_id": args.rows - 1}
    values |= {"decoder_start_token_id": args.rows - 1, "static_position_embeddings": True, "num_beams": args.beam_size}
    for stack in ("encoder", "decoder"):
        values |= {f"{stack}_layers": args.layers, f"{stack}_attention_heads": args.heads}
        values |= {f"{stack}_ffn_dim": 4 * args.dim}
    return values


def _weights(args: argparse.Namespace) -> dict[str, np.ndarray]:
    random, dim = np.random.default_rng(1), args.dim

    def matrix(rows: int, columns: int) -> np.ndarray:
        return random.standard_normal((rows, columns), np.float32) * np.float32(columns**-0.5)

    weights = {"model.shared.weight": matrix(args.rows, dim), "final_logits_bias": np.zeros((1, args.rows), np.float32)}
    weights["final_logits_bias"][0, 0] = -1000.0  # EOS: all translations have the greatest length
    for stack, layer in itertools.product(("encoder", "decoder"), range(args.layers)):
        name = f"model.{stack}.layers.{layer}"
        kinds = ["self_attn", *(["encoder_attn"] if stack == "decoder" else [])]
        for kind, part in itertools.product(kinds, ("q_proj", "k_proj", "v_proj", "out_proj")):
            weights[f"{name}.{kind}.{part}.weight"] = matrix(dim, dim)
        weights |= {f"{name}.fc1.weight": matrix(4 * dim, dim), f"{name}.fc2.weight": matrix(dim, 4 * dim)}
        biases = [f"{kind}.{part}" for kind in kinds for part in ("q_proj", "k_proj", "v_proj", "out_proj")]
        weights |= {f"{name}.{part}.bias": np.zeros(dim, np.float32) for part in (*biases, "fc2")}
        weights[f"{name}.fc1.bias"] = np.zeros(4 * dim, np.float32)
        for norm in [*(f"{kind}_layer_norm" for kind in kinds), "final_layer_norm"]:
            weights |= {
                f"{name}.{norm}.weight": np.ones(dim, np.float32),
                f"{name}.{norm}.bias": np.zeros(dim, np.float32),
            }
    return weights


def compare(folder: pathlib.Path, args: argparse.Namespace) -> dict:
    from tf_transformer.decoding import Translator
    from tf_transformer.importing import import_model

    figures: dict = {"sentences": args.sentences, "beam_size": args.beam_size}
    translators = {}
    for name, languages in (("whole", ()), ("trimmed", ("en",))):
        began = time.perf_counter()
        workdir = import_model(folder / "model", folder / name, licence="none", keep_languages=languages)
        figures[f"{name}_import_seconds"] = round(time.perf_counter() - began, 1)
        figures[f"{name}_rows"] = workdir.config.model.vocab_size
        figures[f"{name}_bytes"] = sum(file.stat().st_size for file in workdir.path.rglob("*") if file.is_file())
        search = {"max_extra_length": args.length, "max_source_length": 64, "segmentation": False}
        translators[name] = Translator.from_workdir(workdir.path, **search)
    texts = [" ".join(SCRIPTS[0][(3 * i + j) % 17 :][:3] for j in range(6)) for i in range(args.sentences)]
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    for each in range(args.rounds + 1):
        for name, translator in translators.items():
            began = time.perf_counter()
            translator(texts)
            if each:  # the first call builds the graph
                seconds[name].append(time.perf_counter() - began)
    for name, found in seconds.items():
        figures[f"{name}_seconds"] = round(statistics.median(found), 2)
    ratios = [whole / trimmed for whole, trimmed in zip(seconds["whole"], seconds["trimmed"])]
    return figures | {"ratio_whole": round(statistics.median(ratios), 2)}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=256_206)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--sentences", type=int, default=4)
    parser.add_argument("--length", type=int, default=20, help="tokens of a translation beyond those of its source")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=pathlib.Path, help="directory for 8 GB of files; default: the system's")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
