"""The comparison with eflomal: what it is given, and how its two directions are combined."""

import sys

from benchmarks import alignment
from tf_transformer.data.corpora import phrasebook_alignments

# Links each word to the one at the same place.
STAND_IN = """
class Aligner:
    def align(self, source, target, links_filename_fwd, links_filename_rev):
        rows = [range(min(len(one.split()), len(other.split()))) for one, other in zip(source, target, strict=True)]
        assert all(row for row in rows) and len(rows) > 100
        for name in (links_filename_fwd, links_filename_rev):
            with open(name, "w") as stream:
                stream.writelines(" ".join(f"{n}-{n}" for n in row) + "\\n" for row in rows)
"""


def test_eflomal_reads_words_and_its_links_are_scored(tmp_path, monkeypatch):
    (tmp_path / "eflomal.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    opened = alignment.open_corpus

    class Few:
        def __init__(self, *args, **options):
            self.splits = {name: list(pairs)[:50] for name, pairs in opened(*args, **options).splits.items()}

    monkeypatch.setattr(alignment, "open_corpus", Few)
    pairs = phrasebook_alignments("test", "en", "de")[:50]
    figures = alignment.measure_eflomal(sys.executable, pairs, ["en", "de"])
    rates = [value for name, value in figures.items() if name.endswith("_aer")]
    assert len(rates) == 5 and len(set(rates)) == 1 and 0.05 < rates[0] < 0.9


def test_a_missing_aligner_is_reported(monkeypatch, tmp_path):
    (tmp_path / "eflomal.py").write_text("raise ImportError('no eflomal here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(
        alignment,
        "open_corpus",
        lambda spec, **options: type("Corpus", (), {"splits": {"validation": [], "train": []}}),
    )
    found = alignment.measure_eflomal(sys.executable, phrasebook_alignments("test", "en", "de")[:3], ["en", "de"])
    assert found == {"eflomal": "not run: ImportError: no eflomal here"}


def test_grow_diag_final_and():
    forward, backward = {(0, 0), (1, 1), (2, 1), (4, 4)}, {(0, 0), (1, 1), (1, 2), (6, 0)}
    # Neighbours of common links join them; then links of two words that have none.
    assert alignment.grow_diag_final_and(forward, backward) == {(0, 0), (1, 1), (2, 1), (1, 2), (4, 4)}
