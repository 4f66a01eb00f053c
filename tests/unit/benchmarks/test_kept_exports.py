"""Exports that benchmarks keep: found again with the same options only."""

from benchmarks import kept_exports


def test_a_folder_belongs_to_its_options_and_to_the_code(tmp_path, monkeypatch):
    def folder(**options):
        return kept_exports.kept_folder(tmp_path, "float32_4", **options)

    first = folder(vocab=37000, layout="auto")
    assert first == folder(layout="auto", vocab=37000)
    assert first.parent == tmp_path and first.name.startswith("float32_4-")
    assert first != folder(vocab=37000, layout="avx2")
    monkeypatch.setattr(kept_exports, "_code", lambda: "of another version")
    assert first != folder(vocab=37000, layout="auto")
