"""Files of weights by name: safetensors, Keras' h5, and torch's only through its own safe loader."""

import pathlib
import re

import numpy as np

from tf_transformer.importing._external_model import ImportedModelError

SAFETENSORS, H5, TORCH = "model.safetensors", "tf_model.h5", "pytorch_model.bin"
BIAS = "final_logits_bias"


def read_weights(directory: pathlib.Path) -> dict[str, np.ndarray]:
    """The weights of a Hugging Face folder under PyTorch's names, with PyTorch's (out, in) matrices."""
    if (directory / SAFETENSORS).is_file():
        return _safetensors(directory / SAFETENSORS)
    if (directory / H5).is_file():
        weights = _h5(directory / H5)
        if BIAS in weights:
            return weights
        if not (directory / TORCH).is_file():
            raise ImportedModelError(
                f"{directory / H5} lacks {BIAS}: before version 4.22 transformers did not write it, and such a file "
                f"translates wrongly. Get {SAFETENSORS}, or {TORCH}."
            )
    if (directory / TORCH).is_file():
        return _torch(directory / TORCH)
    raise ImportedModelError(f"{directory} has no weights: expected {SAFETENSORS}, {H5} or {TORCH}.")


def _safetensors(file: pathlib.Path) -> dict[str, np.ndarray]:
    import safetensors.numpy

    try:
        return safetensors.numpy.load_file(file)
    except (OSError, KeyError, TypeError, AttributeError, safetensors.SafetensorError) as error:
        raise ImportedModelError(f"{file} cannot be read: {error!r}. Get the file again.") from None


def _torch(file: pathlib.Path) -> dict[str, np.ndarray]:
    """A pickle runs whatever is in it, so torch's loader of plain weights is the only one that opens it."""
    try:
        import torch
    except ModuleNotFoundError:
        raise ImportedModelError(
            f"{file} is a pickle, which only torch can open safely. Install torch, or get {SAFETENSORS} instead."
        ) from None
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
        return {name: value.to(torch.float32).numpy() for name, value in loaded.items()}
    except Exception as error:  # torch raises what its unpickler, its zip reader and its storages raise
        first = str(error).splitlines()[0] if str(error) else ""
        raise ImportedModelError(f"{file} cannot be read as plain weights: {type(error).__name__}: {first}") from None


def _h5(file: pathlib.Path) -> dict[str, np.ndarray]:
    """Keras' file; data that it would take from other files is rejected."""
    import h5py

    weights = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise ImportedModelError(f"{file}: {name} lies in another file, which is not read.")
            if item.id.get_storage_size() != item.nbytes:  # Keras neither compresses nor leaves anything out
                raise ImportedModelError(f"{file}: {name} is not there as it says, {item.nbytes:,} bytes.")
            key = _torch_name(name)
            weights[key] = item[()].T if name.removesuffix(":0").endswith("/kernel") else item[()]

    try:
        with h5py.File(file, "r") as opened:
            opened.visititems(visit)
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        if isinstance(error, ImportedModelError):
            raise
        raise ImportedModelError(f"{file} cannot be read: {error}. Get the file again.") from None
    return weights


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
