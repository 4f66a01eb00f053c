"""Training: loss, learning rate schedule, optimizer, the loop over `tf.distribute`, and averaging of checkpoints."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
