"""Every function takes the context: headers in and out, the device by gpu_id."""

import json


def model_fn(model_dir, context):
    properties = context.system_properties
    return {
        "dir": model_dir,
        "same": properties.get("model_dir") == model_dir,
        "gpu": properties.get("gpu_id"),
    }


def input_fn(body, content_type, context):
    factor = context.get_request_header(0, "X-Factor") or "1"
    return [value * int(factor) for value in json.loads(body)]


def predict_fn(data, model, context):
    context.set_response_header(0, "X-Model", context.model_name)
    return {"values": data, "same": model["same"], "on_gpu": model["gpu"] is not None}


def output_fn(prediction, accept, context):
    headers = context.get_all_request_header(0)
    attributes = headers.get("X-Amzn-SageMaker-Custom-Attributes", "none")
    context.set_response_header(0, "X-Amzn-SageMaker-Custom-Attributes", attributes.upper())
    context.set_response_content_type(0, "application/vnd.values+json")
    return json.dumps(prediction)
