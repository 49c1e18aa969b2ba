"""How a run ended, from how its hosts ended."""

from gpuproof.agent.local_hosts.merge import merge_end

REASON = "algo-2, rank 3: ValueError: bad sample 17"


def test_host_and_rank_that_failed_first_are_those_on_which_the_hosts_agreed() -> None:
    state = {
        "status": "Failed",
        "failure_reason": REASON,
        "failed_host": "algo-2",
        "failed_rank": 3,
        "failure_cause": "own",
    }
    # The first host's script ended earlier, because it was stopped.
    states = {"algo-1": {**state, "script_ended": 10.0}, "algo-2": {**state, "script_ended": 11.0}}
    end = merge_end(states)
    assert (end["failed_host"], end["failed_rank"], end["failure_reason"]) == ("algo-2", 3, REASON)
    assert end["failure_cause"] == "own"


def test_a_host_that_another_one_stopped_is_no_cause() -> None:
    states = {
        "algo-1": {
            "status": "Failed",
            "failure_reason": "algo-2 failed",
            "failed_host": "algo-2",
            "script_ended": 10.0,
        },
        "algo-2": {"status": "Failed", "failure_reason": "no data", "script_ended": 11.0},
    }
    end = merge_end(states)
    assert (end["failed_host"], end["failure_reason"]) == ("algo-2", "algo-2: no data")
