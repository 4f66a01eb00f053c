"""What can be wrong with a graph that is to be served: its signatures, and ops that have no place in a server."""

from tf_transformer.export.inspect_report import Problem, Tensor

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


def signature_problems(signatures) -> list[Problem]:
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


def op_problems(places) -> list[Problem]:
    """One problem for each op that calls Python or touches files, with the first place it stands in."""
    problems = {}
    for place in places:
        if place.node.op in PYTHON_OPS:
            text = f"op {place.node.op} ({place}) calls Python, which no server has: use TensorFlow ops"
            problems.setdefault(place.node.op, Problem("python", text))
        elif place.node.op in FILE_OPS:
            text = f"op {place.node.op} ({place}) touches files: put what it reads into the graph or the assets"
            problems.setdefault(place.node.op, Problem("files", text))
    return [problems[op] for op in sorted(problems)]


def jit_problems(meta_graph, places) -> list[Problem]:
    """Problems of functions and ops that only run when the server's XLA is on."""
    marked = {each.signature.name for each in meta_graph.graph_def.library.function if each.attr["_XlaMustCompile"].b}
    marked |= {str(place) for place in places if place.node.attr["_XlaMustCompile"].b}
    marked |= {f"op {place.node.op} ({place})" for place in places if place.node.op.startswith("Xla")}
    advice = "a server without --xla_cpu_compilation_enabled fails on its first request; export without jit_compile"
    return [Problem("jit_compile", f"{name} is compiled with XLA: {advice}") for name in sorted(marked)]
