"""The agent: the program that runs the user's script in every backend.

It lays out SageMaker's contract, launches the script, monitors its resource use, packs its artifacts and computes the
verdict. It is sent as one file (`gpuproof-agent.pyz`), so it uses only the standard library and `pynvml`.

`runner.py` is the life of a run: contract, requirements, script, artifacts, verdict. It waits in one `select` and imports what it
needs while the script starts. Only `paths.py` knows the names in a run's folder; a run's lock (`agent.lock`) is held as long as one
of its agents or reapers lives.
"""

import sys

if sys.version_info < (3, 9):  # noqa: UP036 - the image's Python may be any: AWS's for TensorFlow 2.5 has 3.7
    # Before anything else is imported, in syntax of any Python 3.
    _WHY = "GPUproof's agent requires Python 3.9 or later, and python3 is {}.{} in this image: choose a newer image".format(
        *sys.version_info[:2]
    )
    if "--container" in sys.argv:
        try:
            with open("/opt/ml/output/failure", "w") as file:  # noqa: PTH123
                file.write(_WHY)
        except OSError:
            pass  # the message also goes to standard error
    sys.exit(_WHY)
