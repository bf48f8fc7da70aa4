"""The tests of whichrank."""
