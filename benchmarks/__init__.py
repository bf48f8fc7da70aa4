"""What must stay fast, measured as ratios in one run on one machine. Nothing here is a test."""
