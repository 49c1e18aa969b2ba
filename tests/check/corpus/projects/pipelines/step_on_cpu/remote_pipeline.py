"""Pipeline of functions: each step runs in its own container with the dependencies of requirements.txt."""
import sagemaker
from sagemaker.workflow.function_step import step
from sagemaker.workflow.parameters import ParameterFloat
from sagemaker.workflow.pipeline import Pipeline

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.5.1-gpu-py311-cu124-ubuntu22.04-sagemaker"
learning_rate = ParameterFloat("LearningRate", default_value=1e-3)


@step(name="load", instance_type="ml.m5.xlarge", image_uri=IMAGE.replace("gpu", "cpu").replace("-cu124", ""))
def load(uri):
    import pandas as pd

    frame = pd.read_parquet(uri)
    return frame.drop(columns=["target"]).to_numpy("float32"), frame["target"].to_numpy("float32")


@step(name="train", instance_type="ml.m5.xlarge", image_uri=IMAGE, keep_alive_period_in_seconds=300)
def train(arrays, lr, epochs=20):
    import torch
    from torch import nn

    x, y = (torch.from_numpy(a).cuda() for a in arrays)
    model = nn.Sequential(nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, 1), nn.Flatten(0)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), device="cuda").split(8192):
            loss = nn.functional.mse_loss(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return {k: v.cpu().numpy() for k, v in model.state_dict().items()}, loss.item()


@step(name="report", instance_type="ml.m5.large")
def report(result):
    weights, loss = result
    print("parameters:", sum(w.size for w in weights.values()), "loss:", loss)


if __name__ == "__main__":
    final = report(train(load("s3://demand-forecast/features/latest.parquet"), learning_rate))
    pipeline = Pipeline("demand", parameters=[learning_rate], steps=[final])
    pipeline.upsert(role_arn=sagemaker.get_execution_role())
