"""The paper's models by name: Table 3 row by row, each naming only what the row changes, and small ones.

Rows are called by their letter and their value: `A16` is row A with 16 heads, `B32` row B with d_k = 32, `C-N4`
row C with 4 layers. Columns of the table that a preset does not name are as in `base`.
"""

from dataclasses import replace
from typing import Any

from tf_transformer.config import Config, ConfigError, ModelConfig

BASE = Config()


def _variant(
    name: str, of: Config = BASE, training: dict | None = None, decoding: dict | None = None, **model: Any
) -> Config:
    return replace(
        of,
        preset=name,
        model=replace(of.model, **model),
        training=replace(of.training, **(training or {})),
        decoding=replace(of.decoding, **(decoding or {})),
    )


BIG = _variant(
    "big", model_dim=1024, feed_forward_dim=4096, num_heads=16, dropout=0.3,
    training={"max_steps": 300_000, "keep_checkpoints": 20, "average_last": 20},
)  # fmt: skip

# Table 3 of the paper, in its order.
TABLE_3 = [
    BASE,
    _variant("A1", num_heads=1, key_dim=512, value_dim=512),
    _variant("A4", num_heads=4, key_dim=128, value_dim=128),
    _variant("A16", num_heads=16, key_dim=32, value_dim=32),
    _variant("A32", num_heads=32, key_dim=16, value_dim=16),
    _variant("B16", key_dim=16),
    _variant("B32", key_dim=32),
    _variant("C-N2", num_layers=2),
    _variant("C-N4", num_layers=4),
    _variant("C-N8", num_layers=8),
    _variant("C-d256", model_dim=256, key_dim=32, value_dim=32),
    _variant("C-d1024", model_dim=1024, key_dim=128, value_dim=128),
    _variant("C-ff1024", feed_forward_dim=1024),
    _variant("C-ff4096", feed_forward_dim=4096),
    _variant("D-drop0.0", dropout=0.0),
    _variant("D-drop0.2", dropout=0.2),
    _variant("D-smooth0.0", training={"label_smoothing": 0.0}),
    _variant("D-smooth0.2", training={"label_smoothing": 0.2}),
    _variant("E", positions="learned"),
    BIG,
]

# The recipe of tensor2tensor, the authors' own code, where it departs from the paper.
T2T = _variant(
    "t2t", norm="pre", positions="t2t", attention_bias=False, attention_dropout=0.1, feed_forward_dropout=0.1,
    vocab_size=33708,
    training={"warmup_steps": 8000, "learning_rate_scale": 2.0, "beta2": 0.997},
    decoding={"max_extra_length": 100},
)  # fmt: skip

# Not the paper's: the same model where a laptop is all there is, or where decoding has to be fast.
SMALL = _variant(
    "small", vocab_size=8000, num_layers=4, model_dim=256, feed_forward_dim=1024, num_heads=4,
    training={"batch_tokens": 4096, "max_steps": 20_000, "max_length": 128},
)  # fmt: skip
TINY = _variant(
    "tiny", vocab_size=2000, num_layers=2, model_dim=128, feed_forward_dim=512, num_heads=4, key_dim=32, value_dim=32,
    training={"batch_tokens": 2048, "max_steps": 1300, "warmup_steps": 400, "max_length": 64, "checkpoint_steps": 100,
              "validation_steps": 500},
)  # fmt: skip

# The architecture of Marian's and Firefox' students ("tiny11"): for distillation, with greedy search.
TINY_SSRU = _variant(
    "tiny-ssru", vocab_size=32000, num_layers=6, num_decoder_layers=2, model_dim=256, feed_forward_dim=1536, key_dim=32,
    value_dim=32, decoder_autoregression="ssru",
    training={"batch_tokens": 16_384, "max_length": 128}, decoding={"beam_size": 1},
)  # fmt: skip

# 36 to 80 minutes on two CPU cores for 29,000 pairs: sizes after the small model of Wu et al. (2021), and Muon.
MULTI30K = _variant(
    "multi30k", vocab_size=8000, num_layers=4, model_dim=128, feed_forward_dim=256, num_heads=4, norm="pre",
    dropout=0.3,
    training={"batch_tokens": 4096, "max_steps": 7500, "optimizer": "muon", "weight_decay": 0.1,
              "schedule": "inverse_sqrt", "learning_rate": 5e-3, "warmup_steps": 500, "max_length": 96,
              "checkpoint_steps": 100, "keep_checkpoints": 12, "average_last": 12, "validation_steps": 250},
    decoding={"alpha": 1.4},
)  # fmt: skip

# Its optimizer and schedule at base size. Not run: see docs/how-to/train-on-multi30k.md.
BASE_MUON = _variant(
    "base-muon", norm="pre",
    training={"optimizer": "muon", "weight_decay": 0.1, "schedule": "inverse_sqrt", "learning_rate": 1e-3},
)  # fmt: skip

