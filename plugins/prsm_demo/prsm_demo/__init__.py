"""A demonstration of PRSM, and agents that follow a scenario.

command   `prsm demo`                 provider  the provider `script`
show      runs it, tells what came    script    scenarios, and how they are played
sample    the project that is mended
"""
