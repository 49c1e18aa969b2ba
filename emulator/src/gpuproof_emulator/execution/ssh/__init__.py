"""SSH between the hosts of one job: the programs `sshd` and `ssh` of their containers.

The image's Python runs them by path, so they keep to Python 3.9, the standard library and paramiko, and import nothing of
GPUproof. AWS's images have OpenSSH with one key for all hosts. Its server would need root, a folder in `/run` and an installed
package on this machine; paramiko is needed anyway by the program that uses both.
"""
