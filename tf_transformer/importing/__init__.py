"""Weights trained elsewhere: read, checked, and written as a work directory."""
