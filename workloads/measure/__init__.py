"""The parts of harness.py. They use only the standard library, so that they run on any training
node."""
