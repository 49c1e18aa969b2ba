"""Sends the held-back digits to a served model, one at a time: `predict.py [http://127.0.0.1:8080]`.

Prints accuracy and latency. Exits with 1 if the accuracy is below 95 %. Run it in the folder of an example, for its
`digits.py`.
"""

import http.client
import io
import json
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

sys.path.insert(0, str(Path.cwd()))
from digits import split

GOOD_ENOUGH = 0.95
LOAD_TIMEOUT_S = 60
"""Seconds that a model may take to load."""


def main() -> None:
    server = urlsplit(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080")
    assert server.hostname is not None
    connection = http.client.HTTPConnection(server.hostname, server.port or 80, timeout=30)
    wait_until_healthy(connection)
    _, images, _, labels = split()
    ask(connection, images[:1])  # the first request warms the model up
    right, milliseconds = 0, []
    for image, label in zip(images, labels, strict=True):
        began = time.perf_counter()
        digit = int(np.argmax(ask(connection, image[np.newaxis])))
        milliseconds.append(1000 * (time.perf_counter() - began))
        right += digit == label
    accuracy = right / len(labels)
    print(f"accuracy over HTTP on {len(labels)} held-back digits: {accuracy:.3f}")
    middle, slowest = statistics.median(milliseconds), statistics.quantiles(milliseconds, n=100)[98]
    print(f"latency of an answer: median {middle:.1f} ms, p99 {slowest:.1f} ms")
    sys.exit(0 if accuracy >= GOOD_ENOUGH else 1)


def wait_until_healthy(connection: http.client.HTTPConnection) -> None:
    """Waits until `/ping` returns 200, that is, until the model is loaded."""
    deadline = time.monotonic() + LOAD_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            connection.request("GET", "/ping")
            answer = connection.getresponse()
            answer.read()
            if answer.status == http.HTTPStatus.OK:
                return
        except OSError:
            connection.close()  # the server is not listening yet
        time.sleep(0.1)
    sys.exit(f"no model was healthy within {LOAD_TIMEOUT_S} s")


def ask(connection: http.client.HTTPConnection, images: np.ndarray) -> np.ndarray:
    """The model's scores for images: an array of shape (count, 10)."""
    body = io.BytesIO()
    np.save(body, images)
    headers = {"Content-Type": "application/x-npy", "Accept": "application/json"}
    connection.request("POST", "/invocations", body.getvalue(), headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != http.HTTPStatus.OK:
        sys.exit(f"the server answered {answer.status}: {content.decode()}")
    scores = json.loads(content)
    # TensorFlow's containers answer {"predictions": [...]}, PyTorch's the bare list.
    return np.asarray(scores["predictions"] if isinstance(scores, dict) else scores)


if __name__ == "__main__":
    main()
