"""Made-up and recorded training jobs with known truth."""
