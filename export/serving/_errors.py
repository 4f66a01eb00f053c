"""Errors of requests, each with its HTTP status and TensorFlow's name for it."""


class BadRequest(ValueError):
    """A request that is rejected: the message says why.

    Attributes:
        status: the HTTP status.
        code: TensorFlow's name of the error, as it appears in metrics.
    """

    status = 400
    code = "INVALID_ARGUMENT"


class TooLarge(BadRequest):
    """Raised for a body larger than the limit, before or after inflating."""

    status = 413


class TimedOut(BadRequest):
    """Raised when the body of a request does not arrive in time."""

    status = 408
    code = "DEADLINE_EXCEEDED"


class UnknownModel(BadRequest):
    """Raised for a model, a version or a path that is not served."""

    status = 404
    code = "NOT_FOUND"


class Overloaded(BadRequest):
    """Raised when more work is waiting than the server accepts."""

    status = 503
    code = "UNAVAILABLE"
