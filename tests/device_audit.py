"""Audit of a graph for GPUs, from TensorFlow's registry of kernels: ops without a kernel, and copies to the host.

The stock wheel registers its GPU kernels whether or not there is a GPU. A kernel may read or write some arguments in
host memory; a tensor that one op writes to device memory and the next reads in host memory is copied, and the step
waits for the copy.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.framework import function_def_to_graph, kernels, op_def_registry

# Not computed: they name inputs and outputs, call functions that are walked by themselves, or order others.
_STRUCTURE = {
    "Placeholder", "NoOp", "PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf",
    "Case", "StatelessCase",
}  # fmt: skip
SMALL = 64
"""Tensors of at most so many elements, such as shapes and counters, may live in host memory."""


class Copy(NamedTuple):
    """A tensor that is copied between host and device memory."""

    producer: str
    consumer: str
    dtype: str
    shape: tuple | None
    direction: str


class Audit(NamedTuple):
    """The ops without a GPU kernel, each with its types, and the copies of tensors that are not small."""

    missing: set[tuple[str, str]]
    copies: set[Copy]
    ops: set[str]


def audit(function: tf.types.experimental.ConcreteFunction) -> Audit:
    """Looks at all ops of a function and of those that it calls."""
    result = Audit(set(), set(), set())
    for graph in _graphs(function):
        for op in graph.get_operations():
            if op.type in _STRUCTURE:
                continue
            result.ops.add(op.type)
            kernel = _gpu_kernel(op)
            if kernel is None:
                result.missing.add((op.type, _types(op)))
            else:
                result.copies.update(_copies(op, kernel))
    return result


def _graphs(function) -> Iterator[tf.Graph]:
    yield function.graph
    library = function.graph.as_graph_def(add_shapes=True).library
    for definition in library.function:
        yield function_def_to_graph.function_def_to_graph(definition, include_library_functions=False)


@functools.cache
def _kernels(op_type: str) -> list:
    found = kernels.get_registered_kernels_for_op(op_type).kernel
    return [kernel for kernel in found if kernel.device_type in ("GPU", "DEFAULT")]


def _gpu_kernel(op):
    fitting = [k for k in _kernels(op.type) if all(_allows(c, op) for c in k.constraint)]
    return min(fitting, key=lambda k: (k.device_type != "GPU", -k.priority), default=None)


def _allows(constraint, op) -> bool:
    value = op.get_attr(constraint.name)
    values = value if isinstance(value, list) else [value]
    return all(tf.as_dtype(v).as_datatype_enum in constraint.allowed_values.list.type for v in values)


def _types(op) -> str:
    return ", ".join(x.dtype.name for x in op.inputs) + " → " + ", ".join(x.dtype.name for x in op.outputs)


def _copies(op, kernel) -> Iterator[Copy]:
    host = _memory(op, kernel, "input_arg", [x.dtype for x in op.inputs])
    for tensor, in_host in zip(op.inputs, host):
        produced = _produced_in_host(tensor)
        if produced is None or produced == in_host or _is_small(tensor):
            continue
        shape = None if tensor.shape.rank is None else tuple(tensor.shape)
        yield Copy(tensor.op.type, op.type, tensor.dtype.name, shape, "to device" if produced else "to host")


def _produced_in_host(tensor) -> bool | None:
    """Whether a tensor is in host memory; None where it is not known, at the inputs of a function."""
    op = tensor.op
    if op.type in _STRUCTURE:
        return None
    kernel = _gpu_kernel(op)
    if kernel is None:
        return True
    return _memory(op, kernel, "output_arg", [x.dtype for x in op.outputs])[tensor.value_index]


def _memory(op, kernel, which: str, dtypes) -> list[bool]:
    """For each input or output whether the kernel has it in host memory."""
    found: list[bool] = []
    for argument in getattr(op_def_registry.get(op.type), which):
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        found += [argument.name in kernel.host_memory_arg] * count
    return found


def _is_small(tensor) -> bool:
    size = tensor.shape.num_elements()
    return tensor.dtype == tf.resource or (size is not None and size <= SMALL) or tensor.shape.rank in (0,)
