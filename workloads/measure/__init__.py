"""What harness.py is made of. Standard library only: it runs on any training node."""
