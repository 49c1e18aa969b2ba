# A host of a job has left its report.
python -c "import boto3; boto3.client('s3').create_bucket(Bucket='my-bucket')"
gpuproof watch --group slurm-17.0 --hosts 1 --to s3://my-bucket/jobs -- true || test $? = 4
