"""A pack of three queries and one skill, and rows to run it on: the smallest thing the machine can run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, rows_to_arrow
from whichrank.tables import DUMP, FLIGHT_RECORD, SIGNATURE, STACK

FILES: Mapping[str, str] = {
    "skill.yaml": """
name: mini
version: 0.0.1
tables:
  python.torch_nccl_dump: give a folder of dumps
  python.backtrace: run py-spy
skills:
  - {id: mini, folder: mini, category: distributed}
  - {id: stacks, folder: stacks, category: reliability, entry: false}
chains:
  - {source: mini, to: stacks, when: a rank never came}
""",
    "skill/mini/skill.yaml": """
id: mini
category: distributed
description: Which rank is behind.
question: Who is behind?
keywords: {en: [behind]}
needs: [python.torch_nccl_dump]
parameters:
  slack: {type: integer, default: 0, doc: Calls a rank may be behind.}
  use_global: {type: boolean, default: true, doc: Every rank.}
verdict: verdict
gaps: gaps
coverage: coverage
nothing_found: Nobody is behind.
shows: {"last on {{ ranks|ranks }}": "{% if last_seen %}{{ last_seen }}{% endif %}"}
checks:
  - check: behind
    headline: "{{ ranks|ranks }} {{ ranks|agree('is', 'are') }} behind at {{ op }} #{{ seq }}."
    says: "{{ waiting|ranks }} {{ waiting|agree('waits', 'wait') }} at #{{ seq }} for {{ waited_s|seconds }}"
    means: Look at the host.
    might_be_wrong_if: ["the recorder of {{ ranks|ranks }} was reset"]
    do_next: ["look at the host of {{ ranks|ranks }}"]
    next: {skill: stacks, parameters: {rank: "{{ ranks[0] }}"}}
gap_words: {note: "{{ detail }}"}
""",
    "skill/stacks/skill.yaml": """
id: stacks
category: reliability
description: Where it stands.
question: Where does each rank stand?
keywords: {en: [stack]}
needs: [python.backtrace]
parameters:
  rank: {type: integer, default: null, doc: The rank under suspicion.}
""",
    "sql/facts/newest.sql": """
-- summary: The newest call of each rank.
-- grain: one rank
-- reads: [python.torch_nccl_flight_record]
-- columns:
--   rank: {doc: Global rank.}
--   seq: {doc: Its newest number.}
--   op: {doc: What it called.}
SELECT rank, max(collective_seq_id) AS seq, arg_max(profiling_name, collective_seq_id) AS op
FROM {{ python }}.torch_nccl_flight_record
GROUP BY rank
""",
    "sql/facts/late.sql": """
-- summary: The ranks that are behind the newest.
-- grain: one rank
-- reads: [facts.newest]
-- params:
--   slack: {type: integer, default: 0, doc: Calls a rank may be behind.}
-- columns:
--   rank: {doc: Global rank.}
SELECT rank FROM facts.newest WHERE seq < (SELECT max(seq) FROM facts.newest) - $slack
""",
    "sql/checks/behind.sql": """
-- summary: Ranks that are behind.
-- grain: one finding
-- reads: [facts.late, facts.newest]
-- columns: {}
SELECT
  'error' AS severity, 'behind' AS category, 'dp' AS group_name, (SELECT max(seq) FROM facts.newest) AS seq,
  (SELECT arg_max(op, seq) FROM facts.newest) AS op, list(rank ORDER BY rank) AS ranks, true AS root,
  ['dp #3'] AS explains, list({rank: rank}) AS evidence, NULL::VARCHAR AS last_seen, 12.3 AS waited_s,
  (SELECT list(n.rank ORDER BY n.rank) FROM facts.newest AS n ANTI JOIN facts.late USING (rank)) AS waiting
FROM facts.late
HAVING count(*) > 0
""",
    "sql/statements/verdict.sql": """
-- summary: The verdict.
-- grain: one row
-- reads: [facts.late]
-- columns: {}
SELECT CASE WHEN count(*) > 0 THEN 'behind' END AS category, list(rank) AS culprit_ranks FROM facts.late
""",
    "sql/statements/gaps.sql": """
-- summary: What was not seen.
-- grain: one gap
-- reads: [python.collection_note]
-- columns: {}
SELECT 'note' AS kind, [rank] AS ranks, message AS detail, false AS matters FROM {{ python }}.collection_note
""",
    "sql/statements/coverage.sql": """
-- summary: What was seen.
-- grain: one row
-- reads: [python.torch_nccl_dump, python.torch_nccl_flight_record]
-- columns: {}
SELECT list(DISTINCT rank) AS ranks_seen, list(DISTINCT rank) AS ranks_expected, []::BIGINT[] AS ranks_missing,
  (SELECT count(*) FROM {{ python }}.torch_nccl_flight_record) AS records, 1 AS groups
FROM {{ python }}.torch_nccl_dump
""",
}


def write_pack(root: Path, changes: Mapping[str, str] | None = None) -> Path:
    """Write the pack below `root`; `changes` replaces or adds files."""
    for name, text in {**FILES, **(changes or {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip("\n"))
    return root


def batches(calls: Mapping[int, int], hosts: Mapping[int, str] | None = None) -> Iterator[Batch]:
    """One batch per rank, with so many calls of one all_reduce; every batch repeats the lookups, as dumps do."""
    for rank, count in calls.items():
        origin: dict[str, Any] = {"snapshot_id": "s1", "rank": rank, "host": (hosts or {}).get(rank)}
        entries = [
            {**origin, "record_id": i, "pg_name": "0", "collective_seq_id": i + 1, "signature_id": 7, "stack_id": 9}
            for i in range(count)
        ]
        frames = [{"name": "step", "filename": "train.py", "line": 88}]
        yield Batch(
            "s1",
            rank,
            {
                FLIGHT_RECORD.name: rows_to_arrow(FLIGHT_RECORD, entries),
                DUMP.name: rows_to_arrow(DUMP, [{**origin, "source": "file", "entries": count}]),
                SIGNATURE.name: rows_to_arrow(SIGNATURE, [{"signature_id": 7, "profiling_name": "nccl:all_reduce"}]),
                STACK.name: rows_to_arrow(
                    STACK, [{"stack_id": 9, "frames": frames, "top_frame": "step (train.py:88)"}]
                ),
            },
        )
