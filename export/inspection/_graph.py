"""The graph of a SavedModel: which nodes answer requests, and what a server could not run.

Everything here reads protocol buffers. No op has to be registered, so a SavedModel with ops that this machine
does not know is walked like any other.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from tf_transformer.export.inspection._report import Problem, Signature, Tensor

MAIN_GRAPH = ""


@dataclasses.dataclass(frozen=True)
class Place:
    """One node and its place: `function` is the function's name, or `MAIN_GRAPH`."""

    function: str
    node: node_def_pb2.NodeDef

    def __str__(self) -> str:
        return f"{self.node.name} in {self.function or 'the main graph'}"


def serving_places(meta_graph: meta_graph_pb2.MetaGraphDef) -> Iterator[Place]:
    """Every node of a MetaGraphDef except those that only restore or save variables.

    Restoring reads files by its nature (RestoreV2, MergeV2Checkpoints): the server does that once, when it
    loads, so these nodes are no part of a request.
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


def loader_functions(meta_graph: meta_graph_pb2.MetaGraphDef) -> set[str]:
    """Names of the functions that nothing but restoring and saving calls."""
    bodies = _bodies(meta_graph)
    loader_nodes = _loader_nodes(meta_graph)
    loading: set[str] = set()
    serving: set[str] = set()
    for node in meta_graph.graph_def.node:
        called = loading if node.name in loader_nodes else serving
        called |= _called(node, bodies)
    return _closure(loading, bodies) - _closure(serving, bodies)


def signature_functions(meta_graph: meta_graph_pb2.MetaGraphDef, signature: meta_graph_pb2.SignatureDef) -> set[str]:
    """Names of the functions that a SignatureDef's outputs are computed with."""
    bodies = _bodies(meta_graph)
    nodes = _ancestors(meta_graph, [info.name for info in signature.outputs.values()])
    by_name = {node.name: node for node in meta_graph.graph_def.node}
    called = set()
    for name in nodes:
        called |= _called(by_name[name], bodies)
    return _closure(called, bodies)


def _loader_nodes(meta_graph: meta_graph_pb2.MetaGraphDef) -> set[str]:
    """Names of main-graph nodes that saving and restoring need and no signature does."""
    saver = meta_graph.saver_def
    loading = _ancestors(meta_graph, [saver.save_tensor_name, saver.restore_op_name])
    outputs = [info.name for signature in meta_graph.signature_def.values() for info in signature.outputs.values()]
    return loading - _ancestors(meta_graph, outputs)


def _ancestors(meta_graph: meta_graph_pb2.MetaGraphDef, tensor_names: Iterable[str]) -> set[str]:
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


def _bodies(meta_graph: meta_graph_pb2.MetaGraphDef) -> dict[str, list]:
    return {function.signature.name: function.node_def for function in meta_graph.graph_def.library.function}


def _called(node: node_def_pb2.NodeDef, bodies: Mapping[str, Sequence[node_def_pb2.NodeDef]]) -> set[str]:
    """Names of the functions a node calls: by its op, or through an attribute (such as a loop's body)."""
    names = {node.op}
    for value in node.attr.values():
        names.add(value.func.name)
        names.update(each.name for each in value.list.func)
    return names & bodies.keys()


def _closure(names: set[str], bodies: Mapping[str, Sequence[node_def_pb2.NodeDef]]) -> set[str]:
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            for node in bodies[name]:
                waiting.extend(_called(node, bodies))
    return found


DEFAULT_SIGNATURE = "serving_default"

PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
FILE_OPS = {
    *("ReadFile", "WriteFile", "MatchingFiles", "Save", "SaveV2", "SaveSlices", "Restore", "RestoreV2", "RestoreSlice"),
    *("MergeV2Checkpoints", "LoadAndRemapMatrix", "WholeFileReader", "WholeFileReaderV2", "TextLineReader"),
    *("TextLineReaderV2", "TFRecordReader", "TFRecordReaderV2", "FixedLengthRecordReader"),
    *("FixedLengthRecordReaderV2", "TextLineDataset", "TFRecordDataset", "TFRecordDatasetV2"),
    *("FixedLengthRecordDataset", "FixedLengthRecordDatasetV2", "MatchingFilesDataset", "CreateSummaryFileWriter"),
    *("SaveDataset", "SaveDatasetV2", "LoadDataset", "SnapshotDataset", "SnapshotDatasetV2", "DumpTensor"),
}


def signature_problems(signatures: Sequence[Signature]) -> list[Problem]:
    """Problems of the signatures: none there, or tensors that cannot be batched along dimension 0."""
    if not signatures:
        return [Problem("signature", "there is no signature: export with signatures={'serving_default': …}")]
    problems = []
    if DEFAULT_SIGNATURE not in [signature.name for signature in signatures]:
        problems.append(
            Problem("signature", f"there is no signature {DEFAULT_SIGNATURE!r}: each request has to name one")
        )
    for signature in signatures:
        for kind, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            problems.extend(
                _batching_problem(signature.name, kind, tensor) for tensor in tensors if not _batchable(tensor)
            )
    return problems


def _batchable(tensor: Tensor) -> bool:
    return tensor.shape is not None and len(tensor.shape) > 0 and tensor.shape[0] == -1


def _batching_problem(signature: str, kind: str, tensor: Tensor) -> Problem:
    if tensor.shape is None:
        found = "has an unknown rank"
    elif not tensor.shape:
        found = "is a scalar"
    else:
        found = f"has the fixed size {tensor.shape[0]} in dimension 0"
    text = f"{kind} {tensor.name!r} of signature {signature!r} {found}: batching needs the batch there ([None, …])"
    return Problem("batching", text)


def op_problems(places: Iterable[Place]) -> list[Problem]:
    """One problem for each op that calls Python or touches files, with the first place where it occurs."""
    problems: dict[str, Problem] = {}
    for place in places:
        if place.node.op in PYTHON_OPS:
            text = f"op {place.node.op} ({place}) calls Python, which no server has: use TensorFlow ops"
            problems.setdefault(place.node.op, Problem("python", text))
        elif place.node.op in FILE_OPS:
            text = f"op {place.node.op} ({place}) touches files: put what it reads into the graph or the assets"
            problems.setdefault(place.node.op, Problem("files", text))
    return [problems[op] for op in sorted(problems)]


def jit_problems(meta_graph: meta_graph_pb2.MetaGraphDef, places: Iterable[Place]) -> list[Problem]:
    """Problems of functions and ops that only run when the server's XLA is on."""
    marked = {each.signature.name for each in meta_graph.graph_def.library.function if each.attr["_XlaMustCompile"].b}
    marked |= {str(place) for place in places if place.node.attr["_XlaMustCompile"].b}
    marked |= {f"op {place.node.op} ({place})" for place in places if place.node.op.startswith("Xla")}
    advice = "a server without --xla_cpu_compilation_enabled fails on its first request; export without jit_compile"
    return [Problem("jit_compile", f"{name} is compiled with XLA: {advice}") for name in sorted(marked)]
