"""The built-in English–German corpus: a small grammar that makes up sentence pairs from a seed."""
