cp "$PAGE_FILES/served_train.py" train.py
gpuproof run train.py --name pytorch-digits --framework pytorch
gpuproof pull pytorch-digits -o pulled
cp pulled/model.tar.gz model.tar.gz
mkdir digits rows
tar -xzf model.tar.gz -C digits
echo '[[1, 2], [3, 4]]' | tee sample.json > prompt.json
printf '1,2\n3,4\n' | tee rows.csv more.csv > rows/rows.csv
python - <<'END'
import boto3, numpy

numpy.save("x.npy", numpy.ones((2, 2)))
s3 = boto3.client("s3")
for bucket in ("bucket", "data", "models"):
    s3.create_bucket(Bucket=bucket)
s3.upload_file("model.tar.gz", "bucket", "model.tar.gz")
s3.upload_file("model.tar.gz", "models", "iris/model.tar.gz")
s3.upload_file("rows.csv", "data", "rows/rows.csv")
s3.upload_file("rows.csv", "data", "images/rows.csv")
boto3.client("sagemaker").create_model(
    ModelName="my-model",
    ExecutionRoleArn="arn:aws:iam::123456789012:role/emulator",
    PrimaryContainer={
        "Image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6-gpu-py312",
        "ModelDataUrl": "s3://models/iris/model.tar.gz",
    },
)
END
printf 'jobs:\n  digits:\n    kind: endpoint\n    model: model.tar.gz\n    instance_type: ml.g5.xlarge\n' > gpuproof.yaml
