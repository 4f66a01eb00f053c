"""Marian's own files: OPUS-MT's releases, and the students of Firefox and Bergamot.

*.npz, model*.bin         the weights, and the options in the tensor special:model.yml
*.vocab.yml, vocab.yml    token: row; two of them where the vocabularies are separate
vocab*.spm                SentencePiece models whose pieces are the rows; or srcvocab*.spm and trgvocab*.spm
source.spm, target.spm    SentencePiece models beside a vocab.yml
decoder.yml, config*.yml  which of the files belong together
"""

import dataclasses
import os
import pathlib
import re

from tf_transformer.importing._archive import read_npz
from tf_transformer.importing._assembly import position_fields
from tf_transformer.importing._external_model import (
    MAX_ALPHA,
    MAX_LENGTH_FACTOR,
    ExternalModel,
    ImportedModelError,
    Vocabulary,
    search_settings,
    vocabulary,
)
from tf_transformer.importing._layer_weights import gelu_sigmoid_as_swish, layer_tensors
from tf_transformer.importing._pieces import piece_names, sentencepiece_files
from tf_transformer.importing._settings import MAX_YAML_BYTES, first_lines, parse_yaml, read_bytes, show
from tf_transformer.importing.marian._binary import OPTIONS, is_marian_binary, read_marian_binary
from tf_transformer.importing.marian._layers import MarianLayers
from tf_transformer.importing.marian._options import MarianOptions
from tf_transformer.importing.marian._vocabulary import read_marian_vocabulary


@dataclasses.dataclass(frozen=True)
class _Vocabularies:
    """Vocabularies and SentencePiece models of source and target; no second model where only one was found."""

    source: Vocabulary
    target: Vocabulary
    source_pieces: bytes
    target_pieces: bytes | None


def read_marian(
    directory: pathlib.Path,
    file: pathlib.Path | None = None,
    source_file: str | os.PathLike | None = None,
    target_file: str | os.PathLike | None = None,
) -> ExternalModel:
    """The model of a folder of Marian's.

    Args:
        file: the weights, where the folder has several.
        source_file, target_file: SentencePiece models to take instead of those that are found.
    """
    decoder = _DecoderFile.of(directory)
    file = file or decoder.weights()
    arrays = read_marian_binary(file) if file.suffix == ".bin" else read_npz(file)
    options = MarianOptions.of(arrays.pop(OPTIONS, None), file)
    pre_norm = options.norm == "pre"
    layers = MarianLayers(arrays, file, pre_norm)
    tensors, biased = layer_tensors(layers, options.depths, pre_norm, ssru=options.ssru)
    if options.gelu:
        gelu_sigmoid_as_swish(tensors)
    source_table = layers.table("encoder_Wemb", "Wemb")
    target_table = layers.table("decoder_Wemb", "Wemb")
    output_table, bias = layers.output(target_table)
    positions = {"positions": "t2t"}
    if (table := layers.optional("Wpos")) is not None:
        positions = position_fields(table, table, tensors, source_table.shape[1])
    layers.check_all_read()
    found = _vocabularies(directory, decoder.vocabularies(), source_file, target_file)
    return ExternalModel(
        format="Marian",
        architecture=options.architecture(source_table.shape[1]) | positions | {"attention_bias": biased},
        layers=tensors,
        source_table=source_table,
        target_table=target_table,
        output_table=output_table,
        output_bias=bias,
        source=found.source,
        target=found.target,
        source_pieces=found.source_pieces,
        target_pieces=found.target_pieces,
        languages=_languages(file),
        licence=_licence(directory),
        search=decoder.search(),
    )


def is_marian_folder(directory: pathlib.Path) -> bool:
    """Return whether a folder has weights of Marian's."""
    return bool(_weight_files(directory))


def _weight_files(directory: pathlib.Path) -> list[pathlib.Path]:
    binary = [file for file in directory.glob("*.bin") if file.is_file() and is_marian_binary(file)]
    return sorted([*directory.glob("*.npz"), *binary])


def _vocabularies(
    directory: pathlib.Path,
    files: list[pathlib.Path],
    source_file: str | os.PathLike | None,
    target_file: str | os.PathLike | None,
) -> _Vocabularies:
    if all(file.suffix == ".spm" for file in files):
        pieces = sentencepiece_files(directory, source_file or files[0], target_file or files[1])
        tables = [_piece_vocabulary(file) for file in dict.fromkeys(files)]
    else:
        pieces = sentencepiece_files(directory, source_file, target_file)
        tables = [vocabulary(read_marian_vocabulary(file), str(file)) for file in dict.fromkeys(files)]
    return _Vocabularies(tables[0], tables[-1], *pieces)


def _piece_vocabulary(file: pathlib.Path) -> Vocabulary:
    """The vocabulary whose row i is piece i of a SentencePiece model."""
    data, _ = sentencepiece_files(file.parent, file)
    return vocabulary(piece_names(data, str(file)), str(file))