# For `ablate --rows recipe`: `multi30k`, the paper's recipe with the same sizes, and `multi30k` with one technique
# replaced or added.
RECIPE = [
    MULTI30K,
    _variant(
        "multi30k-paper", vocab_size=8000, num_layers=4, model_dim=128, feed_forward_dim=256, num_heads=4,
        training={field: getattr(MULTI30K.training, field)
                  for field in ("max_steps", "max_length", "checkpoint_steps", "validation_steps")},
    ),
    _variant("multi30k-adam", of=MULTI30K, training={"optimizer": "adam"}),
    _variant("multi30k-adamw", of=MULTI30K, training={"optimizer": "adamw"}),
    _variant("multi30k-cosine", of=MULTI30K, training={"schedule": "cosine"}),
    _variant("multi30k-small-batches", of=MULTI30K, training={"batch_tokens": 2048}),
    _variant("multi30k-wide", of=MULTI30K, num_layers=3, model_dim=256, feed_forward_dim=512,
             training={"learning_rate": 3e-3}),
    _variant("multi30k-r-drop", of=MULTI30K, training={"r_drop": 5.0}),
    _variant("multi30k-subword-dropout", of=MULTI30K, training={"subword_dropout": 0.1}),
    _variant("multi30k-ema", of=MULTI30K, training={"ema_decay": 0.998}),
    _variant("multi30k-attention-dropout", of=MULTI30K, attention_dropout=0.1, feed_forward_dropout=0.1),
]  # fmt: skip

PRESETS: dict[str, Config] = {
    config.preset: config
    for config in [
        *TABLE_3,
        _variant("big-en-fr", of=BIG, dropout=0.1, vocab_size=32000),
        _variant("base-en-fr", vocab_size=32000),
        T2T,
        _variant("deep-shallow", num_layers=12, num_decoder_layers=1),
        TINY_SSRU,
        SMALL,
        TINY,
        MULTI30K,
        BASE_MUON,
    ]
}


ROWS: dict[str, Config] = PRESETS | {config.preset: config for config in RECIPE}
"""The presets and the other rows of ablations, by name, in the order of tables."""


def get_preset(name: str) -> Config:
    """The preset, or row of an ablation, called `name`."""
    if name not in ROWS:
        raise ConfigError(f"Expected one of the presets {', '.join(PRESETS)}. Received: {name!r}.")
    return ROWS[name]


def count_parameters(model: ModelConfig) -> int:
    """The number of weights of a model, by formula (the test compares it with the model that is built)."""
    dim, inner = model.model_dim, model.feed_forward_dim
    keys, values = model.num_heads * model.key_dim, model.num_heads * model.value_dim
    attention = dim * (2 * keys + 2 * values)
    if model.attention_bias:
        attention += 2 * keys + values + dim
    feed_forward = 2 * dim * inner + inner + dim
    norm = 2 * dim
    encoder = model.num_layers * (attention + feed_forward + 2 * norm)
    autoregression = dim * (2 * dim + 1) if model.decoder_autoregression == "ssru" else attention
    decoder = model.decoder_layers * (autoregression + attention + feed_forward + 3 * norm)
    if model.norm == "pre":
        encoder, decoder = encoder + norm, decoder + norm
    source, target = model.vocab_size * dim, model.decoder_vocab_size * dim
    matrices = {"all": source, "target": source + target, "none": source + 2 * target}[model.tied_embeddings]
    positions = 2 * model.max_positions * dim if model.positions == "learned" else 0
    bias = model.decoder_vocab_size if model.output_bias else 0
    return matrices + positions + encoder + decoder + bias


def table(vocab_size: int | None = None) -> str:
    """The presets as lines of text, in the columns of the paper's Table 3."""
    heading = ("preset", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "smooth", "steps", "vocabulary", "params")
    rows: list[tuple] = [heading]
    for name, config in PRESETS.items():
        model = replace(config.model, vocab_size=vocab_size or config.model.vocab_size)
        layers = (
            f"{model.num_layers}" if model.num_decoder_layers is None else f"{model.num_layers}+{model.decoder_layers}"
        )
        rows.append((
            name, layers, model.model_dim, model.feed_forward_dim, model.num_heads, model.key_dim, model.value_dim,
            model.dropout, config.training.label_smoothing, f"{config.training.max_steps:,}",
            f"{model.vocab_size:,}", f"{count_parameters(model) / 1e6:.1f}M",
        ))  # fmt: skip
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(heading))]
    lines = [
        "  ".join(str(cell).ljust(width) if column == 0 else str(cell).rjust(width)
                  for column, (cell, width) in enumerate(zip(row, widths)))
        for row in rows
    ]  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)
