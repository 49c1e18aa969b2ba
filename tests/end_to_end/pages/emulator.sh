cp "$PAGE_FILES/served_train.py" train.py
cat > my_pipeline.py <<'END'
import boto3


def train(role, bucket):
    boto3.client("sagemaker").create_training_job(
        TrainingJobName="pipeline",
        RoleArn=role,
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6-gpu-py312",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python", "-c", "print('trained')"],
        },
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"},
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
    )
END
printf 'entry_point: train.py\nframework: pytorch\n' > gpuproof.yaml
mkdir -p ~/envs/torch/bin ~/envs/tf/bin
for name in torch tf; do ln -s "$(command -v python)" ~/envs/$name/bin/python; done
# Any port: others may run an emulator on this machine. A folder for each: those of the page run at the same time.
cat > ../bin/gpuproof <<'END'
#!/bin/sh
if [ "$1" = emulator ]; then set -- "$@" --port 0 --state "$(mktemp -d -p ~)"; fi
exec python -m gpuproof "$@"
END