@dataclasses.dataclass(frozen=True)
class _DecoderFile:
    """The options for Marian's decoder beside a model, and the files that they name."""

    directory: pathlib.Path
    file: pathlib.Path | None
    options: dict

    @classmethod
    def of(cls, directory: pathlib.Path) -> "_DecoderFile":
        found = [file for file in (directory / "decoder.yml", *sorted(directory.glob("config*.yml"))) if file.is_file()]
        if not found:
            return cls(directory, None, {})
        return cls(directory, found[0], parse_yaml(read_bytes(found[0], MAX_YAML_BYTES), str(found[0])))

    def weights(self) -> pathlib.Path:
        found = self._named("models") or _weight_files(self.directory)
        if len(found) != 1:
            names = ", ".join(file.name for file in found[:8])
            raise ImportedModelError(
                f"{self.directory}: expected one .npz or .bin. Received: {names}. Give that file with --from."
            )
        if not found[0].is_file():
            raise ImportedModelError(
                f"{self.directory}: expected {found[0].name}, which {self.file} names. Received: a folder without it. "
                "Get the file."
            )
        return found[0]

    def vocabularies(self) -> list[pathlib.Path]:
        """The files of source and target."""
        named = self._named("vocabs")
        pairs = [sorted(self.directory.glob(f"{side}vocab*.spm")) for side in ("src", "trg")]
        if not named and [len(pair) for pair in pairs] == [1, 1]:
            return [pairs[0][0], pairs[1][0]]
        # Of two files, nothing identifies the source's.
        names = ("*vocab.yml", "*vocab*.yml", "vocab*.spm")
        found = named or sorted({file for name in names for file in self.directory.glob(name)})
        kinds = {file.suffix for file in found}
        if len(found) not in ((1, 2) if named else (1,)) or len(kinds) > 1 or not all(file.is_file() for file in found):
            listed = ", ".join(file.name for file in found[:8]) or "none"
            raise ImportedModelError(
                f"{self.directory}: expected one vocab.yml or vocab.spm, or decoder.yml with the two under `vocabs`. "
                f"Received: {listed}."
            )
        return [found[0], found[-1]]

    def search(self) -> dict:
        """Beam size, length normalization, word penalty and limit. Marian normalizes only if an option asks for it."""
        if self.file is None:
            return {}
        normalize = self.options.get("normalize", 0)
        if isinstance(normalize, bool):
            normalize = int(normalize)
        found = search_settings(self.options.get("beam-size"), normalize, str(self.file))
        found |= self._length_reward(normalize)
        factor = self.options.get("max-length-factor")
        if factor is None:
            return found
        if type(factor) not in (int, float) or not 1 <= factor <= MAX_LENGTH_FACTOR:
            raise ImportedModelError(
                f"{self.file}: expected a max-length-factor from 1 to {MAX_LENGTH_FACTOR:g}. Received: {factor!s:.80}."
            )
        return found | {"max_length_factor": float(factor)}

    def _length_reward(self, normalize: float) -> dict:
        """The word penalty as a length reward.

        Marian ranks by (log-probability - penalty * length) / length ** normalize, EOS counted. With a normalization
        of 1 the penalty is the same for all hypotheses. Marian's search ends with as many of them as there are beams.
        """
        penalty = self.options.get("word-penalty", 0)
        if type(penalty) not in (int, float) or abs(penalty) > MAX_ALPHA:
            raise ImportedModelError(
                f"{self.file}: expected a word-penalty from -{MAX_ALPHA:g} to {MAX_ALPHA:g}. Received: {show(penalty)}."
            )
        if not penalty or normalize == 1:
            return {}
        if normalize:
            raise ImportedModelError(
                f"{self.file}: expected a word-penalty of 0 with a normalize of {normalize:g}. Received: {penalty:g}, "
                "which Marian divides by length ** normalize. Set one of them to 0 in the file, or normalize to 1."
            )
        if penalty > 0:
            raise ImportedModelError(
                f"{self.file}: expected a word-penalty of at most 0, a reward per token. Received: {penalty:g}. Set "
                "it to 0 in the file."
            )
        return {"length_reward": -float(penalty), "early_stopping": True}

    def _named(self, option: str) -> list[pathlib.Path]:
        """The files that an option names, taken from the folder itself."""
        names = self.options.get(option) or []
        if not isinstance(names, list) or not all(isinstance(name, str) and pathlib.Path(name).name for name in names):
            raise ImportedModelError(
                f"{self.file}: expected a list of file names under {option}. Received: {show(names)}."
            )
        return [self.directory / pathlib.Path(name).name for name in names]


def _languages(file: pathlib.Path) -> tuple[str | None, str | None]:
    """Firefox's students are called model.enpt.intgemm.alphas.bin."""
    match = re.match(r"model\.([a-z]{2})([a-z]{2})\.", file.name)
    return (match[1], match[2]) if match else (None, None)


def _licence(directory: pathlib.Path) -> str | None:
    """OPUS-MT's archives have a LICENSE, whose first line names it."""
    return next((line.strip()[:300] for line in first_lines(directory / "LICENSE") if line.strip()), None)
