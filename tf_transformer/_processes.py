"""Facts of this machine, and child processes that end with their parent."""

import os
import platform
from multiprocessing import parent_process


def hardware() -> str:
    """The GPUs of this machine, or its CPU cores, for reports."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus]
    return ", ".join(names) or f"{os.cpu_count()} CPU cores ({platform.machine()})"


def end_with_parent() -> None:
    """Wait for the parent of this process, and end this process when it has ended, even if it was killed."""
    if (parent := parent_process()) is not None:
        parent.join()
    os._exit(1)
