"""Deterministic simulation of whole agent trees, on the real engine.

Only the providers, the store, the clock, the sinks and the person are simulated. Everything that
happens is drawn from one seed, so that a seed that fails fails again.

command      `prsm sim`
plan         what a simulation is asked for    shape      the limits and delays of one run
faults       what may go wrong, and the dice: when
behaviour    what an agent wants to do next    model      how it streams, calls and misbehaves
person       kills, prompts, answers           store      a slow store that can crash
stale_lives  what ended lives still do
world        builds the engine and runs it     outcome    what came of it, and the log's digest
processes    those that sessions hold, counted
rules        what must hold                    watch      checks it while the run goes on
knots        deadlocks by the definition       ledger     checks what the run left behind
receives     what a lost session had received
jobs         many seeds, in several processes  report     what is read of them
letters      tools by which agents write to each other
spending     whether budgets hold
"""
