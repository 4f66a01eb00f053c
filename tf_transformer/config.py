"""Configuration of a run: frozen, validated dataclasses whose defaults are the paper's base model."""

import dataclasses
import json
import pathlib
import re
from typing import Any, ClassVar, Literal

from tf_transformer._typed_fields import ConfigError, TypedFields

# Keys of a work directory's config.json besides the configuration.
_ENVIRONMENT = ("versions", "devices")

__all__ = ["Config", "ConfigError", "DecodingConfig", "ModelConfig", "TrainingConfig"]


@dataclasses.dataclass(frozen=True)
class ModelConfig(TypedFields):
    """The architecture (section 3 of the paper). The options the paper does not have serve imported models."""

    section: ClassVar[str] = "model"
    largest: ClassVar[dict[str, float]] = {
        **dict.fromkeys(("vocab_size", "target_vocab_size"), 10_000_000),
        **dict.fromkeys(("num_layers", "num_decoder_layers"), 1000),
        **dict.fromkeys(
            ("model_dim", "feed_forward_dim", "max_positions", "position_offset", "attention_block_size"), 1_000_000
        ),
        **dict.fromkeys(("num_heads", "key_dim", "value_dim"), 100_000),
        "norm_epsilon": 1.0,
    }

    vocab_size: int = 37000
    """Vocabulary size of the source, and of the target if `target_vocab_size` is None."""
    target_vocab_size: int | None = None
    num_layers: int = 6
    num_decoder_layers: int | None = None
    """None: as many as `num_layers`, which is then the depth of both stacks."""
    model_dim: int = 512
    feed_forward_dim: int = 2048
    num_heads: int = 8
    key_dim: int = 64
    value_dim: int = 64
    dropout: float = 0.1
    """On every sub-layer's output and on the sums of embedding and position (section 5.4)."""
    attention_dropout: float = 0.0
    """On the attention weights, as in tensor2tensor (arXiv 1803.07416)."""
    feed_forward_dropout: float = 0.0
    """Inside the feed-forward network, as in tensor2tensor."""
    activation: Literal["relu", "gelu", "swish"] = "relu"
    norm: Literal["post", "pre"] = "post"
    """post: LayerNorm(x + Sublayer(x)), the paper. pre: x + Sublayer(LayerNorm(x)), and one more at the end."""
    norm_epsilon: float = 1e-6
    positions: Literal["sinusoidal", "t2t", "marian", "learned"] = "sinusoidal"
    """sinusoidal: interleaved, the paper. t2t: sines then cosines, divisor d/2 - 1. marian: sines then cosines."""
    max_positions: int = 1024
    """Rows of the table of learned positions; the others have no limit."""
    position_offset: int = 0
    """Position of the first token; M2M-100 counts from 2. Learned positions count from 0."""
    embedding_norm: bool = False
    """Normalize the sums of embedding and position, as mBART does."""
    decoder_autoregression: Literal["attention", "ssru"] = "attention"
    """Autoregression of the decoder. attention: the paper. ssru: a recurrent unit of constant cost, as in Marian."""
    attention_bias: bool = True
    output_bias: bool = False
    tied_embeddings: Literal["all", "target", "none"] = "all"
    """all: one matrix for source, target and logits (section 3.4). target: target and logits share one."""
    scale_embeddings: bool = True
    attention_block_size: int | None = None
    """Keys per block in blockwise attention; None: the complete matrix of attention weights is computed."""
    pad_id: int = 0
    bos_id: int = 2
    eos_id: int = 3

    def validate(self) -> None:
        for field in (
            "num_layers",
            "model_dim",
            "feed_forward_dim",
            "num_heads",
            "key_dim",
            "value_dim",
            "max_positions",
        ):
            self.require(field, getattr(self, field) >= 1, "at least 1")
        for field in ("dropout", "attention_dropout", "feed_forward_dropout"):
            self.require(field, 0.0 <= getattr(self, field) < 1.0, "at least 0 and below 1")
        for field in ("target_vocab_size", "num_decoder_layers", "attention_block_size"):
            self.require(field, getattr(self, field) is None or getattr(self, field) >= 1, "None or at least 1")
        self.require("vocab_size", self.vocab_size >= 4, "at least 4 (PAD, UNK, BOS and EOS)")
        self.require("norm_epsilon", self.norm_epsilon > 0, "above 0")
        table = max(self.vocab_size, self.decoder_vocab_size) * self.model_dim
        self.require("model_dim", table <= 2**34, f"at most {2**34:,} / vocab_size (an embedding of 64 GiB)")
        learned = self.positions == "learned"
        self.require("position_offset", self.position_offset >= 0, "at least 0")
        self.require("position_offset", not (learned and self.position_offset), "0 where positions are learned")
        self.require("model_dim", self.model_dim % 2 == 0 or learned, "even (sines and cosines)")
        smaller = min(self.vocab_size, self.decoder_vocab_size)
        for field in ("pad_id", "bos_id", "eos_id"):
            self.require(field, 0 <= getattr(self, field) < smaller, f"an id of the vocabulary, 0 to {smaller - 1}")
        self.require("eos_id", self.eos_id not in (self.pad_id, self.bos_id), "an id of its own")
        self.require(
            "tied_embeddings",
            self.tied_embeddings != "all" or self.decoder_vocab_size == self.vocab_size,
            "'target' or 'none' where source and target have vocabularies of different sizes",
        )

    @property
    def decoder_vocab_size(self) -> int:
        return self.target_vocab_size or self.vocab_size

    @property
    def decoder_layers(self) -> int:
        return self.num_decoder_layers or self.num_layers


