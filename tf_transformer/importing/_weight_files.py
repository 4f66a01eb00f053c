"""Files of weights by name: safetensors, Keras' h5, and PyTorch's, whose pickles are not executed."""

import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._files_read import record_file
from tf_transformer.importing._settings import read_json, shorten, show
from tf_transformer.importing._torch_file import read_torch

if TYPE_CHECKING:
    import h5py

SAFETENSORS, H5, TORCH = "model.safetensors", "tf_model.h5", "pytorch_model.bin"
INDEX = "model.safetensors.index.json"
MAX_SHARDS = 1000
BIAS = "final_logits_bias"
# Tied embeddings are stored once and named three times.
MAX_GROWTH = 4
_FLOATS = ("float16", "float32", "float64")


def read_weights(directory: pathlib.Path) -> Mapping[str, np.ndarray]:
    """The weights of a Hugging Face folder under PyTorch's names, with PyTorch's (out, in) matrices.

    Those of safetensors and PyTorch files are read one by one, when they are used.
    """
    if (directory / INDEX).is_file():
        return _sharded(directory)
    if (directory / SAFETENSORS).is_file():
        return _safetensors(directory / SAFETENSORS)
    if (directory / H5).is_file():
        weights = _h5(directory / H5)
        if BIAS in weights:
            return weights
        if not (directory / TORCH).is_file():
            raise ImportedModelError(
                f"{directory / H5}: expected {BIAS}. Received: weights without it, as transformers wrote them before "
                f"version 4.22; they translate wrongly. Get {SAFETENSORS}, or {TORCH}."
            )
    if (directory / TORCH).is_file():
        return _torch(directory / TORCH)
    raise ImportedModelError(
        f"{directory}: expected {SAFETENSORS}, {H5} or {TORCH}. Received: no weights. Get one of them."
    )


class _Safetensors(Mapping):
    """The tensors of safetensors files, each read again whenever it is used.

    The file is closed again each time: it is mapped into memory while it is open, and what was read would stay there.
    """

    def __init__(self, files: Mapping[str, pathlib.Path]):
        self._files = files

    def __getitem__(self, name: str) -> np.ndarray:
        import safetensors

        file = self._files[name]
        try:
            with safetensors.safe_open(file, framework="numpy") as opened:
                return opened.get_tensor(name)
        except (OSError, KeyError, TypeError, AttributeError, ValueError, safetensors.SafetensorError) as error:
            raise _unreadable(file, error) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _sharded(directory: pathlib.Path) -> Mapping[str, np.ndarray]:
    """The tensors of several safetensors files, as their index lists them."""
    places = read_json(directory / INDEX).get("weight_map")
    names = set(places.values()) if isinstance(places, dict) and all(map(_is_name, places.values())) else set()
    if not names or len(names) > MAX_SHARDS:
        raise ImportedModelError(
            f"{directory / INDEX}: expected weight_map with the file of each weight, 1 to {MAX_SHARDS} files. "
            f"Received: {show(places)}."
        )
    found = {tensor: directory / name for name in sorted(names) for tensor in _safetensors(directory / name)}
    if found != {tensor: directory / name for tensor, name in places.items()}:
        raise ImportedModelError(
            f"{directory / INDEX}: expected files with the weights that it lists. Received: files with others. Get all "
            "files of the model again."
        )
    return _Safetensors(found)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\w.-]{1,200}\.safetensors", value) is not None


def _safetensors(file: pathlib.Path) -> Mapping[str, np.ndarray]:
    """The library checks that the tensors lie in the file and do not overlap; types are checked here first."""
    import safetensors

    record_file(file)
    try:
        with safetensors.safe_open(file, framework="numpy") as opened:
            kinds = {name: opened.get_slice(name).get_dtype() for name in opened.keys()}  # noqa: SIM118
            for name, kind in kinds.items():
                _check_type(file, name, kind, ("F16", "F32", "F64"))
        return _Safetensors(dict.fromkeys(kinds, file))
    except (OSError, KeyError, TypeError, AttributeError, ValueError, safetensors.SafetensorError) as error:
        raise _unreadable(file, error) from None


def _check_type(file: pathlib.Path, name: str, kind: str, allowed: tuple[str, ...]) -> None:
    if kind not in allowed:
        raise ImportedModelError(f"{file}: expected {show(name)} as {', '.join(allowed)}. Received: {kind}.")


def _check_total(file: pathlib.Path, total: int) -> None:
    """Reject tensors that share their bytes so often that they are larger than their file."""
    if total > MAX_GROWTH * file.stat().st_size:
        raise ImportedModelError(
            f"{file}: expected tensors of at most the file's size. Received: {total:,} bytes. Get the file again."
        )


def _unreadable(file: pathlib.Path, error: Exception) -> ImportedModelError:
    if isinstance(error, ImportedModelError):
        return error
    return ImportedModelError(
        f"{file}: expected weights that can be read. Received: {shorten(error)}. Get the file again."
    )


def _torch(file: pathlib.Path) -> Mapping[str, np.ndarray]:
    weights = read_torch(file)
    _check_total(file, weights.nbytes)
    return weights


def _h5(file: pathlib.Path) -> dict[str, np.ndarray]:
    """The datasets of Keras' file. Types, sizes and places of all of them are checked before one is read."""
    import h5py

    record_file(file)
    found = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            _check_dataset(file, name, item)
            found[name] = item

    try:
        with h5py.File(file, "r") as opened:
            opened.visititems(visit)
            _check_total(file, sum(item.nbytes for item in found.values()))
            return {_torch_name(name): _oriented(name, item[()]) for name, item in found.items()}
    except (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise _unreadable(file, error) from None


def _check_dataset(file: pathlib.Path, name: str, item: "h5py.Dataset") -> None:
    if item.external or item.is_virtual:
        raise ImportedModelError(
            f"{file}: expected all weights in this file. Received: {show(name)}, which lies in another file."
        )
    _check_type(file, name, str(item.dtype), _FLOATS)
    if item.shape is None or 0 in item.shape or item.id.get_storage_size() != item.nbytes:
        # Keras neither compresses nor leaves anything out.
        raise ImportedModelError(
            f"{file}: expected {show(name)} of {item.nbytes:,} bytes. Received: another size. Get the file again."
        )


def _oriented(name: str, value: np.ndarray) -> np.ndarray:
    return value.T if name.removesuffix(":0").endswith("/kernel") else value


def _torch_name(name: str) -> str:
    """`…/model/encoder/layers.0/fc1/kernel:0` as `model.encoder.layers.0.fc1.weight`."""
    name = name.removesuffix(":0").replace("/", ".")
    if "shared" in name:
        return "model.shared.weight"
    if BIAS in name:
        return BIAS
    name = re.sub(r"^.*?((?:encoder|decoder)\.(?:layers|embed_))", r"\1", name)
    name = re.sub(r"\.(kernel|gamma|embeddings)$", ".weight", name)
    return "model." + re.sub(r"\.beta$", ".bias", name)
