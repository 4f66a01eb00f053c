"""Prometheus metrics with the names, labels and buckets of TensorFlow Serving."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client.core import Metric

if TYPE_CHECKING:
    from tf_transformer.export.serving._loading import ServedSignature

PATH = "/monitoring/prometheus/metrics"
CONTENT_TYPE = "text/plain"

_MICROSECONDS = [float(f"{10 * 1.8**power:.6g}") for power in range(33)]
_REQUEST_COUNT = ":tensorflow:serving:request_count"
_LOAD_COUNT = ":tensorflow:cc:saved_model:load_attempt_count"


class Metrics:
    """The metrics of one server.

    TensorFlow Serving's counters have no suffix `_total`, which prometheus_client adds to its own: they are collected
    from dictionaries here. Histograms are prometheus_client's.
    """

    def __init__(self) -> None:
        self._registry = prometheus_client.CollectorRegistry()
        self._request_count: dict[tuple[str, str], int] = {}
        self._load_count: dict[tuple[str, str], int] = {}
        self._request_latency = self._histogram(
            ":tensorflow:serving:request_latency", "Microseconds per request", ["model_name", "API", "entrypoint"]
        )
        self._runtime_latency = self._histogram(
            ":tensorflow:serving:runtime_latency", "Microseconds per call of a model", ["model_name", "API", "runtime"]
        )
        self._registry.register(self)

    def _histogram(self, name: str, text: str, labels: list[str]) -> prometheus_client.Histogram:
        return prometheus_client.Histogram(name, text, labels, registry=self._registry, buckets=_MICROSECONDS)

    def count_request(self, model: str, code: str) -> None:
        """Count an answered request; `code` is TensorFlow's name of the status."""
        self._request_count[model, code] = self._request_count.get((model, code), 0) + 1

    def observe_request(self, model: str, method: str, seconds: float) -> None:
        """Record how long a successful request took."""
        self._request_latency.labels(model, method, "REST").observe(seconds * 1e6)

    def observe_call(self, signature: "ServedSignature", seconds: float) -> None:
        """Record how long a call of the model took."""
        self._runtime_latency.labels(signature.model_name, "Predict", "TF1").observe(seconds * 1e6)

    def count_load(self, path: str, status: str) -> None:
        """Count an attempt to load a version."""
        self._load_count[path, status] = self._load_count.get((path, status), 0) + 1

    def collect(self) -> Iterator[Metric]:
        """The counters, as prometheus_client asks for them."""
        yield _counter(_REQUEST_COUNT, "Requests", ("model_name", "status"), self._request_count)
        yield _counter(_LOAD_COUNT, "Attempts to load a version", ("model_path", "status"), self._load_count)

    def page(self) -> bytes:
        """All metrics in the text format."""
        text = prometheus_client.generate_latest(self._registry).decode("utf-8")
        lines = [line for line in text.splitlines() if "_created" not in line.split("{")[0]]
        return ("\n".join(lines) + "\n").replace(" untyped\n", " counter\n").encode("utf-8")


def _counter(name: str, text: str, labels: tuple[str, str], values: dict) -> Metric:
    metric = Metric(name, text, "unknown")
    for key, value in list(values.items()):
        metric.add_sample(name, dict(zip(labels, key)), value)
    return metric
