"""What microbench.py measures: one file a group of measurements, listed in items.py."""
