#!/bin/bash
# One posterior on four hosts, each with a quarter of the rows: sbatch examples/slurm.sh
# To be changed: the folders, and what a job needs to say on your cluster.
#SBATCH --job-name=isotherm
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@120
# Two minutes before its time is up, each process gets SIGTERM, writes a last checkpoint and ends with status 143. The
# same job, sent again, goes on from there, also on another number of hosts. With GPUs: --gpus-per-task=1.

set -euo pipefail
ROWS='/shared/rows/*.npy'     # the rows, in at least as many files as there are hosts
STORE=/shared/run.zarr        # a folder that all hosts see
ENVIRONMENT=/shared/venv      # where `pip install isotherm` was

source "$ENVIRONMENT/bin/activate"
# jax.distributed finds the hosts and the number of each process in Slurm's own variables. --kill-on-bad-exit ends all
# where one has failed before they knew of each other.
srun --kill-on-bad-exit=1 python examples/many_processes.py --rows "$ROWS" --store "$STORE"
