"""The handler lies beside the model, not in code/; it imports a package there, inside its function too."""

from helpers import words


def model_fn(model_dir):
    return words.greeting


def input_fn(body, content_type):
    return body.decode() if isinstance(body, bytes) else body


def predict_fn(data, model):
    from helpers.late import shout

    return shout(model(data))


def output_fn(prediction, accept):
    return prediction, "text/plain"
