"""The matrix products of a training step by themselves: forward, and the two of each in the backward pass."""


def products(size: dict[str, int]) -> list[tuple[int, int, int, int]]:
    """(how many, m, k, n) of the products of weights in the forward pass."""
    tokens, width, inner, layers = size["batch"] * size["length"], size["width"], size["inner"], size["layers"]
    # A layer of the encoder has 4 projections of its attention, one of the decoder 8; both have two of the inner layer.
    return [
        (layers * 12, tokens, width, width),
        (layers * 2, tokens, width, inner),
        (layers * 2, tokens, inner, width),
        (1, tokens, width, size["vocab"]),
    ]


def attention_products(size: dict[str, int]) -> tuple[int, int, int, int]:
    """(how many, batch · heads, length, depth) of each of the two products of an attention."""
    return size["layers"] * 3, size["batch"] * size["heads"], size["length"], size["width"] // size["heads"]


def all_products(size: dict[str, int]):
    """A function that computes all of them once, one after another."""
    import tensorflow as tf

    def backward(x, weight, gradient):
        """The gradients of both factors of x · weight."""
        return tf.matmul(gradient, weight, transpose_b=True), tf.matmul(x, gradient, transpose_a=True)

    steps = []
    for count, rows, inner, columns in products(size):
        x, weight = tf.random.normal([rows, inner]), tf.random.normal([inner, columns])
        steps += [_repeated(tf.matmul, backward, x, weight, tf.matmul(x, weight), count)]
    count, rows, length, depth = attention_products(size)
    query, weights = tf.random.normal([rows, length, depth]), tf.random.normal([rows, length, length])

    def similarity_backward(query, key, gradient):
        return tf.matmul(gradient, key), tf.matmul(gradient, query, transpose_a=True)

    similarity = _repeated(
        lambda query, key: tf.matmul(query, key, transpose_b=True), similarity_backward, query, query, weights, count
    )
    mean = _repeated(tf.matmul, backward, weights, query, query, count)
    steps += [similarity, mean]

    def work():
        for step in steps:
            step().numpy()

    return work


def _repeated(forward, backward, x, weight, gradient, count: int):
    """Forward and backward products `count` times in a graph, each after the one before."""
    import tensorflow as tf

    @tf.function
    def run():
        total = tf.constant(0.0)
        for _ in tf.range(count):
            # The next product waits for this one, and none is the same as another to the graph's optimizer.
            with tf.control_dependencies([total]):
                results = [forward(x, weight), *backward(x, weight, gradient)]
            total += tf.add_n([tf.reshape(result, [-1])[0] for result in results])
        return total

    return run
