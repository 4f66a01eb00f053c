"""The rows of an ablation: the paper's presets, scaled, with what they are about kept."""

import dataclasses

import pytest

from tf_transformer.analysis.ablation._rows import PAPER, AblationOptions, row_configs, scale_model
from tf_transformer.config import ConfigError
from tf_transformer.presets import BASE, PRESETS, TABLE_3


def test_the_paper_has_a_number_for_every_row_of_table_3():
    assert list(PAPER) == [config.preset for config in TABLE_3]


def test_without_options_a_row_is_its_preset():
    assert row_configs(["base", "E"], AblationOptions()) == {"base": PRESETS["base"], "E": PRESETS["E"]}


def test_scale_multiplies_widths_and_leaves_heads():
    model = scale_model(PRESETS["A16"].model, 0.25)
    assert (model.model_dim, model.feed_forward_dim, model.num_heads, model.key_dim) == (128, 512, 16, 8)
    assert model.num_layers == 6


def test_depth_scale_multiplies_layers():
    assert scale_model(PRESETS["C-N4"].model, 1.0, 0.5).num_layers == 2
    deep = scale_model(PRESETS["deep-shallow"].model, 1.0, 0.5)
    assert (deep.num_layers, deep.num_decoder_layers) == (6, 1)


@pytest.mark.parametrize("scale", [0.25, 0.125, 1 / 16])
def test_every_row_still_changes_what_it_is_about(scale):
    rows = [config.preset for config in TABLE_3]
    configs = row_configs(rows, AblationOptions(scale=scale, steps=100))
    base = configs["base"]
    for name in rows[1:-1]:
        before, after = PRESETS[name], configs[name]
        for section in ("model", "training"):
            for field in dataclasses.fields(getattr(BASE, section)):
                changed = getattr(getattr(before, section), field.name) != getattr(getattr(BASE, section), field.name)
                differs = getattr(getattr(after, section), field.name) != getattr(getattr(base, section), field.name)
                assert changed == differs, (name, field.name)


def test_steps_shorten_the_warm_up_with_the_run():
    training = row_configs(["base"], AblationOptions(steps=600))["base"].training
    assert (training.max_steps, training.warmup_steps) == (600, 150)
    assert row_configs(["base"], AblationOptions(steps=90_000))["base"].training.warmup_steps == 4000


def test_settings_hold_for_every_row():
    options = AblationOptions(steps=600, settings=("training.warmup_steps=70", "training.batch_tokens=1024"))
    for config in row_configs(["base", "A1"], options).values():
        assert (config.training.warmup_steps, config.training.batch_tokens) == (70, 1024)


def test_a_setting_of_what_a_row_is_about_is_rejected():
    with pytest.raises(ConfigError, match=r"no setting of model\.num_layers, which row C-N4 varies"):
        row_configs(["base", "C-N4"], AblationOptions(settings=("model.num_layers=3",)))


def test_rows_that_scaling_makes_the_same_are_rejected():
    with pytest.raises(ConfigError, match="Rows C-N2 and C-N4 are the same model"):
        row_configs(["C-N2", "C-N4"], AblationOptions(depth_scale=0.1))


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5])
def test_a_scale_is_a_part_of_one(scale):
    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        row_configs(["base"], AblationOptions(scale=scale))


def test_rows_are_presets():
    with pytest.raises(ConfigError, match="Received: 'F'"):
        row_configs(["F"], AblationOptions())
    with pytest.raises(ConfigError, match="at least one row"):
        row_configs([], AblationOptions())
