"""How the script is started on each host: one module for each launcher.

`plan.py` combines the script's command with the job's launcher, the contract's environment and the working directory;
`context.py` has the types between it and the launchers, and `registry.py` the table of all launchers.
"""

from gpuproof.agent.launch.framework_variables import framework_variables
from gpuproof.agent.launch.plan import is_package, make_executable, plan_launch
from gpuproof.agent.launch.shown_command import shown_command

__all__ = ["framework_variables", "is_package", "make_executable", "plan_launch", "shown_command"]
