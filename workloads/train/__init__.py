"""The parts of the reference training step: docs/train_step.md."""
