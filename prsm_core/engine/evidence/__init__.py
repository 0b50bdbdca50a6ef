"""Evidence: what an agent's claim to be done is worth.

evidence     looks into what it claims
baseline     the files as they were before
command_log  the commands that were run
gates        commands of the configuration that must pass
"""
