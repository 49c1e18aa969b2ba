"""One `handler` that calls TensorFlow Serving itself."""

import json
import urllib.request


def handler(data, context):
    values = [float(x) for x in data.read().decode("utf-8").split(",")]
    request = urllib.request.Request(
        context.rest_uri,
        data=json.dumps({"signature_name": "total", "instances": [values]}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        predictions = json.loads(response.read())["predictions"]
    return json.dumps({"total": predictions[0]}), "application/json"
