"""A skill for whichrank, as data: skill.yaml and the statements in sql/."""
