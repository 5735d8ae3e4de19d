#!/bin/bash
# A run on two nodes under Slurm: sbatch examples/slurm.sh pipeline.toml
# Five minutes before the time is up it stops with a checkpoint; submitted again, it goes on.
#SBATCH --job-name=pipeline
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
##SBATCH --gpus-per-node=8
#SBATCH --time=08:00:00
#SBATCH --signal=TERM@300
#SBATCH --open-mode=append
set -eu

config=${1:?usage: sbatch examples/slurm.sh CONFIG}
first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))  # two jobs on one node do not meet

# One launcher on each node (ntasks-per-node=1), which starts the processes of its node.
srun --kill-on-bad-exit=1 "${PYTHON:-python}" -m torch.distributed.run \
    --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node "${PROCESSES_PER_NODE:-8}" \
    --rdzv-backend c10d --rdzv-endpoint "$first_node:$port" --rdzv-id "$SLURM_JOB_ID" \
    --shutdown-timeout 240 \
    -m pipeline run "$config" --resume
