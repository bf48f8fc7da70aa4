"""A small training script, run by torchrun as the package `job`: real processes for recorded evidence."""
