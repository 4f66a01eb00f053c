"""Search over a decoder: beam, greedy and sampling as plain TensorFlow graphs, and the translator built on them."""
