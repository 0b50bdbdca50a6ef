"""The `console` frontend: a run line by line, and a person's answers.

console      a run, from its start to its summary
person       the person at the terminal: what they see, answer and say to agents
render       events as lines
screen       lines on stderr; live_screen keeps what is open at the bottom
asking       requests put to the person, and answers that a pipe brings
keyboard     what is typed on a terminal
liveness     the status, and a sign that nothing is stuck
worktree     what a run has changed in its folder, by what git says
streams      for other programs: the stream of one agent, and of a run
results      for other programs: how agents end
"""