@dataclasses.dataclass(frozen=True)
class TrainingConfig(TypedFields):
    """The training recipe (section 5 of the paper), and how the run is kept and watched."""

    section: ClassVar[str] = "training"
    largest: ClassVar[dict[str, float]] = {
        **dict.fromkeys(("max_steps", "warmup_steps", "checkpoint_steps", "validation_steps", "bleu_steps"), 10**9),
        **dict.fromkeys(("batch_tokens", "bleu_samples"), 100_000_000),
        **dict.fromkeys(("max_length", "early_stopping", "skipped_steps_limit"), 1_000_000),
        **dict.fromkeys(("accumulation_steps", "steps_per_call", "keep_checkpoints", "average_last"), 100_000),
        **dict.fromkeys(("learning_rate_scale", "learning_rate"), 1e30),
        **dict.fromkeys(("weight_decay", "r_drop"), 1e6),
        **dict.fromkeys(("checkpoint_minutes", "gradient_clip_norm"), 1e9),
        "epsilon": 1.0,
    }

    batch_tokens: int = 25000
    """Tokens of the source and of the target each, per update, over all replicas."""
    accumulation_steps: int = 1
    """Micro-batches per update, computed one after another to save memory."""
    batching: Literal["bucket", "pack"] = "bucket"
    max_length: int = 256
    """Pairs with a longer side, in tokens, are dropped from training."""
    max_steps: int = 100_000
    schedule: Literal["noam", "inverse_sqrt", "cosine", "constant"] = "noam"
    """noam: the paper's. The others rise to `learning_rate`: inverse_sqrt (arXiv 1806.00187), constant, and cosine
    (arXiv 1608.03983), which falls to zero at `max_steps`."""
    warmup_steps: int = 4000
    learning_rate_scale: float = 1.0
    """Factor of the noam schedule."""
    learning_rate: float = 5e-4
    """Peak learning rate of the other schedules."""
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    weight_decay: float = 0.01
    """Weight decay of adamw (arXiv 1711.05101) and muon (arXiv 2502.16982)."""
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    label_smoothing: float = 0.1
    r_drop: float = 0.0
    """Weight of the divergence between two dropout passes (R-Drop, arXiv 2106.14448); 0: one pass per batch."""
    subword_dropout: float = 0.0
    """Probability that a subword is split, drawn again in each epoch (after BPE-dropout, arXiv 1910.13267)."""
    freeze: str = ""
    """Parts whose weights are frozen, separated by commas: encoder, decoder, embeddings."""
    gradient_clip_norm: float | None = None
    ema_decay: float | None = None
    """Decay of a moving average of the weights (Polyak and Juditsky 1992), which is validated and saved."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    xla: bool = False
    steps_per_call: int = 10
    """Updates per call from Python."""
    seed: int = 1
    checkpoint_steps: int | None = None
    checkpoint_minutes: float | None = 10.0
    """Section 6.1: checkpoints at 10-minute intervals. Steps and minutes may both be set."""
    keep_checkpoints: int = 5
    average_last: int = 5
    validation_steps: int = 1000
    bleu_steps: int | None = None
    """Steps between BLEU scores on a sample of the validation set; None: no BLEU during training."""
    bleu_samples: int = 200
    early_stopping: int | None = None
    """Validations without a better perplexity after which the run ends; None: no early stopping."""
    skipped_steps_limit: int = 20
    """Consecutive steps with a loss or gradient that is not finite, after which the run ends."""

    def validate(self) -> None:
        at_least_one = (
            "batch_tokens accumulation_steps max_length max_steps warmup_steps steps_per_call keep_checkpoints"
        )
        for field in f"{at_least_one} average_last validation_steps bleu_samples skipped_steps_limit".split():
            self.require(field, getattr(self, field) >= 1, "at least 1")
        for field in ("checkpoint_steps", "bleu_steps", "early_stopping"):
            self.require(field, getattr(self, field) is None or getattr(self, field) >= 1, "None or at least 1")
        for field in ("checkpoint_minutes", "gradient_clip_norm"):
            self.require(field, getattr(self, field) is None or getattr(self, field) > 0, "None or above 0")
        for field in ("beta1", "beta2", "label_smoothing", "subword_dropout"):
            self.require(field, 0.0 <= getattr(self, field) < 1.0, "at least 0 and below 1")
        for field in ("epsilon", "learning_rate_scale", "learning_rate"):
            self.require(field, getattr(self, field) > 0, "above 0")
        for field in ("r_drop", "weight_decay"):
            self.require(field, getattr(self, field) >= 0, "at least 0")
        parts = {part.strip() for part in self.freeze.split(",") if part.strip()}
        self.require("freeze", parts < {"encoder", "decoder", "embeddings"}, "a part of 'encoder,decoder,embeddings'")
        self.require(
            "schedule",
            self.schedule != "cosine" or self.max_steps > self.warmup_steps,
            f"other than 'cosine' where max_steps ({self.max_steps}) is not above warmup_steps ({self.warmup_steps})",
        )
        self.require("ema_decay", self.ema_decay is None or 0 < self.ema_decay < 1, "None or between 0 and 1")
        self.require("seed", 0 <= self.seed < 2**31, "at least 0 and below 2^31")


@dataclasses.dataclass(frozen=True)
class DecodingConfig(TypedFields):
    """The search (section 6.1 of the paper)."""

    section: ClassVar[str] = "decoding"
    largest: ClassVar[dict[str, float]] = {
        **dict.fromkeys(("beam_size", "nbest", "no_repeat_ngram"), 1000),
        **dict.fromkeys(("max_extra_length", "max_length", "min_length", "max_source_length"), 1_000_000),
        **dict.fromkeys(("alpha", "length_reward", "coverage_penalty"), 1e6),
        **dict.fromkeys(("diversity", "temperature", "max_length_factor"), 1e6),
        "top_k": 10_000_000,
    }

    beam_size: int = 4
    length_penalty: Literal["gnmt", "average"] = "gnmt"
    """gnmt: ((5 + length) / 6) ** alpha, the paper. average: length ** alpha, as in Marian and CTranslate2."""
    alpha: float = 0.6
    """Exponent of the length penalty."""
    length_reward: float = 0.0
    """Added to a translation's score for each token (He et al. 2016), usually with an alpha of 0."""
    early_stopping: bool = False
    """Stop when `beam_size` outputs are finished, as CTranslate2 does; else when no better one can be reached."""
    max_extra_length: int = 50
    """The longest output is the input's length plus this."""
    max_length: int | None = None
    """Tokens of an output with EOS, at most, whatever the input's length."""
    max_length_factor: float | None = None
    """The longest output is the input's length times this, as in Marian; the strictest of the limits holds."""
    min_length: int = 0
    max_source_length: int = 256
    """Tokens of a source sentence with EOS. Longer ones are split, or truncated without segmentation."""
    segmentation: bool = True
    """Split texts of several sentences or lines, and translate them sentence by sentence."""
    alignment_heads: str = ""
    """Heads whose cross-attention aligns words: layers and heads from 1, such as "3,4.2"; "": the upper layers' all."""
    failure_detection: bool = True
    """Check translations for repetition, length and coverage, and search again with constraints if a check fails."""
    unknown: Literal["copy", "never", "keep"] = "copy"
    """UNK. copy: becomes the aligned source text; none with byte fallback. never: none. keep: produced, as "⁇"."""
    nbest: int | None = None
    """Translations that the signature `nbest` of an export returns; None: all beams."""
    no_repeat_ngram: int = 0
    coverage_penalty: float = 0.0
    diversity: float = 0.0
    sampling: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def validate(self) -> None:
        for field in ("beam_size", "max_source_length"):
            self.require(field, getattr(self, field) >= 1, "at least 1")
        for field in ("nbest", "max_length", "max_length_factor"):
            value = getattr(self, field)
            self.require(field, value is None or value >= 1, "None or at least 1")
        for field in (
            "alpha",
            "length_reward",
            "max_extra_length",
            "min_length",
            "no_repeat_ngram",
            "coverage_penalty",
            "diversity",
            "top_k",
        ):
            self.require(field, getattr(self, field) >= 0, "at least 0")
        heads = re.fullmatch(r"(\d{1,6}(\.\d{1,6})?(,(?=\d)|$))*", self.alignment_heads.replace(" ", ""))
        self.require("alignment_heads", heads is not None, 'layers or heads separated by commas, such as "3,4.2"')
        self.require("temperature", self.temperature > 0, "above 0")
        self.require("top_p", 0 < self.top_p <= 1, "above 0 and at most 1")
        self.require("seed", 0 <= self.seed < 2**31, "at least 0 and below 2^31")


