"""The measurements of microbench.py. Each file holds one group of them, as listed in items.py."""
