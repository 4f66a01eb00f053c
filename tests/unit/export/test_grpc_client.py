"""The gRPC example against a PredictionService that runs the toy."""

import socket
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
from toy_saved_model import Toy

from tf_transformer.export.serving import grpc_client


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self):
        self.toy = Toy("g:")

    def Predict(self, request, context):
        if request.model_spec.name != "toy":
            context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found")
        response = predict_pb2.PredictResponse()
        for name, value in self.toy.translate(tf.make_ndarray(request.inputs["text"])).items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response


@pytest.fixture(scope="module")
def address():
    server = grpc.server(ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_texts_in_translations_out(address, capsys):
    assert grpc_client.main(["--server", address, "--name", "toy", "hello", "wörld"]) == 0
    assert capsys.readouterr().out == "g:HELLO\ng:WÖRLD\n"


def test_a_missing_server_is_named_with_what_to_do(capsys):
    with socket.socket() as unused:  # bound but not listening: connections are refused
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert grpc_client.main(["--server", address, "--name", "toy", "--connect-timeout", "0.5", "hello"]) == 1
    error = capsys.readouterr().err
    assert f"Expected a gRPC server at {address}. Received: no connection within 0.5 s. Start TensorFlow" in error


def test_an_error_has_its_name(address, capsys):
    assert grpc_client.main(["--server", address, "--name", "other", "hello"]) == 1
    assert "NOT_FOUND: Servable not found" in capsys.readouterr().err
