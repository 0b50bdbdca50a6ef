"""Evidence: what an agent's claim to be done is worth.

evidence     looks into what it claims; asks git for what was before, where nobody watches
witness      what files were before, and who changed them, by the changes of the session
command_log  the commands that were run, and the edits
gates        commands of the configuration that must pass
"""
