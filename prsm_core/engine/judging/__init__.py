"""What an agent's work is worth, and whether it still gets anywhere.

evidence, baseline, command_log  is what it claims so: files changed, commands run
gates                            commands of the configuration that must pass
stuck, stuck_watch               does it do the same again and again
"""
