"""The address of `serve` is checked before a model is loaded."""

import socket

import pytest

from tf_transformer.export.serving import ServerOptions
from tf_transformer.pipelines import cli


@pytest.fixture
def base(tmp_path):
    """A MODEL_BASE whose version does not load, and would be named if it was tried."""
    (tmp_path / "en-de" / "1").mkdir(parents=True)
    return str(tmp_path / "en-de")


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_out_of_range_is_rejected(port, base, capsys):
    with pytest.raises(ValueError, match=rf"Expected a port from 0 to 65535\. Received: {port}\."):
        ServerOptions(port=port)
    assert cli.main(["serve", base, f"--port={port}"]) == 1
    assert f"Received: {port}." in capsys.readouterr().err


def test_a_port_in_use_is_named_before_a_model_is_loaded(base, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", base, "--port", str(port)]) == 1
    assert f"Received: host 127.0.0.1, port {port} (Address already in use). Choose" in capsys.readouterr().err


@pytest.mark.parametrize(("host", "reason"), [("192.0.2.1", "Cannot assign"), ("a..b", "")])
def test_a_host_of_no_interface_is_named_before_a_model_is_loaded(host, reason, base, capsys):
    assert cli.main(["serve", base, "--host", host, "--port", "0"]) == 1
    assert f"Received: host {host}, port 0 ({reason}" in capsys.readouterr().err
