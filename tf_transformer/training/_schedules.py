"""Learning rate schedules: the paper's (section 5.3, equation 3), and a warm-up to a given peak."""

import math
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tf_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate schedule of the paper: scale · model_dim^-0.5 · min(step^-0.5, step · warmup_steps^-1.5).

    A linear warm-up, then a decay by the inverse square root. The paper and this training loop count updates from 1.
    Keras optimizers count from 0: with them the first update has learning rate 0.

    Args:
        model_dim: width of the model.
        warmup_steps: updates over which the rate rises.
        scale: a constant factor; 1 in the paper, 2 in tensor2tensor.

    Example:
        >>> optimizer = keras.optimizers.Adam(NoamSchedule(512), beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    """

    def __init__(self, model_dim: int, warmup_steps: int = 4000, scale: float = 1.0):
        super().__init__()
        for name, value in (("model_dim", model_dim), ("warmup_steps", warmup_steps), ("scale", scale)):
            if not value > 0:
                raise ValueError(f"NoamSchedule expects {name} above 0. Received: {value!r}.")
        self.model_dim = model_dim
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step: Any) -> Any:
        """Return the learning rate, a float32 scalar, of update `step` (a number or a scalar tensor)."""
        step = ops.cast(step, "float32")
        rate = ops.minimum(ops.rsqrt(step), step * self.warmup_steps**-1.5)
        return self.scale * self.model_dim**-0.5 * rate

    def get_config(self) -> dict[str, Any]:
        return {"model_dim": self.model_dim, "warmup_steps": self.warmup_steps, "scale": self.scale}


@keras.saving.register_keras_serializable(package="tf_transformer")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up to `peak`, then a decay: inverse square root, cosine to zero, or none.

    Args:
        peak: the learning rate at the end of the warm-up.
        warmup_steps: updates over which the rate rises.
        decay: "inverse_sqrt": peak · sqrt(warmup_steps / step), as in Ott et al. (2018); "cosine": to zero at
            `total_steps` (Loshchilov and Hutter 2017); "constant": peak.
        total_steps: step at which the cosine ends; needed for "cosine" only.

    Example:
        >>> optimizer = keras.optimizers.Adam(WarmupSchedule(5e-4, 4000, "inverse_sqrt"))
    """

    DECAYS = ("inverse_sqrt", "cosine", "constant")

    def __init__(
        self, peak: float, warmup_steps: int = 4000, decay: str = "inverse_sqrt", total_steps: int | None = None
    ):
        super().__init__()
        if not peak > 0 or not warmup_steps > 0:
            raise ValueError(
                f"WarmupSchedule expects peak and warmup_steps above 0. Received: peak={peak!r}, "
                f"warmup_steps={warmup_steps!r}."
            )
        if decay not in self.DECAYS:
            raise ValueError(f"WarmupSchedule expects decay to be one of {self.DECAYS}. Received: {decay!r}.")
        if decay == "cosine" and (total_steps is None or total_steps <= warmup_steps):
            raise ValueError(
                "WarmupSchedule expects total_steps above warmup_steps for the cosine decay. Received: "
                f"total_steps={total_steps!r}, warmup_steps={warmup_steps!r}."
            )
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.decay = decay
        self.total_steps = total_steps

    def __call__(self, step: Any) -> Any:
        """Return the learning rate, a float32 scalar, of update `step` (a number or a scalar tensor)."""
        step = ops.cast(step, "float32")
        return self.peak * ops.minimum(step / self.warmup_steps, self._factor(step))

    def _factor(self, step: Any) -> Any:
        """Fraction of the peak after the warm-up."""
        if self.decay == "inverse_sqrt":
            return ops.rsqrt(ops.maximum(step, self.warmup_steps) / self.warmup_steps)
        if self.decay == "constant":
            return ops.ones_like(step)
        assert self.total_steps is not None  # checked by the constructor
        progress = ops.clip((step - self.warmup_steps) / (self.total_steps - self.warmup_steps), 0.0, 1.0)
        return 0.5 * (1.0 + ops.cos(math.pi * progress))

    def get_config(self) -> dict[str, Any]:
        names = ("peak", "warmup_steps", "decay", "total_steps")
        return {name: getattr(self, name) for name in names}
