"""As the README of AWS's TensorFlow Serving container shows it."""

import json


def input_handler(data, context):
    if context.request_content_type == "application/json":
        d = data.read().decode("utf-8")
        return d if len(d) else ""
    if context.request_content_type == "text/csv":
        return json.dumps({"instances": [[float(x) for x in data.read().decode("utf-8").split(",")]]})
    raise ValueError(
        '{{"error": "unsupported content type {}"}}'.format(context.request_content_type or "unknown")
    )


def output_handler(data, context):
    if data.status_code != 200:
        raise ValueError(data.content.decode("utf-8"))
    prediction = data.json()["predictions"]
    return json.dumps({"best": [row.index(max(row)) for row in prediction]}), context.accept_header
