"""Plans and the runs that followed them, stored on this machine, in the folder of runs.

`gpuproof plan` stores its estimates. Runs of the same script and arguments (`script_key.py`) are compared with their verdicts when they
have ended; `correction.py` turns the errors into corrections, which `Coefficients.corrected` applies as the last step of an estimate.
"""
