"""Which environment variables a run's record has."""

from gpuproof.agent.launch import framework_variables


def test_variables_that_change_speed_are_recorded():
    found = framework_variables({"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "1", "TF_ENABLE_ONEDNN_OPTS": "0"})
    assert found == {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "1", "TF_ENABLE_ONEDNN_OPTS": "0"}


def test_secrets_others_variables_and_those_of_the_run_are_not():
    assert not framework_variables(
        {
            "TF_VAR_db": "x",
            "TF_CLI_ARGS": "x",
            "TORCH_AUTH_TOKEN": "x",
            "WANDB_API_KEY": "x",
            "TORCHELASTIC_RUN_ID": "x",
            "TF_CONFIG": "{}",
            "CUDA_VISIBLE_DEVICES": "0",
            "CUDA_HOME": "/usr",
            "HOME": "/root",
        }
    )
