"""Times where each training step goes, without a change of the script.

`runtime/shims/sitecustomize.py` lets `install` see each framework that the script imports; its hooks report to one `Recorder`
a process, which writes a file for the agent. A failure in here never ends a training: it ends the recording.
"""
