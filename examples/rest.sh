#!/bin/sh
# One evaluation and one batch over HTTP. Needs curl and a running service.
set -eu
URL="${PLUMBLINE_URL:-http://127.0.0.1:8000}"

echo 'One answer:'
curl --fail-with-body -sS "$URL/v1/evaluations" -H 'Content-Type: application/json' -d '{
  "question": "When does the ferry leave?",
  "contexts": ["The ferry to Hallam leaves at 7:40 every day."],
  "answer": "The ferry leaves at 7:40. Bicycles travel free of charge.",
  "tiers": ["lexical"]
}' | python3 -c '
import json, sys
result = json.load(sys.stdin)
print(result["tier"], result["faithfulness"])
for claim in result["claims"]:
    print(" ", claim["verdict"], "-", claim["text"])'

echo 'A batch, a line for each sample as soon as it is judged:'
curl --fail-with-body -sSN "$URL/v1/evaluations/batch" -H 'Content-Type: application/json' -d '{
  "samples": [
    {"custom_id": "true", "contexts": ["The ferry leaves at 7:40."], "answer": "The ferry leaves at 7:40."},
    {"custom_id": "false", "contexts": ["The ferry leaves at 7:40."], "answer": "The museum is closed on Mondays."}
  ],
  "options": {"tiers": ["lexical"]},
  "format": "ndjson"
}' | python3 -c '
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    if "summary" in row:
        print("  judged", row["summary"]["judged"], "of", row["summary"]["rows"])
    else:
        print(" ", row["custom_id"], "passed" if row["result"]["passed"] else "did not pass")'
