"""The readers of external bytes, each with valid files to start from and the changes that suit its format.

Imported models are here; our own files and requests are in `fuzz.own_formats`, answers of servers in `fuzz.downloads`.
"""

import atexit
import dataclasses
import functools
import gzip
import io
import pathlib
import random
import shutil
import tempfile
from collections.abc import Callable

import h5py
import numpy as np
import safetensors.numpy
from ctranslate2_files import model, variable
from external_toys import huggingface_toy, marian_toy
from fuzz.mutation import mutate, mutate_json, mutate_safetensors, mutate_zip, zipped
from marian_files import INTGEMM8, binary_model, shortlist
from multilingual_toys import LANGUAGES, change_json, multilingual_toy, write_json
from torch_files import torch_file
from toy_workdir import toy_tokenizers, toy_workdir

from tf_transformer.export._ctranslate2 import export_ctranslate2
from tf_transformer.importing._archive import read_npz, unpack
from tf_transformer.importing._assembly import assemble
from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._importer import read_model
from tf_transformer.importing._pieces import sentencepiece_files
from tf_transformer.importing._settings import parse_yaml, read_json
from tf_transformer.importing._torch_file import read_torch
from tf_transformer.importing._weight_files import read_weights
from tf_transformer.importing.ctranslate2._binary_model import read_binary_model
from tf_transformer.importing.marian._binary import read_marian_binary, read_shortlist
from tf_transformer.importing.marian._text_shortlist import read_text_shortlist
from tf_transformer.importing.marian._vocabulary import read_marian_vocabulary
from tf_transformer.text import Languages, TokenizerError, TokenizerPair
from tf_transformer.text._subwords import Subwords
from tf_transformer.text._vocabulary import train_model

MAX_MESSAGE = 2000
MARIAN_MODELS = pathlib.Path(__file__).parents[1] / "marian_models"


@dataclasses.dataclass(frozen=True)
class Reader:
    """A reader to fuzz.

    Attributes:
        file: the name of the file that is changed.
        seeds: valid contents of it.
        read: takes the path of the file; returns or raises `error`.
        change: makes another content from one of the seeds.
        error: the one exception that rejects a content.
        named: whether its message names the file or its folder.
    """

    file: str
    seeds: tuple[bytes, ...]
    read: Callable[[pathlib.Path], object]
    change: Callable[[bytes, random.Random], bytes] = mutate
    error: type[Exception] = ImportedModelError
    named: bool = True

    def case(self, name: str, number: int) -> bytes:
        """The content of one case, the same whenever it is asked for."""
        choose = random.Random(f"{name} {number}")
        return self.change(choose.choice(self.seeds), choose)

    def accepts(self, data: bytes, folder: pathlib.Path) -> bool:
        """Whether the reader takes `data`; AssertionError where its message does not name the file or is long."""
        path = folder / self.file
        path.write_bytes(data)
        try:
            self.read(path)
        except self.error as error:
            assert not self.named or self.file in str(error) or str(folder) in str(error), f"no file in: {error}"
            assert len(str(error)) < MAX_MESSAGE, f"a message of {len(str(error))} characters"
            return False
        return True


NAMES = ("ctranslate2", "npz", "marian-bin", "shortlist", "text-shortlist", "marian-yml")
NAMES += ("marian-vocabulary", "json", "safetensors", "h5", "torch", "torch-before-1.6", "sentencepiece", "zip")
OWN_NAMES = ("config", "dataset-info", "checkpoint-info", "checkpoint-weights", "tfrecord")
OWN_NAMES += ("rest", "rest-gzip", "libretranslate")
NAMES += OWN_NAMES
DOWNLOAD_NAMES = ("hub-answer", "archive-response")
NAMES += ("safetensors-index", "languages", *DOWNLOAD_NAMES)
FOLDER_NAMES = ("ctranslate2-folder", "marian-folder", "marian-pre-norm-folder", "marian-search", "huggingface-folder")
# The family of the toy and the file that is changed.
MULTILINGUAL = {
    "nllb-folder": ("NLLB-200", "config.json"),
    "nllb-languages": ("NLLB-200", "tokenizer_config.json"),
    "nllb-tokenizer": ("NLLB-200", "tokenizer.json"),
    "nllb-added-tokens": ("NLLB-200", "added_tokens.json"),
    "nllb-special-tokens": ("NLLB-200", "special_tokens_map.json"),
    "nllb-search": ("NLLB-200", "generation_config.json"),
    "nllb-weights": ("NLLB-200", "model.safetensors"),
    "m2m100-folder": ("M2M-100", "config.json"),
    "m2m100-vocabulary": ("M2M-100", "vocab.json"),
    "mbart50-folder": ("mBART-50", "config.json"),
    "mbart50-pieces": ("mBART-50", "sentencepiece.bpe.model"),
}
FOLDER_NAMES += tuple(MULTILINGUAL)


