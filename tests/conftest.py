"""What every test process shares: quiet TensorFlow, oneDNN on, and a CPU cut into two logical devices."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# On AMD CPUs CTranslate2 computes int8 with oneDNN, whose sums saturate where there is no VNNI; MKL's do not.
os.environ.setdefault("CT2_USE_MKL", "1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import pytest


@pytest.fixture(scope="session", autouse=True)
def _two_logical_devices():
    """Lets MirroredStrategy run on two replicas; has to happen before TensorFlow makes its first tensor."""
    if os.environ["KERAS_BACKEND"] == "tensorflow":
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


@pytest.fixture(autouse=True)
def _fixed_seed():
    import keras

    keras.utils.set_random_seed(7)
