"""The presets beside the paper: what each row changes, and how many parameters it has."""

import dataclasses

import pytest

from tf_transformer import ModelConfig, Transformer
from tf_transformer.presets import BASE, MULTI30K, PRESETS, RECIPE, TABLE_3, count_parameters, get_preset, table

# Table 3's last column, in millions.
PAPER = {
    "base": 65, "B16": 58, "B32": 60, "C-N2": 36, "C-N4": 50, "C-N8": 80, "C-d256": 28, "C-d1024": 168,
    "C-ff1024": 53, "C-ff4096": 90, "big": 213,
}  # fmt: skip


@pytest.mark.parametrize("name", PAPER)
def test_parameters_are_the_papers_up_to_the_vocabulary(name):
    model = PRESETS[name].model
    # The paper says "about 37000" words and rounds to millions; its rows agree on some 5,000 words more or less.
    explained = 5000 * model.model_dim + 0.5e6
    assert abs(count_parameters(model) - PAPER[name] * 1e6) < explained


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre", "attention_bias": False},
        {"positions": "learned", "max_positions": 29},
        {"tied_embeddings": "none", "target_vocab_size": 31, "output_bias": True, "num_decoder_layers": 3},
        {"tied_embeddings": "target", "key_dim": 5},
        {"decoder_autoregression": "ssru"},
    ],
)
def test_the_formula_counts_what_is_built(changes):
    sizes = dict(vocab_size=23, num_layers=2, model_dim=26, num_heads=3, key_dim=11, value_dim=13, feed_forward_dim=17)
    config = ModelConfig(**sizes | changes)
    assert sum(v.shape.num_elements() for v in (w.value for w in Transformer(config).trainable_variables)) == (
        count_parameters(config)
    )


def changed(name, of=BASE):
    """The fields in which a preset differs from `of`, as {section.field: value}."""
    differences = {}
    for section in ("model", "training", "decoding"):
        ours, base = getattr(get_preset(name), section), getattr(of, section)
        for field in dataclasses.fields(ours):
            if getattr(ours, field.name) != getattr(base, field.name):
                differences[f"{section}.{field.name}"] = getattr(ours, field.name)
    return differences


@pytest.mark.parametrize(
    ("name", "differences"),
    [
        ("base", {}),
        ("A1", {"model.num_heads": 1, "model.key_dim": 512, "model.value_dim": 512}),
        ("A4", {"model.num_heads": 4, "model.key_dim": 128, "model.value_dim": 128}),
        ("A16", {"model.num_heads": 16, "model.key_dim": 32, "model.value_dim": 32}),
        ("A32", {"model.num_heads": 32, "model.key_dim": 16, "model.value_dim": 16}),
        ("B16", {"model.key_dim": 16}),
        ("B32", {"model.key_dim": 32}),
        ("C-N2", {"model.num_layers": 2}),
        ("C-N4", {"model.num_layers": 4}),
        ("C-N8", {"model.num_layers": 8}),
        ("C-d256", {"model.model_dim": 256, "model.key_dim": 32, "model.value_dim": 32}),
        ("C-d1024", {"model.model_dim": 1024, "model.key_dim": 128, "model.value_dim": 128}),
        ("C-ff1024", {"model.feed_forward_dim": 1024}),
        ("C-ff4096", {"model.feed_forward_dim": 4096}),
        ("D-drop0.0", {"model.dropout": 0.0}),
        ("D-drop0.2", {"model.dropout": 0.2}),
        ("D-smooth0.0", {"training.label_smoothing": 0.0}),
        ("D-smooth0.2", {"training.label_smoothing": 0.2}),
        ("E", {"model.positions": "learned"}),
    ],
)
def test_rows_of_table_3_change_the_paper_s_fields_only(name, differences):
    assert changed(name) == differences


def test_big():
    differences = changed("big")
    assert differences.pop("training.max_steps") == 300_000
    assert differences.pop("training.keep_checkpoints") == differences.pop("training.average_last") == 20
    assert differences == {
        "model.model_dim": 1024, "model.feed_forward_dim": 4096, "model.num_heads": 16, "model.dropout": 0.3
    }  # fmt: skip


def test_base_is_the_papers():
    model, training, decoding = BASE.model, BASE.training, BASE.decoding
    assert (model.num_layers, model.model_dim, model.feed_forward_dim, model.num_heads) == (6, 512, 2048, 8)
    assert (model.key_dim, model.value_dim, model.dropout, model.attention_dropout) == (64, 64, 0.1, 0.0)
    assert (model.norm, model.activation, model.positions, model.tied_embeddings) == (
        "post", "relu", "sinusoidal", "all"
    )  # fmt: skip
    assert (training.beta1, training.beta2, training.epsilon) == (0.9, 0.98, 1e-9)
    assert (training.warmup_steps, training.label_smoothing, training.max_steps) == (4000, 0.1, 100_000)
    assert (training.batch_tokens, training.average_last, training.checkpoint_minutes) == (25_000, 5, 10.0)
    assert (decoding.beam_size, decoding.alpha, decoding.max_extra_length) == (4, 0.6, 50)


def test_the_table_names_every_preset():
    lines = table().splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(PRESETS)
    assert "big" in {config.preset for config in TABLE_3}
    assert lines[1].split()[-1] == "63.1M"
    assert table(vocab_size=32000).splitlines()[1].split()[-1] == "60.5M"


def test_the_rows_of_the_recipe_change_what_they_name():
    rows = {config.preset: changed(config.preset, of=MULTI30K) for config in RECIPE[2:]}
    assert rows == {
        "multi30k-adam": {"training.optimizer": "adam"},
        "multi30k-adamw": {"training.optimizer": "adamw"},
        "multi30k-cosine": {"training.schedule": "cosine"},
        "multi30k-small-batches": {"training.batch_tokens": 2048},
        "multi30k-wide": {"model.num_layers": 3, "model.model_dim": 256, "model.feed_forward_dim": 512,
                          "training.learning_rate": 3e-3},
        "multi30k-r-drop": {"training.r_drop": 5.0},
        "multi30k-subword-dropout": {"training.subword_dropout": 0.1},
        "multi30k-ema": {"training.ema_decay": 0.998},
        "multi30k-attention-dropout": {"model.attention_dropout": 0.1, "model.feed_forward_dropout": 0.1},
    }  # fmt: skip


def test_a_row_of_the_recipe_is_the_papers():
    assert [config.preset for config in RECIPE[:2]] == ["multi30k", "multi30k-paper"]
    assert changed("multi30k-paper") == {
        "model.vocab_size": 8000, "model.num_layers": 4, "model.model_dim": 128, "model.feed_forward_dim": 256,
        "model.num_heads": 4, "training.max_steps": 7500, "training.max_length": 96, "training.checkpoint_steps": 100,
        "training.validation_steps": 250,
    }  # fmt: skip
