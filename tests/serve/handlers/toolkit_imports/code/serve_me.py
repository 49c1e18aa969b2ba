"""Uses AWS's toolkit itself, and is found through SAGEMAKER_PROGRAM."""

from sagemaker_inference import content_types, decoder, encoder, errors


def model_fn(model_dir):
    return 10


def input_fn(input_data, content_type):
    if content_type == content_types.OCTET_STREAM:
        raise errors.UnsupportedFormatError(content_type)
    return decoder.decode(input_data, content_type)


def predict_fn(data, model):
    if data.size > 3:
        raise errors.BaseInferenceToolkitError(429, "At most three values.", "Too many")
    return data * model


def output_fn(prediction, accept):
    return encoder.encode(prediction, accept), accept
