"""A service object in a module's global, its methods as the functions."""

import json


class Service:
    def __init__(self):
        self.offset = None

    def load(self, model_dir):
        with open(f"{model_dir}/offset.txt") as file:
            self.offset = int(file.read())
        return self

    def parse(self, body, content_type):
        return json.loads(body)

    def run(self, data, model):
        return [value + model.offset for value in data]


_service = Service()
model_fn = _service.load
input_fn = _service.parse
predict_fn = _service.run
