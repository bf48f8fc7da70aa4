"""What we see: one module per source, bytes or a live process in, typed rows and notes out."""
