#!/usr/bin/env bash
# One training on two nodes with four GPUs each:
#   sbatch examples/slurm.sh experiment=action_genome dataset.root=ROOT model.weights=FILE
# On one with eight: sbatch --nodes=1 --gpus-per-node=8 --cpus-per-task=64 examples/slurm.sh ...
# The same command resumes the run where it stopped; with run.resume=never a requeued job would
# begin again and again. All nodes must see the same folders.
#SBATCH --job-name=bload
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --output=slurm-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@300
# Five minutes before the time is up the run saves after its step, and the job queues again.
# The signal goes to the step by scancel: srun itself kills its tasks when it gets TERM.
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:?start this with sbatch from the repository root}"
source .venv/bin/activate

gpus=${SLURM_GPUS_ON_NODE:-4}
export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / gpus))
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1  # otherwise restarted ranks read addresses of dead ones

srun --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    torchrun --nnodes="$SLURM_NNODES" --nproc_per_node="$gpus" --max-restarts=3 \
    --rdzv_id="$SLURM_JOB_ID" --rdzv_backend=c10d --rdzv_endpoint="$first:$port" \
    --shutdown-timeout 240 --signals-to-handle SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 \
    train.py "$@" &
step=$!
save_and_requeue() {
    scancel --signal=TERM "$SLURM_JOB_ID.0" || true  # it may have ended
    wait "$step" || true
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
}
trap save_and_requeue USR1
wait "$step"
