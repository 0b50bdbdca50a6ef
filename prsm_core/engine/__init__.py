"""The engine: agents, their turns and tools, and read-only views of what happened.

A run       engine; assembly and runtime (the parts that agents share); background (where tasks
            are born); journal and feed (steps committed, readers told), secrecy, sinks, stopping
An agent    agent_manager, records, agent_session; spawning, grants, regions, model_choice,
            model_parameters, mcp_servers
A turn      turn_run, turn, context, intake, host; calls and long_calls (orchestration calls);
            watch and clocks (deadlines); slots; retry, breaker, profiles, failover, rebuild
Between     knots (deadlocks), delivery (a person's prompts), human (requests to a person)
The tools   tools/
Outside     providers; outside (a master somebody else drives); views
Rooms       processes/ (all that is started), spending/ (budgets), judging/ (evidence, gates,
            stuck agents), control/ (the lock of a session, and its socket)
"""
