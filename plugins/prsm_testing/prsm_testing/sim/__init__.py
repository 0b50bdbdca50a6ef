"""Deterministic simulation of whole agent trees, on the real engine.

Only the providers, the store, the clock, the sinks and the person are simulated. Everything that
happens is drawn from one seed, so that a seed that fails fails again.

command      `prsm sim`
plan         what a simulation is asked for    shape      the limits and delays of one run
faults       what may go wrong, and the dice: when
behaviour    what an agent wants to do next    model      how it streams, calls and misbehaves
store        a slow store that can crash       stale_lives  what ended lives still do
world        builds the engine and runs it: with a person, tools, processes; looks at its ledger
outcome      what came of it, the log's digest, and what is read of many
rules        what must hold
watch        checks it while the run goes on: deadlocks by the definition, budgets, what is received
jobs         many seeds, in several processes
"""
