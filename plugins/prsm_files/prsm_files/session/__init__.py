"""Files: what keeps the working trees that agents write in, behind the port of the engine.

session_files all of it, for one engine's session; snapshots before what persons say
keeper   git, and the shadows of folders: one thread at a time, told and never silent
git_process, git_helper commands of git, by one process that is started once
naming   how the ledger names a snapshot
calls    those that may have made a change that is found next, and what they say they do
changes  what they changed: found, attributed, written, told, and decided
late     … from the first call on that may write; and worktrees, once there is one
reasons  why a file, or a line of it, is as it is
committing commits of what is accepted: which, and what each says
folders  where agents work: the workspace, or a worktree
trees    worktrees of agents: given, merged, removed
furnishing what a new one has of what git ignores: copies, and a command that sets it up
deciding which changes a person means, and what becomes of them
decisions … as an AppHandle decides about them
undoing   what an AppHandle takes back, and keeps
taking_back which prompt that is, and where the conversation goes then
going_back what a restore owes besides the files
evidence/ what an agent's claim to be done is worth
"""
