"""An example client for TensorFlow Serving's gRPC interface, with the package tensorflow-serving-api.

gRPC sends tensors instead of JSON and keeps one connection for many requests: worth it for many small requests.

    python -m tf_transformer.export.serving.grpc_client --server 127.0.0.1:8500 --name NAME "Hello."
"""

import argparse
import sys

import grpc

from tf_transformer._startup_messages import suppress_startup_messages

CONNECT_SECONDS = 10.0


def translate(
    channel: grpc.Channel, name: str, texts: list[str], timeout: float = 60.0, target_language: str | None = None
) -> list[str]:
    """Translate each text, all in one request over an open channel; `target_language` is of a multilingual model."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = "serving_default"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(texts, tf.string, [len(texts)]))
    if target_language is not None:
        request.model_spec.signature_name = "translate_to"
        codes = [target_language] * len(texts)
        request.inputs["target_language"].CopyFrom(tf.make_tensor_proto(codes, tf.string, [len(texts)]))
    service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    response = service.Predict(request, timeout=timeout)
    return [each.decode("utf-8", "replace") for each in response.outputs["translation"].string_val]


def main(argv: list[str] | None = None) -> int:
    """Translate the arguments to lines of stdout."""
    suppress_startup_messages()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="+", help="what to translate")
    parser.add_argument("--server", default="127.0.0.1:8500", help="host and gRPC port (default: %(default)s)")
    parser.add_argument("--name", required=True, help="the model's name")
    parser.add_argument("--target-language", metavar="CODE", help="of a multilingual model (default: the fixed one)")
    parser.add_argument(
        "--connect-timeout", type=float, default=CONNECT_SECONDS, metavar="S",
        help="seconds to wait for the connection (default: %(default)g)",
    )  # fmt: skip
    args = parser.parse_args(argv)
    try:
        with grpc.insecure_channel(args.server) as channel:
            grpc.channel_ready_future(channel).result(timeout=args.connect_timeout)
            print("\n".join(translate(channel, args.name, args.text, target_language=args.target_language)))
    except grpc.FutureTimeoutError:
        print(
            f"grpc_client: Expected a gRPC server at {args.server}. Received: no connection within "
            f"{args.connect_timeout:g} s. Start TensorFlow Serving and publish its gRPC port "
            "(`docker run -p 8500:8500 …`; 8501 is the port of REST), or give another --server.",
            file=sys.stderr,
        )
        return 1
    except grpc.RpcError as error:
        print(f"grpc_client: {error.code().name}: {error.details()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
