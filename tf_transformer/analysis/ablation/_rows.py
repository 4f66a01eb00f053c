"""Rows of an ablation: presets, scaled down where necessary, next to the paper's Table 3."""

import dataclasses
from collections.abc import Sequence

from tf_transformer.config import Config, ConfigError, ModelConfig
from tf_transformer.presets import BASE, TABLE_3, get_preset


@dataclasses.dataclass(frozen=True)
class PaperRow:
    """One row: English-German, newstest2013, beam search, no checkpoint averaging.

    Args:
        change: what the row changes, in the paper's letters.
        perplexity: a word piece, of the paper's byte-pair vocabulary.
        bleu: as the authors measured it; not sacreBLEU.
        parameters: in millions; None where the paper leaves it blank: as base.
    """

    change: str
    perplexity: float
    bleu: float
    parameters: int | None = None


PAPER: dict[str, PaperRow] = {
    "base": PaperRow("", 4.92, 25.8, 65),
    "A1": PaperRow("h=1, d_k=d_v=512", 5.29, 24.9),
    "A4": PaperRow("h=4, d_k=d_v=128", 5.00, 25.5),
    "A16": PaperRow("h=16, d_k=d_v=32", 4.91, 25.8),
    "A32": PaperRow("h=32, d_k=d_v=16", 5.01, 25.4),
    "B16": PaperRow("d_k=16", 5.16, 25.1, 58),
    "B32": PaperRow("d_k=32", 5.01, 25.4, 60),
    "C-N2": PaperRow("N=2", 6.11, 23.7, 36),
    "C-N4": PaperRow("N=4", 5.19, 25.3, 50),
    "C-N8": PaperRow("N=8", 4.88, 25.5, 80),
    "C-d256": PaperRow("d_model=256, d_k=d_v=32", 5.75, 24.5, 28),
    "C-d1024": PaperRow("d_model=1024, d_k=d_v=128", 4.66, 26.0, 168),
    "C-ff1024": PaperRow("d_ff=1024", 5.12, 25.4, 53),
    "C-ff4096": PaperRow("d_ff=4096", 4.75, 26.2, 90),
    "D-drop0.0": PaperRow("P_drop=0.0", 5.77, 24.6),
    "D-drop0.2": PaperRow("P_drop=0.2", 4.95, 25.5),
    "D-smooth0.0": PaperRow("label smoothing 0.0", 4.67, 25.3),
    "D-smooth0.2": PaperRow("label smoothing 0.2", 5.47, 25.7),
    "E": PaperRow("learned positions", 4.92, 25.7),
    "big": PaperRow("d_model=1024, d_ff=4096, h=16, P_drop=0.3, 300K steps", 4.33, 26.4, 213),
}


_WIDTHS = ("model_dim", "feed_forward_dim", "key_dim", "value_dim")
_ROWS_OF_ONE_CHANGE = {config.preset for config in TABLE_3} - {"base", "big"}


@dataclasses.dataclass(frozen=True)
class AblationOptions:
    """Options shared by all rows of a table.

    Args:
        steps: of training, the same for every row; None: each preset's own.
        scale: factor of all widths (d_model, d_ff, d_k, d_v). Heads stay as they are, so that "h=1" is one head.
        depth_scale: factor of the numbers of layers.
        settings: overrides such as "training.batch_tokens=2048", for every row.
        minutes: of training, the same for every row, instead of steps: each row has as many steps as fit.
        seeds: one training per row and seed; none: one training with the row's own seed.
        averaged: score the average of the last checkpoints instead of the last one.
    """

    steps: int | None = None
    scale: float = 1.0
    depth_scale: float = 1.0
    settings: tuple[str, ...] = ()
    minutes: float | None = None
    seeds: tuple[int, ...] = ()
    averaged: bool = False

    def __post_init__(self) -> None:
        if self.steps is not None and self.minutes is not None:
            raise ConfigError(f"Expected steps or minutes. Received: {self.steps} steps and {self.minutes:g} minutes.")
        if self.minutes is not None and not self.minutes > 0:
            raise ConfigError(f"Expected minutes above 0. Received: {self.minutes:g}.")


def run_name(row: str, seed: int | None) -> str:
    """The directory of one training of a row."""
    return row if seed is None else f"{row}-seed{seed}"


def row_configs(rows: Sequence[str], options: AblationOptions) -> dict[str, Config]:
    """The configuration of each training by its name; rows that scaling makes the same model are rejected."""
    if not rows:
        raise ConfigError("Expected at least one row, such as base or A1. Received: none.")
    configs = {
        run_name(name, seed): _row_config(name, options, seed)
        for seed in options.seeds or (None,)
        for name in dict.fromkeys(rows)
    }
    seen: dict[tuple, str] = {}
    for name, config in configs.items():
        same = seen.setdefault((config.model, config.training), name)
        if same != name:
            raise ConfigError(
                f"Rows {same} and {name} are the same model at scale {options.scale:g} and depth scale "
                f"{options.depth_scale:g}. Choose larger scales, or leave one of the rows out."
            )
    return configs


def _row_config(name: str, options: AblationOptions, seed: int | None) -> Config:
    preset = get_preset(name)
    _check_settings(preset, options.settings)
    config = dataclasses.replace(preset, model=scale_model(preset.model, options.scale, options.depth_scale))
    if options.steps is not None:
        config = with_steps(config, options.steps)
    seeds = [] if seed is None else [f"training.seed={seed}"]
    return config.override([*options.settings, *seeds])


def with_steps(config: Config, steps: int) -> Config:
    """The configuration with so many training steps, and a warm-up of at most a quarter of them.

    A run that is shorter than its warm-up would never reach the peak of the schedule.
    """
    warmup = max(1, min(config.training.warmup_steps, steps // 4))
    return dataclasses.replace(
        config, training=dataclasses.replace(config.training, max_steps=steps, warmup_steps=warmup)
    )


def scale_model(model: ModelConfig, scale: float, depth_scale: float = 1.0) -> ModelConfig:
    """A model with its widths and depths multiplied; nothing falls below 1, and d_model stays even."""
    for name, factor in (("scale", scale), ("depth scale", depth_scale)):
        if not 0 < factor <= 1:
            raise ConfigError(f"Expected the {name} of an ablation above 0 and at most 1. Received: {factor:g}.")
    changes = {name: max(1, round(getattr(model, name) * scale)) for name in _WIDTHS}
    changes["model_dim"] += changes["model_dim"] % 2
    changes["num_layers"] = max(1, round(model.num_layers * depth_scale))
    if model.num_decoder_layers is not None:
        changes["num_decoder_layers"] = max(1, round(model.num_decoder_layers * depth_scale))
    return dataclasses.replace(model, **changes)


def _check_settings(preset: Config, settings: Sequence[str]) -> None:
    """Reject a setting of the field that a row of the table varies."""
    if preset.preset not in _ROWS_OF_ONE_CHANGE:
        return
    for setting in settings:
        section, _, field = setting.partition("=")[0].strip().partition(".")
        own, base = getattr(preset, section, None), getattr(BASE, section, None)
        if own is not None and getattr(own, field, None) != getattr(base, field, None):
            raise ConfigError(
                f"Expected no setting of {section}.{field}, which row {preset.preset} varies. Leave it out."
            )
