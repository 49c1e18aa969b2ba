"""Where a run happens. A place takes a job, carries it out, and lets its runs be looked at, followed and stopped.

`gpuproof.backends.local` is this machine.
"""
