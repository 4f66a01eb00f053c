"""The rows that are trained: presets, scaled down where a laptop is all there is."""

import dataclasses
from collections.abc import Sequence

from tf_transformer.config import Config, ConfigError, ModelConfig
from tf_transformer.presets import BASE, TABLE_3, get_preset

_WIDTHS = ("model_dim", "feed_forward_dim", "key_dim", "value_dim")
_ROWS_OF_ONE_CHANGE = {config.preset for config in TABLE_3} - {"base", "big"}


@dataclasses.dataclass(frozen=True)
class AblationOptions:
    """What all rows of one table have in common.

    Args:
        steps: of training, the same for every row; None: each preset's own.
        scale: factor of all widths (d_model, d_ff, d_k, d_v). Heads stay as they are, so that "h=1" is one head.
        depth_scale: factor of the numbers of layers.
        settings: overrides such as "training.batch_tokens=2048", for every row.
    """

    steps: int | None = None
    scale: float = 1.0
    depth_scale: float = 1.0
    settings: tuple[str, ...] = ()


def row_configs(rows: Sequence[str], options: AblationOptions) -> dict[str, Config]:
    """The configuration of each row by its name; rows that scaling makes the same model are refused."""
    if not rows:
        raise ConfigError("An ablation needs at least one row, such as base or A1.")
    configs = {name: _row_config(name, options) for name in dict.fromkeys(rows)}
    seen: dict[tuple, str] = {}
    for name, config in configs.items():
        same = seen.setdefault((config.model, config.training), name)
        if same != name:
            raise ConfigError(
                f"Rows {same} and {name} are the same model at scale {options.scale:g} and depth scale "
                f"{options.depth_scale:g}. Choose larger scales, or leave one of the rows out."
            )
    return configs


def _row_config(name: str, options: AblationOptions) -> Config:
    preset = get_preset(name)
    _check_settings(preset, options.settings)
    config = dataclasses.replace(preset, model=scale_model(preset.model, options.scale, options.depth_scale))
    if options.steps is not None:
        # A run that is shorter than the warm-up would never reach the schedule's peak.
        warmup = max(1, min(preset.training.warmup_steps, options.steps // 4))
        training = dataclasses.replace(config.training, max_steps=options.steps, warmup_steps=warmup)
        config = dataclasses.replace(config, training=training)
    return config.override(list(options.settings))


def scale_model(model: ModelConfig, scale: float, depth_scale: float = 1.0) -> ModelConfig:
    """A model with its widths and depths multiplied; nothing falls below 1, and d_model stays even."""
    for name, factor in (("scale", scale), ("depth scale", depth_scale)):
        if not 0 < factor <= 1:
            raise ConfigError(f"The {name} of an ablation is above 0 and at most 1, not {factor:g}.")
    changes = {name: max(1, round(getattr(model, name) * scale)) for name in _WIDTHS}
    changes["model_dim"] += changes["model_dim"] % 2
    changes["num_layers"] = max(1, round(model.num_layers * depth_scale))
    if model.num_decoder_layers is not None:
        changes["num_decoder_layers"] = max(1, round(model.num_decoder_layers * depth_scale))
    return dataclasses.replace(model, **changes)


def _check_settings(preset: Config, settings: Sequence[str]) -> None:
    """Refuses a setting of the very field that a row of the table is about."""
    if preset.preset not in _ROWS_OF_ONE_CHANGE:
        return
    for setting in settings:
        section, _, field = setting.partition("=")[0].strip().partition(".")
        own, base = getattr(preset, section, None), getattr(BASE, section, None)
        if own is not None and getattr(own, field, None) != getattr(base, field, None):
            raise ConfigError(f"Row {preset.preset} is about {section}.{field}; it cannot be set for all rows.")
