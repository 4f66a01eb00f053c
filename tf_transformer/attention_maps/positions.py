"""The positional encodings (section 3.5), and how alike positions are by their dot products."""

import numpy as np
from matplotlib.figure import Figure

from tf_transformer.attention_maps.typography import SMALL


def position_vectors(kind: str = "sinusoidal", dim: int = 512, length: int = 128) -> np.ndarray:
    """The encodings of positions 0 … length - 1 by formula: (length, dim). "sinusoidal", "t2t" or "marian"."""
    from tf_transformer.layers.position import sinusoidal_encoding

    if kind not in ("sinusoidal", "t2t", "marian"):
        raise ValueError(f"Positions by formula are sinusoidal, t2t or marian, not {kind!r}: the rest are in a model.")
    return np.asarray(sinusoidal_encoding(np.arange(length), dim, kind))


def positions_of_model(model, length: int = 128) -> np.ndarray:
    """The encodings that a Transformer adds to its source: (at most `length`, D); learned ones as they are now."""
    config = model.config
    if config.positions == "learned":
        return np.asarray(model.source_positions.table, dtype="float32")[:length]
    return position_vectors(config.positions, config.model_dim, length)


def positions_figure(vectors: np.ndarray, title: str = "Positional encodings") -> Figure:
    """A figure of encodings (length, D): the vectors, all dot products, and those of a few positions.

    Example:
        >>> positions_figure(position_vectors("sinusoidal", dim=512, length=100)).savefig("positions.png")
    """
    length = len(vectors)
    products = vectors @ vectors.T
    figure = Figure(figsize=(12.0, 3.9), layout="constrained")
    encodings, matrix, curves = figure.subplots(1, 3)
    limit = float(np.abs(vectors).max())
    _image(figure, encodings, vectors, "RdBu_r", (-limit, limit), "encoding", ("dimension", "position"))
    _image(figure, matrix, products, "viridis", (None, None), "dot product", ("position", "position"))
    for position in sorted({0, length // 4, length // 2, 3 * length // 4}):
        curves.plot(products[position], label=f"{position}", linewidth=1.2)
    curves.set_title("dot product with a position", fontsize=SMALL + 1)
    curves.set_xlabel("position", fontsize=SMALL)
    curves.legend(fontsize=SMALL - 1, frameon=False, ncols=4, columnspacing=1.0, handlelength=1.0,
                  loc="upper center", bbox_to_anchor=(0.5, -0.14))  # fmt: skip
    curves.tick_params(labelsize=SMALL - 1)
    curves.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=SMALL + 3)
    return figure


def _image(figure, axis, values, colours, limits, title, labels) -> None:
    image = axis.imshow(values, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto", interpolation="nearest")
    axis.set_title(title, fontsize=SMALL + 1)
    axis.set_xlabel(labels[0], fontsize=SMALL)
    axis.set_ylabel(labels[1], fontsize=SMALL)
    axis.tick_params(labelsize=SMALL - 1)
    figure.colorbar(image, ax=axis).ax.tick_params(labelsize=SMALL - 1)
