"""The user's files: which repository they belong to and what happens to them.

identity    which repository a folder belongs to
artifacts   whether files are there, and changed
references  what a person refers to by `@path`, and what is there
images      images of prompts, kept by what they hold, and the marks that cite them
rationale   why a change was made, by what its agent said
changes/    what changed in a folder, whose it is, and one change taken back
commits/    accepted changes as commits of the person's repository
shadow/     snapshots of a folder, and the way back to each
worktrees/  a branch and a folder for each agent that writes, merged where they came from
"""
