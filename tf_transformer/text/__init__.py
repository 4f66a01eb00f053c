"""Text to ids and back: the subword vocabulary, in Python and in the graph."""
