"""Training through a tf.data service of real processes: the same batches, whatever becomes of its workers."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from running_data_service import RunningDataService, free_ports
from toy_data import toy_config, toy_data, train_command
from toy_records import ToyPrepared, listed_pairs

from tf_transformer.data import BatchOptions, DataServiceError, Position, Replicas, training_dataset
from tf_transformer.pipelines.cli import main
from tf_transformer.training._input import DistributedBatches
from tf_transformer.training._run import train
from tf_transformer.workdir import checkpoints

OPTIONS = BatchOptions(batch_tokens=97)


@pytest.fixture(scope="module")
def service():
    with RunningDataService() as running:
        yield running


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return ToyPrepared(tmp_path_factory.mktemp("records"), listed_pairs(509))


def check_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])


def test_two_workers_give_every_batch_once_and_in_order(prepared, service):
    position, replicas = Position(epoch=1, batch=3), Replicas(total=2, count=2)
    arguments = {"seed": 5, "position": position, "replicas": replicas}
    local = training_dataset(prepared, OPTIONS, **arguments).as_numpy_iterator()
    remote = training_dataset(prepared, OPTIONS, **arguments, service=service.address).as_numpy_iterator()
    epochs = set()
    for ours, theirs in itertools.islice(zip(remote, local), 500):
        check_equal(ours, theirs)
        epochs.add(int(ours["position"][0]))
    assert len(epochs) > 1


@pytest.mark.slow
def test_a_worker_that_is_killed_and_restarted_changes_nothing(prepared):
    local = training_dataset(prepared, OPTIONS).as_numpy_iterator()
    with RunningDataService() as service:
        batches = DistributedBatches(
            tf.distribute.get_strategy(),
            lambda _, position: training_dataset(prepared, OPTIONS, position=position, service=service.address),
            service=service.address,
        )
        for number, expected in enumerate(itertools.islice(local, 200)):
            if number == 50:
                service.kill_worker(1)
                service.start_worker(1)
            batch = batches.next()
            check_equal({name: value.numpy() for name, value in batch.items()}, _without_position(expected))
            assert tuple(batches.position) == tuple(expected["position"])


def test_a_service_that_loses_all_workers_ends_the_run_with_its_address(prepared, monkeypatch):
    with RunningDataService() as service:
        batches = DistributedBatches(
            tf.distribute.get_strategy(),
            lambda _, position: training_dataset(prepared, OPTIONS, position=position, service=service.address),
            service=service.address,
        )
        batches.next()
        service.kill_worker(0)
        service.kill_worker(1)
        monkeypatch.setattr("tf_transformer.data._service.WORKER_SECONDS", 2.0)
        monkeypatch.setattr("tf_transformer.training._input.SERVICE_SECONDS", 4.0)
        with pytest.raises(DataServiceError, match=f"tf.data service at {service.address} within 4 s. Received: "):
            for _ in range(1000):
                batches.next()
        with pytest.raises(DataServiceError, match=f"the workers of the tf.data service at {service.address}"):
            training_dataset(prepared, OPTIONS, service=service.address)


def _without_position(batch):
    return {name: value for name, value in batch.items() if name != "position"}


@pytest.mark.slow
def test_training_through_a_service_is_training(service, tmp_path):
    data = toy_data(tmp_path)
    train(data, tmp_path / "local", toy_config())
    train(data, tmp_path / "remote", toy_config(), data_service=service.address)
    ours, theirs = (checkpoints.latest_intact(tmp_path / name / "checkpoints") for name in ("remote", "local"))
    assert ours.name == theirs.name
    assert checkpoints.read_info(ours)["position"] == checkpoints.read_info(theirs)["position"]
    for name, tensor in checkpoints.load_model_tensors(theirs).items():
        np.testing.assert_allclose(checkpoints.load_model_tensors(ours)[name], tensor, atol=1e-5, err_msg=name)


def test_an_unreachable_service_is_named(prepared, tmp_path, capsys):
    address = f"grpc://127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(DataServiceError, match=f"dispatcher of a tf.data service at {address}. Received: .*refused"):
        training_dataset(prepared, OPTIONS, service=address)
    with pytest.raises(DataServiceError, match=r"grpc://HOST:PORT\. Received: 'localhost'"):
        training_dataset(prepared, OPTIONS, service="localhost")
    data = toy_data(tmp_path)
    assert main(train_command(data, tmp_path / "run", "--data-service", address)[3:]) == 1
    assert address in capsys.readouterr().err
