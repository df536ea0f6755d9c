#!/bin/sh
# Random secrets for compose.yaml, in deploy/secrets/, each made once and kept. The judge's key is yours to add.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
for name in postgres_password plumbline_metrics_key grafana_password; do
  # Read in containers by users of theirs; here the folder keeps others out.
  [ -s "secrets/$name" ] || { random > "secrets/$name"; chmod 0644 "secrets/$name"; }
done
if [ ! -s secrets/plumbline.env ]; then
  cat > secrets/plumbline.env <<ENV
# The first key is for callers, the second for Prometheus.
PLUMBLINE_API_KEYS=$(random),$(cat secrets/plumbline_metrics_key)
PLUMBLINE_DATABASE_URL=postgresql://plumbline:$(cat secrets/postgres_password)@postgres/plumbline
# DASHSCOPE_API_KEY=
ENV
fi
echo "secrets are in $(pwd)/secrets"