@dataclasses.dataclass(frozen=True)
class Config(TypedFields):
    """Configuration of a run. `preset` is the name of the preset it is based on."""

    section: ClassVar[str] = "config"

    preset: str = "base"
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    def override(self, settings: list[str]) -> "Config":
        """This configuration with settings like "training.max_steps=60" applied, in order."""
        config = self
        for setting in settings:
            config = config._override_one(setting)
        return config

    def _override_one(self, setting: str) -> "Config":
        path, equals, text = setting.partition("=")
        name, dot, field = path.strip().partition(".")
        sections: dict[str, Any] = {"model": self.model, "training": self.training, "decoding": self.decoding}
        if not equals or not dot or name not in sections:
            raise ConfigError(
                f"Expected section.field=value with a section of {', '.join(sections)}. Received: {setting!r}."
            )
        changed = dataclasses.replace(sections[name], **{field: sections[name].parse(field, text.strip())})
        return dataclasses.replace(self, **{name: changed})

    def save(self, path: str | pathlib.Path) -> None:
        from tf_transformer._files import write_json

        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | pathlib.Path) -> "Config":
        """Read a file written by `save`; the keys "versions" and "devices" of a run's environment are ignored."""
        path = pathlib.Path(path)
        try:
            values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not JSON of a configuration. Received: {error}.") from error
        if not isinstance(values, dict):
            raise ConfigError(f"{path} must contain a JSON object. Received: {type(values).__name__}.")
        try:
            return cls.from_dict({key: value for key, value in values.items() if key not in _ENVIRONMENT})
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
