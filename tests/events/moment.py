"""Moments that no event marks."""


def pass_rounds(rounds):
    """Lets some time pass by computing, so that a kill comes at another moment each time; a thousand are about 20 us."""
    for _ in range(rounds):
        pass
