"""The contract of every layer of the package, checked in one place."""

import keras
import numpy as np
from keras import ops

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


def run_layer_contract(layer_class, arguments, inputs, folder, call=None, tolerance=1e-5):
    """Runs one layer through configuration, building, calling, compiling, precision and saving.

    Args:
        layer_class: the class.
        arguments: of its constructor.
        inputs: list of NumPy arrays, the positional arguments of its call.
        folder: where a .keras file may be written.
        call: keyword arguments of its call.
    """
    call = call or {}
    layer = layer_class(**arguments)
    output = ops.convert_to_numpy(layer(*inputs, **call))
    assert np.isfinite(output).all()
    _check_configuration(layer, layer_class, arguments, inputs, call, output)
    _check_shape(layer, inputs, output)
    _check_names(layer)
    if ON_TENSORFLOW:
        _check_compiled(layer, inputs, call, output, tolerance)
    for policy in ("mixed_bfloat16", "mixed_float16"):
        _check_precision(layer, layer_class, arguments, inputs, call, output, policy)
    _check_saved(layer_class, arguments, inputs, folder)


def _check_configuration(layer, layer_class, arguments, inputs, call, output):
    config = layer.get_config()
    for name, value in arguments.items():
        assert config[name] == value, f"get_config() loses {name}"
    twin = layer_class.from_config(config)
    twin(*inputs, **call)
    assert [weight.shape for weight in twin.weights] == [weight.shape for weight in layer.weights]
    twin.set_weights(layer.get_weights())
    np.testing.assert_allclose(ops.convert_to_numpy(twin(*inputs, **call)), output, atol=1e-6)


def _check_shape(layer, inputs, output):
    shapes = [x.shape for x in inputs]
    assert tuple(layer.compute_output_shape(*shapes)) == output.shape
    unknown = [(None, None, *shape[2:]) for shape in shapes]
    assert tuple(layer.compute_output_shape(*unknown)) == (None, None, *output.shape[2:])


def _check_names(layer):
    names = [variable.path for variable in layer.trainable_variables]
    assert len(names) == len(set(names)), "two weights have the same path"


def _check_compiled(layer, inputs, call, output, tolerance):
    import tensorflow as tf

    for xla in (False, True):
        compiled = tf.function(lambda *tensors: layer(*tensors, **call), jit_compile=xla)
        got = compiled(*[tf.constant(x) for x in inputs]).numpy()
        np.testing.assert_allclose(got, output, atol=tolerance, rtol=tolerance)


def _check_precision(layer, layer_class, arguments, inputs, call, output, policy):
    low = layer_class(**arguments, dtype=policy)
    result = low(*inputs, **call)
    assert keras.backend.standardize_dtype(result.dtype) == policy.removeprefix("mixed_")
    assert all(keras.backend.standardize_dtype(w.dtype) == "float32" for w in low.trainable_variables)
    low.set_weights(layer.get_weights())
    got = ops.convert_to_numpy(ops.cast(low(*inputs, **call), "float32"))
    np.testing.assert_allclose(got, output, atol=0.15 if policy == "mixed_bfloat16" else 0.03)


def _check_saved(layer_class, arguments, inputs, folder):
    symbolic = [keras.Input((None, *x.shape[2:]), dtype=str(x.dtype), name=f"in{i}") for i, x in enumerate(inputs)]
    model = keras.Model(symbolic, layer_class(**arguments)(*symbolic))
    path = folder / f"{layer_class.__name__}.keras"
    model.save(path)
    loaded = keras.models.load_model(path)
    np.testing.assert_array_equal(ops.convert_to_numpy(model(list(inputs))), ops.convert_to_numpy(loaded(list(inputs))))
