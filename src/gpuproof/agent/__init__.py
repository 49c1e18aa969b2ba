"""The program that runs beside the user's script in every place.

It lays out SageMaker's contract, launches the script, watches what it uses, packs its artifacts and gives the verdict.
It travels as one file (`gpuproof-agent.pyz`), so it uses the standard library and `pynvml` alone.
"""

import sys

if sys.version_info < (3, 9):  # noqa: UP036 - the image's Python may be any: AWS's for TensorFlow 2.5 has 3.7
    # Before anything else is imported, and in words that any Python 3 understands.
    _WHY = (
        "GPUproof needs Python 3.9 or later on board, and python3 is {}.{} here: choose a newer image".format(
            *sys.version_info[:2]
        )
    )
    if "--container" in sys.argv:
        try:
            with open("/opt/ml/output/failure", "w") as file:  # noqa: PTH123
                file.write(_WHY)
        except OSError:
            pass  # standard error has it too
    sys.exit(_WHY)
