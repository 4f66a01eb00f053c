"""A local server with TensorFlow Serving's REST paths, for a laptop; production is TensorFlow Serving.

Serves the newest version in MODEL_BASE, takes over a newer one while running, and stops cleanly on SIGTERM:

    curl -d '{"instances": ["Hello."]}' http://127.0.0.1:8501/v1/models/NAME:predict
"""

import argparse

from tf_transformer.pipelines import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_base", metavar="MODEL_BASE", help="directory with the versions: MODEL_BASE/1, …")
    parser.add_argument("--name", metavar="NAME", help="the model's name in the paths (default: MODEL_BASE's folder)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=8501, help="port to listen at; 0 takes a free one (default: %(default)s)"
    )
    parser.add_argument(
        "--max-batch-size",
        metavar="N",
        type=int,
        default=64,
        help="rows in one call of the model (default: %(default)s)",
    )
    parser.add_argument(
        "--batch-timeout-ms",
        metavar="MS",
        type=float,
        default=2.0,
        help="how long a request waits for others (default: %(default)s)",
    )
    parser.add_argument("--no-batching", action="store_true", help="one call of the model for each request")
    parser.add_argument(
        "--workers", metavar="N", type=int, default=2, help="calls of the model at the same time (default: %(default)s)"
    )
    parser.add_argument(
        "--max-request-rows", metavar="N", type=int, default=1024, help="rows in a request (default: %(default)s)"
    )
    parser.add_argument(
        "--max-request-mb", metavar="MB", type=float, default=32, help="size of a request (default: %(default)s)"
    )
    parser.add_argument(
        "--poll-seconds",
        metavar="S",
        type=float,
        default=1.0,
        help="how often to look for a new version (default: %(default)s)",
    )
    parser.add_argument(
        "--shutdown-seconds",
        type=float,
        default=30.0,
        help="time for open requests when stopping (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    import asyncio

    from tf_transformer.export.serving import BatchingOptions, ServerOptions, serve

    batching = BatchingOptions(
        max_batch_size=1 if args.no_batching else args.max_batch_size,
        timeout=args.batch_timeout_ms / 1000,
        workers=args.workers,
    )
    options = ServerOptions(
        host=args.host,
        port=args.port,
        max_request_bytes=int(args.max_request_mb * 1024 * 1024),
        max_request_rows=args.max_request_rows,
        poll_seconds=args.poll_seconds,
        shutdown_seconds=args.shutdown_seconds,
        batching=batching,
    )
    asyncio.run(serve(args.model_base, args.name, options))
    return 0


if __name__ == "__main__":
    cli.main_of("serve")
