"""Runs jobs on EC2 instances with a Deep Learning AMI, which terminate themselves when the job ends.

`planner.py` and `planning/` decide with requests that only read; `submit.py` launches; user data (`data/user-data.sh`) arms a watchdog and
starts the agent, which takes SageMaker's place (`agent/ec2_host/`); `tracking/` finds the state of a run. The record of a run is
`gpuproof/ec2/RUN.json` in the bucket.

After a spot interruption, the iterator of `submit.py` starts another run with the same checkpoints (`--retry-spot`). Its launch record
lists the attempts before it, with their costs and lost time. `gpuproof shell` replaces itself with the AWS CLI.
"""
