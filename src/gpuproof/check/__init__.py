"""`gpuproof check`: finds what will leave a GPU idle, or a job broken, before it is paid for.

It reads scripts, notebooks, job descriptions and templates, links every job to the script that it runs, and asks the
catalogue what the job's instance really has. Rules are one file each under `rules/`; importing this costs nothing, and
no framework, SDK or AWS library is imported to check.

`engine.check_paths` checks files and folders, `running.check_job` the job that is about to run.
"""
