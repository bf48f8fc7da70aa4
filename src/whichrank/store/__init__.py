"""Where rows live: shards on disk, one DuckDB over all of them."""
