#!/usr/bin/env bash
# The plugin manifests in the clients they are for: `make plugins`. Needs node, and whichrank on PATH; downloads the clients (600 MB) into
# .cache/clients, writes nothing into the home folder, needs no account.
set -euo pipefail
cd "$(dirname "$0")/.."
store=$PWD/fixtures/nccl_rank_not_joined/evidence
clients=$PWD/.cache/clients
npm install --silent --no-audit --no-fund --prefix "$clients" @anthropic-ai/claude-code@2 @openai/codex@0
PATH=$clients/node_modules/.bin:$PATH

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch/home CODEX_HOME=$scratch/home/codex
mkdir -p "$CODEX_HOME" "$scratch/plugin"
# As a clone has it: without .venv and .cache, which Codex would copy.
git ls-files -z | xargs -0 cp -P --parents -t "$scratch/plugin"
cd "$scratch/plugin"

expect() { # WORD COMMAND...: the command succeeds and says the word
    local word=$1 said
    shift
    echo "\$ $*"
    said=$("$@" 2>"$scratch/errors") || { cat "$scratch/errors" >&2; return 1; }
    printf '%s\n' "$said"
    [[ $said == *"$word"* ]] || { echo "expected: $word" >&2; return 1; }
}

skills=(skill/*/)
expect "Claude Code" claude --version
expect "passed" claude plugin validate --strict .
expect "passed" claude plugin validate --strict .claude-plugin/plugin.json
expect "added" claude plugin marketplace add "$PWD"
expect "installed" claude plugin install whichrank@whichrank
details=$(claude plugin details whichrank@whichrank)
for folder in "${skills[@]}"; do
    expect "$(basename "$folder")" echo "$details"
done >/dev/null
# From a folder of the user's, with whichrank on PATH: Claude Code starts the server and speaks to it.
cd "$scratch"
WHICHRANK_STORE=$store expect "whichrank serve $store - ✔ Connected" claude mcp list
cd "$scratch/plugin"
expect "codex-cli" codex --version
expect "Added marketplace" codex plugin marketplace add "$PWD"
expect "Added plugin" codex plugin add whichrank@whichrank
expect "installed, enabled" codex plugin list
expect "WHICHRANK_STORE" codex mcp get whichrank
echo "plugins: ${#skills[@]} skills, both clients took them"
