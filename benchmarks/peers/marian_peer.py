"""Translations and log-probabilities by Marian itself, from a float32 `.npz`, in an environment with `pymarian`.

python marian_peer.py MODEL.npz VOCAB.spm BEAM_SIZE < SENTENCES > JSON
"""

import json
import sys

import pymarian

model, vocabulary, beam_size = sys.argv[1:]
translator = pymarian.Translator(
    models=model,
    vocabs=[vocabulary] * 2,
    beam_size=int(beam_size),
    n_best=True,
    cpu_threads=2,
    mini_batch=16,
    normalize=0,
)
best: dict[int, tuple[str, float]] = {}
for line in "\n".join(translator.translate(sys.stdin.read().splitlines())).split("\n"):
    parts = line.split(" ||| ")
    if len(parts) > 2:
        best.setdefault(int(parts[0]), (parts[1].strip(), float(parts[2].split("=")[1])))
print(json.dumps([best[number] for number in sorted(best)]))
