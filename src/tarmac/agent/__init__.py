"""The program that runs beside the user's script in every place.

It lays out SageMaker's contract, launches the script, watches what it uses, packs its artifacts and gives the verdict.
It travels as one file (`tarmac-agent.pyz`), so it uses the standard library and `pynvml` alone.
"""
