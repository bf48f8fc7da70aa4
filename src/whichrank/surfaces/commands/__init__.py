"""One file per command; each is imported when it is called, and imports what is heavy inside."""
