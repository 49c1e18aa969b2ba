# A machine with two GPUs, of which each works while a process of the script with its local rank does.
. ../gpus.sh
