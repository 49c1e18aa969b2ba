import json
import os

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from torchvision.models import resnet18


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        kind = args["model_instance_kind"]
        self.device = torch.device("cuda", int(args["model_instance_device_id"])) if kind == "GPU" else torch.device("cpu")
        self.dtype = pb_utils.triton_string_to_numpy(
            pb_utils.get_output_config_by_name(config, "EMBEDDING")["data_type"]
        )
        path = os.path.join(args["model_repository"], args["model_version"], "resnet18.pt")
        self.model = resnet18()
        self.model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        self.model.fc = torch.nn.Identity()
        self.model.to(self.device).eval()

    def execute(self, requests):
        responses = []
        with torch.inference_mode():
            for request in requests:
                pixels = pb_utils.get_input_tensor_by_name(request, "PIXELS").as_numpy()
                out = self.model(torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device))
                tensor = pb_utils.Tensor("EMBEDDING", out.cpu().numpy().astype(self.dtype))
                responses.append(pb_utils.InferenceResponse([tensor]))
        return responses
