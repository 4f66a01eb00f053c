"""Report of `inspect` on a SavedModel: plain data, as JSON and as text."""

import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem of a SavedModel: its kind, for scripts, and a message, for readers.

    Kinds: `damaged`, `signature`, `batching`, `python`, `files`, `jit_compile`, `unknown_op`, `server`, `numbers`.
    """

    kind: str
    message: str


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or output of a signature; `shape` has -1 where a size is free and is None when the rank is."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name}: {self.dtype} of unknown rank"
        sizes = ", ".join(
            "N" if size == -1 and axis == 0 else "?" if size == -1 else str(size)
            for axis, size in enumerate(self.shape)
        )
        return f"{self.name}: {self.dtype} [{sizes}]"


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature's name and its tensors, in the order of their names."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    functions: int


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of a SavedModel: bytes per file, and counts."""

    graph_bytes: int = 0
    variables_bytes: int = 0
    assets_bytes: int = 0
    total_bytes: int = 0
    nodes: int = 0
    functions: int = 0
    variables: int = 0
    parameters: int = 0


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything `inspect_saved_model` knows about one SavedModel."""

    path: str
    tensorflow_version: str = ""
    producer: int = 0
    min_consumer: int = 0
    signatures: tuple[Signature, ...] = ()
    sizes: Sizes = Sizes()
    ops: dict[str, int] = dataclasses.field(default_factory=dict)
    servers: tuple[str, ...] = ()
    newest_ops: dict[str, str] = dataclasses.field(default_factory=dict)
    languages: dict = dataclasses.field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def oldest_server(self) -> str | None:
        """The oldest release of TensorFlow Serving that loads it, or None when no known one does."""
        return self.servers[0] if self.servers else None

    def to_dict(self) -> dict:
        """The report as JSON-able data."""
        return {**dataclasses.asdict(self), "oldest_server": self.oldest_server, "ok": not self.problems}

    def to_text(self) -> str:
        """The report for a terminal."""
        return "\n".join(
            [*self._lines_of_size(), *self._lines_of_signatures(), *self._lines_of_ops(), *self._lines_of_problems()]
        )

    def _lines_of_size(self) -> Iterator[str]:
        sizes = self.sizes
        yield f"SavedModel {self.path}"
        version = self.tensorflow_version or "unknown"
        yield f"  written by    TensorFlow {version} (graph {self.producer}, for readers from {self.min_consumer} on)"
        yield f"  graph         {_bytes(sizes.graph_bytes)}: {sizes.nodes:,} nodes, {sizes.functions:,} functions"
        numbers = f"{sizes.variables:,} variables, {sizes.parameters:,} numbers"
        yield f"  variables     {_bytes(sizes.variables_bytes)}: {numbers}"
        yield f"  assets        {_bytes(sizes.assets_bytes)}"
        yield f"  in all        {_bytes(sizes.total_bytes)}"

    def _lines_of_signatures(self) -> Iterator[str]:
        if self.languages:
            pair = " to ".join(str(self.languages.get(side) or "?") for side in ("source", "target"))
            targets = self.languages.get("targets")
            others = f"; translate_to: {', '.join(map(str, targets))}" if isinstance(targets, list) else ""
            yield f"Languages: {pair}{others}"
        yield "Signatures"
        for signature in self.signatures:
            inputs = ", ".join(map(str, signature.inputs))
            outputs = ", ".join(map(str, signature.outputs))
            yield f"  {signature.name}: ({inputs}) -> ({outputs})"

    def _lines_of_ops(self) -> Iterator[str]:
        yield f"Ops ({len(self.ops)} kinds)"
        common = sorted(self.ops.items(), key=lambda item: (-item[1], item[0]))
        yield "  " + ", ".join(f"{op} {count}" for op, count in common)
        for op, release in sorted(self.newest_ops.items()):
            yield f"  {op} came with server {release}"
        if self.servers:
            yield f"TensorFlow Serving: {self.servers[0]} and later (known: {', '.join(self.servers)})"
        else:
            yield "TensorFlow Serving: no known release loads it"

    def _lines_of_problems(self) -> Iterator[str]:
        yield f"Problems: {len(self.problems) or 'none'}"
        for problem in self.problems:
            yield f"  [{problem.kind}] {problem.message}"


def _bytes(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("KB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}" if unit != "B" else f"{count} B"
