"""Configuration: types, limits, unknown keys, overrides, JSON."""

import dataclasses
import json
import typing

import pytest

from tf_transformer.config import Config, ConfigError, DecodingConfig, ModelConfig, TrainingConfig
from tf_transformer.presets import PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_json_round_trip(name, tmp_path):
    PRESETS[name].save(tmp_path / "config.json")
    assert Config.load(tmp_path / "config.json") == PRESETS[name]


def test_configurations_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().dropout = 0.5


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        (ModelConfig, {"dropout": 1.0}, r"model\.dropout must be at least 0 and below 1\. Received: 1\.0"),
        (ModelConfig, {"num_heads": 0}, r"model\.num_heads must be at least 1\. Received: 0"),
        (ModelConfig, {"num_heads": 8.0}, r"model\.num_heads must be int\. Received: 8\.0"),
        (ModelConfig, {"num_layers": True}, r"model\.num_layers must be int\. Received: True"),
        (ModelConfig, {"norm": "both"}, r"model\.norm must be 'post' or 'pre'\. Received: 'both'"),
        (ModelConfig, {"model_dim": 7}, r"model\.model_dim must be even \(sines and cosines\)\. Received: 7"),
        (ModelConfig, {"vocab_size": 3}, r"model\.vocab_size must be at least 4"),
        (ModelConfig, {"eos_id": 2}, r"model\.eos_id must be an id of its own\. Received: 2"),
        (ModelConfig, {"bos_id": 40000}, r"model\.bos_id must be an id of the vocabulary, 0 to 36999. Received: 40000"),
        (ModelConfig, {"target_vocab_size": 9}, r"model\.tied_embeddings must be 'target' or 'none' where"),
        (TrainingConfig, {"max_steps": 0}, r"training\.max_steps must be at least 1\. Received: 0"),
        (TrainingConfig, {"ema_decay": 1.0}, r"training\.ema_decay must be None or between 0 and 1"),
        (TrainingConfig, {"checkpoint_minutes": -1}, r"training\.checkpoint_minutes must be None or above 0"),
        (DecodingConfig, {"length_reward": -0.1}, r"decoding\.length_reward must be at least 0\. Received: -0\.1"),
        (DecodingConfig, {"nbest": 0}, r"decoding\.nbest must be None or at least 1\. Received: 0"),
        (DecodingConfig, {"top_p": 0.0}, r"decoding\.top_p must be above 0 and at most 1\. Received: 0\.0"),
    ],
)
def test_impossible_values_are_rejected_by_name(section, values, message):
    with pytest.raises(ConfigError, match=message):
        section(**values)


def test_unknown_keys_are_rejected_by_name():
    with pytest.raises(
        ConfigError, match=r"Expected a field of training: batch_tokens, .* Received: training\.learning_speed\."
    ):
        TrainingConfig.from_dict({"learning_speed": 0.1})
    with pytest.raises(ConfigError, match=r"Expected a field of config: .* Received: config\.optimizer"):
        Config.from_dict({"optimizer": {}})


def test_overrides_are_typed():
    config = Config().override(
        [
            "training.max_steps=60",
            "training.checkpoint_minutes=none",
            "training.gradient_clip_norm=1",
            "training.xla=true",
            "model.norm=pre",
        ]
    )
    assert config.training.max_steps == 60
    assert config.training.checkpoint_minutes is None
    assert config.training.gradient_clip_norm == 1.0 and isinstance(config.training.gradient_clip_norm, float)
    assert config.training.xla is True
    assert config.model == dataclasses.replace(ModelConfig(), norm="pre")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("max_steps=60", "Expected section.field=value with a section of model, training, decoding"),
        ("training.max_steps", r"Expected section\.field=value"),
        ("trainer.max_steps=60", r"Expected section\.field=value"),
        ("training.steps=60", r"Received: training\.steps\."),
        ("training.max_steps=many", r"training\.max_steps must be int\. Received: 'many'"),
        ("training.max_steps=6.5", r"training\.max_steps must be int\. Received: '6\.5'"),
        ("training.xla=1", r"training\.xla must be bool\. Received: '1'"),
        ("training.learning_rate_scale=inf", r"training\.learning_rate_scale must be float\. Received: inf"),
        ("decoding.alpha=nan", r"decoding\.alpha must be float\. Received: nan"),
        ("model.dropout=2", r"model\.dropout must be at least 0 and below 1"),
    ],
)
def test_wrong_overrides_are_rejected(setting, message):
    with pytest.raises(ConfigError, match=message):
        Config().override([setting])


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"preset": "ba')
    with pytest.raises(ConfigError, match=r"config\.json is not JSON"):
        Config.load(tmp_path / "config.json")
    (tmp_path / "config.json").write_text(json.dumps([1]))
    with pytest.raises(ConfigError, match=r"must contain a JSON object\. Received: list"):
        Config.load(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        (ModelConfig, "num_layers", 10**9),
        (ModelConfig, "vocab_size", 10**12),
        (ModelConfig, "model_dim", 10**6),  # times the vocabulary
        (TrainingConfig, "max_steps", 2**63),
        (TrainingConfig, "learning_rate", 10**400),
        (TrainingConfig, "learning_rate", 1e300),
        (DecodingConfig, "beam_size", 10**9),
        (DecodingConfig, "max_extra_length", 2**31 - 1),
        (DecodingConfig, "alpha", float("inf")),
    ],
)
def test_absurd_values_are_rejected_by_name(section, field, value):
    with pytest.raises(ConfigError, match=rf"^{section.section}\.{field} must be ") as caught:
        section(**{field: value})
    assert len(str(caught.value)) < 300


def test_every_number_has_a_bound():
    bounded_below_one = {"dropout", "attention_dropout", "feed_forward_dropout", "beta1", "beta2", "label_smoothing",
                         "ema_decay", "top_p", "seed", "pad_id", "bos_id", "eos_id", "subword_dropout"}  # fmt: skip
    for section in (ModelConfig, TrainingConfig, DecodingConfig):
        for field in dataclasses.fields(section):
            kinds = {field.type, *typing.get_args(field.type)}
            if kinds & {int, float}:
                assert field.name in section.largest.keys() | bounded_below_one, field.name


def test_deeply_nested_json_is_rejected(tmp_path):
    (tmp_path / "config.json").write_text('{"model":' * 100_000)
    with pytest.raises(ConfigError, match=r"config\.json is not JSON of a configuration"):
        Config.load(tmp_path / "config.json")


def test_a_file_with_fields_that_cannot_be_is_named(tmp_path):
    for values in ({"model": {"num_layers": 0}}, {"x" * 5000: 1}, {"model": []}):
        (tmp_path / "config.json").write_text(json.dumps(values))
        with pytest.raises(ConfigError, match=r"config\.json: ") as error:
            Config.load(tmp_path / "config.json")
        assert len(str(error.value)) < 1000
