"""Commands that are killed at any operation, or cannot write: the result is complete or as before, nothing is left."""

import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest
from forked_commands import Command, CommandForker, hidden_entries, visible_state
from interrupted_verbs import RESULT, VERBS, write_inputs
from running_server import running_server
from toy_data import toy_data, train_command
from toy_saved_model import write_toy

from tf_transformer.export import _publishing as publishing
from tf_transformer.export.inspection import checksum_problems
from tf_transformer.training._reporting import read_log
from tf_transformer.workdir.checkpoints import list_checkpoints, verify_checkpoint

KILLS = 10
FAST = [name for name, verb in VERBS.items() if not verb.slow]
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name, verb in VERBS.items() if verb.slow]
LIMITS = (4096, 20_000)
PAGE = 4
"""Kilobytes in which a file system in memory hands out space."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("interruption") / "inputs")


@pytest.fixture(scope="module")
def forker():
    with CommandForker() as forker:
        yield forker


def places(operations: int, seed: str) -> list[int]:
    """As many places as there are kills, one at random in each part of all operations."""
    choose = random.Random(seed)
    edges = [1 + operations * part // KILLS for part in range(KILLS + 1)]
    return sorted({choose.randrange(low, max(high, low + 1)) for low, high in itertools.pairwise(edges)})


def assert_runs(forker, verb, inputs, folder):
    """The next run succeeds, its result is complete, and nothing is left behind."""
    (outcome,) = forker.run(verb.command(inputs, folder))
    assert outcome.code == 0, outcome.text
    verb.check(folder)
    assert hidden_entries(folder) == []


@pytest.mark.parametrize("name", FAST + SLOW)
def test_killed_at_any_operation(name, forker, inputs, tmp_path):
    verb = VERBS[name]
    folder = verb.folder(inputs, tmp_path, "undisturbed")
    before = visible_state(folder)
    (whole,) = forker.run(verb.command(inputs, folder, watch=True))
    assert whole.code == 0, whole.text
    verb.check(folder)
    # Before each operation the old state was visible, or the new one.
    assert whole.states == [before, visible_state(folder)] or verb.check_steps is not None
    assert hidden_entries(folder) == []
    for place in places(whole.operations, name):
        folder = verb.folder(inputs, tmp_path, str(place))
        before = visible_state(folder)
        (killed,) = forker.run(verb.command(inputs, folder, kill_before=place))
        assert killed.code == -signal.SIGKILL, (place, killed)
        if complete := visible_state(folder) != before:
            (verb.check_steps or verb.check)(folder)
        if complete and not verb.again:
            (rejected,) = forker.run(verb.command(inputs, folder))
            assert rejected.code == 1 and hidden_entries(folder) == [], rejected.text
        else:
            assert_runs(forker, verb, inputs, folder)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", FAST + SLOW)
def test_files_that_may_not_grow(name, forker, inputs, tmp_path):
    """A limit within a write of any library: an error, and for a process that it kills, no trace after the next run."""
    verb = VERBS[name]
    for limit in LIMITS:
        folder = verb.folder(inputs, tmp_path, f"limit-{limit}")
        before = visible_state(folder)
        (failed,) = forker.run(verb.command(inputs, folder, file_bytes=limit))
        if failed.code == 0:  # no file of this command is so large
            continue
        assert_failed(failed, "File too large")
        assert hidden_entries(folder) == []
        assert_unchanged(verb, folder, before)
        (killed,) = forker.run(verb.command(inputs, folder, file_bytes=limit, fatal=True))
        assert killed.code in (-signal.SIGXFSZ, 1), killed.text
        assert_unchanged(verb, folder, before)
        assert_runs(forker, verb, inputs, folder)


def assert_unchanged(verb, folder, before):
    """The earlier result is visible, or complete parts of the result of a command that resumes."""
    if verb.check_steps is None:
        assert visible_state(folder) == before
    else:
        verb.check_steps(folder)


def assert_failed(outcome, reason):
    """A command ended with one message that names what it was writing and why it could not."""
    assert outcome.code == 1 and "Traceback" not in outcome.text, outcome.text
    last = outcome.text.strip().splitlines()[-1]
    assert "could not be written" in last and reason in last and RESULT in last, outcome.text


@pytest.fixture(scope="module")
def mounting_forker():
    """One with mounts of its own, which disappear with it."""
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    with contextlib.suppress(OSError):
        if subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0:
            with CommandForker(*command) as forker:
                yield forker
                return
    pytest.skip("needs permission to mount a file system")


@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
def test_a_full_disk(name, mounting_forker, inputs, tmp_path):
    """The file system has a part of the space that the result needs: an error, and what was there before."""
    verb = VERBS[name]
    content = verb.folder(inputs, tmp_path, "content")
    (folder := tmp_path / "mounted").mkdir()
    empty = mounting_forker.mount(folder, 1 << 20, content).kilobytes
    (whole,) = mounting_forker.run(verb.command(inputs, folder, watch=True))
    assert whole.code == 0, whole.text
    for share in (0.1, 0.5, 0.9):
        (folder := tmp_path / f"mounted-{share}").mkdir()
        pages = int(share * (whole.kilobytes - empty) / PAGE)
        mounting_forker.mount(folder, max(empty + pages * PAGE, PAGE), content)
        (failed,) = mounting_forker.run(verb.command(inputs, folder))
        assert_failed(failed, "No space left on device")
        state, hidden = mounting_forker.inspect(folder)
        assert hidden == []
        assert state == visible_state(content) or verb.check_steps is not None


def test_versions_published_at_once_appear_whole_to_two_servers(tmp_path):
    write_toy(tmp_path / "toy", mark="x:")
    base = tmp_path / "base"
    publish_copy(tmp_path / "toy", base)
    with running_server(base) as one, running_server(base) as other:
        threads = [
            threading.Thread(target=lambda: [publish_copy(tmp_path / "toy", base) for _ in range(4)]) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert_served(base, 13, one, other)


@pytest.mark.slow
def test_exports_at_once_appear_whole_to_two_servers(forker, inputs, tmp_path):
    export = VERBS["export"]
    base = tmp_path / RESULT
    assert forker.run(export.command(inputs, tmp_path))[0].code == 0
    with running_server(base) as one, running_server(base) as other:
        outcomes = forker.run(export.command(inputs, tmp_path), export.command(inputs, tmp_path))
        assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
        assert_served(base, 3, one, other)
    assert hidden_entries(tmp_path) == []


def publish_copy(toy, base):
    with publishing.workspace(base) as place:
        shutil.copytree(toy, place / "written")
        publishing.publish(place / "written", base)


def assert_served(base, newest, *servers):
    """All versions are complete, and each server serves the newest and has rejected none."""
    assert sorted(int(path.name) for path in base.iterdir()) == list(range(1, newest + 1))
    assert all(checksum_problems(path) == [] for path in base.iterdir())
    for server in servers:
        connection, states = server.connect(), {}
        while states.get(newest) != "AVAILABLE":
            time.sleep(0.05)  # the servers poll the directory
            answer = connection.send("GET", connection.model)[1]["model_version_status"]
            assert all(each["status"]["error_code"] == "OK" for each in answer), answer
            states = {int(each["version"]): each["state"] for each in answer}
        assert connection.translate("a") and connection.translate("") == connection.translate("")
        connection.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return toy_data(tmp_path_factory.mktemp("corpus"))


def training(data, folder, *more, steps: int = 20, **options):
    command = train_command(data, folder / "run", "--set", f"training.max_steps={steps}", *more)
    return Command(command[3:], str(folder), **options)


def weights(folder):
    """SHA-256 of the weights of each checkpoint."""
    return {
        path.name: verify_checkpoint(path)["files"]["model.safetensors"]["sha256"]
        for path in list_checkpoints(folder / "run" / "checkpoints")
    }


@pytest.fixture(scope="module")
def undisturbed(forker, data, tmp_path_factory):
    """A run of 10 steps, resumed to 20, that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    for steps in (10, 20):
        (outcome,) = forker.run(training(data, folder, steps=steps))
        assert outcome.code == 0, outcome.text
    return folder


