"""Time and peak memory of `import` for a model of NLLB-200's size with random weights.

    python -m benchmarks.import_memory --scratch DIR --json

A folder as Hugging Face has it is written into DIR first: 12 + 12 layers of 1024, 256,206 rows, float32, 615 million
parameters, 2.5 GB. `import` then runs in a process of its own, with its report and sample translation. `ratio` is its
peak memory, resident and with all of TensorFlow, divided by the size of the float32 weights: lower is better.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
LANGUAGES = ("eng_Latn", "deu_Latn", "fra_Latn", "zho_Hans")


def main() -> None:
    args = _parse()
    with tempfile.TemporaryDirectory(dir=args.scratch, prefix="import-memory-") as scratch:
        folder = pathlib.Path(scratch)
        parameters = write_folder(folder / "model", args.vocab, args.width, args.layers)
        command = [sys.executable, "-m", "pipelines.import_weights", "--licence", "none"]
        command += ["--from", str(folder / "model"), "--workdir", str(folder / "run")]
        command += ["--source-language", LANGUAGES[0], "--target-language", LANGUAGES[1]]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        seconds = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        shutil.rmtree(folder / "run")
    figures = {
        "parameters": parameters,
        "weights_mib": round(parameters * 4 / 2**20),
        "peak_mib": round(peak / 2**20),
        "ratio": round(peak / (parameters * 4), 2),
        "seconds": round(seconds, 1),
    }
    print(json.dumps(figures) if args.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", metavar="DIR", help="directory for 5 GB of files (default: the system's)")
    parser.add_argument("--vocab", type=int, default=256_206)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12, help="of each stack")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def write_folder(folder: pathlib.Path, vocab: int, width: int, layers: int) -> int:
    """Write a folder of NLLB's kind with random weights; return the number of its parameters."""
    import safetensors.numpy

    folder.mkdir()
    pieces = vocab - 1 - len(LANGUAGES) - 1
    (folder / "sentencepiece.bpe.model").write_bytes(_pieces(pieces))
    tensors = _tensors(vocab, width, layers)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    stack = {"layers": layers, "attention_heads": 16, "ffn_dim": 4 * width}
    config = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in stack.items()}
    config |= {"model_type": "m2m_100", "d_model": width, "vocab_size": vocab, "scale_embedding": True}
    config |= {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "activation_function": "relu"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    rows = {str(pieces + 1 + place): {"content": code} for place, code in enumerate(LANGUAGES)}
    settings = {"tokenizer_class": "NllbTokenizer", "added_tokens_decoder": rows}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return sum(tensor.size for tensor in tensors.values())


def _tensors(vocab: int, width: int, layers: int) -> dict:
    """The weights by PyTorch's names. Those of one shape have the same numbers, so that few are in memory."""
    import numpy as np

    random, made = np.random.default_rng(1), {}

    def of_shape(*shape: int):
        if shape not in made:
            made[shape] = random.standard_normal(shape, np.float32) * np.float32(0.03)
        return made[shape]

    tensors = {"model.shared.weight": of_shape(vocab, width)}
    for stack in ("encoder", "decoder"):
        attentions = ("self_attn", "encoder_attn") if stack == "decoder" else ("self_attn",)
        names = {f"model.{stack}.layer_norm": (width,)}
        for layer in range(layers):
            prefix = f"model.{stack}.layers.{layer}"
            for attention in attentions:
                names |= {f"{prefix}.{attention}.{part}_proj": (width, width) for part in ("q", "k", "v", "out")}
                names[f"{prefix}.{attention}_layer_norm"] = (width,)
            names |= {f"{prefix}.fc1": (4 * width, width), f"{prefix}.fc2": (width, 4 * width)}
            names[f"{prefix}.final_layer_norm"] = (width,)
        for name, shape in names.items():
            tensors[f"{name}.weight"], tensors[f"{name}.bias"] = of_shape(*shape), of_shape(shape[0])
    return tensors


def _pieces(count: int) -> bytes:
    """A SentencePiece model of so many pieces."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    for name, kind in (("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)):
        model.pieces.add(piece=name, score=0.0, type=kind)
    for number in range(count - 3):
        model.pieces.add(piece=f"▁{number:x}", score=-float(number))
    return model.SerializeToString()


if __name__ == "__main__":
    main()
