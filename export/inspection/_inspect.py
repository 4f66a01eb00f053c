"""Inspection of a SavedModel: contents, the servers that load it, and problems.

Works on any SavedModel, ours or not. The graph is read as data: nothing in it is run, and its ops need not be
registered on this machine.
"""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping

from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.framework import op_def_registry  # Private API: see tests/unit/test_private_apis.py

from tf_transformer._model_versions import list_versions
from tf_transformer.export.inspection._files import (
    GRAPH,
    Variables,
    asset_problems,
    bytes_under,
    damage_problems,
    read_graph,
    read_languages,
    read_variables,
)
from tf_transformer.export.inspection._graph import (
    Place,
    jit_problems,
    op_problems,
    serving_places,
    signature_functions,
    signature_problems,
)
from tf_transformer.export.inspection._releases import (
    FIRST_RELEASE,
    FIRST_RELEASE_OF_ATTRIBUTE,
    RELEASES,
    later,
    reads_graph_version,
    releases_from,
)
from tf_transformer.export.inspection._report import Problem, Report, Signature, Sizes, Tensor

INIT_OP = "__saved_model_init_op"


class NotASavedModel(ValueError):
    """Raised for a path that holds no `saved_model.pb`."""


def inspect_saved_model(path: str | os.PathLike) -> Report:
    """Read the SavedModel in directory `path` and report on it.

    Raises:
        NotASavedModel: There is no `saved_model.pb` in `path`. A damaged one is a problem in the report instead.
    """
    directory = pathlib.Path(path)
    if not (directory / GRAPH).is_file():
        raise NotASavedModel(_not_a_saved_model(directory))
    message = read_graph(directory)
    if isinstance(message, Problem):
        return Report(str(directory), sizes=_sizes(directory), problems=(message,))
    serving = [graph for graph in message.meta_graphs if "serve" in graph.meta_info_def.tags]
    report = _report(directory, (serving or message.meta_graphs)[0])
    if not serving:
        tags = [sorted(graph.meta_info_def.tags) for graph in message.meta_graphs]
        wrong = Problem("signature", f"no graph is tagged 'serve' (there are {tags}): no server finds it")
        report = dataclasses.replace(report, problems=(*report.problems, wrong))
    return report


def _report(directory: pathlib.Path, meta_graph: meta_graph_pb2.MetaGraphDef) -> Report:
    places = list(serving_places(meta_graph))
    counts = collections.Counter(place.node.op for place in places)
    functions = {function.signature.name for function in meta_graph.graph_def.library.function}
    ops = {op: count for op, count in sorted(counts.items()) if op not in functions}
    variables = read_variables(directory, expected="VarHandleOp" in ops or "VariableV2" in ops)
    needs = _needs(meta_graph, places, ops)
    servers, server_problems = _servers(meta_graph, ops, needs)
    signatures = tuple(_signature(meta_graph, name) for name in sorted(meta_graph.signature_def) if name != INIT_OP)
    return Report(
        path=str(directory),
        tensorflow_version=meta_graph.meta_info_def.tensorflow_version,
        producer=meta_graph.graph_def.versions.producer,
        min_consumer=meta_graph.graph_def.versions.min_consumer,
        signatures=signatures,
        sizes=_sizes(directory, meta_graph, variables),
        ops=ops,
        servers=tuple(servers),
        newest_ops=needs,
        languages=read_languages(directory),
        problems=(
            *damage_problems(directory),
            *asset_problems(directory, meta_graph),
            *variables.problems,
            *signature_problems(signatures),
            *op_problems(places),
            *jit_problems(meta_graph, places),
            *server_problems,
        ),
    )


def _needs(meta_graph: meta_graph_pb2.MetaGraphDef, places: Iterable[Place], ops: Iterable[str]) -> dict[str, str]:
    """Ops, and attributes of ops, that came after the oldest known release: name to first release."""
    oldest = RELEASES[0]
    needs = {op: FIRST_RELEASE.get(op, oldest) for op in ops}
    if meta_graph.meta_info_def.stripped_default_attrs:  # what is left of the attributes was set on purpose
        written = {f"{place.node.op}.{name}" for place in places for name in place.node.attr}
        needs |= {name: first for name, first in FIRST_RELEASE_OF_ATTRIBUTE.items() if name in written}
    return {name: first for name, first in needs.items() if first != oldest}


def _servers(
    meta_graph: meta_graph_pb2.MetaGraphDef, ops: Iterable[str], needs: Mapping[str, str]
) -> tuple[list[str], list[Problem]]:
    """The known releases that load the graph, and why there are none."""
    unknown = sorted(op for op in ops if op not in FIRST_RELEASE and op_def_registry.get(op) is None)
    if unknown:
        return [], [
            Problem("unknown_op", f"op {op} is in no known server: it needs one built with that op") for op in unknown
        ]
    first = RELEASES[0]
    for release in needs.values():
        first = later(first, release)
    min_consumer = meta_graph.graph_def.versions.min_consumer
    servers = [release for release in releases_from(first) if reads_graph_version(release, min_consumer)]
    if servers:
        return servers, []
    reason = f"it needs {', '.join(sorted(needs)) or 'a reader'} of {first} and graph version {min_consumer}"
    return [], [Problem("server", f"no release up to {RELEASES[-1]} loads it: {reason}")]


def _signature(meta_graph: meta_graph_pb2.MetaGraphDef, name: str) -> Signature:
    definition = meta_graph.signature_def[name]
    return Signature(
        name=name,
        inputs=tuple(_tensor(each, definition.inputs[each]) for each in sorted(definition.inputs)),
        outputs=tuple(_tensor(each, definition.outputs[each]) for each in sorted(definition.outputs)),
        functions=len(signature_functions(meta_graph, definition)),
    )


def _tensor(name: str, info: meta_graph_pb2.TensorInfo) -> Tensor:
    shape = None if info.tensor_shape.unknown_rank else tuple(dim.size for dim in info.tensor_shape.dim)
    dtype = types_pb2.DataType.Name(info.dtype).removeprefix("DT_").lower()
    return Tensor(name, dtype, shape)


def _sizes(
    directory: pathlib.Path, meta_graph: meta_graph_pb2.MetaGraphDef | None = None, variables: Variables | None = None
) -> Sizes:
    graph = meta_graph.graph_def if meta_graph else None
    functions = graph.library.function if graph else ()
    return Sizes(
        graph_bytes=bytes_under(directory / GRAPH),
        variables_bytes=bytes_under(directory / "variables"),
        assets_bytes=sum(bytes_under(directory / name) for name in ("assets", "assets.extra")),
        total_bytes=bytes_under(directory),
        nodes=len(graph.node) + sum(len(each.node_def) for each in functions) if graph else 0,
        functions=len(functions),
        variables=variables.count if variables else 0,
        parameters=variables.parameters if variables else 0,
    )


def _not_a_saved_model(directory: pathlib.Path) -> str:
    if not directory.exists():
        return f"expected the directory of a SavedModel, but {directory} does not exist"
    versions = list_versions(directory)
    newest = versions[max(versions)] if versions else None
    hint = f"did you mean {newest}?" if newest else "give the directory that tf.saved_model.save wrote"
    return f"expected a SavedModel, but {directory} has no {GRAPH}: {hint}"