@pytest.mark.slow
def test_a_moved_work_directory_resumes(forker, data, undisturbed, tmp_path):
    (before := tmp_path / "before").mkdir()
    (outcome,) = forker.run(training(data, before, steps=10))
    assert outcome.code == 0, outcome.text
    (after := tmp_path / "elsewhere" / "after").mkdir(parents=True)
    (before / "run").rename(after / "run")
    (outcome,) = forker.run(training(data, after))
    assert outcome.code == 0, outcome.text
    assert weights(after) == weights(undisturbed)


@pytest.mark.slow
def test_a_clock_that_jumps_back_changes_nothing(forker, data, undisturbed, tmp_path):
    """Every reading is an hour earlier than the one before, and the newest files have the oldest times."""
    for steps in (10, 20):
        (outcome,) = forker.run(training(data, tmp_path, steps=steps, clock=3600.0))
        assert outcome.code == 0, outcome.text
        for age, path in enumerate(sorted((tmp_path / "run").rglob("*"))):
            os.utime(path, times=(1e9 - age, 1e9 - age))
    assert weights(tmp_path) == weights(undisturbed)
    logged = [[event["step"] for event in read_log(each / "run" / "logs")] for each in (tmp_path, undisturbed)]
    assert logged[0] == logged[1] == sorted(logged[0])
    for folder in (tmp_path, undisturbed):
        (outcome,) = forker.run(Command(["average", "--workdir", str(folder / "run")], str(folder), clock=3600.0))
        assert outcome.code == 0 and "(steps 10, 15, 20)" in outcome.text, outcome.text
    average = [verify_checkpoint(each / "run" / "checkpoints" / "average")["files"] for each in (tmp_path, undisturbed)]
    assert average[0] == average[1]
    argv = ["export", "--workdir", str(tmp_path / "run"), "--output", str(tmp_path / "models")]
    for version in (1, 2):
        (outcome,) = forker.run(Command(argv, str(tmp_path), clock=3600.0))
        assert outcome.code == 0 and f"models/{version}" in outcome.text, outcome.text
