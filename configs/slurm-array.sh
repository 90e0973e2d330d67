#!/usr/bin/env bash
# One table, sketched by 16 tasks of a Slurm array, and merged when all of them are done:
#   nysketch basis 'events/*.parquet' -o basis.nysk
#   parts=$(sbatch --parsable slurm-array.sh)
#   sbatch --dependency=afterok:$parts --wrap "nysketch merge parts -o events.nysk"
# If `merge` says that parts 3 and 7 are missing: sbatch --array=3,7 slurm-array.sh, and merge again.
#SBATCH --job-name=nysketch
#SBATCH --array=1-16
#SBATCH --cpus-per-task=4
#SBATCH --mem=2G
#SBATCH --time=04:00:00
#SBATCH --requeue
set -euo pipefail

# Not SLURM_ARRAY_TASK_COUNT: that is 2 if parts 3 and 7 run again.
PARTS="${PARTS:-16}"
part="$SLURM_ARRAY_TASK_ID"

mkdir -p parts
# A task that ran before does nothing; one that was killed continues from its checkpoint, beside its output.
exec nysketch sketch 'events/*.parquet' --basis basis.nysk --part "$part/$PARTS" --if-exists skip \
  --threads "${SLURM_CPUS_PER_TASK:-1}" --memory 1800MB -o "parts/$part.nysk" -q