@functools.cache
def reader(name: str) -> Reader:
    """A reader by name."""
    if name in OWN_NAMES:
        from fuzz.own_formats import own_readers

        return own_readers()[name]
    if name in DOWNLOAD_NAMES:
        from fuzz.downloads import download_readers

        return download_readers()[name]
    return _folder_reader(name) if name in FOLDER_NAMES else _readers()[name]


def _folder_reader(name: str) -> Reader:
    """A whole model, one file of which is changed: everything that `import` does before it builds the model."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fuzz-toy-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if name == "huggingface-folder":
        toy, file, change = huggingface_toy(folder / "toy").folder, "config.json", mutate_json
    elif name == "marian-pre-norm-folder":
        toy, file, change = MARIAN_MODELS / "pre-norm-ssru", "model.npz", mutate_zip
    elif name in MULTILINGUAL:
        family, file = MULTILINGUAL[name]
        change = {".model": mutate, ".safetensors": mutate_safetensors}.get(pathlib.Path(file).suffix, mutate_json)
        toy = _multilingual_folder(folder / "toy", family, file)
    elif name == "marian-search":
        toy, file, change = marian_toy(folder / "toy").folder, "decoder.yml", mutate
        (toy / file).write_bytes(b"beam-size: 6\nnormalize: 1.5\nmax-length-factor: 2.5\nrelative-paths: true\n")
    elif name == "marian-folder":
        toy, file, change = marian_toy(folder / "toy").folder, "model.npz", mutate_zip
    else:
        toy, file, change = export_ctranslate2(toy_workdir(folder / "run"), folder / "toy"), "model.bin", mutate

    def read(path: pathlib.Path) -> None:
        for other in toy.iterdir():
            if other.name != file and not (path.parent / other.name).exists():
                shutil.copy(other, path.parent)
        try:
            assemble(read_model(path.parent))
        except TokenizerError as error:  # `import_model` does the same
            raise ImportedModelError(str(error)) from None

    # `assemble` leaves it to `import_model` to name the folder.
    return Reader(file, ((toy / file).read_bytes(),), read, change, named=False)


def _multilingual_folder(folder: pathlib.Path, family: str, file: str) -> pathlib.Path:
    """A toy of a family; one that has the rows of languages in `file` where they may be there."""
    toy = multilingual_toy(folder, family)
    rows = {token: toy.first_language + place for place, token in enumerate(LANGUAGES[family])}
    others = {
        "added_tokens.json": rows,
        "tokenizer.json": {"added_tokens": [{"id": row, "content": token} for token, row in rows.items()]},
        "special_tokens_map.json": {"additional_special_tokens": list(rows)},
    }
    if file == "generation_config.json":
        search = {"num_beams": 4, "length_penalty": 0.8, "early_stopping": True}
        write_json(toy.folder / file, search | {"max_length": 200, "no_repeat_ngram_size": 3})
    if file in others:
        change_json(toy.folder / "tokenizer_config.json", added_tokens_decoder=None)
        write_json(toy.folder / file, others[file])
    return toy.folder


@functools.cache
def _readers() -> dict[str, Reader]:
    weights = {"model.shared.weight": np.ones((7, 4), np.float32), "final_logits_bias": np.ones((1, 7), np.float16)}
    settings = b'{"d_model": 512, "activation_function": "swish", "a": [1, 2.5, null, {"b": "\\u00e9"}], "c": true}'
    return {
        "ctranslate2": Reader("model.bin", (_ctranslate2(), _ctranslate2(version=4)), read_binary_model),
        "npz": Reader("model.npz", (_npz(np.savez), _npz(np.savez_compressed)), read_npz, mutate_zip),
        "marian-bin": Reader("model.bin", (_marian_binary(),), read_marian_binary),
        "shortlist": Reader("lex.bin", (shortlist([[], [5, 9], [3]]),), read_shortlist),
        "text-shortlist": Reader("lex.s2t", (_TEXT_SHORTLIST, gzip.compress(_TEXT_SHORTLIST)), _read_text_shortlist),
        "marian-yml": Reader("decoder.yml", (_YAML,), lambda path: parse_yaml(path.read_bytes(), str(path))),
        "marian-vocabulary": Reader("vocab.yml", (_VOCABULARY,), read_marian_vocabulary),
        "torch": Reader(
            "pytorch_model.bin", (torch_file(weights), torch_file(weights, protocol=4)), _read_torch, mutate_zip
        ),
        "torch-before-1.6": Reader("pytorch_model.bin", (torch_file(weights, old=True),), _read_torch),
        "json": Reader("config.json", (settings, b'{"</s>": 0, "<unk>": 1, "a": 2}'), read_json, mutate_json),
        "safetensors": Reader(
            "model.safetensors",
            (safetensors.numpy.save(weights),),
            lambda path: read_weights(path.parent),
            mutate_safetensors,
        ),
        "safetensors-index": Reader("model.safetensors.index.json", (_INDEX,), _read_sharded, mutate_json),
        "languages": Reader("languages.json", (_LANGUAGES,), _read_languages, mutate_json),
        "h5": Reader("tf_model.h5", (_h5(),), lambda path: read_weights(path.parent)),
        "sentencepiece": Reader("source.spm", _sentencepiece(), _read_sentencepiece),
        "zip": Reader("model.zip", (zipped({"a/b": b"text", "a/c.npz": bytes(99)}),), _unpack, mutate_zip),
    }


_YAML = b"""models:
  - model.npz
