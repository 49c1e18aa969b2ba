"""SageMaker SDK v3: `Endpoint.get` and `invoke` of an endpoint that something else deployed.

`invoke_with_response_stream` cannot be used: SDK 3 fails to convert the answer of every endpoint
(`'EventStream' object has no attribute 'get'`).
"""

import json
import sys

from sagemaker.core.resources import Endpoint

(name,) = sys.argv[1:]
endpoint = Endpoint.get(endpoint_name=name)
answer = endpoint.invoke(
    body=json.dumps([[1, 2]]), content_type="application/json", accept="application/json"
)
print(json.dumps({"status": endpoint.endpoint_status, "answer": json.loads(answer.body.read())}))
