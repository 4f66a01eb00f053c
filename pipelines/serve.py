"""A local server with TensorFlow Serving's REST paths, for a laptop; production is TensorFlow Serving.

Serves the newest version in each MODEL_BASE, replaces it by a newer one while running, and stops cleanly on SIGTERM:

    curl -d '{"instances": ["Hello."]}' http://127.0.0.1:8501/v1/models/NAME:predict

http://127.0.0.1:8501/ is a page to translate with.
"""

import argparse
from typing import TYPE_CHECKING

from tf_transformer.pipelines import cli

if TYPE_CHECKING:
    from tf_transformer.export.serving import ServerOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model_base", nargs="*", metavar="MODEL_BASE", help="directories with versions (MODEL_BASE/1, …), one per model"
    )
    parser.add_argument("--name", metavar="NAME", help="the model's name in the paths (default: MODEL_BASE's folder)")
    parser.add_argument(
        "--model-config-file",
        "--model_config_file",
        metavar="FILE",
        help="the models in TensorFlow Serving's format, instead of MODEL_BASE",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=8501, help="port to listen at; 0 takes a free one (default: %(default)s)"
    )
    parser.add_argument(
        "--cors",
        "--rest_api_enable_cors_support",
        action="store_true",
        help="let web pages of other origins send requests",
    )
    parser.add_argument(
        "--write-page",
        metavar="DIR",
        help="write the translation page to a directory, for another web server, and exit",
    )
    parser.add_argument("--access-log", action="store_true", help="write one line per request to stderr")
    _add_batching(parser)
    _add_limits(parser)


def _add_batching(parser: argparse.ArgumentParser) -> None:
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


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-request-rows", metavar="N", type=int, default=1024, help="rows in a request (default: %(default)s)"
    )
    parser.add_argument(
        "--max-request-mb", metavar="MB", type=float, default=32, help="size of a request (default: %(default)s)"
    )
    parser.add_argument(
        "--max-connections",
        metavar="N",
        type=int,
        default=4096,
        help="open connections, fewer if the limit of open files is lower (default: %(default)s)",
    )
    parser.add_argument(
        "--request-seconds",
        metavar="S",
        type=float,
        default=60.0,
        help="how long a client may take to send a request or to read its answer (default: %(default)s)",
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
        metavar="S",
        type=float,
        default=30.0,
        help="time for requests in progress when stopping (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    import asyncio

    if args.write_page:
        return _write_page(args)
    from tf_transformer.export.serving import serve

    asyncio.run(serve(_sources(args), options=_options(args)))
    return 0


def _write_page(args: argparse.Namespace) -> int:
    from tf_transformer.export.serving.page import write_page

    given = args.model_base or args.model_config_file
    print(write_page(args.write_page, [source.name for source in _sources(args)] if given else []))
    return 0


def _sources(args: argparse.Namespace) -> list:
    from tf_transformer.export.serving import read_model_config, sources_of_directories

    if bool(args.model_base) == bool(args.model_config_file):
        given = "both" if args.model_base else "neither"
        raise ValueError(f"expected MODEL_BASE or --model-config-file. Received: {given}. Give one of them")
    if args.model_config_file:
        if args.name:
            raise ValueError(
                f"expected --name with one MODEL_BASE. Received: --name {args.name} with --model-config-file. Name the "
                "models in that file"
            )
        return read_model_config(args.model_config_file)
    return sources_of_directories(args.model_base, args.name)


def _options(args: argparse.Namespace) -> "ServerOptions":
    from tf_transformer.export.serving import BatchingOptions, ServerOptions

    batching = BatchingOptions(
        max_batch_size=1 if args.no_batching else args.max_batch_size,
        timeout=args.batch_timeout_ms / 1000,
        workers=args.workers,
    )
    return ServerOptions(
        host=args.host,
        port=args.port,
        max_request_bytes=int(args.max_request_mb * 1024 * 1024),
        max_request_rows=args.max_request_rows,
        max_connections=args.max_connections,
        request_seconds=args.request_seconds,
        poll_seconds=args.poll_seconds,
        shutdown_seconds=args.shutdown_seconds,
        cors=args.cors,
        access_log=args.access_log,
        batching=batching,
    )


if __name__ == "__main__":
    cli.main_of("serve")
