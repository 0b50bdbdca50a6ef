"""Evidence: what an agent's claim to be done is worth.

evidence     looks into what it claims
witness      what files were before, and who changed them, by the changes of the session
baseline     what git had of them before, where nobody watches
command_log  the commands that were run, and the edits
gates        commands of the configuration that must pass
"""
