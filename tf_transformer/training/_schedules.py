"""The paper's learning rate as a Keras schedule (section 5.3, equation 3)."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tf_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """scale · model_dim^-0.5 · min(step^-0.5, step · warmup_steps^-1.5): a linear rise, then the inverse root.

    The paper counts updates from 1, and so does our training loop. Keras's own optimizers count from 0: with
    them the first update has the learning rate 0.

    Args:
        model_dim: the model's width.
        warmup_steps: updates over which the rate rises.
        scale: a constant factor; 1 in the paper, 2 in tensor2tensor.

    Example:
        >>> optimizer = keras.optimizers.Adam(NoamSchedule(512), beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    """

    def __init__(self, model_dim: int, warmup_steps: int = 4000, scale: float = 1.0):
        super().__init__()
        for name, value in (("model_dim", model_dim), ("warmup_steps", warmup_steps), ("scale", scale)):
            if not value > 0:
                raise ValueError(f"NoamSchedule: {name} must be above 0, not {value!r}.")
        self.model_dim = model_dim
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step):
        """The learning rate, a float32 scalar, of update `step` (a number or a scalar tensor)."""
        step = ops.cast(step, "float32")
        rate = ops.minimum(ops.rsqrt(step), step * self.warmup_steps**-1.5)
        return self.scale * self.model_dim**-0.5 * rate

    def get_config(self):
        return {"model_dim": self.model_dim, "warmup_steps": self.warmup_steps, "scale": self.scale}
