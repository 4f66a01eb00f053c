"""The table of targets: figures that the benchmarks print, and rows of peers that were not measured."""

from benchmarks import targets


def test_a_row_has_the_smallest_ratio_or_none():
    training = next(target for target in targets.TARGETS if target.label.startswith("training, small"))
    figures = {"training": {"small_ratio_pytorch": 1.5, "small_ratio_opennmt_tf": 1.3, "ratio_pytorch": 0.1}}
    assert targets.ratio_of(training, figures) == 1.3
    assert targets.ratio_of(training, {"training": {}}) is None


def test_the_table_shows_ratio_and_target():
    about = {"cpu": "2 × CPU (avx2)", "date": "2026-01-01", "rounds": 5}
    target = targets.TARGETS[0]
    lines = targets.markdown(about, [(target, 0.974), (target, None)]).splitlines()
    assert lines[0] == "2 × CPU (avx2), 2026-01-01, medians of 5 rounds"
    assert lines[4:] == [f"| {target.label} | 0.97 | ≥ 1.0 |", f"| {target.label} | – | ≥ 1.0 |"]


def test_every_target_is_of_a_benchmark_that_is_run():
    assert {target.benchmark for target in targets.TARGETS} == set(targets.FLAGS)
    assert targets.cpu_name()


def test_restricted_instructions_are_named(monkeypatch):
    for name in ("ONEDNN_MAX_CPU_ISA", "CT2_FORCE_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"):
        monkeypatch.delenv(name, raising=False)
    assert targets.restrictions() == ""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert targets.restrictions() == ", ONEDNN_MAX_CPU_ISA=AVX2"
