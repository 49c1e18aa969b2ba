"""All in one function, as AWS's MXNet and scikit-learn examples do it."""

import json


def model_fn(model_dir):
    return lambda values: [value**2 for value in values]


def transform_fn(model, request_body, content_type, accept):
    values = json.loads(request_body)
    if accept == "text/plain":
        return " ".join(str(value) for value in model(values)), accept
    return json.dumps(model(values)), "application/json"