vocabs: [vocab.yml, "vocab.yml"]
beam-size: 6
normalize: 1.5
word-penalty: 0
relative-paths: true
nested: {a: [1, 2], b: ''}
"""
_VOCABULARY = '"</s>": 0\n<unk>: 1\n"\\"": 2\n\'it\'\'s\': 3\n"\\u2028x": 4\n? long\n: 5\n▁the: 6\n'.encode()


_INDEX = b'{"metadata": {"total_size": 28}, "weight_map": {"a": "model-1.safetensors", "b": "model-1.safetensors"}}'
_LANGUAGES = Languages({"de": 4, "fr": 5}, "target", "end", False, (("en", "de"), ("en", "fr"))).to_json().encode()


_TEXT_SHORTLIST = "▁the ▁the 0.5\n▁a ▁the 0.25\n▁on ▁the 1e-05\n\n▁a NULL 0.5\n▁a\t▁a\t1\n".encode()


def _read_text_shortlist(path: pathlib.Path) -> None:
    lists, frequent = read_text_shortlist(path, _tokenizers(), best=2)
    assert lists.shape[1] <= 2 and len(frequent) <= 100


@functools.cache
def _tokenizers() -> TokenizerPair:
    return toy_tokenizers()


def _read_sharded(path: pathlib.Path) -> None:
    tensors = {"a": np.ones(3, np.float32), "b": np.ones((2, 2), np.float32)}
    safetensors.numpy.save_file(tensors, path.parent / "model-1.safetensors")
    weights = read_weights(path.parent)
    assert sorted(weights) == ["a", "b"] and weights["a"].shape == (3,)


def _read_torch(path: pathlib.Path) -> None:
    weights = read_torch(path)
    assert sum(value.nbytes for value in weights.values()) >= weights.nbytes


def _read_languages(path: pathlib.Path) -> None:
    try:
        languages = Languages.from_file(path, 10)
    except TokenizerError as error:
        raise ImportedModelError(str(error)) from None
    assert languages.sources and languages.targets


def _ctranslate2(version: int = 6) -> bytes:
    return model(
        variable("a/weight", np.ones((5, 3), np.int8)),
        variable("a/weight_scale", np.ones(5, np.float32)),
        variable("b", np.ones(3, np.float16)),
        variable("c", np.array(7, np.int16)),
        variable("d", np.ones((2, 2), np.float32)),
        aliases=[("e/weight", "a/weight"), ("f", "d")],
        version=version,
    )


def _marian_binary() -> bytes:
    tensors = {
        "Wemb": np.ones((7, 5), np.float32),
        "a_W1": np.ones((5, 3), np.float32),
        "b": np.ones((1, 3), np.float16),
    }
    tensors["a_W1_QuantMultA"] = np.ones((1, 1), np.float32)
    options = {"special:model.yml": np.frombuffer(_YAML + b"\0", np.int8)}
    return binary_model(tensors | options, {"Wemb": INTGEMM8, "a_W1": INTGEMM8})


def _npz(save: Callable) -> bytes:
    buffer = io.BytesIO()
    options = np.frombuffer(_YAML + b"\0", np.int8)
    save(buffer, Wemb=np.ones((5, 3), np.float32), b=np.ones((1, 3), np.float16), **{"special:model.yml": options})
    return buffer.getvalue()


def _h5() -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["model/encoder/layers.0/fc1/kernel:0"] = np.ones((3, 5), np.float32)
        file["model/encoder/layers.0/fc1/bias:0"] = np.ones(5, np.float32)
        file["final_logits_bias:0"] = np.ones((1, 7), np.float32)
        file["model"].attrs["weight_names"] = [b"model/encoder/layers.0/fc1/kernel:0"]
    return buffer.getvalue()


def _sentencepiece() -> tuple[bytes, ...]:
    lines = ["the cat sat on the mat", "die Katze saß auf der Matte"] * 5
    return tuple(train_model(lines, 151, exact=False) for _ in range(1))


def _read_sentencepiece(path: pathlib.Path) -> None:
    """Reads the model, then lets SentencePiece load and use it, as every command after `import` does."""
    data, _ = sentencepiece_files(path.parent, source=path)
    try:
        subwords = Subwords(data, name=str(path))
    except ValueError as error:
        raise ImportedModelError(str(error)) from None
    subwords.decode(subwords.encode("the cat ▁ </s> ﬁ 猫 \0"))


def _unpack(path: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        unpack(path, pathlib.Path(folder) / "inside")
        outside = [entry.name for entry in pathlib.Path(folder).iterdir() if entry.name != "inside"]
        assert not outside, f"wrote {outside}"
        shutil.rmtree(folder, ignore_errors=True)
        pathlib.Path(folder).mkdir()
