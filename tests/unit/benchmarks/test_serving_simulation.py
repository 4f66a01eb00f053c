"""The simulation of serving against queues whose figures are known."""

import pytest

from benchmarks.serving_simulation import Server, ServiceTimes, Simulation, replicas_for


def test_full_batches_give_the_throughput_of_the_model():
    times = ServiceTimes.linear(0.030, 0.0015)
    found = Simulation(times, Server(workers=1)).closed_loop(64, 6400)
    assert found["requests_per_second"] == pytest.approx(64 / (0.030 + 64 * 0.0015), rel=0.01)
    assert found["rows_per_call"] == 64


def test_one_client_waits_for_the_timeout_its_own_call_and_both_event_loops():
    times = ServiceTimes({(1, 1): [0.050]})
    found = Simulation(times, Server(timeout=0.002, request_seconds=0.003)).closed_loop(1, 50)
    assert found["p50_ms"] == found["p99_ms"] == pytest.approx(58.0)


def test_without_batches_it_is_an_m_d_1_queue():
    # Mean waiting time of Poisson arrivals at load 0.5 and a constant service time s: s / 2.
    simulation = Simulation(ServiceTimes({(1, 1): [0.1]}), Server(max_batch_size=1, workers=1), seed=3)
    simulation.open_loop(5.0, 20_000)
    assert sum(simulation.latencies) / 20_000 == pytest.approx(0.15, rel=0.03)


def test_times_are_interpolated_between_measured_rows_and_depend_on_the_calls_at_the_same_time():
    times = ServiceTimes({(1, 2): [0.1], (1, 6): [0.3], (2, 2): [0.2], (2, 6): [0.4, 0.8]})
    assert times.at(1, 5, 0.5) == pytest.approx(0.25)
    assert times.at(1, 1, 0.5) == 0.1
    assert times.at(7, 64, 0.0) == 0.4
    assert times.at(7, 64, 0.99) == 0.8


def test_more_replicas_answer_what_one_cannot():
    times, server = ServiceTimes.linear(0.05, 0.01), Server(workers=1)
    machines, found = replicas_for(times, server, rate=200.0, p99_ms=400.0, requests=4000)
    assert machines is not None and machines > 1
    assert found["p99_ms"] < 400.0
    assert Simulation(times, server, machines - 1).open_loop(200.0, 4000)["p99_ms"] >= 400.0


def test_a_limit_below_the_time_of_one_call_cannot_be_met():
    assert replicas_for(ServiceTimes.linear(0.5, 0.0), Server(), 1.0, 300.0) == (None, {})
