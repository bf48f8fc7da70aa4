"""What people and agents touch. Nothing is computed here."""
