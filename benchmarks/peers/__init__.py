"""Other implementations to measure against, each in its own virtual environment.

    python -m benchmarks.peers.setup ENVS                             # once; several minutes and several GB
    ENVS/torch/bin/python -m benchmarks.peers.ctranslate2             # decoding: CTranslate2 float32 and int8
    ENVS/torch/bin/python -m benchmarks.peers.pytorch                 # decoding and training: Hugging Face Marian
    ENVS/opennmt/bin/python -m benchmarks.peers.opennmt_tf            # decoding and training: OpenNMT-tf

Each script builds a Transformer of the given size with random weights and prints one JSON line per measurement. The
output length is forced, so speed does not depend on the weights. All run on the CPU with two threads. They import
nothing of tf_transformer, whose dependencies are not installed in these environments.
"""
