"""`gpuproof check`: a linter that finds idle GPUs and broken jobs before they cost money.

It reads scripts, notebooks, job descriptions and templates, links each job to the script that it runs, and looks up the
job's instance type in the catalogue. Each rule is one file under `rules/`. No framework, SDK or AWS library is imported.

`engine.check_paths` checks files and folders, `preflight.check_job` a job before it runs; `reach` decides what stops the
job. The packages import each other only downwards: `rules`, `knowledge`, `project`, `jobs`, `analysis`, `source`.
"""
