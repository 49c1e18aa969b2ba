from sagemaker.inputs import TrainingInput
from sagemaker.pytorch import PyTorch

from common import COMMON, uri

estimator = PyTorch(
    entry_point="train.py",
    source_dir="src",
    instance_count=1,
    instance_type="ml.g5.2xlarge",
    hyperparameters={"epochs": 12, "lr": 5e-4},
    metric_definitions=[{"Name": "train:loss", "Regex": r"train_loss=(\S+)"}],
    checkpoint_s3_uri=uri("checkpoints"),
    use_spot_instances=True,
    max_wait=8 * 3600,
    **COMMON,
)
estimator.fit({"images": TrainingInput(uri("images"), input_mode="FastFile"), "labels": uri("labels")})
print(estimator.model_data)
