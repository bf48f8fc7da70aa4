"""The machine between evidence and words: queries, manifests, the runner."""
