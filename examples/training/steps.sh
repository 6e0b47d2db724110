#!/bin/sh
# Data, training, evaluation, each once it has succeeded. A run's id is the lane's, so that a worker that was
# restarted follows the jobs that are there, and submits none twice. Words behind it go to every submit: --local.
set -e
cd "$(dirname "$0")"
for step in data train evaluate; do
  spyre-ci job submit "$step.yaml" --run "${SPYRE_CI_LANE_RUN:-training}-$step" --collect "$@"
done
