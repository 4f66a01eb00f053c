"""The nodes of a SavedModel's graph and functions, told apart: what answers requests, what only loads and saves.

Everything here reads protocol buffers. No op has to be registered, so a SavedModel with ops that this machine
has never heard of is walked like any other.
"""

import dataclasses
from collections.abc import Iterator

MAIN_GRAPH = ""


@dataclasses.dataclass(frozen=True)
class Place:
    """One node and where it stands: `function` is the function's name, or `MAIN_GRAPH`."""

    function: str
    node: object

    def __str__(self):
        return f"{self.node.name} in {self.function or 'the main graph'}"


def serving_places(meta_graph) -> Iterator[Place]:
    """Every node of a MetaGraphDef except those that only restore or save variables.

    Restoring reads files by its nature (RestoreV2, MergeV2Checkpoints): the server does that once, when it
    loads, so these nodes say nothing about requests.
    """
    skipped_nodes = _loader_nodes(meta_graph)
    for node in meta_graph.graph_def.node:
        if node.name not in skipped_nodes:
            yield Place(MAIN_GRAPH, node)
    skipped_functions = loader_functions(meta_graph)
    for function in meta_graph.graph_def.library.function:
        if function.signature.name not in skipped_functions:
            for node in function.node_def:
                yield Place(function.signature.name, node)


def loader_functions(meta_graph) -> set[str]:
    """Names of the functions that nothing but restoring and saving calls."""
    bodies = _bodies(meta_graph)
    loader_nodes = _loader_nodes(meta_graph)
    loading, serving = set(), set()
    for node in meta_graph.graph_def.node:
        called = loading if node.name in loader_nodes else serving
        called |= _called(node, bodies)
    return _closure(loading, bodies) - _closure(serving, bodies)


def signature_functions(meta_graph, signature) -> set[str]:
    """Names of the functions that a SignatureDef's outputs are computed with."""
    bodies = _bodies(meta_graph)
    nodes = _ancestors(meta_graph, [info.name for info in signature.outputs.values()])
    by_name = {node.name: node for node in meta_graph.graph_def.node}
    called = set()
    for name in nodes:
        called |= _called(by_name[name], bodies)
    return _closure(called, bodies)


def _loader_nodes(meta_graph) -> set[str]:
    """Names of main-graph nodes that saving and restoring need and no signature does."""
    saver = meta_graph.saver_def
    loading = _ancestors(meta_graph, [saver.save_tensor_name, saver.restore_op_name])
    outputs = [info.name for signature in meta_graph.signature_def.values() for info in signature.outputs.values()]
    return loading - _ancestors(meta_graph, outputs)


def _ancestors(meta_graph, tensor_names) -> set[str]:
    inputs = {node.name: node.input for node in meta_graph.graph_def.node}
    found, waiting = set(), [_node_of(name) for name in tensor_names]
    while waiting:
        name = waiting.pop()
        if name in inputs and name not in found:
            found.add(name)
            waiting.extend(_node_of(each) for each in inputs[name])
    return found


def _node_of(tensor_name: str) -> str:
    return tensor_name.removeprefix("^").split(":")[0]


def _bodies(meta_graph) -> dict[str, list]:
    return {function.signature.name: function.node_def for function in meta_graph.graph_def.library.function}


def _called(node, bodies) -> set[str]:
    """Names of the functions a node calls: by its op, or through an attribute (a loop's body, say)."""
    names = {node.op}
    for value in node.attr.values():
        names.add(value.func.name)
        names.update(each.name for each in value.list.func)
    return names & bodies.keys()


def _closure(names: set[str], bodies) -> set[str]:
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            for node in bodies[name]:
                waiting.extend(_called(node, bodies))
    return found
